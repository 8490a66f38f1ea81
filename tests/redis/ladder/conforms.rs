//! What release and extension do, whatever their form; and which form it was.

use std::time::Duration;

use redlock_quorum::{ExtendError, LossCause};

use super::nodes::Nodes;
use crate::support::{acquire_everywhere, eventually, ms, soon, warm_up};

const FOREIGN: &str = "somebody else's";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Script,
    DelEx,
    DelIfEq,
    SetIfEq,
    Transaction,
}

impl Form {
    /// The command that tells it, in a server's statistics; `SET` tells nothing.
    const fn command(self) -> Option<&'static str> {
        match self {
            Self::Script => Some("evalsha"),
            Self::DelEx => Some("delex"),
            Self::DelIfEq => Some("delifeq"),
            Self::SetIfEq => None,
            Self::Transaction => Some("exec"),
        }
    }
}

pub(super) async fn conforms(nodes: &Nodes, release: Form, extension: Form) {
    let redlock = nodes
        .builder()
        .ttl(Duration::from_secs(20))
        .build()
        .unwrap();
    warm_up(&redlock).await;
    let all = |what: &dyn Fn(usize) -> bool| (0..3).all(what);

    // Acquire, and contend.
    let guard = acquire_everywhere(&redlock, "a").await;
    let token = guard.token().as_str().to_owned();
    let is_ours = |node| nodes.get(node, "a").as_ref() == Some(&token);
    assert!(all(&is_ours));
    let rival = nodes.builder().build().unwrap();
    warm_up(&rival).await;
    let error = soon(rival.try_acquire("a")).await.unwrap_err();
    assert!(error.is_contended(), "{error}");
    assert!(all(&is_ours));

    // Extend what is ours: longer, and never shorter.
    let until = guard.valid_until();
    guard.extend(ms(40_000)).await.unwrap();
    assert!(guard.valid_until() > until + ms(15_000));
    // A quorum, at least: what is unwritten at the verdict is taken back.
    let lasts = |least| {
        eventually("it lasts longer", async move || {
            (0..3).filter(|&node| nodes.ttl(node, "a") > least).count() >= 2
        })
    };
    lasts(30_000).await;
    let until = guard.valid_until();
    assert_eq!(guard.extend(ms(5_000)).await.unwrap(), until);
    lasts(30_000).await;
    nodes.at(0, &["PEXPIRE", &nodes.key("a"), "500000"]);
    guard.extend(ms(50_000)).await.unwrap();
    lasts(42_000).await;
    if extension != Form::SetIfEq {
        assert!(
            nodes.ttl(0, "a") > 400_000,
            "nor what somebody added by hand"
        );
    }

    // Heal a node that lacks it, and leave alone one where it is somebody else's.
    nodes.at(0, &["DEL", &nodes.key("a")]);
    eventually("it is healed", async || {
        guard.extend(ms(60_000)).await.unwrap();
        is_ours(0)
    })
    .await;
    lasts(52_000).await;
    nodes.at(0, &["SET", &nodes.key("a"), FOREIGN]);
    guard.extend(ms(70_000)).await.unwrap();
    lasts(62_000).await;
    let is_foreign =
        |node: usize, resource: &str| nodes.get(node, resource).as_deref() == Some(FOREIGN);
    assert!(is_foreign(0, "a"));
    assert_eq!(nodes.ttl(0, "a"), -1, "a foreign key is not extended");

    // Release what is ours, and nothing else.
    let released = guard.release().await.unwrap();
    assert!(!released.already_gone);
    eventually("it is released", async || {
        (1..3).all(|node| nodes.get(node, "a").is_none())
    })
    .await;
    assert!(is_foreign(0, "a"));
    nodes.at(0, &["DEL", &nodes.key("a")]);

    // What is not there, or foreign, is neither released nor extended.
    for value in [None, Some(FOREIGN)] {
        let change = |resource: &str| match value {
            None => nodes.each(&["DEL", &nodes.key(resource)]),
            Some(value) => nodes.each(&["SET", &nodes.key(resource), value]),
        };
        let guard = acquire_everywhere(&redlock, "b").await;
        change("b");
        let released = guard.release().await.unwrap();
        assert!(released.already_gone && released.deleted == 0);
        let guard = acquire_everywhere(&redlock, "c").await;
        change("c");
        match guard.extend(ms(30_000)).await {
            Err(ExtendError::Lost(LossCause::Gone)) => {}
            other => panic!("{other:?}"),
        }
        drop(guard);
        // Behind the releases.
        warm_up(&redlock).await;
        for resource in ["b", "c"] {
            assert!(all(&|node| nodes.get(node, resource).as_deref() == value));
            assert!(all(&|node| nodes.ttl(node, resource) < 0));
        }
        nodes.each(&["DEL", &nodes.key("b"), &nodes.key("c")]);
    }

    // A key of another type is foreign.
    if !nodes.are_peers {
        let guard = acquire_everywhere(&redlock, "d").await;
        nodes.each(&["DEL", &nodes.key("d")]);
        nodes.each(&["RPUSH", &nodes.key("d"), "element"]);
        assert!(guard.release().await.unwrap().already_gone);
        warm_up(&redlock).await;
        nodes.each(&["LPOP", &nodes.key("d")]);
    }

    assert!(redlock.close(ms(10_000)).await.is_complete());
    assert!(rival.close(ms(10_000)).await.is_complete());
    eventually("nothing is left", async || nodes.are_empty()).await;
    for node in 0..3 {
        for command in ["evalsha", "eval", "delex", "delifeq", "exec"] {
            let expected = [release, extension]
                .iter()
                .any(|form| form.command() == Some(command));
            let calls = nodes.calls(node, command);
            assert_eq!(
                calls > 0,
                expected,
                "{calls} times {command}; {release:?}, {extension:?}"
            );
        }
    }
}
