//! A timer for whoever waits, inside a tokio runtime or not.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::clock::Clock;
use crate::quorum::validity::Moment;

/// Waits by a timer of the runtime that polls first; where there is none by one of `runtime`, and
/// where that has been shut down by a thread. (A bare timer of a runtime that was shut down panics.)
pub(super) async fn sleep_until(moment: Moment, clock: Arc<Clock>, runtime: Handle) {
    let sleep = move |clock: &Clock| tokio::time::sleep_until(clock.instant(moment));
    if Handle::try_current().is_ok() {
        return sleep(&clock).await;
    }
    let timing = Arc::clone(&clock);
    let mut task = Task(runtime.spawn(async move { sleep(&timing).await }));
    if (&mut task.0).await.is_ok() {
        return;
    }
    let left = moment.since(clock.now());
    let (over, awaited) = oneshot::channel::<()>();
    let thread = std::thread::Builder::new().spawn(move || {
        park_for(left);
        drop(over);
    });
    if thread.is_ok() {
        // An error means that it is over.
        drop(awaited.await);
    }
}

#[expect(clippy::disallowed_methods, reason = "on a thread of its own")]
fn park_for(left: std::time::Duration) {
    std::thread::sleep(left);
}

/// Ends when nobody waits for it.
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}
