//! When a waiter tries again.
//!
//! A waiter's attempt leaves it with what each node said, and from then on the nodes tell it when
//! the key changes. No single source of such news is trusted, so each only brings the next attempt
//! forward, and that attempt looks at everything anew: a quorum's worth of news, the first of it and
//! two round trips, the moment at which a quorum of keys will have expired, and, for whatever was
//! missed, the poll floor. A node that does not tell is asked again after a backoff, unless a quorum
//! of others tells.
//!
//! A holder's renewal is news as well. It is not told from a release, and costs an attempt that finds
//! the key: the commands of a look, and one. Who waits for several keys is told of each. The votes say
//! which of them were in the way and for how long yet, and a node is free when each of these has changed
//! or expired: or a set that waits for one key would be at every change of another.

use std::time::Duration;

use super::backoff::{self, Backoff};
use super::round::Round;
use super::validity::Moment;
use super::vote::Vote;

/// Every so often, give or take a quarter, a waiter tries without any news. An attempt is up to five
/// commands at a node, and with bad luck every time the pauses must still keep them below four a second.
pub(crate) const POLL_FLOOR: Duration = Duration::from_secs(2);
const SHORTEST_POLL: Duration = Duration::from_millis(1_500);
const POLL_JITTER: Duration = Duration::from_secs(1);
/// A server keeps a key for up to a millisecond longer than the ttl that it tells.
const ROUNDED: Duration = Duration::from_millis(1);
/// The duration of a round that timed out says nothing about a round trip.
const LONGEST_TRIP: Duration = Duration::from_millis(50);

/// What a waiter knows of the nodes since its last attempt.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    seen: Vec<Seen>,
    /// For each node the keys that have changed there since the last attempt began, one bit each.
    touched: Vec<u64>,
    quorum: usize,
    trip: Duration,
    first_news: Option<Moment>,
    /// How long the next attempt keeps off that of others with whom the last one collided.
    apart: Duration,
    /// The last attempt had got somewhere, and others elsewhere.
    collided: bool,
    blind_until: Moment,
    poll_at: Moment,
    collisions: Backoff,
    failures: Backoff,
}

/// A key that was in the way of a set, at one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InWay {
    /// Its place among the keys of the set.
    pub(crate) place: u32,
    /// How long it will live; `None`: it does not expire.
    pub(crate) ttl: Option<Duration>,
}

/// What is known of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    /// It has not answered.
    Nothing,
    /// Nobody else's key was there, or it has changed since.
    Free { since: Moment },
    Held {
        until: Option<Moment>,
        /// Of several: those that were in the way and have not changed since, each as one bit and
        /// with its end; none where it is not known.
        keys: Vec<(u64, Option<Moment>)>,
    },
}

impl Seen {
    fn free_at(&self) -> Option<Moment> {
        match self {
            Self::Nothing => None,
            Self::Free { since } => Some(*since),
            Self::Held { until, keys } => {
                let last = keys.iter().map(|&(_, until)| until);
                let all = last.reduce(|one, other| Some(one?.max(other?)));
                all.unwrap_or(*until).filter(|_| !bug!(ExpiryNotTimed))
            }
        }
    }
}

