//! One type of error for each kind of call.

use std::sync::Arc;
use std::time::Duration;

use crate::lease::Lease;
use crate::quorum::hold::LossCause;
use crate::quorum::tally::Tally;
use crate::unacquired::Unacquired;

/// Why a client could not be built.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// No node was given.
    #[error("no nodes were given: see Builder::nodes, or REDLOCK_NODES for Builder::from_env")]
    NoNodes,
    /// More than 31 nodes were given.
    #[error("{count} nodes were given, 31 are the most")]
    TooManyNodes {
        /// How many.
        count: usize,
    },
    /// One address stands in the list twice: one server must not vote twice.
    #[error("the address {node} is given twice")]
    DuplicateAddress {
        /// The address, without user and password.
        node: String,
    },
    /// A node's URL cannot be used. The URL itself is not shown: it may hold a password.
    #[error("the URL of node {place}, counted from 0, cannot be used: {reason}")]
    InvalidUrl {
        /// The node's place in the list, from 0.
        place: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// A setting is outside its range.
    #[error("{setting} {problem}")]
    InvalidSetting {
        /// The builder's method, or the environment variable.
        setting: &'static str,
        /// What is wrong with it.
        problem: String,
    },
}

/// What is wrong with a request. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidRequest {
    /// The resource is the empty string.
    #[error("the resource is empty")]
    EmptyResource,
    /// The resource has more than 512 bytes.
    #[error("the resource has {bytes} bytes, 512 are the most")]
    ResourceTooLong {
        /// How many it has.
        bytes: usize,
    },
    /// A lock on several resources was asked for, and none was named.
    #[error("no resource was named")]
    NoResources,
    /// A lock on more than 64 resources was asked for.
    #[error("{count} resources were named, 64 are the most")]
    TooManyResources {
        /// How many, each counted once.
        count: usize,
    },
    /// With its prefix the resource begins with `redlock-quorum:`, where the client keeps its own keys.
    #[error("keys that begin with redlock-quorum: are reserved")]
    ReservedResource,
    /// The ttl is shorter than 20 ms.
    #[error("the ttl {ttl:?} is shorter than 20ms")]
    TtlTooShort {
        /// The ttl asked for.
        ttl: Duration,
    },
    /// The ttl is longer than the client's `max_ttl`.
    #[error("the ttl {ttl:?} is longer than max_ttl, {max_ttl:?}")]
    TtlTooLong {
        /// The ttl asked for.
        ttl: Duration,
        /// The client's limit.
        max_ttl: Duration,
    },
    /// The ttl is not a whole number of milliseconds.
    #[error("the ttl {ttl:?} is not a whole number of milliseconds")]
    TtlNotWholeMillis {
        /// The ttl asked for.
        ttl: Duration,
    },
    /// The renewal's interval is not shorter than the ttl, or one of its limits is zero.
    #[error("the renewal's interval must be shorter than the ttl, and nothing in it zero")]
    UnsoundRenewal,
    /// The owner holds the lock without a fencing token, and a nested acquisition asks for one.
    #[error("the owner holds this lock without a fencing token")]
    FencedInPlain,
    /// The lease was written by another version, or is damaged.
    #[error("the lease cannot be understood")]
    UnknownLease,
    /// The lease is of a lock on several resources, which a [`Guard`](crate::Guard) cannot hold: use
    /// [`Redlock::attach_all`](crate::Redlock::attach_all).
    #[error("the lease is of a lock on several resources")]
    LeaseOfSet,
    /// There is no tokio runtime to drive the client: poll the request inside one, or give the
    /// builder a handle.
    #[error("there is no tokio runtime")]
    NoRuntime,
    /// The operating system gave no random numbers for a token.
    #[error("the operating system has no randomness")]
    NoRandomness,
}

/// Why a lock was not acquired.
///
/// In every case the client releases what was, or may have been, granted, and goes on until no lock
/// key of this request is on any node that can be reached. Only if its runtime has ended, the ttl
/// has to do it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AcquireError {
    /// Somebody else holds it, or several contenders split the votes. Try again later, or wait
    /// longer.
    Contended(Unacquired),
    /// Too few nodes answered: fewer than a quorum could have granted it. Look at the tally for
    /// the nodes that are down.
    NoQuorum(Unacquired),
    /// A quorum granted it, but so slowly that less than a tenth of the ttl was left. Use a longer
    /// ttl, or look for the nodes that are slow.
    TooLate(Unacquired),
    /// The request makes no sense. Nothing was sent.
    InvalidRequest(InvalidRequest),
    /// The owner's lock on this resource is lost, and one of its guards still lives. It is never
    /// acquired again behind that guard's back: drop the guards first.
    Lost(LossCause),
    /// The client was closed, or its runtime has ended.
    Closed,
}

impl AcquireError {
    /// Is somebody else in the way?
    #[must_use]
    pub const fn is_contended(&self) -> bool {
        matches!(self, Self::Contended(_))
    }

    /// Are the nodes to blame: too few of them, or too slow?
    #[must_use]
    pub const fn is_outage(&self) -> bool {
        matches!(self, Self::NoQuorum(_) | Self::TooLate(_))
    }

