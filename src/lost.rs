//! The signal that a lock is lost.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::driver::cell::Cell;
use crate::quorum::hold::{Hold, LossCause};

/// Resolves when a lock is lost, and tells why. See [`Guard::lost`](crate::Guard::lost).
///
/// It has a timer of its own, on the tokio runtime that polls it. Where another executor does, on
/// the client's runtime, or if that has been shut down, on a thread.
///
/// # Cancel safety
///
/// Dropping it loses nothing: loss is final, and every other `Lost` of the guard tells it too. It
/// keeps nothing locked: the guard alone does.
#[must_use = "futures do nothing unless they are polled"]
pub struct Lost {
    cell: Arc<Cell>,
    watch: Option<Pin<Box<dyn Future<Output = LossCause> + Send + Sync>>>,
}

impl Lost {
    pub(crate) const fn of(cell: Arc<Cell>) -> Self {
        Self { cell, watch: None }
    }
}

impl Future for Lost {
    type Output = LossCause;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<LossCause> {
        let this = &mut *self;
        if let Some(cause) = this.cell.read(|hold, now| hold.loss(now)) {
            this.watch = None;
            return Poll::Ready(cause);
        }
        let cell = &this.cell;
        this.watch
            .get_or_insert_with(|| Box::pin(watch(Arc::clone(cell))))
            .as_mut()
            .poll(context)
    }
}

/// Waits for the loss by a timer of its own: no other task has to run for it to be on time.
async fn watch(cell: Arc<Cell>) -> LossCause {
    loop {
        let loss_at = cell.peek(Hold::loss_at);
        tokio::select! {
            biased;
            cause = cell.wait(|cell| cell.read(|hold, now| hold.loss(now))) => return cause,
            // It is lost now, or an extension has moved the moment.
            () = cell.engine().sleep_until(loss_at) => {}
        }
    }
}

impl Clone for Lost {
    fn clone(&self) -> Self {
        Self::of(Arc::clone(&self.cell))
    }
}

impl fmt::Debug for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lost").finish_non_exhaustive()
    }
}
