//! One timer for all locks of a client.
//!
//! Every lock that waits for time to pass stands here with the moment at which it wants to be woken, or an
//! earlier one: a deadline that moves back is left where it is and found to be early when it comes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use super::cell::Cell;
use super::engine::Engine;
use crate::quorum::validity::Moment;

/// How often the clock is looked at while there are locks: the machine may have slept.
pub(crate) const LOOK: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
pub(crate) struct Watchdog {
    // A std mutex: it is held for a few map operations and never over an await.
    timers: Mutex<Timers>,
    /// The task sleeps longer than it should now, or it should end.
    rearm: Notify,
}

#[derive(Debug, Default)]
struct Timers {
    by_moment: BTreeMap<(Moment, u64), Arc<Cell>>,
    /// Until when the task sleeps.
    asleep_until: Option<Moment>,
}

impl Watchdog {
    /// Wakes the cell at this moment; `before`: and not at that one.
    pub(crate) fn arm(&self, before: Option<Moment>, at: Moment, cell: &Arc<Cell>) {
        let mut timers = self.timers();
        if let Some(before) = before {
            timers.by_moment.remove(&(before, cell.id()));
        }
        timers.by_moment.insert((at, cell.id()), Arc::clone(cell));
        if timers.asleep_until.is_none_or(|until| at < until) {
            timers.asleep_until = Some(at);
            drop(timers);
            self.rearm.notify_one();
        }
    }

    pub(crate) fn disarm(&self, at: Moment, id: u64) {
        let removed = self.timers().by_moment.remove(&(at, id));
        // Dropped outside the mutex: it may be the last reference.
        drop(removed);
    }

    pub(crate) fn stop(&self) {
        self.rearm.notify_one();
    }

    /// Runs until the engine is gone.
    pub(crate) async fn run(self: Arc<Self>, engine: Weak<Engine>) {
        loop {
            let sleep = {
                let Some(engine) = engine.upgrade() else {
                    return;
                };
                self.fire(&engine);
                self.next_sleep(&engine)
            };
            match sleep {
                Some(sleep) => {
                    tokio::select! {
                        biased;
                        () = sleep => {}
                        () = self.rearm.notified() => {}
                    }
                }
                None => self.rearm.notified().await,
            }
        }
    }

    fn fire(&self, engine: &Engine) {
        let now = engine.clock().now();
        while let Some((at, cell)) = self.pop_due(now) {
            cell.on_timer(at);
        }
    }

    fn pop_due(&self, now: Moment) -> Option<(Moment, Arc<Cell>)> {
        let mut timers = self.timers();
        let first = timers.by_moment.first_entry()?;
        let (at, _) = *first.key();
        if at > now {
            return None;
        }
        Some((at, first.remove()))
    }

    fn next_sleep(&self, engine: &Engine) -> Option<impl Future<Output = ()> + Send + use<>> {
        let mut timers = self.timers();
        let next = timers.by_moment.keys().next().map(|&(at, _)| at);
        let look = engine.clock().now().after(LOOK);
        timers.asleep_until = next.map(|at| at.min(look));
        timers.asleep_until.map(|until| engine.sleep_until(until))
    }

    fn timers(&self) -> MutexGuard<'_, Timers> {
        self.timers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(all(test, feature = "testkit"))]
mod tests {
    use super::*;
    use crate::testkit::memory::MemoryServer;
    use crate::{Redlock, Renewal};

    /// Whatever its timers are about at that moment.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_lock_that_is_woken_and_armed_again_is_seen_all_the_time() {
        let redlock = Redlock::builder()
            .memory_nodes([MemoryServer::new(1).link()])
            .build()
            .unwrap();
        let request = redlock.acquire("resource");
        let renewal = Renewal::every(Duration::from_millis(1));
        let guard = request.renewal(renewal).await.unwrap();
        let engine = redlock.engine().unwrap();
        let looks = tokio::task::spawn_blocking(move || {
            (0..5_000_000).all(|_| !engine.living().is_empty())
        });
        assert!(looks.await.unwrap());
        guard.release().await.unwrap();
    }
}