impl Waiting {
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            seen: vec![Seen::Nothing; nodes],
            touched: vec![0; nodes],
            quorum: super::validity::quorum(nodes),
            trip: Duration::ZERO,
            first_news: None,
            apart: Duration::ZERO,
            collided: false,
            blind_until: Moment::default(),
            poll_at: Moment::default(),
            collisions: Backoff::default(),
            failures: Backoff::default(),
        }
    }

    /// A round was lost. `in_way`: of several keys those that are in the way at a node, where that is
    /// known. `random`: uniform over all of `u64`, and anew for each call.
    ///
    /// Returns how long to pause before the nodes are watched, if the lost round did not: not at all
    /// if others had them all, or until those with whom it collided have let go.
    pub(crate) fn on_lost(
        &mut self,
        round: &Round,
        in_way: impl Fn(usize) -> Vec<InWay>,
        now: Moment,
        mut random: impl FnMut() -> u64,
    ) -> Duration {
        self.seen.fill(Seen::Nothing);
        self.touched.fill(0);
        self.first_news = None;
        self.trip = now.since(round.started_at()).min(LONGEST_TRIP);
        if !std::mem::take(&mut self.collided) {
            self.collisions = Backoff::default();
        }
        self.apart = Duration::ZERO;
        self.hear(round, in_way, now, &mut random);
        self.blind_until = now.after(self.failures.next(random()));
        self.poll_at = now.after(poll_pause(random()));
        let contended = (0..self.seen.len())
            .filter_map(|node| round.vote(node))
            .any(Vote::is_contention);
        if contended {
            self.apart
        } else {
            self.blind_until.since(now)
        }
    }

    /// Takes in the votes that have come since. The grant that makes a collision may come after the
    /// vote that lost the round.
    pub(crate) fn hear(
        &mut self,
        round: &Round,
        in_way: impl Fn(usize) -> Vec<InWay>,
        now: Moment,
        mut random: impl FnMut() -> u64,
    ) {
        let end = |ttl: Option<Duration>| ttl.map(|ttl| now.after(ttl).after(ROUNDED));
        let bit = |key: InWay| 1_u64.checked_shl(key.place).unwrap_or(0);
        for (node, seen) in self.seen.iter_mut().enumerate() {
            if *seen != Seen::Nothing {
                continue;
            }
            *seen = match round.vote(node) {
                // Ours, and on its way out.
                Some(Vote::Granted | Vote::Stale { .. }) => {
                    if !std::mem::replace(&mut self.collided, true) {
                        // Wide enough for a round trip or two of each of a few contenders.
                        let least = self.trip.saturating_mul(4);
                        self.apart = self.collisions.next_above(least, random());
                    }
                    Seen::Free { since: now }
                }
                Some(Vote::Held { ttl, .. }) => Seen::Held {
                    until: end(ttl),
                    keys: in_way(node)
                        .into_iter()
                        .map(|key| (bit(key), end(key.ttl)))
                        .collect(),
                },
                Some(Vote::Refused(_) | Vote::Unsent(_) | Vote::Unknown) | None => Seen::Nothing,
            };
        }
        for node in 0..self.seen.len() {
            self.take_news(node, now);
        }
    }

    /// These keys of this node, one bit each, may have changed since the last attempt began.
    pub(crate) fn on_touched(&mut self, node: usize, keys: u64, now: Moment) {
        if let Some(touched) = self.touched.get_mut(node) {
            *touched |= keys;
        }
        self.take_news(node, now);
    }

    /// The news of some keys may come before the vote that says which of them were in the way.
    fn take_news(&mut self, node: usize, now: Moment) {
        let touched = self.touched.get(node).copied().unwrap_or(0);
        let Some(seen) = self.seen.get_mut(node).filter(|_| touched != 0) else {
            return;
        };
        let is_news = match seen {
            Seen::Nothing => touched == u64::MAX,
            Seen::Held { keys, .. } => {
                keys.retain(|&(key, _)| key & touched == 0);
                keys.is_empty()
            }
            Seen::Free { .. } => false,
        };
        if is_news {
            *seen = Seen::Free { since: now };
            self.first_news = self.first_news.or(Some(now));
        }
    }

    /// When to try again, unless there is news before. `tells`: does this node tell of changes?
    pub(crate) fn due(&self, tells: impl Fn(usize) -> bool) -> Moment {
        let first = self
            .first_news
            .map(|news| news.after(self.trip.saturating_mul(2)));
        let hears = |(node, seen): (usize, &Seen)| match seen {
            Seen::Nothing => false,
            Seen::Free { .. } => true,
            Seen::Held { .. } => tells(node) || bug!(SilenceTrusted),
        };
        let heard = self.seen.iter().enumerate().filter(|&seen| hears(seen));
        let blind = (heard.count() < self.quorum).then_some(self.blind_until);
        [self.quorum_of(Seen::free_at), first]
            .into_iter()
            .flatten()
            .map(|at| at.after(self.apart))
            .chain(blind)
            .fold(self.poll_at, Moment::min)
    }

    /// When to try again behind a holder of the same client, if there is news of a quorum: what that
    /// holder does the nodes do not tell, so neither the first word nor a ttl says much.
    pub(crate) fn due_by_news(&self) -> Option<Moment> {
        self.first_news?;
        let at = self.quorum_of(|seen| match seen {
            Seen::Free { since } => Some(*since),
            Seen::Nothing | Seen::Held { .. } => None,
        });
        at.map(|at| at.after(self.apart))
    }

    fn quorum_of(&self, free_at: impl Fn(&Seen) -> Option<Moment>) -> Option<Moment> {
        let mut free: Vec<Moment> = self.seen.iter().filter_map(free_at).collect();
        free.sort_unstable();
        free.get(self.quorum.saturating_sub(1)).copied()
    }
}

/// The poll floor, give or take a quarter of it.
pub(crate) fn poll_pause(random: u64) -> Duration {
    SHORTEST_POLL.saturating_add(backoff::uniform(POLL_JITTER, random))
}

#[cfg(test)]
mod tests;
