//! One timer for all locks of a client.
//!
//! Every lock that is not settled stands here with the moment at which it wants to be woken, or an
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
    pub(crate) fn arm(&self, at: Moment, cell: &Arc<Cell>) {
        let mut timers = self.timers();
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

    /// All locks that are not settled and wait for time to pass.
    pub(crate) fn cells(&self) -> Vec<Arc<Cell>> {
        self.timers().by_moment.values().cloned().collect()
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
        (at <= now).then(|| (at, first.remove()))
    }

    fn next_sleep(&self, engine: &Engine) -> Option<tokio::time::Sleep> {
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
