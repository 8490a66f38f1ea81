//! What may be on each node of one lock, for the lock's whole life: law 4.
//!
//! A node's entry says whether our key is Absent, Maybe there or Present, and how far its removal
//! has come. A *debt* is an entry whose removal has begun and has not settled.
//!
//! A release settles when it is answered and no straggler can come after it. A straggler is an
//! acquire that was written to a connection which broke before the answer: the bytes may still lie
//! in a socket buffer and be executed after anything a newer connection sends. The node proves a
//! connection finished (see [`News::Finished`]); a release answered before that proof is sent once
//! more after it. One ttl after the proof nothing of ours can be there, answered or not.

use std::time::Duration;

use self::entry::{Entry, Presence, Removal};
use super::ballot::Ballot;
use super::hold::Outbox;
use super::validity::Moment;
use super::vote::{Unsent, Vote};

mod entry;
#[cfg(test)]
mod outlook;

/// One connection of one node; later ones have larger numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ConnectionId(pub(crate) u64);

/// How a command travelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// It was never written.
    NotWritten,
    /// The server answered it on this connection, in the order of submission.
    Answered(ConnectionId),
    /// It was written to this connection, which ended before the answer: it may yet be executed.
    Broken(ConnectionId),
}

/// What a node tells about its connections. Broken replies of a connection come before its news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// Nothing that was written to this connection or an earlier one can be executed any more.
    Finished(ConnectionId),
    /// A connection takes commands.
    Up,
    /// The node's driver has ended: nothing can be sent any more.
    Gone,
}

/// The pause before a refused release is sent again.
pub(crate) const RETRY: Duration = Duration::from_millis(100);

#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    entries: Vec<Entry>,
    /// The longest ttl any command of this lock has asked for.
    ttl: Duration,
    /// The largest ballot any command of this lock has carried.
    ballot: Option<Ballot>,
}

impl Ledger {
    pub(crate) fn new(nodes: usize, ttl: Duration) -> Self {
        let entry = Entry {
            presence: Presence::Absent,
            pending: 0,
            unfinished: None,
            straggler: None,
            extensions: 0,
            overtaken_extensions: 0,
            inherited: false,
            removal: Removal::None,
            overtaken: false,
            give_up_at: None,
        };
        Self {
            entries: vec![entry; nodes],
            ttl,
            ballot: None,
        }
    }

    /// From now on this ballot, larger than any before, is carried.
    pub(super) const fn on_ballot(&mut self, ballot: Option<Ballot>) {
        self.ballot = ballot;
    }

    /// Any node may have the key, or get it yet: somebody else has set it.
    pub(crate) fn assume_everywhere(&mut self) {
        for entry in &mut self.entries {
            entry.inherited = true;
            entry.presence = Presence::Maybe;
        }
    }

    /// Whatever is there is not ours to remove any more.
    pub(crate) fn forget(&mut self) {
        for entry in &mut self.entries {
            entry.settle();
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.entries
            .iter()
            .all(|entry| entry.removal == Removal::Settled)
    }

    /// The nodes that may hold the key, now or later.
    pub(crate) fn possible_holders(&self) -> impl Iterator<Item = usize> + '_ {
        let entries = self.entries.iter().enumerate();
        entries
            .filter(|(_, entry)| entry.is_possible())
            .map(|(node, _)| node)
    }

