//! Ballots: the numbers that order the grants of one resource.
//!
//! A fenced attempt carries one number P. Beside the lock key each node keeps C, the largest ballot
//! it has accepted, and accepts P only if P > C: so what one node accepts only grows. Two quorums
//! share a node that has accepted both ballots: so those of two granted attempts differ, and are in
//! the order of the grants. P is the fencing token of the lock.
//!
//! [`rule`] is what a node does, as a function. The memory node uses it, and the scripts of real
//! nodes are tested against it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::hold::Command;

/// A number that orders the holders of one resource: whoever was granted it later has the larger
/// one.
///
/// A resource that remembers the largest token it has seen, and refuses writes with a smaller one,
/// is safe from a holder that writes after its lock has ended: see
/// [`docs::fencing`](crate::docs::fencing). Tokens of different resources have nothing to do with
/// each other, and their differences mean nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(u64);

impl FencingToken {
    /// The token as a number, less than 2^53: exact in JSON, and in SQL's `BIGINT`.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0
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

/// What stands at a lock's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Nobody,
    Us,
    Another,
}

/// What a node does about a fenced command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ruling {
    pub(crate) answer: Answer,
    pub(crate) lock: Change,
    /// What becomes of C, and that it is remembered anew.
    pub(crate) fence: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Yes,
    Held,
    Stale,
}

/// What becomes of the lock key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    None,
    Set {
        ttl: Duration,
    },
    /// Its ttl grows to this, if it is shorter.
    Renew {
        ttl: Duration,
    },
    Delete,
}

