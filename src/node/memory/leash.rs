//! A client's process, as far as it drives one node: it can be stopped, and it can end.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

#[derive(Debug, Default)]
struct Process {
    is_paused: bool,
    has_ended: bool,
    waiting: Option<Waker>,
}

/// What holds a driver back. All clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Leash(Arc<Mutex<Process>>);

impl Leash {
    pub(super) fn pause(&self, pause: bool) {
        self.change(|process| process.is_paused = pause);
    }

    pub(super) fn end(&self) {
        self.change(|process| process.has_ended = true);
    }

    /// Runs `driver` as far as the process does; ends with it.
    pub(super) const fn on<F: Future<Output = ()>>(self, driver: Pin<Box<F>>) -> Leashed<F> {
        Leashed {
            leash: self,
            driver: Some(driver),
        }
    }

    fn change(&self, change: impl FnOnce(&mut Process)) {
        let mut process = self.lock();
        change(&mut process);
        let waiting = process.waiting.take();
        drop(process);
        if let Some(waker) = waiting {
            waker.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Process> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A driver on its leash.
pub(super) struct Leashed<F> {
    leash: Leash,
    driver: Option<Pin<Box<F>>>,
}

impl<F: Future<Output = ()>> Future for Leashed<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut process = self.leash.lock();
        let (is_paused, has_ended) = (process.is_paused, process.has_ended);
        process.waiting = Some(context.waker().clone());
        drop(process);
        if has_ended {
            self.driver = None;
        } else if is_paused {
            return Poll::Pending;
        }
        match &mut self.driver {
            Some(driver) => driver.as_mut().poll(context),
            None => Poll::Ready(()),
        }
    }
}
