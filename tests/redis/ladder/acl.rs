//! The users of `docs/operations.md` have the rights that the client needs.

use std::collections::BTreeSet;

use redis::Value;
use redlock_quorum::testkit::fleet::ServerKind;

use super::conforms::{Form, conforms};
use super::nodes::{Nodes, at};
use crate::support::{PATIENCE, acquire_everywhere, builder, eventually, ms, run};

const OPERATIONS: &str = include_str!("../../../docs/operations.md");

/// The line that makes a user with this right, and the prefix that it may use.
fn line(right: &str) -> &'static str {
    let mut lines = OPERATIONS
        .lines()
        .filter(|line| line.starts_with("ACL SETUSER locker ") && line.contains(right));
    let line = lines.next().expect("the document has such a line");
    assert!(line.contains(" ~locks:* ") && line.contains(" ~redlock-quorum:* "));
    assert_eq!(lines.next(), None, "one line");
    line
}

/// What users were denied at a server.
fn denied(admin: &str) -> BTreeSet<String> {
    let Value::Array(log) = at(admin, &["ACL", "LOG"]) else {
        panic!("no log")
    };
    log.into_iter()
        .map(|entry| {
            let entry: std::collections::HashMap<String, Value> =
                redis::from_redis_value(entry).unwrap();
            redis::from_redis_value(entry["object"].clone()).unwrap()
        })
        // The redis crate tells its name, where it may.
        .filter(|object| object != "client|setinfo")
        .collect()
}

#[test]
fn the_user_of_the_operations_page_can_do_everything_by_scripts() {
    run(async {
        for kind in [ServerKind::Redis, ServerKind::Valkey] {
            let Some(nodes) = Nodes::with_user(kind, line("+evalsha"), "locks:") else {
                continue;
            };
            conforms(&nodes, Form::Script, Form::Script).await;
            for admin in &nodes.admins {
                assert_eq!(denied(admin), BTreeSet::new(), "{kind:?}");
            }
        }
    });
}

#[test]
fn the_user_of_the_operations_page_can_do_everything_by_native_forms() {
    run(async {
        let line = line("+delifeq");
        assert!(!line.contains("eval") && !line.contains("watch"));
        if let Some(nodes) = Nodes::with_user(ServerKind::Valkey9, line, "locks:") {
            conforms(&nodes, Form::DelIfEq, Form::SetIfEq).await;
            for admin in &nodes.admins {
                let scripts = BTreeSet::from(["script|load".to_owned()]);
                assert_eq!(
                    denied(admin),
                    scripts,
                    "scripts are loaded where they may be"
                );
            }
        }
    });
}

/// What is said of scripts is for whoever may not run them.
#[test]
fn a_user_who_may_not_use_one_key_of_a_set_is_told_so() {
    run(async {
        for (kind, right, is_of_scripts) in [
            (ServerKind::Redis, "+evalsha", false),
            (ServerKind::Valkey, "+evalsha", false),
            (ServerKind::Valkey9, "+evalsha", false),
            (ServerKind::Valkey9, "+delifeq", true),
        ] {
            let line = line(right).replace(" ~locks:* ", " ~locks:x ");
            let Some(nodes) = Nodes::with_user(kind, &line, "locks:") else {
                continue;
            };
            let redlock = builder(&nodes.users).prefix("locks:").build().unwrap();
            let set = redlock.acquire_all(["x", "y"]).wait(ms(0));
            let error = set.await.unwrap_err().to_string();
            assert!(error.contains("NOPERM"), "{error}");
            assert_eq!(error.contains("need scripts"), is_of_scripts, "{error}");
        }
    });
}

#[test]
fn no_right_of_the_operations_page_is_too_much() {
    run(async {
        let whole = line("+evalsha");
        let rights = whole.split(' ').filter_map(|word| word.strip_prefix('+'));
        for right in rights {
            let all = whole
                .split(' ')
                .filter(|word| word.strip_prefix('+') != Some(right));
            let less = all.collect::<Vec<_>>().join(" ");
            let Some(nodes) = Nodes::with_user(ServerKind::Redis, &less, "locks:") else {
                return;
            };
            let client = || builder(&nodes.users[..1]).prefix("locks:").build().unwrap();
            let redlock = client();
            if right == "set" {
                redlock.try_acquire("resource").await.unwrap_err();
            } else {
                let guard = acquire_everywhere(&redlock, "resource").await;
                guard.extend(ms(20_000)).await.ok();
                nodes.at(0, &["SCRIPT", "FLUSH"]);
                guard.release().await.ok();
            }
            // And somebody waits for it.
            nodes.at(0, &["SET", &nodes.key("resource"), "somebody else's"]);
            let waits = tokio::spawn(client().acquire("resource").wait(PATIENCE).into_future());
            eventually(&format!("{right} is missed"), async || {
                denied(&nodes.admins[0]).contains(right)
            })
            .await;
            waits.abort();
        }
    });
}