/// The node-side rule; `None`: the command carries no ballot. `fence` is C, 0 where there is none.
pub(crate) fn rule(command: Command, owner: Owner, fence: u64) -> Option<Ruling> {
    let no = |answer| Ruling {
        answer,
        lock: Change::None,
        fence: None,
    };
    let yes = |lock, fence| Ruling {
        answer: Answer::Yes,
        lock,
        fence: Some(fence),
    };
    let number = command.ballot()?.number();
    let higher = number.max(fence);
    Some(match (command, owner) {
        (Command::Acquire { .. }, Owner::Us) if number == fence => Ruling {
            fence: None,
            ..yes(Change::None, fence)
        },
        (Command::Acquire { .. }, Owner::Nobody | Owner::Us) if number <= fence => {
            no(Answer::Stale)
        }
        (Command::Acquire { ttl, .. }, Owner::Nobody | Owner::Us) => {
            yes(Change::Set { ttl }, number)
        }
        (Command::Extend { ttl, .. } | Command::Heal { ttl, .. }, Owner::Us) => {
            yes(Change::Renew { ttl }, higher)
        }
        (Command::Heal { .. }, Owner::Nobody) if number < fence => no(Answer::Stale),
        (Command::Heal { ttl, .. }, Owner::Nobody) => yes(Change::Set { ttl }, number),
        (Command::Acquire { .. } | Command::Heal { .. }, Owner::Another)
        | (Command::Extend { .. }, Owner::Nobody | Owner::Another) => no(Answer::Held),
        (Command::Tombstone { ballot }, owner) => {
            let (answer, lock) = match owner {
                Owner::Us => (Answer::Yes, Change::Delete),
                Owner::Nobody | Owner::Another => (Answer::Held, Change::None),
            };
            Ruling {
                answer,
                lock,
                fence: Some(ballot.tombstone().max(fence)),
            }
        }
        (Command::Release, _) => return None,
    })
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

    /// The ballot of a new attempt: the wall clock, or one more than the largest heard of.
    pub(crate) fn choose(&mut self, key: &str, wall_micros: u64, memory: Duration) -> Ballot {
        let number = wall_micros.max(self.last(key).saturating_add(1));
        let ballot = Ballot::new(number, memory);
        self.note(key, ballot.tombstone());
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

    const TTL: Duration = Duration::from_secs(10);
    const MEMORY: Duration = Duration::from_secs(600);

    const fn ballot(number: u64) -> Ballot {
        Ballot {
            number,
            memory: MEMORY,
        }
    }

    const fn acquire(number: u64) -> Command {
        Command::Acquire {
            ttl: TTL,
            ballot: Some(ballot(number)),
        }
    }

    const fn extend(number: u64) -> Command {
        Command::Extend {
            ttl: TTL,
            number: 1,
            ballot: Some(ballot(number)),
        }
    }

    const fn heal(number: u64) -> Command {
        Command::Heal {
            ttl: TTL,
            ballot: Some(ballot(number)),
        }
    }

    const fn tombstone(number: u64) -> Command {
        Command::Tombstone {
            ballot: ballot(number),
        }
    }

    #[test]
    fn the_rule_as_a_table() {
        use Answer::{Held, Stale, Yes};
        use Owner::{Another, Nobody, Us};
        const SET: Change = Change::Set { ttl: TTL };
        const RENEW: Change = Change::Renew { ttl: TTL };
        const NONE: Change = Change::None;
        let table = [
            // Accepted iff it is larger than C, and nobody else is there.
            (acquire(5), Nobody, 0, Yes, SET, Some(5)),
            (acquire(5), Nobody, 4, Yes, SET, Some(5)),
            (acquire(5), Nobody, 5, Stale, NONE, None),
            (acquire(5), Nobody, 6, Stale, NONE, None),
            (acquire(5), Another, 0, Held, NONE, None),
            (acquire(5), Another, 9, Held, NONE, None),
            // A key of our own is upgraded; the same ballot again is an idempotent yes.
            (acquire(5), Us, 4, Yes, SET, Some(5)),
            (acquire(5), Us, 5, Yes, NONE, None),
            (acquire(5), Us, 6, Stale, NONE, None),
            // An extension proves that the key has been there, and never sets it.
            (extend(5), Us, 5, Yes, RENEW, Some(5)),
            (extend(5), Us, 0, Yes, RENEW, Some(5)),
            (extend(5), Us, 7, Yes, RENEW, Some(7)),
            (extend(5), Nobody, 5, Held, NONE, None),
            (extend(5), Another, 6, Held, NONE, None),
            // A heal only where nothing larger was accepted since.
            (heal(5), Nobody, 0, Yes, SET, Some(5)),
            (heal(5), Nobody, 5, Yes, SET, Some(5)),
            (heal(5), Nobody, 6, Stale, NONE, None),
            (heal(5), Another, 5, Held, NONE, None),
            (heal(5), Us, 5, Yes, RENEW, Some(5)),
            // A tombstone counts whoever is there, and deletes our own key only.
            (tombstone(5), Us, 5, Yes, Change::Delete, Some(6)),
            (tombstone(5), Nobody, 0, Held, NONE, Some(6)),
            (tombstone(5), Another, 9, Held, NONE, Some(9)),
        ];
        for (command, owner, fence, answer, lock, after) in table {
            let expected = Ruling {
                answer,
                lock,
                fence: after,
            };
            let ruling = rule(command, owner, fence);
            assert_eq!(ruling, Some(expected), "{command:?} {owner:?} {fence}");
        }
        assert_eq!(rule(Command::Release, Us, 7), None);
        let plain = Command::Acquire {
            ttl: TTL,
            ballot: None,
        };
        assert_eq!(rule(plain, Nobody, 7), None);
    }

    #[test]
    fn a_ballot_is_the_wall_clock_or_one_more_than_was_heard_of() {
        let mut hints = Hints::default();
        let mut choose = |wall| hints.choose("a", wall, MEMORY).number();
        assert_eq!(choose(1000), 1000);
        assert_eq!(choose(2000), 2000);
        let behind = [choose(5), choose(5)];
        assert!(behind[0] > 2000 && behind[1] > behind[0], "{behind:?}");
        hints.note("a", 9000);
        hints.note("a", 8000);
        assert_eq!(hints.choose("a", 5, MEMORY).number(), 9001);
        assert_eq!(hints.choose("b", 5, MEMORY).number(), 5);
        assert_eq!(hints.choose("c", 0, MEMORY).number(), 1, "never zero");
    }

    #[test]
    fn numbers_stay_exact_in_doubles() {
        let mut hints = Hints::default();
        hints.note("a", u64::MAX);
        let largest = hints.choose("a", 5, MEMORY);
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
