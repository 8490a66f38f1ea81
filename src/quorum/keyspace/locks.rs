//! All keys of a lock at once: those of a set, and a lock with its fence.
//!
//! At one node a set has all of its keys or none: what finds some of them missing, and does not set
//! them, deletes the others.

use std::time::Duration;

use super::super::hold::Command;
use super::super::own_keys::fence_key;
use super::super::rule::{self, Answer, Change, Owner, Ruling};
use super::super::validity::Moment;
use super::super::vote::Vote;
use super::super::waiting::InWay;
use super::{Keyspace, NOT_OURS};

/// What stands at the keys of a lock.
struct Found<'a> {
    ours: Vec<&'a str>,
    free: Vec<&'a str>,
    /// How long each of the others still lives; `None`: it does not expire.
    others: Vec<Option<Duration>>,
}

impl Found<'_> {
    fn owner(&self) -> Owner {
        if !self.others.is_empty() {
            Owner::Another
        } else if self.free.is_empty() {
            Owner::Us
        } else {
            Owner::Nobody
        }
    }

    /// When the others will be gone, if they will.
    fn longest(&self) -> Option<Duration> {
        let others: Option<Vec<Duration>> = self.others.iter().copied().collect();
        others?.into_iter().max()
    }
}

impl Keyspace {
    /// Carries out a command for several keys, without a ballot.
    pub(super) fn apply_to_set<K: AsRef<str>>(
        &mut self,
        command: Command,
        keys: &[K],
        token: &str,
        now: Moment,
    ) -> Vote {
        let found = self.find(keys, token, now);
        match (command, found.owner()) {
            (
                Command::Acquire { ttl, .. } | Command::Heal { ttl, .. },
                Owner::Nobody | Owner::Us,
            )
            | (Command::Extend { ttl, .. }, Owner::Us) => {
                self.complete(&found, token, ttl, now);
                Vote::Granted
            }
            (Command::Acquire { ttl, .. }, Owner::Another)
                if bug!(HalfASet) && !found.free.is_empty() =>
            {
                self.complete(&found, token, ttl, now);
                Vote::Granted
            }
            (Command::Acquire { .. } | Command::Heal { .. }, Owner::Another) => {
                self.delete_all(&found.ours);
                Vote::Held {
                    ttl: found.longest(),
                    fence: None,
                }
            }
            (Command::Extend { .. }, Owner::Nobody | Owner::Another) => {
                self.delete_all(&found.ours);
                NOT_OURS
            }
            (Command::Release | Command::Tombstone { .. }, _) => {
                self.delete_all(&found.ours);
                if found.ours.is_empty() {
                    NOT_OURS
                } else {
                    Vote::Granted
                }
            }
        }
    }

    /// Carries out a command with a ballot, for one key or several.
    pub(super) fn apply_fenced<K: AsRef<str>>(
        &mut self,
        command: Command,
        keys: &[K],
        token: &str,
        now: Moment,
    ) -> Vote {
        let found = self.find(keys, token, now);
        let is_ours = !found.ours.is_empty();
        let owner = if command.is_release() && is_ours {
            Owner::Us
        } else {
            found.owner()
        };
        let fences: Vec<(String, Option<u64>)> = keys
            .iter()
            .map(|key| fence_key(key.as_ref()))
            .map(|key| {
                let fence = self.get(&key, now).and_then(|text| text.parse().ok());
                (key, fence)
            })
            .collect();
        let fence = fences.iter().filter_map(|&(_, fence)| fence).max();
        let Some(Ruling {
            answer,
            lock,
            fence: accepted,
        }) = rule::rule(command, owner, fence.unwrap_or(0))
        else {
            return NOT_OURS;
        };
        match lock {
            Change::Set { ttl } if matches!(command, Command::Acquire { .. }) => {
                for key in keys {
                    self.set(key.as_ref(), token, Some(ttl), now);
                }
            }
            Change::Set { ttl } | Change::Renew { ttl } => self.complete(&found, token, ttl, now),
            Change::Delete => self.delete_all(&found.ours),
            Change::None if owner != Owner::Us => self.delete_all(&found.ours),
            Change::None => {}
        }
        if let (Some(_), Some(ballot)) = (accepted, command.ballot()) {
            for (key, fence) in fences {
                let ruling = rule::rule(command, owner, fence.unwrap_or(0));
                if let Some(number) = ruling.and_then(|ruling| ruling.fence) {
                    self.set(&key, &number.to_string(), Some(ballot.memory()), now);
                }
            }
        }
        match answer {
            Answer::Yes => Vote::Granted,
            Answer::Held if command.is_release() => NOT_OURS,
            Answer::Held => Vote::Held {
                ttl: found.longest(),
                fence,
            },
            Answer::Stale => Vote::Stale {
                fence: fence.unwrap_or(0),
            },
        }
    }

