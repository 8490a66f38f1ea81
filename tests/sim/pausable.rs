//! Futures of a process that can be stopped, and the end of all.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use tokio::sync::Notify;

/// Whether a client's process is stopped. All clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pause(Arc<Mutex<(bool, Vec<Waker>)>>);

impl Pause {
    pub(crate) fn set(&self, paused: bool) {
        let waiting = {
            let mut state = self.0.lock().unwrap();
            state.0 = paused;
            std::mem::take(&mut state.1)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// The future, which is not polled while the process is stopped.
    pub(crate) fn on<F: Future>(&self, future: F) -> Pausable<F> {
        Pausable {
            pause: self.clone(),
            future: Box::pin(future),
        }
    }
}

/// Once it is set, all who wait for it go on in the order in which they came. (Those who wait for
/// tokio's `watch` go on in an order of its own choice.)
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<(AtomicBool, Notify)>);

impl Stop {
    pub(crate) fn set(&self) {
        self.0.0.store(true, Ordering::Relaxed);
        self.0.1.notify_waiters();
    }

    pub(crate) fn clear(&self) {
        self.0.0.store(false, Ordering::Relaxed);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.0.load(Ordering::Relaxed)
    }

    pub(crate) async fn wait(&self) {
        let mut set = std::pin::pin!(self.0.1.notified());
        set.as_mut().enable();
        if !self.is_set() {
            set.await;
        }
    }
}

pub(crate) struct Pausable<F> {
    pause: Pause,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for Pausable<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        {
            let mut state = self.pause.0.lock().unwrap();
            if state.0 {
                state.1.push(context.waker().clone());
                return Poll::Pending;
            }
        }
        self.future.as_mut().poll(context)
    }
}

/// Ends with `None` after so many polls that did not end the future.
pub(crate) struct Polls<F> {
    left: u64,
    future: Pin<Box<F>>,
}

impl<F: Future> Polls<F> {
    pub(crate) fn at_most(polls: u64, future: F) -> Self {
        Self {
            left: polls,
            future: Box::pin(future),
        }
    }
}

impl<F: Future> Future for Polls<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        if let Poll::Ready(output) = self.future.as_mut().poll(context) {
            return Poll::Ready(Some(output));
        }
        self.left -= 1;
        if self.left == 0 {
            return Poll::Ready(None);
        }
        Poll::Pending
    }
}
