//! A timer for whoever waits, inside a tokio runtime or not.

use std::sync::{Arc, mpsc};

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::clock::Clock;
use crate::quorum::validity::Moment;

/// What a thread is called that stands in for a timer.
const THREAD: &str = "redlock-timer";

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
    // It ends early when the waiter does, who has the other end.
    let (_waiter, waits) = mpsc::channel::<()>();
    let thread = std::thread::Builder::new().name(THREAD.into());
    let thread = thread.spawn(move || {
        waits.recv_timeout(left).unwrap_or_default();
        drop(over);
    });
    if thread.is_ok() {
        // An error means that it is over.
        drop(awaited.await);
    }
}

/// Ends when nobody waits for it.
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::time::Duration;

    use super::*;

    /// How many threads of this name there are.
    fn threads() -> usize {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let names = tasks.filter_map(|task| std::fs::read(task.ok()?.path().join("comm")).ok());
        let is_it = |name: &Vec<u8>| name.starts_with(THREAD.as_bytes());
        names.filter(is_it).count()
    }

    #[test]
    fn a_thread_that_nobody_waits_for_any_more_ends() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let handle = runtime.handle().clone();
        let clock = runtime.block_on(async { Arc::new(Clock::start()) });
        drop(runtime);
        let far = clock.now().after(Duration::from_secs(3_600));
        let mut sleep = Box::pin(sleep_until(far, clock, handle));
        let polled = futures::executor::block_on(async { futures::poll!(&mut sleep) });
        assert!(polled.is_pending());
        while threads() == 0 {
            std::thread::yield_now();
        }
        drop(sleep);
        while threads() > 0 {
            std::thread::yield_now();
        }
    }
}
