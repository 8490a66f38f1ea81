//! Who is to be told of a key's next change.

use std::collections::{BTreeMap, BTreeSet};

use super::Keyspace;
use crate::quorum::validity::Moment;

/// A connection, by whatever number its server gives it.
pub(crate) type Watcher = u64;

#[derive(Clone, Debug, Default)]
pub(super) struct Watches {
    keys: BTreeMap<Box<str>, BTreeSet<Watcher>>,
    /// What changed, in this order, and who had watched it.
    touched: Vec<(Box<str>, BTreeSet<Watcher>)>,
}

impl Watches {
    /// The key has changed: it is watched no more.
    pub(super) fn touch(&mut self, key: &str) {
        self.touched.extend(self.keys.remove_entry(key));
    }
}

impl Keyspace {
    /// Reads a key, there or not, and watches it. What has expired is a change, but only once
    /// somebody comes across it.
    pub(crate) fn watch(&mut self, key: &str, watcher: Watcher, now: Moment) {
        self.living(key, now);
        self.watches
            .keys
            .entry(key.into())
            .or_default()
            .insert(watcher);
    }

    /// A connection has ended.
    pub(crate) fn watch_no_more(&mut self, watcher: Watcher) {
        self.watches.keys.retain(|_, watchers| {
            watchers.remove(&watcher);
            !watchers.is_empty()
        });
    }

    /// The watched keys that have changed since the last call, in that order, with those who had
    /// watched them.
    pub(crate) fn take_touched(&mut self) -> Vec<(Box<str>, BTreeSet<Watcher>)> {
        std::mem::take(&mut self.watches.touched)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::quorum::hold::Command;

    const TTL: Duration = Duration::from_millis(100);

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(millis.saturating_mul(1_000_000))
    }

    fn extend(millis: u64) -> Command {
        Command::Extend {
            ttl: Duration::from_millis(millis),
            number: 1,
            ballot: None,
        }
    }

    /// A key with this ttl that two connections watch.
    fn watched() -> Keyspace {
        let mut keys = Keyspace::default();
        keys.set("k", "a", Some(TTL), at(0));
        for watcher in [2, 1, 2] {
            keys.watch("k", watcher, at(0));
        }
        assert_eq!(keys.take_touched(), []);
        keys
    }

    fn told(keys: &mut Keyspace) -> Vec<(String, Vec<Watcher>)> {
        let touched = keys.take_touched().into_iter();
        touched
            .map(|(key, watchers)| (key.into(), watchers.into_iter().collect()))
            .collect()
    }

    #[test]
    fn every_change_ends_the_watch() {
        type Change = fn(&mut Keyspace);
        let changes: [(&str, Change); 6] = [
            ("set", |keys| keys.set("k", "b", None, at(1))),
            ("deleted", |keys| keys.delete("k")),
            ("released", |keys| {
                keys.apply(Command::Release, &["k"], "a", at(1));
            }),
            ("extended", |keys| {
                keys.apply(extend(200), &["k"], "a", at(1));
            }),
            ("expired, and read", |keys| {
                keys.get("k", at(100));
            }),
            ("expired, and listed", |keys| {
                keys.keys(at(100)).for_each(drop);
            }),
        ];
        for (what, change) in changes {
            let mut keys = watched();
            change(&mut keys);
            assert_eq!(told(&mut keys), [("k".into(), vec![1, 2])], "{what}");
            keys.set("k", "c", None, at(101));
            assert_eq!(told(&mut keys), [], "{what}: once");
        }
    }

    #[test]
    fn what_changes_nothing_is_no_change() {
        let mut keys = watched();
        keys.apply(Command::Release, &["k"], "b", at(1));
        keys.apply(extend(99), &["k"], "a", at(1));
        keys.set("other", "b", None, at(1));
        keys.delete("missing");
        keys.get("k", at(99));
        assert_eq!(told(&mut keys), []);
        // A flush is told in its own way.
        keys.clear();
        keys.set("k", "b", None, at(1));
        assert_eq!(told(&mut keys), []);
    }

    #[test]
    fn a_missing_key_can_be_watched_and_an_ended_connection_watches_nothing() {
        let mut keys = watched();
        keys.watch("missing", 1, at(0));
        keys.watch_no_more(2);
        keys.set("missing", "b", None, at(0));
        keys.delete("k");
        let told = told(&mut keys);
        assert_eq!(told, [("missing".into(), vec![1]), ("k".into(), vec![1])]);
    }
}
