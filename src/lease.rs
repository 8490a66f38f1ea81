//! A lock without a guard, on its way to another holder.

use std::fmt;
use std::time::Duration;

use crate::error::InvalidRequest;
use crate::held::Held;
use crate::quorum::ballot::{Ballot, FencingToken};
use crate::resources::Resources;
use crate::token::Token;

/// The format that this version writes.
const FORMAT: u32 = 1;

/// A lock that was [detached](crate::Guard::detach) from its guard.
///
/// It carries what proves the ownership, and no time: whoever [attaches](crate::Redlock::attach) it
/// learns from the nodes whether the lock still stands. With the feature `serde` it can be
/// serialised; treat it like a password. Attaching it twice shares the lock: both guards hold it,
/// and it goes with the first of them.
#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Lease {
    format: u32,
    prefix: String,
    resource: String,
    token: String,
    fence: Option<u64>,
    ttl_millis: u64,
}

impl Lease {
    pub(crate) fn new(held: &Held, ttl: Duration) -> Self {
        Self {
            format: FORMAT,
            prefix: held.resources().prefix().into(),
            resource: held.resources().first().into(),
            token: held.token().as_str().into(),
            fence: held.fencing_token().map(FencingToken::as_u64),
            ttl_millis: u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// What is locked.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// For how long the nodes keep the lock after each extension.
    #[must_use]
    pub const fn ttl(&self) -> Duration {
        Duration::from_millis(self.ttl_millis)
    }

    /// What orders the lock among all fenced locks of its resource; `None` if it is not fenced.
    #[must_use]
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.ballot(Duration::ZERO).map(Ballot::token)
    }

    /// The ballot that the lock was won with, for nodes that remember it for so long.
    pub(crate) fn ballot(&self, memory: Duration) -> Option<Ballot> {
        self.fence.map(|number| Ballot::new(number, memory))
    }

    /// What stands before the resource in its key.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// What is locked, and the token, if this version understands them.
    pub(crate) fn open(&self) -> Result<(Resources, Token), InvalidRequest> {
        let token = Token::parse(&self.token).filter(|_| self.format == FORMAT);
        let token = token.ok_or(InvalidRequest::UnknownLease)?;
        Ok((Resources::one(&self.prefix, &self.resource), token))
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the token: it is the lock.
        f.debug_struct("Lease")
            .field("prefix", &self.prefix)
            .field("resource", &self.resource)
            .field("fencing_token", &self.fencing_token())
            .field("ttl", &self.ttl())
            .finish_non_exhaustive()
    }
}