    /// Which of the keys are somebody else's.
    pub(crate) fn in_way<K: AsRef<str>>(
        &mut self,
        keys: &[K],
        token: &str,
        now: Moment,
    ) -> Vec<InWay> {
        let mut in_way = Vec::new();
        for (place, key) in (0..).zip(keys) {
            let value = self.get(key.as_ref(), now);
            if value.is_some_and(|value| value != token) {
                let ttl = self.ttl(key.as_ref(), now);
                in_way.push(InWay { place, ttl });
            }
        }
        in_way
    }

    fn find<'a, K: AsRef<str>>(&mut self, keys: &'a [K], token: &str, now: Moment) -> Found<'a> {
        let mut found = Found {
            ours: Vec::new(),
            free: Vec::new(),
            others: Vec::new(),
        };
        for key in keys {
            let key = key.as_ref();
            match self.get(key, now) {
                None => found.free.push(key),
                Some(value) if value == token => found.ours.push(key),
                Some(_) => found.others.push(self.ttl(key, now)),
            }
        }
        found
    }

    /// Sets what is free, and sees to it that what is ours lasts as long.
    fn complete(&mut self, found: &Found<'_>, token: &str, ttl: Duration, now: Moment) {
        for key in &found.ours {
            self.lengthen(key, ttl, now);
        }
        for key in &found.free {
            self.set(key, token, Some(ttl), now);
        }
    }

    fn delete_all(&mut self, keys: &[&str]) {
        for key in keys {
            self.delete(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::ballot::Ballot;
    use super::*;

    const TTL: Duration = Duration::from_millis(100);
    const SET: [&str; 2] = ["x", "y"];

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(millis.saturating_mul(1_000_000))
    }

    fn ballot(number: u64) -> Option<Ballot> {
        Some(Ballot::new(number, Duration::from_secs(600)))
    }

    const fn acquire(ballot: Option<Ballot>) -> Command {
        Command::Acquire { ttl: TTL, ballot }
    }

    const fn extend(millis: u64, ballot: Option<Ballot>) -> Command {
        Command::Extend {
            ttl: Duration::from_millis(millis),
            number: 1,
            ballot,
        }
    }

    const fn heal(ballot: Option<Ballot>) -> Command {
        Command::Heal { ttl: TTL, ballot }
    }

    fn locks(keys: &mut Keyspace, now: Moment) -> Vec<String> {
        let locks = keys.keys(now).filter(|key| !key.contains(':'));
        locks.map(String::from).collect()
    }

    #[test]
    fn a_set_is_granted_whole_or_not_at_all() {
        for ballot in [None, ballot(5)] {
            let mut keys = Keyspace::default();
            keys.set("y", "other", Some(TTL), at(0));
            let held = keys.apply(acquire(ballot), &SET, "a", at(40));
            let ttl = Some(Duration::from_millis(60));
            assert_eq!(held, Vote::Held { ttl, fence: None });
            assert_eq!(locks(&mut keys, at(40)), ["y"]);
            assert_eq!(
                keys.apply(acquire(ballot), &SET, "a", at(100)),
                Vote::Granted
            );
            assert_eq!(locks(&mut keys, at(100)), SET);
            let single = keys.apply(acquire(None), &["x"], "b", at(100));
            assert_eq!(single, NOT_OURS);
        }
    }

    #[test]
    fn the_longest_of_the_others_counts_and_one_that_does_not_expire_most() {
        let mut keys = Keyspace::default();
        keys.set("x", "b", Some(TTL * 3), at(0));
        keys.set("y", "c", Some(TTL * 2), at(0));
        let held = |ttl| Vote::Held { ttl, fence: None };
        let vote = keys.apply(acquire(None), &SET, "a", at(0));
        assert_eq!(vote, held(Some(TTL * 3)));
        keys.set("y", "c", None, at(0));
        assert_eq!(keys.apply(acquire(None), &SET, "a", at(0)), held(None));
    }

    #[test]
    fn a_set_that_is_broken_at_a_node_goes_with_its_next_extension_and_heals() {
        for ballot in [None, ballot(5)] {
            let mut keys = Keyspace::default();
            keys.apply(acquire(ballot), &SET, "a", at(0));
            assert_eq!(
                keys.apply(extend(200, ballot), &SET, "a", at(0)),
                Vote::Granted
            );
            for key in SET {
                assert_eq!(keys.ttl(key, at(0)), Some(TTL * 2));
            }
            keys.delete("x");
            let vote = keys.apply(extend(200, ballot), &SET, "a", at(10));
            assert!(matches!(vote, Vote::Held { ttl: None, .. }), "{vote}");
            assert_eq!(locks(&mut keys, at(10)), [""; 0], "nothing is left");
            assert_eq!(keys.apply(heal(ballot), &SET, "a", at(10)), Vote::Granted);
            assert_eq!(locks(&mut keys, at(10)), SET);
            // Where somebody else has come, it does not heal.
            keys.set("y", "other", None, at(10));
            let vote = keys.apply(heal(ballot), &SET, "a", at(10));
            assert!(matches!(vote, Vote::Held { .. }), "{vote}");
            assert_eq!(locks(&mut keys, at(10)), ["y"]);
        }
    }

    #[test]
    fn a_straggling_acquire_does_not_shorten_what_was_promised_since() {
        let mut keys = Keyspace::default();
        keys.apply(heal(None), &SET, "a", at(0));
        keys.apply(extend(500, None), &SET, "a", at(0));
        assert_eq!(keys.apply(acquire(None), &SET, "a", at(1)), Vote::Granted);
        for key in SET {
            assert_eq!(keys.ttl(key, at(1)), Some(Duration::from_millis(499)));
        }
    }

    #[test]
    fn a_release_deletes_what_is_ours_of_a_set_and_nothing_else() {
        for release in [
            Command::Release,
            Command::Tombstone {
                ballot: Ballot::new(5, TTL * 100),
            },
        ] {
            let mut keys = Keyspace::default();
            keys.set("x", "a", None, at(0));
            keys.set("y", "other", None, at(0));
            assert_eq!(keys.apply(release, &SET, "a", at(0)), Vote::Granted);
            assert_eq!(keys.apply(release, &SET, "a", at(0)), NOT_OURS);
            assert_eq!(locks(&mut keys, at(0)), ["y"]);
        }
    }

    #[test]
    fn one_ballot_is_above_those_of_all_keys_and_counts_for_each() {
        let mut keys = Keyspace::default();
        let release = Command::Release;
        for (key, number) in [("x", 7), ("y", 9)] {
            keys.apply(acquire(ballot(number)), &[key], "b", at(0));
            keys.apply(release, &[key], "b", at(0));
        }
        let mut set = |number| keys.apply(acquire(ballot(number)), &SET, "a", at(0));
        assert_eq!(set(8), Vote::Stale { fence: 9 });
        assert_eq!(set(9), Vote::Stale { fence: 9 });
        assert_eq!(set(10), Vote::Granted);
        assert_eq!(set(10), Vote::Granted, "idempotent");
        keys.apply(release, &SET, "a", at(0));
        for key in SET {
            let vote = keys.apply(acquire(ballot(10)), &[key], "b", at(0));
            assert_eq!(vote, Vote::Stale { fence: 10 });
        }
    }

    #[test]
    fn a_tombstone_stands_at_every_key_of_its_set() {
        let mut keys = Keyspace::default();
        let tombstone = Command::Tombstone {
            ballot: Ballot::new(5, TTL * 100),
        };
        keys.apply(tombstone, &SET, "a", at(0));
        for command in [acquire(ballot(5)), heal(ballot(5))] {
            for lock in [&SET[..], &["x"], &["y"]] {
                let vote = keys.apply(command, lock, "a", at(0));
                assert_eq!(vote, Vote::Stale { fence: 6 }, "{command:?} {lock:?}");
            }
        }
    }
}
