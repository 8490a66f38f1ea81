//! The nodes of these tests.

use redis::Value;
use redlock_quorum::Builder;
use redlock_quorum::testkit::fleet::{Flavor, Fleet, Options, ServerKind};

use super::peer::Peer;
use crate::support::{builder, ms};

/// Three nodes, seen by the client and by whoever may do everything.
pub(super) struct Nodes {
    pub(super) users: Vec<String>,
    pub(super) admins: Vec<String>,
    prefix: &'static str,
    /// Somebody else's.
    pub(super) are_peers: bool,
    // Killed when they are dropped.
    _servers: Option<Fleet>,
    _peers: Vec<Peer>,
}

impl Nodes {
    /// Servers of this kind, and a user with all rights but these; `None` where there are none.
    pub(super) fn start(kind: ServerKind, without: &str) -> Option<Self> {
        let rights = format!("ACL SETUSER locker on >secret ~* &* +@all {without}");
        Self::with_user(kind, rights.trim_end(), "")
    }

    /// Servers of this kind, and the user that this line makes.
    pub(super) fn with_user(kind: ServerKind, line: &str, prefix: &'static str) -> Option<Self> {
        let Some(flavor) = Flavor::find(kind) else {
            eprintln!("skipped: no {kind:?}");
            return None;
        };
        let servers = Fleet::with(&flavor, 3, &Options::new()).unwrap();
        let admins = servers.urls();
        for admin in &admins {
            at(admin, &line.split(' ').collect::<Vec<_>>());
        }
        Some(Self {
            users: as_user(&admins),
            admins,
            prefix,
            are_peers: false,
            _servers: Some(servers),
            _peers: Vec::new(),
        })
    }

    pub(super) async fn peers() -> Self {
        let mut peers = Vec::new();
        for _ in 0..3 {
            peers.push(Peer::start().await);
        }
        let admins: Vec<_> = peers.iter().map(Peer::url).collect();
        Self {
            users: admins.clone(),
            admins,
            prefix: "",
            are_peers: true,
            _servers: None,
            _peers: peers,
        }
    }

    pub(super) fn builder(&self) -> Builder {
        builder(&self.users)
            .prefix(self.prefix)
            .max_ttl(ms(120_000))
    }

    pub(super) fn key(&self, resource: &str) -> String {
        format!("{}{resource}", self.prefix)
    }

    pub(super) fn at(&self, node: usize, words: &[&str]) -> Value {
        at(&self.admins[node], words)
    }

    /// Of all nodes.
    pub(super) fn each(&self, words: &[&str]) {
        for admin in &self.admins {
            at(admin, words);
        }
    }

    pub(super) fn get(&self, node: usize, resource: &str) -> Option<String> {
        redis::from_redis_value(self.at(node, &["GET", &self.key(resource)])).unwrap()
    }

    pub(super) fn ttl(&self, node: usize, resource: &str) -> i64 {
        redis::from_redis_value(self.at(node, &["PTTL", &self.key(resource)])).unwrap()
    }

    /// Is nothing left anywhere, but what the client keeps for itself?
    pub(super) fn are_empty(&self) -> bool {
        self.admins.iter().all(|admin| {
            let keys: Vec<String> = redis::from_redis_value(at(admin, &["KEYS", "*"])).unwrap();
            keys.iter().all(|key| key.starts_with("redlock-quorum:"))
        })
    }

    /// How often a node has carried this command out.
    pub(super) fn calls(&self, node: usize, command: &str) -> u64 {
        calls(&self.admins[node], command)
    }
}

/// The same servers for the user `locker`.
pub(super) fn as_user(admins: &[String]) -> Vec<String> {
    admins
        .iter()
        .map(|admin| admin.replace("redis://", "redis://locker:secret@"))
        .collect()
}

pub(super) fn at(url: &str, words: &[&str]) -> Value {
    let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
    redis::cmd(words[0])
        .arg(&words[1..])
        .query(&mut connection)
        .unwrap_or_else(|error| panic!("{words:?}: {error}"))
}

/// How often this command was carried out, and did not fail.
pub(super) fn calls(url: &str, command: &str) -> u64 {
    let stats: String = redis::from_redis_value(at(url, &["INFO", "commandstats"])).unwrap();
    let Some(line) = stats
        .lines()
        .find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:")))
    else {
        return 0;
    };
    let number = |field: &str| {
        line.split(',')
            .find_map(|pair| pair.strip_prefix(field)?.strip_prefix('='))
            .map_or(0, |number| number.trim().parse::<u64>().unwrap())
    };
    number("calls") - number("failed_calls")
}
