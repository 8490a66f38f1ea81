//! What a hold and its surroundings say to each other.

use std::sync::Arc;
use std::time::Duration;

use super::ballot::Ballot;
use super::ledger::Carrier;
use super::renewal::Renewal;
use super::vote::{Unsent, Vote};

/// What is asked of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Acquire {
        ttl: Duration,
        ballot: Option<Ballot>,
    },
    /// The number tells one extension of a lock from the next.
    Extend {
        ttl: Duration,
        number: u32,
        ballot: Option<Ballot>,
    },
    /// Sets a key again that a node lacks, while a quorum has it. It never counts.
    Heal {
        ttl: Duration,
        ballot: Option<Ballot>,
    },
    Release,
    /// A release after which no acquire or heal with this ballot, or a smaller one, does anything.
    Tombstone {
        ballot: Ballot,
    },
}

impl Command {
    pub(crate) const fn is_release(self) -> bool {
        matches!(self, Self::Release | Self::Tombstone { .. })
    }

    /// What a fenced command carries.
    pub(crate) const fn ballot(self) -> Option<Ballot> {
        match self {
            Self::Acquire { ballot, .. }
            | Self::Extend { ballot, .. }
            | Self::Heal { ballot, .. } => ballot,
            Self::Tombstone { ballot } => Some(ballot),
            Self::Release => None,
        }
    }
}

/// A node's answer to a command, exactly one for each that was submitted.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) vote: Vote,
    pub(crate) carrier: Carrier,
    pub(crate) error: Option<Arc<str>>,
}

/// Where a hold's effects go. Carried out at once, without calling back.
pub(crate) trait Outbox {
    /// Hands a command to a node, in order. A refusal means it was not and will not be written.
    fn submit(&mut self, node: usize, command: Command) -> Result<(), Unsent>;
    /// What went wrong at a node that has just refused a command, in one line, where it is known.
    fn trouble(&self, _node: usize) -> Option<Arc<str>> {
        None
    }
    /// Is a command for this node about to be written? Not while its first handshake is under way.
    fn is_up(&self, _node: usize) -> bool {
        true
    }
    /// Takes an acquire or an extension back if it is still unwritten; no reply follows then.
    fn withdraw(&mut self, node: usize, command: Command) -> bool;
    /// Something that callers wait for has changed.
    fn wake(&mut self);
}

/// What a lock was asked for with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) ttl: Duration,
    pub(crate) round_timeout: Duration,
    pub(crate) renewal: Renewal,
    /// For the jitter of renewals.
    pub(crate) jitter: u64,
    /// If it is fenced.
    pub(crate) ballot: Option<Ballot>,
}

/// What became of a release, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    /// Nodes that deleted it.
    pub(crate) deleted: usize,
    /// Fewer than a quorum can still hold it.
    pub(crate) confirmed: bool,
    /// The time to wait for more is over, or nothing more can come.
    pub(crate) timed_out: bool,
}
