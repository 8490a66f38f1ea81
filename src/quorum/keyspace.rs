//! What an independent master does with the commands of locks: the node-side rule, as a function.

use std::collections::BTreeMap;
use std::time::Duration;

use super::hold::Command;
use super::majority::{Key, Seen};
use super::own_keys::fence_key;
use super::validity::Moment;
use super::vote::Vote;

mod locks;
mod watches;

pub(crate) use self::watches::Watcher;
use self::watches::Watches;

/// Somebody else's key is there, or none: a bare reply tells no more.
const NOT_OURS: Vote = Vote::Held {
    ttl: None,
    fence: None,
};

/// The keys of one server. Every call carries the server's own time.
///
/// A key lives exactly as long as its ttl. A real server keeps it up to a millisecond longer, so
/// what is safe here is safe there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keyspace {
    entries: BTreeMap<Box<str>, Entry>,
    watches: Watches,
}

#[derive(Clone, Debug)]
struct Entry {
    value: Box<str>,
    expires_at: Option<Moment>,
}

impl Keyspace {
    /// Carries out one command of a lock, of one key or of a set, and votes.
    pub(crate) fn apply<K: AsRef<str>>(
        &mut self,
        command: Command,
        keys: &[K],
        token: &str,
        now: Moment,
    ) -> Vote {
        if command.ballot().is_some() {
            return self.apply_fenced(command, keys, token, now);
        }
        match keys {
            [key] => self.apply_plain(command, key.as_ref(), token, now),
            _ => self.apply_to_set(command, keys, token, now),
        }
    }

    fn apply_plain(&mut self, command: Command, key: &str, token: &str, now: Moment) -> Vote {
        let entry = self.living(key, now);
        let is_ours = entry.as_ref().is_some_and(|entry| &*entry.value == token);
        match (command, entry) {
            (Command::Acquire { ttl, .. } | Command::Heal { ttl, .. }, None) => {
                self.set(key, token, Some(ttl), now);
                Vote::Granted
            }
            (Command::Extend { ttl, .. }, None) if bug!(ExtensionRecreates) => {
                self.set(key, token, Some(ttl), now);
                Vote::Granted
            }
            (Command::Extend { ttl, .. }, Some(_)) if is_ours => {
                self.lengthen(key, ttl, now);
                Vote::Granted
            }
            (Command::Release | Command::Tombstone { .. }, Some(_))
                if is_ours || bug!(ReleaseIgnoresToken) =>
            {
                self.delete(key);
                Vote::Granted
            }
            (
                Command::Acquire { .. }
                | Command::Extend { .. }
                | Command::Heal { .. }
                | Command::Release
                | Command::Tombstone { .. },
                _,
            ) => NOT_OURS,
        }
    }

    pub(crate) fn get(&mut self, key: &str, now: Moment) -> Option<&str> {
        self.living(key, now).map(|entry| &*entry.value)
    }

    /// What the node has of a lock.
    pub(crate) fn look(&mut self, key: &str, now: Moment) -> Seen {
        let fence = self.get(&fence_key(key), now);
        let fence = fence.and_then(|text| text.parse().ok());
        let key = self.living(key, now).map(|entry| Key {
            token: Some(entry.value.clone()),
            ttl: entry.expires_at.map(|at| at.since(now)),
        });
        Seen { key, fence }
    }

    /// How long the key still lives; `None` if it is not there or has no ttl.
    pub(crate) fn ttl(&mut self, key: &str, now: Moment) -> Option<Duration> {
        self.living(key, now)?.expires_at.map(|at| at.since(now))
    }

    /// Sets the key, whatever was there.
    pub(crate) fn set(&mut self, key: &str, value: &str, ttl: Option<Duration>, now: Moment) {
        let expires_at = ttl.map(|ttl| now.after(ttl));
        self.watches.touch(key);
        self.entries.insert(
            key.into(),
            Entry {
                value: value.into(),
                expires_at,
            },
        );
    }

    pub(crate) fn delete(&mut self, key: &str) {
        if self.entries.remove(key).is_some() {
            self.watches.touch(key);
        }
    }

