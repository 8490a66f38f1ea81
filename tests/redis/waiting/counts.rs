//! What servers have been asked.

use std::collections::BTreeMap;

use redis::Value;
use redlock_quorum::testkit::fleet::{Fleet, Server};

use crate::support::{PATIENCE, ask};

/// How many commands of locks a server has executed: not those inside scripts, not those that look
/// at the marker.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts(BTreeMap<String, u64>);

/// A release or an extension in any form, and an acquire. An acquire that watches has three more,
/// which come together.
const LOCKS: [(&str, u64); 6] = [
    ("set", 1),
    ("evalsha", 1),
    ("eval", 1),
    ("delex", 1),
    ("delifeq", 1),
    ("client|caching", 3),
];

impl Counts {
    fn of(server: &Server) -> Self {
        let info = ask(server, &["INFO", "commandstats"]);
        let info: String = redis::from_redis_value(info).unwrap();
        let calls = |line: &str| {
            let (command, figures) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            let calls = figures.split(',').next()?.parse().ok()?;
            Some((command.to_owned(), calls))
        };
        Self(info.lines().filter_map(calls).collect())
    }

    pub(super) fn since(&self, earlier: &Self) -> Self {
        let calls = self.0.iter().map(|(command, calls)| {
            let before = earlier.0.get(command).copied().unwrap_or(0);
            (command.clone(), calls - before)
        });
        Self(calls.collect())
    }

    pub(super) fn commands(&self) -> u64 {
        LOCKS
            .iter()
            .map(|&(command, weight)| self.0.get(command).copied().unwrap_or(0) * weight)
            .sum()
    }
}

pub(super) fn counts(fleet: &Fleet) -> Vec<Counts> {
    fleet.iter().map(Counts::of).collect()
}

/// The acquires in a server's slow log, in the order in which they were executed.
pub(super) struct Sets(Vec<Set>);

struct Set {
    resource: String,
    token: String,
    client: String,
}

impl Sets {
    pub(super) fn of(server: &Server) -> Self {
        type Entry = (i64, i64, i64, Vec<String>, String, Value);
        // A long answer, for which a busy server needs more time than for others.
        let mut connection = server.connection().unwrap();
        connection.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut command = redis::cmd("SLOWLOG");
        let command = command.arg("GET").arg("-1");
        let entries: Vec<Entry> = command.query(&mut connection).unwrap();
        let sets = entries.into_iter().rev().filter_map(|entry| {
            let (_, _, _, words, client, _) = entry;
            match words.as_slice() {
                [set, resource, token, nx, ..] if set == "SET" && nx == "NX" => Some(Set {
                    resource: resource.clone(),
                    token: token.clone(),
                    client,
                }),
                _ => None,
            }
        });
        Self(sets.collect())
    }

    /// How many attempts at a resource a client made until the one with this token; `None`: this
    /// server was not asked for that one before its lock was released.
    pub(super) fn rounds(&self, resource: &str, token: &str) -> Option<usize> {
        let of_resource = || self.0.iter().filter(|set| set.resource == resource);
        let won = of_resource().position(|set| set.token == token)?;
        let client = of_resource().nth(won).map(|set| &set.client);
        let attempts = of_resource().take(won + 1);
        Some(attempts.filter(|set| Some(&set.client) == client).count())
    }
}
