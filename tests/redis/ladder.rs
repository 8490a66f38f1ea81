//! Release and extension in every form, on servers and for users that know or allow one of them.

mod acl;
mod conforms;
mod peer;
mod race;
mod relay;
mod replaced;
mod shortening;

use redis::Value;
use redlock_quorum::testkit::fleet::{Flavor, Fleet, Options, ServerKind};
use redlock_quorum::{Builder, ExtendError, Refusal, ReleaseError, Vote};

use crate::ladder::conforms::{Form, conforms};
use crate::ladder::peer::Peer;
use crate::support::{acquire_everywhere, builder, ms, run, vote, warm_up};

/// Three nodes, seen by the client and by whoever may do everything.
struct Nodes {
    users: Vec<String>,
    admins: Vec<String>,
    prefix: &'static str,
    /// Somebody else's.
    are_peers: bool,
    // Killed when they are dropped.
    _servers: Option<Fleet>,
    _peers: Vec<Peer>,
}

impl Nodes {
    /// Servers of this kind, and a user with all rights but these; `None` where there are none.
    fn start(kind: ServerKind, without: &str) -> Option<Self> {
        let rights = format!("ACL SETUSER locker on >secret ~* &* +@all {without}");
        Self::with_user(kind, rights.trim_end(), "")
    }