    /// The nodes where a removal has begun and has not settled.
    pub(crate) fn owed(&self) -> impl Iterator<Item = usize> + '_ {
        let owed = |entry: &Entry| !matches!(entry.removal, Removal::None | Removal::Settled);
        self.entries
            .iter()
            .enumerate()
            .filter(move |(_, entry)| owed(entry))
            .map(|(node, _)| node)
    }

    /// Must this node's news be told to this lock?
    pub(crate) fn needs_news(&self, node: usize) -> bool {
        self.entries
            .get(node)
            .is_some_and(|entry| match entry.removal {
                Removal::AwaitingConnection | Removal::AwaitingFinish => true,
                Removal::None | Removal::InFlight => entry.straggler.is_some(),
                Removal::RetryAt(_) => entry.unfinished.is_some(),
                Removal::Settled => false,
            })
    }

    pub(crate) fn next_deadline(&self) -> Option<Moment> {
        self.entries.iter().filter_map(Entry::deadline).min()
    }

    /// An acquire or a heal has been submitted to this node.
    pub(crate) fn on_acquire_sent(&mut self, node: usize) {
        if let Some(entry) = self.entries.get_mut(node) {
            entry.pending = entry.pending.saturating_add(1);
        }
    }

    /// The answer to an acquire or a heal.
    pub(crate) fn on_acquire_reply(&mut self, node: usize, vote: Vote, carrier: Carrier) {
        let Some(entry) = self.entries.get_mut(node) else {
            return;
        };
        entry.pending = entry.pending.saturating_sub(1);
        entry.carry(carrier);
        if let Carrier::Broken(connection) = carrier {
            entry.straggler = entry.straggler.max(Some(connection));
        }
        entry.presence = match vote {
            Vote::Granted => Presence::Present,
            Vote::Unknown if bug!(UnknownIsRefused) => Presence::Absent,
            Vote::Unknown => Presence::Maybe,
            _ if entry.straggler.is_some() => Presence::Maybe,
            Vote::Held { .. } => Presence::Absent,
            // As it was: a smaller ballot may have put it there.
            Vote::Stale { .. } | Vote::Refused(_) | Vote::Unsent(_) => entry.presence,
        };
    }

    /// Is our key known not to be at this node, nor on its way there?
    pub(crate) fn lacks(&self, node: usize) -> bool {
        self.entries
            .get(node)
            .is_some_and(|entry| !entry.is_possible())
    }

    /// An extension of `ttl` begins.
    pub(crate) fn on_extension_begun(&mut self, ttl: Duration) {
        self.ttl = self.ttl.max(ttl);
    }

    /// An extension has been submitted to this node.
    pub(crate) fn on_extension_sent(&mut self, node: usize) {
        if let Some(entry) = self.entries.get_mut(node) {
            entry.extensions = entry.extensions.saturating_add(1);
        }
    }

    /// An extension was taken back before it was written.
    pub(crate) fn on_extension_withdrawn(&mut self, node: usize) {
        self.on_extension_reply(node, Vote::Unsent(Unsent::Decided), Carrier::NotWritten);
    }

    pub(crate) fn on_extension_reply(&mut self, node: usize, vote: Vote, carrier: Carrier) {
        let Some(entry) = self.entries.get_mut(node) else {
            return;
        };
        entry.carry(carrier);
        let is_doubtful = entry.on_extension_over(carrier);
        match vote {
            Vote::Granted => entry.presence = Presence::Present,
            // A straggler may still bring the key back, or has done so since.
            Vote::Held { .. } | Vote::Stale { .. }
                if !is_doubtful && entry.straggler.is_none() && entry.pending == 0 =>
            {
                entry.presence = Presence::Absent;
            }
            Vote::Held { .. }
            | Vote::Stale { .. }
            | Vote::Refused(_)
            | Vote::Unsent(_)
            | Vote::Unknown => {}
        }
    }

    /// Begins the removal everywhere. A second call is a no-op.
    pub(crate) fn remove(&mut self, outbox: &mut dyn Outbox) {
        let ballot = self.ballot;
        for (node, entry) in self.entries.iter_mut().enumerate() {
            if entry.removal != Removal::None {
                continue;
            }
            if bug!(PendingForgotten) && entry.pending > 0 {
                entry.settle();
            } else if entry.is_possible() || entry.inherited {
                entry.send_release(node, ballot, outbox);
            } else {
                entry.removal = Removal::Settled;
            }
        }
    }

    /// Gives up what is owed one ttl from now: a deliberate mistake.
    #[cfg(feature = "testkit")]
    pub(crate) fn end_early(&mut self, now: Moment) {
        for entry in &mut self.entries {
            entry.give_up_at = Some(now.after(self.ttl));
        }
    }

    pub(crate) fn on_release_reply(
        &mut self,
        node: usize,
        vote: Vote,
        carrier: Carrier,
        now: Moment,
        outbox: &mut dyn Outbox,
    ) {
        let (ttl, ballot) = (self.ttl, self.ballot);
        let Some(entry) = self.entries.get_mut(node) else {
            return;
        };
        if entry.removal != Removal::InFlight {
            return;
        }
        if !entry.is_possible() {
            // The acquire's own answer came in the meantime: nothing was ever there.
            entry.settle();
            return;
        }
        match carrier {
            Carrier::NotWritten | Carrier::Broken(_) => entry.removal = Removal::AwaitingConnection,
            Carrier::Answered(_)
                if matches!(vote, Vote::Granted | Vote::Held { .. } | Vote::Stale { .. }) =>
            {
                if !entry.overtaken || bug!(StragglerNotOutlived) {
                    entry.settle();
                } else if entry.straggler.is_some() {
                    entry.removal = Removal::AwaitingFinish;
                } else {
                    entry.send_release(node, ballot, outbox);
                }
            }
            Carrier::Answered(_) => {
                // The server lives and will not: ask again until the key has expired by itself.
                entry.outlive(now, ttl);
                entry.removal = Removal::RetryAt(now.after(RETRY));
            }
        }
    }

    pub(crate) fn on_news(
        &mut self,
        node: usize,
        news: News,
        now: Moment,
        outbox: &mut dyn Outbox,
    ) {
        let (ttl, ballot) = (self.ttl, self.ballot);
        let Some(entry) = self.entries.get_mut(node) else {
            return;
        };
        match news {
            News::Finished(through) => {
                if entry.straggler.is_some() {
                    entry.overtaken_extensions = entry.extensions;
                }
                for left in [&mut entry.straggler, &mut entry.unfinished] {
                    *left = left.filter(|&connection| connection > through);
                }
                if entry.removal != Removal::None {
                    entry.outlive(now, ttl);
                }
                if entry.removal == Removal::AwaitingFinish && entry.straggler.is_none() {
                    entry.send_release(node, ballot, outbox);
                }
            }
            News::Up => {
                if entry.removal == Removal::AwaitingConnection {
                    entry.send_release(node, ballot, outbox);
                }
            }
            News::Gone => {
                // Nothing can be done any more. What is there stays until its ttl ends it.
                if entry.removal != Removal::None {
                    entry.removal = Removal::Settled;
                }
            }
        }
    }

    pub(crate) fn on_deadline(&mut self, now: Moment, outbox: &mut dyn Outbox) {
        let ballot = self.ballot;
        for (node, entry) in self.entries.iter_mut().enumerate() {
            if matches!(entry.removal, Removal::None | Removal::Settled) {
                continue;
            }
            if entry.give_up_at.is_some_and(|at| at <= now) {
                entry.settle();
            } else if matches!(entry.removal, Removal::RetryAt(at) if at <= now) {
                entry.send_release(node, ballot, outbox);
            }
        }
    }
}
