//! What may be at one node, and how far its removal has come.

use std::time::Duration;

use super::{Carrier, ConnectionId};
use crate::quorum::ballot::Ballot;
use crate::quorum::hold::{Command, Outbox};
use crate::quorum::validity::Moment;
use crate::quorum::vote::Unsent;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    Absent,
    Maybe,
    Present,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Removal {
    /// Not begun.
    None,
    InFlight,
    AwaitingConnection,
    AwaitingFinish,
    RetryAt(Moment),
    Settled,
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) presence: Presence,
    /// So many acquires and heals are on their way.
    pub(super) pending: u8,
    /// The newest broken connection on which something of ours is left that may still be executed,
    /// at any time: an acquire, a heal, or an extension, which lengthens a key's life.
    pub(super) unfinished: Option<ConnectionId>,
    /// The same for acquires and heals alone: they create the key.
    pub(super) straggler: Option<ConnectionId>,
    /// How many extensions are in flight; and how many of them, the first, may have been executed
    /// before a straggler was: that they found no key proves nothing.
    pub(super) extensions: usize,
    pub(super) overtaken_extensions: usize,
    /// The key was set by another client, whose stragglers we cannot know.
    pub(super) inherited: bool,
    pub(super) removal: Removal,
    /// There was a straggler when the release was submitted: its answer proves nothing yet.
    pub(super) overtaken: bool,
    pub(super) give_up_at: Option<Moment>,
}

impl Entry {
    pub(super) fn is_possible(&self) -> bool {
        self.pending > 0 || self.presence != Presence::Absent
    }

    pub(super) fn deadline(&self) -> Option<Moment> {
        let retry = match self.removal {
            Removal::None | Removal::Settled => return None,
            Removal::RetryAt(at) => Some(at),
            Removal::InFlight | Removal::AwaitingConnection | Removal::AwaitingFinish => None,
        };
        [retry, self.give_up_at].into_iter().flatten().min()
    }

    pub(super) fn carry(&mut self, carrier: Carrier) {
        if let Carrier::Broken(connection) = carrier {
            self.unfinished = self.unfinished.max(Some(connection));
            if bug!(DebtsEndEarly) {
                return;
            }
            self.give_up_at = None;
        }
    }

    /// An extension is not in flight any more. Is it doubtful that it found the key as it is now?
    pub(super) fn on_extension_over(&mut self, carrier: Carrier) -> bool {
        let is_doubtful = self.overtaken_extensions > 0;
        self.extensions = self.extensions.saturating_sub(1);
        // What was not written is not the first of them, and there may be none left.
        let others = if carrier == Carrier::NotWritten {
            self.overtaken_extensions
        } else {
            self.overtaken_extensions.saturating_sub(1)
        };
        self.overtaken_extensions = others.min(self.extensions);
        is_doubtful
    }

    /// If nothing of ours is in flight or left on a broken connection, nothing is executed after
    /// `now`: one ttl later the key has expired by itself.
    pub(super) fn outlive(&mut self, now: Moment, ttl: Duration) {
        if self.unfinished.is_none() && self.pending == 0 && self.extensions == 0 {
            let at = now.after(ttl);
            self.give_up_at = Some(self.give_up_at.map_or(at, |earlier| earlier.min(at)));
        }
    }

    /// Submits the release. Where something of a fenced lock may be unanswered it is a tombstone: what
    /// comes after that, however late, does nothing.
    pub(super) fn send_release(
        &mut self,
        node: usize,
        ballot: Option<Ballot>,
        outbox: &mut dyn Outbox,
    ) {
        let unanswered = self.pending > 0 || self.straggler.is_some() || self.inherited;
        let (release, is_final) = match ballot {
            Some(_) if unanswered && bug!(NoTombstone) => (Command::Release, true),
            Some(ballot) if unanswered => (Command::Tombstone { ballot }, true),
            Some(_) | None => (Command::Release, false),
        };
        self.overtaken = self.straggler.is_some() && !is_final;
        self.removal = match outbox.submit(node, release) {
            Ok(()) => Removal::InFlight,
            // The news of that may have come before there was anything to remove.
            Err(Unsent::Closed) => Removal::Settled,
            Err(_) => Removal::AwaitingConnection,
        };
    }

    pub(super) fn settle(&mut self) {
        self.presence = Presence::Absent;
        self.pending = 0;
        self.removal = Removal::Settled;
    }
}
