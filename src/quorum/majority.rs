//! What a majority supports, of what was seen on the nodes by looking.

use std::fmt;
use std::time::Duration;

use super::validity;

/// What one node has of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// `None`: the key is not there.
    pub(crate) key: Option<Key>,
    /// The largest ballot that the node has accepted.
    pub(crate) fence: Option<u64>,
}

/// A lock's key.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Key {
    /// `None`: the value is no token of anybody.
    pub(crate) token: Option<Box<str>>,
    /// How long the node still keeps it; `None`: for ever.
    pub(crate) ttl: Option<Duration>,
}

/// Not the token: it is the lock.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key")
            .field("ttl", &self.ttl)
            .finish_non_exhaustive()
    }
}

/// What follows for the lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Majority<'a> {
    /// A quorum has this token for so long at least; `None`: for ever.
    Token {
        token: &'a str,
        ttl: Option<Duration>,
    },
    /// No token has a quorum, and a quorum is free.
    Nobody,
    /// No token has a quorum, nor is a quorum free.
    Split,
    /// A token may have a quorum, with nodes that have not answered.
    Unknown,
}

/// `None`: the node has not answered.
pub(crate) fn majority<'a>(nodes: &[Option<&'a Seen>]) -> Majority<'a> {
    let quorum = validity::quorum(nodes.len());
    let silent = nodes.iter().filter(|seen| seen.is_none()).count();
    let seen = || nodes.iter().copied().flatten();
    let keys = || seen().filter_map(|seen| seen.key.as_ref());
    let token_of = |key: &'a Key| key.token.as_deref();
    let mut most = 0;
    for token in keys().filter_map(token_of) {
        let same = keys().filter(|key| token_of(key) == Some(token));
        // The longest first: what the q-th node keeps, the ones before it keep too.
        let mut ttls: Vec<Duration> = same.map(|key| key.ttl.unwrap_or(Duration::MAX)).collect();
        ttls.sort_unstable_by(|a, b| b.cmp(a));
        if let Some(&ttl) = ttls.get(quorum.saturating_sub(1)) {
            let ttl = (ttl < Duration::MAX).then_some(ttl);
            return Majority::Token { token, ttl };
        }
        most = most.max(ttls.len());
    }
    let free = seen().filter(|seen| seen.key.is_none());
    if most.saturating_add(silent) >= quorum {
        Majority::Unknown
    } else if free.count() >= quorum {
        Majority::Nobody
    } else {
        Majority::Split
    }
}

impl fmt::Debug for Majority<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token { ttl, .. } => write!(f, "Token({ttl:?})"),
            Self::Nobody => f.write_str("Nobody"),
            Self::Split => f.write_str("Split"),
            Self::Unknown => f.write_str("Unknown"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line for each node: `-` is free, `?` silent, `!` no token; else a token and its ttl, or none.
    fn said(nodes: &[&str]) -> String {
        let seen = |node: &&str| {
            let key = match *node {
                "?" => return None,
                "-" => None,
                "!" => Some(Key {
                    token: None,
                    ttl: None,
                }),
                key => Some(Key {
                    token: Some(key[..1].into()),
                    ttl: key[1..].parse().ok().map(Duration::from_millis),
                }),
            };
            Some(Seen { key, fence: None })
        };
        let nodes: Vec<Option<Seen>> = nodes.iter().map(seen).collect();
        let nodes: Vec<Option<&Seen>> = nodes.iter().map(Option::as_ref).collect();
        match majority(&nodes) {
            Majority::Token { token, ttl } => {
                let ttl = ttl.map_or_else(|| "ever".into(), |ttl| ttl.as_millis().to_string());
                format!("{token} for {ttl}")
            }
            other @ (Majority::Nobody | Majority::Split | Majority::Unknown) => {
                format!("{other:?}")
            }
        }
    }

    #[test]
    fn a_quorum_supports_what_its_shortest_keeps() {
        assert_eq!(said(&["a9", "a5", "a7"]), "a for 7");
        assert_eq!(said(&["a9", "-", "a7"]), "a for 7");
        assert_eq!(said(&["a1", "a9", "b7", "a8", "a2"]), "a for 2");
        assert_eq!(said(&["a", "?", "a7"]), "a for 7");
        assert_eq!(said(&["b3", "a", "a"]), "a for ever");
        assert_eq!(said(&["a5"]), "a for 5");
    }

    #[test]
    fn an_even_number_needs_more_than_half() {
        assert_eq!(said(&["a5", "a5", "b5", "b5"]), "Split");
        assert_eq!(said(&["a5", "a5", "-", "-"]), "Split");
        assert_eq!(said(&["a5", "a5", "a4", "b5"]), "a for 4");
    }

    #[test]
    fn silent_nodes_may_have_any_token() {
        assert_eq!(said(&["a5", "?", "-"]), "Unknown");
        assert_eq!(said(&["?", "?", "-"]), "Unknown");
        assert_eq!(said(&["-", "?", "-"]), "Nobody");
        assert_eq!(said(&["a5", "a5", "?", "-", "-"]), "Unknown");
        assert_eq!(said(&["a5", "b5", "?", "-", "-"]), "Split");
    }

    #[test]
    fn what_is_no_token_belongs_to_nobody_and_is_in_the_way() {
        assert_eq!(said(&["!", "!", "-"]), "Split");
        assert_eq!(said(&["!", "-", "-"]), "Nobody");
        assert_eq!(said(&["a5", "b5", "-"]), "Split");
        assert_eq!(said(&["a5", "-", "-"]), "Nobody");
        assert_eq!(said(&["-", "-", "-"]), "Nobody");
    }
}
