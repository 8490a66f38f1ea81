//! A lock without a guard, on its way to another holder.

use std::fmt;
use std::time::Duration;

use crate::config::{LONGEST_RESOURCE, MOST_RESOURCES};
use crate::error::InvalidRequest;
use crate::held::Held;
use crate::quorum::ballot::{Ballot, FencingToken};
use crate::resources::Resources;
use crate::token::Token;

/// The format of a lease of one resource.
const ONE: u32 = 1;
/// The format of a lease of several: `resource` is all of them, each with its length before it.
const SEVERAL: u32 = 2;

/// A lock that was [detached](crate::Guard::detach) from its guard, or from that of a
/// [set](crate::GuardSet::detach).
///
/// It carries what proves the ownership, and no time: whoever [attaches](crate::Redlock::attach) it
/// learns from the nodes whether the lock still stands. With the feature `serde` it can be
/// serialised; treat it like a password. Attaching it twice shares the lock: both guards hold it,
/// and it goes with the first of them. Where nodes extend by `SET .. IFEQ`, the renewals of one set
/// back what the other has made longer by hand: two that share a lock leave its ttl alone.
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
        let resources = held.resources();
        let (format, resource) = if resources.keys().len() == 1 {
            (ONE, resources.first().into())
        } else {
            let told = resources.iter().map(|one| format!("{}:{one}", one.len()));
            (SEVERAL, told.collect())
        };
        Self {
            format,
            prefix: held.resources().prefix().into(),
            resource,
            token: held.token().as_str().into(),
            fence: held.fencing_token().map(FencingToken::as_u64),
            ttl_millis: u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// What is locked; the first of them, if it is several.
    #[must_use]
    pub fn resource(&self) -> &str {
        self.resources().next().unwrap_or(&self.resource)
    }

    /// What is locked, in ascending order.
    #[must_use]
    pub fn resources(&self) -> impl ExactSizeIterator<Item = &str> {
        let resources = match self.format {
            SEVERAL => split(&self.resource).unwrap_or_default(),
            _ => vec![&*self.resource],
        };
        resources.into_iter()
    }

    /// For how long the nodes keep the lock after each extension, counted from there.
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
        let is_known = self.prefix.len() <= LONGEST_RESOURCE
            && match self.format {
                ONE => true,
                SEVERAL => (2..=MOST_RESOURCES).contains(&self.resources().len()),
                _ => false,
            };
        let token = Token::parse(&self.token).filter(|_| is_known);
        let token = token.ok_or(InvalidRequest::UnknownLease)?;
        Ok((Resources::all(&self.prefix, self.resources()), token))
    }
}

/// Texts that stand one after another, each with its length in bytes before it; `None` if they do not.
fn split(mut text: &str) -> Option<Vec<&str>> {
    let mut parts = Vec::new();
    while !text.is_empty() {
        let (len, rest) = text.split_once(':')?;
        let (part, rest) = rest.split_at_checked(len.parse().ok()?)?;
        parts.push(part);
        text = rest;
    }
    Some(parts)
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the token: it is the lock.
        f.debug_struct("Lease")
            .field("prefix", &self.prefix)
            .field("resources", &self.resources().collect::<Vec<_>>())
            .field("fencing_token", &self.fencing_token())
            .field("ttl", &self.ttl())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn borders_between_resources_are_kept() {
        assert_eq!(split("2:ab1:c"), Some(vec!["ab", "c"]));
        assert_eq!(split("1:a2:bc"), Some(vec!["a", "bc"]));
        assert_eq!(split("4:1:2:3:\u{e9}x"), Some(vec!["1:2:", "\u{e9}x"]));
        for damaged in ["ab", "3:ab", "2", ":a", "-1:a", "1:\u{e9}", "1:ab"] {
            assert_eq!(split(damaged), None, "{damaged}");
        }
    }
}