    /// The votes of the last round, if there was one.
    #[must_use]
    pub fn tally(&self) -> Option<&Tally> {
        self.unacquired().map(Unacquired::tally)
    }

    const fn unacquired(&self) -> Option<&Unacquired> {
        match self {
            Self::Contended(how) | Self::NoQuorum(how) | Self::TooLate(how) => Some(how),
            Self::InvalidRequest(_) | Self::Lost(_) | Self::Closed => None,
        }
    }
}

impl std::fmt::Display for AcquireError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Contended(how) => {
                write!(f, "{} is held by somebody else {}", how.lock(), how.how())
            }
            Self::NoQuorum(how) => {
                write!(f, "too few nodes answered for {} {}", how.lock(), how.how())
            }
            Self::TooLate(how) => {
                write!(
                    f,
                    "a quorum answered too late for {} {}",
                    how.lock(),
                    how.how()
                )
            }
            Self::InvalidRequest(problem) => write!(f, "invalid request: {problem}"),
            Self::Lost(cause) => write!(f, "the owner's lock is lost: {cause}"),
            Self::Closed => f.write_str("the client is closed"),
        }
    }
}

impl std::error::Error for AcquireError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.unacquired().and_then(Unacquired::source)
    }
}

impl From<InvalidRequest> for AcquireError {
    fn from(problem: InvalidRequest) -> Self {
        Self::InvalidRequest(problem)
    }
}

/// Why a lock was not extended. Unless it says that the lock is lost, the lock stands until the
/// `valid_until` it had.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ExtendError {
    /// Fewer than a quorum confirmed it in time. Try again before the lock's validity ends.
    NoQuorum(Unacquired),
    /// The lock is not held any more. It is never re-created.
    Lost(LossCause),
    /// The request makes no sense. Nothing was sent.
    InvalidRequest(InvalidRequest),
}

impl std::fmt::Display for ExtendError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoQuorum(how) => {
                let (lock, how) = (how.lock(), how.how());
                write!(f, "too few nodes confirmed the extension of {lock} {how}")
            }
            Self::Lost(cause) => write!(f, "the lock is lost: {cause}"),
            Self::InvalidRequest(problem) => write!(f, "invalid request: {problem}"),
        }
    }
}

impl std::error::Error for ExtendError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NoQuorum(how) => how.source(),
            Self::Lost(_) | Self::InvalidRequest(_) => None,
        }
    }
}

impl From<InvalidRequest> for ExtendError {
    fn from(problem: InvalidRequest) -> Self {
        Self::InvalidRequest(problem)
    }
}

/// Why [`Acquire::using`](crate::Acquire::using), or that of a set, did not do all of its work.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UsingError<T> {
    /// The lock was not acquired. The section did not begin.
    #[error(transparent)]
    Acquire(AcquireError),
    /// The lock was lost, and the section dropped where it was suspended, or its output if it had
    /// blocked for so long. What it had done by then is done.
    #[error("the lock was lost while the section ran: {0}")]
    Lost(LossCause),
    /// The section ended while the lock was held, but the release was not confirmed.
    #[error("the section ended, but {source}")]
    Release {
        /// What the section returned.
        output: T,
        /// Why the release was not confirmed.
        source: ReleaseError,
    },
}

/// Why a lease could not be attached. Each gives it back: the lock, if it stands, stays as it was.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// Too few nodes have the lock's key: it has expired, or somebody else has it.
    #[error("{} is gone ({})", how.lock(), how.tally())]
    Gone {
        /// The lease.
        lease: Lease,
        /// The votes.
        how: Unacquired,
    },
    /// Too few nodes answered in time. Try again before the lock's ttl is over.
    #[error("too few nodes answered for {} {}", how.lock(), how.how())]
    NoQuorum {
        /// The lease.
        lease: Lease,
        /// The votes.
        how: Unacquired,
    },
    /// The lease makes no sense to this client. Nothing was sent.
    #[error("invalid request: {problem}")]
    InvalidRequest {
        /// The lease.
        lease: Lease,
        /// What is wrong with it.
        problem: InvalidRequest,
    },
    /// The client was closed, or its runtime has ended.
    #[error("the client is closed")]
    Closed {
        /// The lease.
        lease: Lease,
    },
}

impl AttachError {
    /// The lease that could not be attached.
    #[must_use]
    pub fn into_lease(self) -> Lease {
        match self {
            Self::Gone { lease, .. }
            | Self::NoQuorum { lease, .. }
            | Self::InvalidRequest { lease, .. }
            | Self::Closed { lease } => lease,
        }
    }
}

/// Why a release could not be confirmed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// A quorum of nodes may still hold the key: they did not answer within the round time-out.
    /// The client goes on releasing behind the scenes; at the latest the ttl ends the lock.
    #[error("the release is not confirmed by {}", nodes.join(", "))]
    Unconfirmed {
        /// The nodes that may still hold the key.
        nodes: Arc<[String]>,
    },
    /// The lease makes no sense to this client. Nothing was sent.
    #[error("invalid request: {0}")]
    InvalidRequest(InvalidRequest),
    /// The client was closed, or its runtime has ended. Nothing was sent.
    #[error("the client is closed")]
    Closed,
}
