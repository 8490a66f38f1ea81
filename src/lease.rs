//! A lock without a guard, on its way to another holder.

use std::fmt;
use std::time::Duration;

use crate::builder::Config;
use crate::driver::cell::Cell;
use crate::error::InvalidRequest;
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
    ttl_millis: u64,
}

impl Lease {
    pub(crate) fn new(cell: &Cell, resource: &str, config: &Config, ttl: Duration) -> Self {
        Self {
            format: FORMAT,
            prefix: config.prefix.clone(),
            resource: resource.into(),
            token: cell.token().as_str().into(),
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

    /// What stands before the resource in its key.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The lock's key and token, if this version understands them.
    pub(crate) fn open(&self) -> Result<(String, Token), InvalidRequest> {
        let token = Token::parse(&self.token).filter(|_| self.format == FORMAT);
        let token = token.ok_or(InvalidRequest::UnknownLease)?;
        Ok((format!("{}{}", self.prefix, self.resource), token))
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the token: it is the lock.
        f.debug_struct("Lease")
            .field("prefix", &self.prefix)
            .field("resource", &self.resource)
            .field("ttl", &self.ttl())
            .finish_non_exhaustive()
    }
}
