//! For how long a lock is held, and when it is lost: law 5.

use std::time::Duration;

use super::hold::{Hold, Outbox, Phase};
use super::validity::{self, Moment};

/// Why a lock is not held any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossCause {
    /// Its validity ended before it was extended.
    Expired,
    /// Too few nodes still have the key: it was deleted, evicted, or forgotten. An extension,
    /// by hand or by renewal, found out; nodes are not asked otherwise.
    Gone,
    /// The longest time that it may be held is over ([`Renewal::max_hold`](crate::Renewal::max_hold)).
    /// The nodes keep the key until the guard is dropped, or until it expires.
    MaxHold,
    /// The guard was turned into a lease.
    Detached,
    /// The guard was released.
    Released,
    /// The client was closed.
    Closed,
}

impl std::fmt::Display for LossCause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Expired => "validity ended",
            Self::Gone => "the key is gone from a quorum of nodes",
            Self::MaxHold => "held for as long as it may be",
            Self::Detached => "detached",
            Self::Released => "released",
            Self::Closed => "the client was closed",
        })
    }
}

impl Hold {
    pub(crate) fn loss_at(&self) -> Moment {
        validity::loss_at(self.valid_until)
    }

    /// Is the lock lost at `now`, and why? The clock has the last word (law 5).
    pub(crate) fn loss(&self, now: Moment) -> Option<LossCause> {
        let by_time = || {
            let is_over = self.ends_at().is_some_and(|end| self.valid_until >= end);
            if is_over {
                LossCause::MaxHold
            } else {
                LossCause::Expired
            }
        };
        self.lost.or_else(|| (now >= self.loss_at()).then(by_time))
    }

    /// When it ends, whatever is done.
    pub(super) fn ends_at(&self) -> Option<Moment> {
        self.renewing.ends_at(self.round.started_at())
    }

    /// A quorum has granted or extended it, by a round that began at `started_at`.
    pub(super) fn prolong(&mut self, started_at: Moment, ttl: Duration) {
        let granted = validity::valid_until(started_at, ttl);
        let end = self.ends_at().unwrap_or(granted);
        self.valid_until = self.valid_until.max(granted.min(end));
        self.renewing.on_confirmed(started_at, ttl);
        if granted > end {
            // It lasts for as long as it may.
            self.renewing.stop();
        }
    }

    /// Law 5: the hold ends at `loss_at`, or when no quorum of nodes can have the key any more.
    pub(super) fn check_loss(&mut self, now: Moment, outbox: &mut dyn Outbox) {
        if self.phase != Phase::Held {
            return;
        }
        if self.loss(now) == Some(LossCause::MaxHold) {
            self.lost = Some(LossCause::MaxHold);
            self.phase = Phase::Lingering {
                until: now.after(self.renewing.ttl()),
            };
            self.renewing.stop();
            outbox.wake();
        } else if let Some(cause) = self.loss(now) {
            self.end(cause, now, outbox);
        } else if self.possible_holders().count() < self.round.quorum() {
            self.end(LossCause::Gone, now, outbox);
        }
    }
}