    /// Nobody watches anything any more.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.watches = Watches::default();
    }

    pub(crate) fn keys(&mut self, now: Moment) -> impl Iterator<Item = &str> {
        self.entries.retain(|key, entry| {
            let is_over = entry.is_expired(now);
            if is_over {
                self.watches.touch(key);
            }
            !is_over
        });
        self.entries.keys().map(|key| &**key)
    }

    /// The key's entry, unless it has expired: then it goes, and does not return if the server's
    /// clock is set back.
    fn living(&mut self, key: &str, now: Moment) -> Option<&mut Entry> {
        if self
            .entries
            .get(key)
            .is_some_and(|entry| entry.is_expired(now))
        {
            self.delete(key);
        }
        self.entries.get_mut(key)
    }

    /// Never shortens: an earlier promise of validity must stand.
    fn lengthen(&mut self, key: &str, ttl: Duration, now: Moment) {
        let until = now.after(ttl);
        if let Some(entry) = self.living(key, now)
            && entry.expires_at.is_none_or(|at| at < until)
        {
            entry.expires_at = Some(until);
            self.watches.touch(key);
        }
    }
}

impl Entry {
    fn is_expired(&self, now: Moment) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_millis(100);
    const ACQUIRE: Command = Command::Acquire {
        ttl: TTL,
        ballot: None,
    };
    const RELEASE: Command = Command::Release;

    const fn extend(millis: u64) -> Command {
        Command::Extend {
            ttl: Duration::from_millis(millis),
            number: 1,
            ballot: None,
        }
    }

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(millis.saturating_mul(1_000_000))
    }

    #[test]
    fn one_token_at_a_time() {
        let mut keys = Keyspace::default();
        assert_eq!(keys.apply(ACQUIRE, &["k"], "a", at(0)), Vote::Granted);
        assert_eq!(keys.apply(ACQUIRE, &["k"], "b", at(99)), NOT_OURS);
        assert_eq!(
            keys.apply(ACQUIRE, &["k"], "a", at(99)),
            NOT_OURS,
            "NX knows no owner"
        );
        assert_eq!(keys.apply(ACQUIRE, &["other"], "b", at(99)), Vote::Granted);
        assert_eq!(
            keys.apply(ACQUIRE, &["k"], "b", at(100)),
            Vote::Granted,
            "it has expired"
        );
        assert_eq!(keys.get("k", at(100)), Some("b"));
    }

    #[test]
    fn a_release_removes_its_own_token_only() {
        let mut keys = Keyspace::default();
        assert_eq!(keys.apply(RELEASE, &["k"], "a", at(0)), NOT_OURS);
        keys.apply(ACQUIRE, &["k"], "a", at(0));
        assert_eq!(keys.apply(RELEASE, &["k"], "b", at(1)), NOT_OURS);
        assert_eq!(keys.apply(RELEASE, &["k"], "a", at(1)), Vote::Granted);
        assert_eq!(keys.keys(at(1)).count(), 0);
    }

    #[test]
    fn an_extension_never_shortens_and_never_creates() {
        let mut keys = Keyspace::default();
        assert_eq!(keys.apply(extend(50), &["k"], "a", at(0)), NOT_OURS);
        keys.apply(ACQUIRE, &["k"], "a", at(0));
        assert_eq!(keys.apply(extend(50), &["k"], "a", at(10)), Vote::Granted);
        assert_eq!(keys.ttl("k", at(10)), Some(Duration::from_millis(90)));
        assert_eq!(keys.apply(extend(100), &["k"], "a", at(60)), Vote::Granted);
        assert_eq!(keys.ttl("k", at(60)), Some(TTL));
        assert_eq!(keys.apply(extend(100), &["k"], "b", at(60)), NOT_OURS);
        assert_eq!(
            keys.apply(extend(100), &["k"], "a", at(160)),
            NOT_OURS,
            "it has expired"
        );
    }

    #[test]
    fn what_has_expired_does_not_return_with_an_earlier_clock() {
        let mut keys = Keyspace::default();
        keys.apply(ACQUIRE, &["k"], "a", at(0));
        keys.set("forever", "x", None, at(0));
        assert_eq!(keys.keys(at(100)).collect::<Vec<_>>(), ["forever"]);
        assert_eq!(keys.get("k", at(0)), None);
    }
}
