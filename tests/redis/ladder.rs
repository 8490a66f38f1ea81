//! Release and extension in every form, on servers and for users that know or allow one of them.

mod acl;
mod conforms;
mod nodes;
mod peer;
mod race;
mod relay;
mod replaced;
mod shortening;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redlock_quorum::testkit::fleet::ServerKind;
use redlock_quorum::testkit::proxy::Proxy;
use redlock_quorum::{ExtendError, Refusal, ReleaseError, Vote};

use crate::ladder::conforms::{Form, conforms};
use crate::ladder::nodes::{Nodes, as_user};
use crate::support::{
    acquire_everywhere, builder, eventually, eventually_all_granted, ms, run, vote, warm_up,
};

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
    // A lock that is on all nodes; the others stay behind, too.
    let (mut guard, mut resource) = (None, String::new());
    for number in 0..100 {
        resource = format!("resource-{number}");
        let taken = redlock.acquire(&resource).ttl(ms(20_000)).await.unwrap();
        let is_everywhere = eventually_all_granted(&taken).await;
        guard = Some(taken);
        if is_everywhere {
            break;
        }
    }
    let guard = guard.unwrap();
    match guard.extend(ms(30_000)).await {
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
    let left = (0..3).filter(|&node| nodes.get(node, &resource).as_ref() == Some(&token));
    assert!(left.count() >= 2, "nothing but the ttl may remove it");
    // Soon.
    for number in 0..100 {
        let key = nodes.key(&format!("resource-{number}"));
        nodes.each(&["PEXPIRE", &key, "1"]);
        if key == nodes.key(&resource) {
            break;
        }
    }
    eventually("the ttl ends it", async || nodes.are_empty()).await;
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

#[test]
fn links_cut_inside_transactions_leave_nothing() {
    run(async {
        let Some(nodes) = Nodes::start(ServerKind::Redis, "-@scripting") else {
            return;
        };
        let start = |url: &String| {
            let port = url.rsplit_once(':').unwrap().1.parse().unwrap();
            Proxy::start(([127, 0, 0, 1], port).into()).unwrap()
        };
        let proxies: Vec<_> = nodes.admins.iter().map(start).collect();
        let urls = as_user(&proxies.iter().map(Proxy::url).collect::<Vec<_>>());
        let redlock = builder(urls).ttl(ms(60_000)).build().unwrap();
        warm_up(&redlock).await;
        let stop = Arc::new(AtomicBool::new(false));
        let tasks: Vec<_> = (0..4)
            .map(|task| {
                let (redlock, stop) = (redlock.clone(), Arc::clone(&stop));
                tokio::spawn(async move {
                    while !stop.load(Ordering::Relaxed) {
                        let guard = redlock.acquire(format!("r{task}")).await.unwrap();
                        guard.release().await.unwrap();
                    }
                })
            })
            .collect();
        for proxy in &proxies {
            for _ in 0..3 {
                let before = proxy.stats().request_bytes;
                eventually("it is used", async || {
                    proxy.stats().request_bytes > before + 5_000
                })
                .await;
                proxy.cut();
            }
            warm_up(&redlock).await;
        }
        stop.store(true, Ordering::Relaxed);
        for task in tasks {
            task.await.unwrap();
        }
        warm_up(&redlock).await;
        assert!(redlock.close(ms(10_000)).await.is_complete());
        assert!(nodes.are_empty());
    });
}
