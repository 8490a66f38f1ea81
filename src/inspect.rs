//! What is seen of a lock by looking at it.

mod looking;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::InvalidRequest;
use crate::quorum::tally::NodeError;
use crate::quorum::validity;
use crate::quorum::vote::Unsent;

/// What was seen of a lock, by [`Redlock::inspect`](crate::Redlock::inspect).
///
/// Its `Display` is a small table: what a majority supports, then a line for each node. Tokens are
/// not shown, here or elsewhere: whoever has one has the lock.
#[derive(Clone, Debug)]
pub struct Inspection {
    resource: String,
    holder: Holder,
    /// When it ends, and how long that was when it was seen.
    held_until: Option<(Instant, Duration)>,
    nodes: Vec<NodeInspection>,
    problem: Option<InvalidRequest>,
}

/// Whose lock it is, as far as a majority of nodes tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Holder {
    /// A quorum of nodes has the token of a lock that this client, or a clone of it, holds.
    Ours,
    /// A quorum of nodes has one token that is none of ours: somebody else's, a detached lock's, or
    /// what is left of a lock that this client has lost or let go.
    Another,
    /// No token has a quorum, and a quorum of nodes is free: it can be acquired.
    Nobody,
    /// No token has a quorum, and the keys that are there leave no quorum free: contenders have
    /// split the nodes, or locks that have ended have left keys behind. It passes with their ttl.
    Split,
    /// Too few nodes have answered to tell.
    Unknown,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ours => "held by us",
            Self::Another => "held by another",
            Self::Nobody => "free",
            Self::Split => "held by nobody, and not free",
            Self::Unknown => "unknown, too few nodes have answered",
        })
    }
}

/// What one node has of the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sight {
    /// The key is not there.
    Free,
    /// The key is there.
    #[non_exhaustive]
    Held {
        /// Is it the key of a lock that this client, or a clone of it, holds?
        ours: bool,
        /// Tells the tokens of this inspection apart without showing them: they are numbered from 1,
        /// in the order of the nodes.
        token: usize,
        /// How long the node still keeps it if nobody extends it; `None`: for ever.
        ttl: Option<Duration>,
    },
    /// It cannot be asked, and why.
    Unreachable(Unsent),
    /// It was asked, and gave no answer within the round time-out, or none that tells.
    Unanswered,
}

impl fmt::Display for Sight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Free => f.write_str("free"),
            Self::Held { ours, token, ttl } => {
                let whose = if *ours { "ours" } else { "another's" };
                write!(f, "{whose}, token {token}, ")?;
                match ttl {
                    Some(ttl) => write!(f, "{} ms left", ttl.as_millis()),
                    None => f.write_str("no ttl"),
                }
            }
            Self::Unreachable(reason) => write!(f, "unreachable, {reason}"),
            Self::Unanswered => f.write_str("unanswered"),
        }
    }
}

/// One node's line in an [`Inspection`].
#[derive(Clone, Debug)]
pub struct NodeInspection {
    node: Arc<str>,
    sight: Sight,
    fence: Option<u64>,
    error: Option<NodeError>,
}

impl NodeInspection {
    /// The node's address, without user and password.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.node
    }

    /// What was seen there.
    #[must_use]
    pub const fn sight(&self) -> Sight {
        self.sight
    }

    /// The largest ballot that the node has accepted for this resource, if it remembers one: that of
    /// a [fenced](crate::Acquire::fenced) lock, or one more where its release had to bar the way.
    #[must_use]
    pub const fn fence(&self) -> Option<u64> {
        self.fence
    }

    /// What went wrong there, where something did.
    #[must_use]
    pub const fn error(&self) -> Option<&NodeError> {
        self.error.as_ref()
    }
}

impl fmt::Display for NodeInspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.sight.fmt(f)?;
        if let Some(fence) = self.fence {
            write!(f, ", fence {fence}")?;
        }
        match &self.error {
            Some(error) => write!(f, " ({})", error.message()),
            None => Ok(()),
        }
    }
}

impl Inspection {
    /// What was looked at.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// Whose lock it is.
    #[must_use]
    pub const fn holder(&self) -> Holder {
        self.holder
    }

    /// Until when a quorum of nodes keeps the holder's token if nobody extends or releases it, less
    /// drift as for validity. `None` where there is no holder, and where its keys have no ttl.
    ///
    /// A holder relies on its guard's [`valid_until`](crate::Guard::valid_until), which may end
    /// before this, and never on this.
    #[must_use]
    pub fn held_until(&self) -> Option<Instant> {
        self.held_until.map(|(until, _)| until)
    }

    /// How many nodes make a quorum.
    #[must_use]
    pub fn quorum(&self) -> usize {
        validity::quorum(self.nodes.len())
    }

    /// The nodes in the order in which they were configured; none if none was asked because of a
    /// [`problem`](Self::problem).
    #[must_use]
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = &NodeInspection> {
        self.nodes.iter()
    }

    /// Why no node was asked: a resource that cannot be locked, or no runtime. Then the holder is
    /// [`Holder::Unknown`].
    #[must_use]
    pub const fn problem(&self) -> Option<&InvalidRequest> {
        self.problem.as_ref()
    }
}

impl fmt::Display for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.resource)?;
        if let Some(problem) = &self.problem {
            return write!(f, "{problem}");
        }
        self.holder.fmt(f)?;
        if let Some((_, left)) = self.held_until {
            write!(f, " for {} ms", left.as_millis())?;
        }
        let (nodes, quorum) = (self.nodes.len(), self.quorum());
        write!(f, " ({nodes} nodes, quorum {quorum})")?;
        let width = self.nodes.iter().map(|line| line.node.len()).max();
        let width = width.unwrap_or(0);
        for line in &self.nodes {
            write!(f, "\n  {:width$}  {line}", line.node)?;
        }
        Ok(())
    }
}
