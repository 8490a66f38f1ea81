//! Votes: law 2.

use std::fmt;
use std::time::Duration;

/// What one node answered in one round: exactly one of these (law 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Vote {
    /// The node set the lock for us, or renewed it.
    Granted,
    /// Somebody else's key is there; to an extension or a release: ours is not.
    Held {
        /// How long the other key still lives, as far as the node told: only to a fenced command, or
        /// to an acquire that waits. Zero: the lock is free by now.
        ttl: Option<Duration>,
        /// The largest ballot the node has accepted, as far as the node told: only to a fenced command.
        fence: Option<u64>,
    },
    /// Nobody else's key is there, but the ballot is not larger than one the node has accepted. Only
    /// a fenced command is answered so.
    Stale {
        /// The largest ballot the node has accepted.
        fence: u64,
    },
    /// The node answered, and its answer means that nothing was applied.
    Refused(Refusal),
    /// Nothing was ever written to the node.
    Unsent(Unsent),
    /// Everything else: no answer in time, a broken connection, an error whose effect is not known.
    /// What was asked for may have happened, or may happen yet.
    Unknown,
}

impl Vote {
    /// Does it say that somebody else is in the way?
    #[must_use]
    pub const fn is_contention(self) -> bool {
        matches!(self, Self::Held { .. } | Self::Stale { .. })
    }

    /// The largest ballot that the node has accepted, as far as it told.
    pub(crate) const fn fence(self) -> Option<u64> {
        match self {
            Self::Held { fence, .. } => fence,
            Self::Stale { fence } => Some(fence),
            Self::Granted | Self::Refused(_) | Self::Unsent(_) | Self::Unknown => None,
        }
    }
}

impl fmt::Display for Vote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Granted => f.write_str("granted"),
            Self::Held { ttl: Some(ttl), .. } => write!(f, "held for {} ms", ttl.as_millis()),
            Self::Held { ttl: None, .. } => f.write_str("held"),
            Self::Stale { fence } => write!(f, "stale, fence {fence}"),
            Self::Refused(refusal) => write!(f, "refused {refusal}"),
            Self::Unsent(reason) => write!(f, "unsent, {reason}"),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}

macro_rules! refusals {
    ($($variant:ident = $code:literal),* $(,)?) => {
        /// The error codes of a server that mean "not applied", and no others (law 2).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Refusal {
            $(
                #[doc = concat!("`", $code, "`")]
                $variant,
            )*
        }

        impl Refusal {
            /// The code as the server sends it.
            #[must_use]
            pub const fn code(self) -> &'static str {
                match self { $(Self::$variant => $code,)* }
            }

            /// The refusal that a server's error code stands for, if it is one.
            #[must_use]
            pub fn from_code(code: &str) -> Option<Self> {
                match code { $($code => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

refusals! {
    Ask = "ASK",
    Busy = "BUSY",
    ClusterDown = "CLUSTERDOWN",
    CrossSlot = "CROSSSLOT",
    Loading = "LOADING",
    MasterDown = "MASTERDOWN",
    Misconf = "MISCONF",
    Moved = "MOVED",
    NoAuth = "NOAUTH",
    NoPerm = "NOPERM",
    NoReplicas = "NOREPLICAS",
    NoScript = "NOSCRIPT",
    Oom = "OOM",
    ReadOnly = "READONLY",
    TryAgain = "TRYAGAIN",
    WrongPass = "WRONGPASS",
    WrongType = "WRONGTYPE",
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// Why nothing was written to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unsent {
    /// There was no connection.
    NotConnected,
    /// Commands were out and nothing came back: the node is given a rest.
    BreakerOpen,
    /// Too many commands, or too many releases, were waiting for the node's answer.
    QueueFull,
    /// The node restarted, lost its data or is new among others, too lately for its votes to be
    /// trusted: see [`RestartGuard`](crate::RestartGuard).
    Quarantined,
    /// The same server already speaks through another address of the list: whichever was connected
    /// first. It is told by `INFO`; where that is denied, it is not noticed.
    DuplicateOf {
        /// The place of that address in the list of nodes, from 0.
        node: usize,
    },
    /// The server is a replica.
    Replica,
    /// The server is in cluster mode (or is a sentinel): it is no independent master.
    Cluster,
    /// The round was decided before the command was written.
    Decided,
    /// The client has been closed, or its runtime is gone.
    Closed,
}

impl fmt::Display for Unsent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotConnected => f.write_str("not connected"),
            Self::BreakerOpen => f.write_str("breaker open"),
            Self::QueueFull => f.write_str("queue full"),
            Self::Quarantined => f.write_str("quarantined"),
            Self::DuplicateOf { node } => write!(f, "duplicate of node {node}"),
            Self::Replica => f.write_str("replica"),
            Self::Cluster => f.write_str("cluster mode"),
            Self::Decided => f.write_str("decided before"),
            Self::Closed => f.write_str("closed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn law_2_only_the_listed_codes_mean_not_applied() {
        let listed = "READONLY LOADING OOM MISCONF NOPERM NOAUTH WRONGPASS NOREPLICAS MASTERDOWN \
                      BUSY NOSCRIPT MOVED ASK TRYAGAIN CLUSTERDOWN CROSSSLOT WRONGTYPE";
        for code in listed.split_whitespace() {
            assert_eq!(Refusal::from_code(code).map(Refusal::code), Some(code));
        }
        for code in ["ERR", "EXECABORT", "", "oom", "NOTBUSY", "UNKILLABLE"] {
            assert_eq!(Refusal::from_code(code), None);
        }
    }
}