    /// Servers of this kind, and the user that this line makes.
    fn with_user(kind: ServerKind, line: &str, prefix: &'static str) -> Option<Self> {
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

    async fn peers() -> Self {
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

    fn builder(&self) -> Builder {
        builder(&self.users)
            .prefix(self.prefix)
            .max_ttl(ms(120_000))
    }

    fn key(&self, resource: &str) -> String {
        format!("{}{resource}", self.prefix)
    }

    fn at(&self, node: usize, words: &[&str]) -> Value {
        at(&self.admins[node], words)
    }

    /// Of all nodes.
    fn each(&self, words: &[&str]) {
        for admin in &self.admins {
            at(admin, words);
        }
    }

    fn get(&self, node: usize, resource: &str) -> Option<String> {
        redis::from_redis_value(self.at(node, &["GET", &self.key(resource)])).unwrap()
    }

    fn ttl(&self, node: usize, resource: &str) -> i64 {
        redis::from_redis_value(self.at(node, &["PTTL", &self.key(resource)])).unwrap()
    }

    /// Is nothing left anywhere, but what the client keeps for itself?
    fn are_empty(&self) -> bool {
        self.admins.iter().all(|admin| {
            let keys: Vec<String> = redis::from_redis_value(at(admin, &["KEYS", "*"])).unwrap();
            keys.iter().all(|key| key.starts_with("redlock-quorum:"))
        })
    }

    /// How often a node has carried this command out.
    fn calls(&self, node: usize, command: &str) -> u64 {
        calls(&self.admins[node], command)
    }
}

/// The same servers for the user `locker`.
fn as_user(admins: &[String]) -> Vec<String> {
    admins
        .iter()
        .map(|admin| admin.replace("redis://", "redis://locker:secret@"))
        .collect()
}

fn at(url: &str, words: &[&str]) -> Value {
    let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
    redis::cmd(words[0])
        .arg(&words[1..])
        .query(&mut connection)
        .unwrap_or_else(|error| panic!("{words:?}: {error}"))
}

/// How often this command was carried out, and did not fail.
fn calls(url: &str, command: &str) -> u64 {
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

fn on(kind: ServerKind, without: &str, release: Form, extension: Form) {
    run(async {
        if let Some(nodes) = Nodes::start(kind, without) {
            conforms(&nodes, release, extension).await;
        }
    });
}

#[test]
fn scripts_on_redis_7() {
    on(ServerKind::Redis, "", Form::Script, Form::Script);
    on(ServerKind::Redis, "-@dangerous", Form::Script, Form::Script);
}

#[test]
fn scripts_on_valkey_8() {
    on(ServerKind::Valkey, "", Form::Script, Form::Script);
}

#[test]
fn native_forms_on_valkey_9() {
    on(ServerKind::Valkey9, "", Form::DelIfEq, Form::SetIfEq);
}

#[test]
fn native_forms_on_valkey_9_without_scripts() {
    on(
        ServerKind::Valkey9,
        "-@scripting",
        Form::DelIfEq,
        Form::SetIfEq,
    );
}

#[test]
fn an_extension_that_might_shorten_is_not_used_without_client_kill() {
    on(
        ServerKind::Valkey9,
        "-@dangerous",
        Form::DelIfEq,
        Form::Script,
    );
    on(
        ServerKind::Valkey9,
        "-client|kill",
        Form::DelIfEq,
        Form::Script,
    );
}

#[test]
fn a_form_of_each_kind_on_one_connection() {
    let neither = "-@scripting -@dangerous";
    on(
        ServerKind::Valkey9,
        neither,
        Form::DelIfEq,
        Form::Transaction,
    );
    let no_release = "-@scripting -delifeq";
    on(
        ServerKind::Valkey9,
        no_release,
        Form::Transaction,
        Form::SetIfEq,
    );
}

#[test]
fn a_denied_native_form_leads_to_scripts() {
    on(ServerKind::Valkey9, "-delifeq", Form::Script, Form::SetIfEq);
}

#[test]
fn transactions_on_redis_7_without_scripts() {
    on(
        ServerKind::Redis,
        "-@scripting",
        Form::Transaction,
        Form::Transaction,
    );
    let neither = "-@scripting -@dangerous";
    on(
        ServerKind::Redis,
        neither,
        Form::Transaction,
        Form::Transaction,
    );
    // A transaction is left also where these are denied.
    let none = "-@scripting -unwatch -discard";
    on(
        ServerKind::Redis,
        none,
        Form::Transaction,
        Form::Transaction,
    );
}

#[test]
fn transactions_on_valkey_8_without_scripts() {
    on(
        ServerKind::Valkey,
        "-@scripting",
        Form::Transaction,
        Form::Transaction,
    );
}

/// No server of that version is at hand: the peer knows its commands and replies.
#[test]
fn native_forms_of_redis_8_4_at_a_scripted_peer() {
    run(async {
        let nodes = Nodes::peers().await;
        conforms(&nodes, Form::DelEx, Form::SetIfEq).await;
    });
}

/// What the nodes say to extension and release, if there is no form left: the lock is taken, and ends
/// with its ttl.
async fn refused(nodes: &Nodes) {
    let redlock = nodes.builder().build().unwrap();
    let guard = redlock.acquire("resource").ttl(ms(2000)).await.unwrap();
    match guard.extend(ms(5000)).await {
        Err(ExtendError::NoQuorum(how)) => {
            let tally = how.tally();
            let refused = (0..3)
                .filter(|&node| vote(tally, node) == Some(Vote::Refused(Refusal::NoPerm)))
                .count();
            assert!(refused >= 2, "{tally}");
            assert!(tally.to_string().contains("NOPERM"), "{tally}");
        }
        other => panic!("{other:?}"),
    }
    let token = guard.token().as_str().to_owned();
    let ReleaseError::Unconfirmed {
        nodes: unconfirmed, ..
    } = guard.release().await.unwrap_err()
    else {
        panic!("another error")
    };
    assert!(unconfirmed.len() >= 2);
    let left = (0..3).filter(|&node| nodes.get(node, "resource").as_ref() == Some(&token));
    assert!(left.count() >= 2, "nothing but the ttl may remove it");
    crate::support::eventually("the ttl ends it", async || nodes.are_empty()).await;
}

#[test]
fn without_any_form_the_tally_says_so_and_nothing_is_deleted() {
    run(async {
        for denied in ["-watch -multi -exec", "-watch", "-multi", "-exec", "-get"] {
            let without = format!("-@scripting {denied}");
            let Some(nodes) = Nodes::start(ServerKind::Redis, &without) else {
                return;
            };
            refused(&nodes).await;
        }
    });
}

#[test]
fn many_locks_at_once_over_transactions() {
    run(async {
        let Some(nodes) = Nodes::start(ServerKind::Redis, "-@scripting") else {
            return;
        };
        let redlock = nodes.builder().build().unwrap();
        acquire_everywhere(&redlock, "first")
            .await
            .release()
            .await
            .unwrap();
        let tasks: Vec<_> = (0..16)
            .map(|task| {
                let redlock = redlock.clone();
                tokio::spawn(async move {
                    for cycle in 0..20 {
                        let guard = redlock.acquire(format!("r{task}")).await.unwrap();
                        if cycle % 4 == 0 {
                            guard.extend(ms(30_000)).await.unwrap();
                        }
                        assert!(!guard.release().await.unwrap().already_gone);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        warm_up(&redlock).await;
        assert!(redlock.close(ms(10_000)).await.is_complete());
        assert!(nodes.are_empty());
    });
}
