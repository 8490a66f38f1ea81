//! Commands and answers, as small as the model needs them: states keep many.

use std::fmt;
use std::hash::Hasher;
use std::time::Duration;

use super::super::ballot::Ballot;
use super::super::hold::{Command, Reply};
use super::super::ledger::{Carrier, ConnectionId};
use super::super::vote::{Refusal, Unsent, Vote};
use super::TTL;

const REFUSED: Vote = Vote::Refused(Refusal::ReadOnly);
/// Fence keys outlive everything.
const MEMORY: Duration = TTL.saturating_mul(1000);

/// A ballot of 0 is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Op {
    Acquire { ballot: u8 },
    Extend { number: u8, ballot: u8 },
    Heal { ballot: u8 },
    Release,
    Tombstone { ballot: u8 },
}

pub(super) fn ballot(number: u8) -> Option<Ballot> {
    (number > 0).then(|| Ballot::new(number.into(), MEMORY))
}

impl Op {
    pub(super) fn command(self) -> Command {
        match self {
            Self::Acquire { ballot: number } => Command::Acquire {
                ttl: TTL,
                ballot: ballot(number),
            },
            Self::Extend {
                number,
                ballot: carried,
            } => Command::Extend {
                ttl: TTL,
                number: number.into(),
                ballot: ballot(carried),
            },
            Self::Heal { ballot: number } => Command::Heal {
                ttl: TTL,
                ballot: ballot(number),
            },
            Self::Release => Command::Release,
            Self::Tombstone { ballot: number } => Command::Tombstone {
                ballot: ballot(number).expect("a ballot"),
            },
        }
    }

    pub(super) const fn is_acquire(self) -> bool {
        matches!(self, Self::Acquire { .. })
    }

    pub(super) const fn is_release(self) -> bool {
        matches!(self, Self::Release | Self::Tombstone { .. })
    }

    /// May it yet set the key, where the largest ballot accepted is this one? (An extension sets
    /// none.)
    pub(super) const fn can_lock(self, fence: u8) -> bool {
        match self {
            Self::Acquire { ballot } => ballot == 0 || ballot > fence,
            Self::Heal { ballot } => ballot == 0 || ballot >= fence,
            Self::Extend { .. } | Self::Release | Self::Tombstone { .. } => false,
        }
    }

    pub(super) fn hash(self, place: u8, hasher: &mut impl Hasher) {
        let (kind, number, ballot) = match self {
            Self::Acquire { ballot } => (0, 0, ballot),
            Self::Extend { number, ballot } => (1, number, ballot),
            Self::Heal { ballot } => (2, 0, ballot),
            Self::Release => (3, 0, 0),
            Self::Tombstone { ballot } => (4, 0, ballot),
        };
        let word = [place + kind, number, ballot, 0];
        hasher.write_u32(u32::from_le_bytes(word));
    }
}

impl From<Command> for Op {
    fn from(command: Command) -> Self {
        let carried = command.ballot().map_or(0, |ballot| ballot.number());
        let ballot = u8::try_from(carried).expect("a small ballot");
        match command {
            Command::Acquire { .. } => Self::Acquire { ballot },
            Command::Extend { number, .. } => Self::Extend {
                number: u8::try_from(number).expect("few extensions"),
                ballot,
            },
            Command::Heal { .. } => Self::Heal { ballot },
            Command::Release => Self::Release,
            Command::Tombstone { .. } => Self::Tombstone { ballot },
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, ballot) = match *self {
            Self::Acquire { ballot } => ("acquire", ballot),
            Self::Extend { ballot, .. } => ("extension", ballot),
            Self::Heal { ballot } => ("heal", ballot),
            Self::Release => ("release", 0),
            Self::Tombstone { ballot } => ("tombstone", ballot),
        };
        f.write_str(kind)?;
        if ballot > 0 {
            write!(f, " with ballot {ballot}")?;
        }
        Ok(())
    }
}

/// What a client will hear of a command. An acquire is told the largest ballot that the node has
/// accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Granted,
    NotOurs {
        fence: u8,
    },
    Stale {
        fence: u8,
    },
    Refused,
    /// It was written, and its connection broke.
    Broken,
    Unwritten,
}

impl Answer {
    pub(super) const NOT_OURS: Self = Self::NotOurs { fence: 0 };

    /// What the node's vote tells, as far as anything follows from it.
    pub(super) fn to(op: Op, vote: Vote) -> Self {
        let told = vote.fence().filter(|_| op.is_acquire()).unwrap_or(0);
        let fence = u8::try_from(told).expect("a small ballot");
        match vote {
            Vote::Granted => Self::Granted,
            Vote::Stale { .. } => Self::Stale { fence },
            Vote::Held { .. } | Vote::Refused(_) | Vote::Unsent(_) | Vote::Unknown => {
                Self::NotOurs { fence }
            }
        }
    }

    pub(super) fn reply(self, connection: u8) -> Reply {
        let connection = ConnectionId(connection.into());
        let answered = Carrier::Answered(connection);
        let (vote, carrier) = match self {
            Self::Granted => (Vote::Granted, answered),
            Self::NotOurs { fence } => {
                let fence = (fence > 0).then_some(fence.into());
                (Vote::Held { ttl: None, fence }, answered)
            }
            Self::Stale { fence } => {
                let fence = fence.into();
                (Vote::Stale { fence }, answered)
            }
            Self::Refused => (REFUSED, answered),
            Self::Broken => (Vote::Unknown, Carrier::Broken(connection)),
            Self::Unwritten => (Vote::Unsent(Unsent::NotConnected), Carrier::NotWritten),
        };
        Reply {
            vote,
            carrier,
            error: None,
        }
    }

    pub(super) fn hash(self, hasher: &mut impl Hasher) {
        let (kind, fence) = match self {
            Self::Granted => (0, 0),
            Self::NotOurs { fence } => (1, fence),
            Self::Stale { fence } => (2, fence),
            Self::Refused => (3, 0),
            Self::Broken => (4, 0),
            Self::Unwritten => (5, 0),
        };
        hasher.write_u32(u32::from_le_bytes([kind, fence, 0, 0]));
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (answer, fence) = match *self {
            Self::Granted => ("granted", 0),
            Self::NotOurs { fence } => ("another key or none", fence),
            Self::Stale { fence } => ("the ballot is too small", fence),
            Self::Refused => ("refused", 0),
            Self::Broken => ("connection broken", 0),
            Self::Unwritten => ("never written", 0),
        };
        f.write_str(answer)?;
        if fence > 0 {
            write!(f, ", {fence} was accepted")?;
        }
        Ok(())
    }
}
