//! Ballots: the numbers that order the grants of one resource.
//!
//! A fenced attempt carries one number P. Beside the lock key each node keeps C, the largest ballot
//! it has accepted, and accepts P only if P > C: so what one node accepts only grows. Two quorums
//! share a node that has accepted both ballots: so those of two granted attempts differ, and are in
//! the order of the grants. P is the fencing token of the lock.
//!
//! What a node does about a command with a ballot stands in `rule`.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// A number that orders the holders of one resource: whoever was granted it later has the larger
/// one.
///
/// A resource that remembers the largest token it has seen, and refuses writes with a smaller one,
/// is safe from a holder that writes after its lock has ended: see
/// [`docs::fencing`](crate::docs::fencing). Tokens of different resources have nothing to do with
/// each other, and their differences mean nothing.
///
/// With the feature `serde` it is serialised as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(transparent))]
pub struct FencingToken(u64);

impl FencingToken {
    /// The token as a number, less than 2^53: exact in JSON, and in SQL's `BIGINT`.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for FencingToken {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = u64::deserialize(deserializer)?;
        let is_token = (1..=LARGEST).contains(&number);
        let error = || serde::de::Error::custom(format_args!("{number} is no fencing token"));
        is_token.then_some(Self(number)).ok_or_else(error)
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Scripts count in doubles, which are exact up to 2^53; one is left for the tombstone.
const LARGEST: u64 = (1 << 53) - 2;

/// The shortest time for which a node remembers a ballot that is not used.
pub(crate) const SHORTEST_MEMORY: Duration = Duration::from_secs(600);

/// For how long nodes remember a ballot, where locks have this longest ttl.
pub(crate) fn memory(max_ttl: Duration) -> Duration {
    SHORTEST_MEMORY.max(max_ttl.saturating_mul(4))
}

/// The number of a fenced attempt, and for how long a node remembers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ballot {
    number: u64,
    memory: Duration,
}

impl Ballot {
    pub(crate) fn new(number: u64, memory: Duration) -> Self {
        Self {
            number: number.clamp(1, LARGEST),
            memory,
        }
    }

    pub(crate) const fn number(self) -> u64 {
        self.number
    }

    pub(crate) const fn memory(self) -> Duration {
        self.memory
    }

    pub(crate) const fn token(self) -> FencingToken {
        FencingToken(self.number)
    }

    /// One that a node which has accepted this one, or the largest heard of, accepts.
    pub(super) fn above(self, heard: u64) -> Self {
        Self::new(self.number.max(heard).saturating_add(1), self.memory)
    }

    /// What a tombstone makes of C, at least: after it nothing of this ballot is accepted.
    pub(crate) const fn tombstone(self) -> u64 {
        self.number.saturating_add(1)
    }
}

/// The largest ballots that a client has lately heard of, by lock key.
///
/// It may forget: a first guess that is too small costs a second round, and nothing else. Two
/// generations bound its memory.
#[derive(Debug, Default)]
pub(crate) struct Hints {
    young: BTreeMap<Box<str>, u64>,
    old: BTreeMap<Box<str>, u64>,
}

/// So many keys are in one generation.
const GENERATION: usize = 4096;

impl Hints {
    /// A node, or an attempt of this client, has this ballot.
    pub(crate) fn note(&mut self, key: &str, number: u64) {
        if let Some(known) = self.young.get_mut(key) {
            *known = number.max(*known);
            return;
        }
        if self.young.len() >= GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
        let number = number.max(self.last(key));
        self.young.insert(key.into(), number);
    }

    /// So has this one, for each of these keys.
    pub(crate) fn note_all(&mut self, keys: &[impl AsRef<str>], number: u64) {
        for key in keys {
            self.note(key.as_ref(), number);
        }
    }

    /// The ballot of a new attempt at all of these keys: the wall clock, or one more than the
    /// largest heard of for any.
    pub(crate) fn choose(
        &mut self,
        keys: &[impl AsRef<str>],
        wall_micros: u64,
        memory: Duration,
    ) -> Ballot {
        let last = keys
            .iter()
            .map(|key| self.last(key.as_ref()))
            .max()
            .unwrap_or(0);
        let ballot = Ballot::new(wall_micros.max(last.saturating_add(1)), memory);
        self.note_all(keys, ballot.tombstone());
        ballot
    }

    fn last(&self, key: &str) -> u64 {
        let known = self.young.get(key).or_else(|| self.old.get(key));
        known.copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: Duration = Duration::from_secs(600);

    #[test]
    fn a_ballot_is_the_wall_clock_or_one_more_than_was_heard_of() {
        let mut hints = Hints::default();
        let mut choose = |wall| hints.choose(&["a"], wall, MEMORY).number();
        assert_eq!(choose(1000), 1000);
        assert_eq!(choose(2000), 2000);
        let behind = [choose(5), choose(5)];
        assert!(behind[0] > 2000 && behind[1] > behind[0], "{behind:?}");
        hints.note("a", 9000);
        hints.note("a", 8000);
        assert_eq!(hints.choose(&["a"], 5, MEMORY).number(), 9001);
        assert_eq!(hints.choose(&["b"], 5, MEMORY).number(), 5);
        assert_eq!(hints.choose(&["c"], 0, MEMORY).number(), 1, "never zero");
    }

    #[test]
    fn a_set_has_one_ballot_above_all_that_was_heard_of_its_keys() {
        let mut hints = Hints::default();
        hints.note("a", 70);
        hints.note("b", 90);
        let set = ["a", "b"];
        let first = hints.choose(&set, 5, MEMORY).number();
        assert_eq!(first, 91);
        assert!(hints.choose(&["a"], 5, MEMORY).number() > first);
        hints.note_all(&set, 500);
        assert_eq!(hints.choose(&["b"], 5, MEMORY).number(), 501);
    }

    #[test]
    fn numbers_stay_exact_in_doubles() {
        let mut hints = Hints::default();
        hints.note("a", u64::MAX);
        let largest = hints.choose(&["a"], 5, MEMORY);
        assert_eq!(largest.tombstone(), (1 << 53) - 1);
        assert_eq!(largest.above(u64::MAX), largest);
    }

    #[test]
    fn hints_are_bounded_and_the_used_ones_stay() {
        let mut hints = Hints::default();
        for other in 0..20_000 {
            hints.note("used", 7);
            hints.note(&other.to_string(), 1);
            assert!(hints.young.len() <= GENERATION && hints.old.len() <= GENERATION);
        }
        assert_eq!(hints.last("used"), 7);
        assert_eq!((hints.last("19999"), hints.last("0")), (1, 0));
    }

    #[test]
    fn nodes_remember_long_enough() {
        assert_eq!(memory(Duration::from_secs(60)), Duration::from_secs(600));
        assert_eq!(memory(Duration::from_secs(900)), Duration::from_secs(3600));
    }
}
