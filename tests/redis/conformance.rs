//! What a lock is on the wire, and what its calls do, on every kind of server.
#![expect(
    clippy::disallowed_methods,
    reason = "what a server says about time is compared with real time"
)]

use std::time::{Duration, Instant};

use redlock_quorum::testkit::fleet::{Flavor, Fleet, Options};
use redlock_quorum::{ExtendError, LossCause, Redlock, Released, Unsent, Vote};

use crate::support::{
    acquire_everywhere, ask, builder, eventually, flush_scripts, lock_keys, ms, number,
    released_everywhere, run, soon, text, vote, warm_up,
};

const TTL: Duration = Duration::from_secs(20);
const HELD: Vote = Vote::Held {
    ttl: None,
    fence: None,
};

/// Plays a scene on three nodes of every kind.
fn on_every_flavor(scene: &impl AsyncFn(&Fleet, &Redlock)) {
    run(async {
        let flavors = Flavor::available();
        assert!(
            !flavors.is_empty(),
            "scripts/install-test-deps installs them"
        );
        for flavor in flavors {
            let fleet = Fleet::with(&flavor, 3, &Options::new()).unwrap();
            let redlock = builder(fleet.urls()).ttl(TTL).build().unwrap();
            warm_up(&redlock).await;
            scene(&fleet, &redlock).await;
        }
    });
}

/// Until when the key stands, by the server's word.
fn key_ends(fleet: &Fleet, node: usize, key: &str) -> Duration {
    let left = number(&fleet[node], &["PTTL", key]);
    Duration::from_millis(u64::try_from(left).expect("the key has a ttl"))
}

#[test]
fn a_lock_is_its_token_at_its_key_with_its_ttl() {
    on_every_flavor(&async |fleet, redlock| {
        let began = Instant::now();
        let guard = acquire_everywhere(redlock, "resource").await;
        assert_eq!(guard.resource(), "resource");
        for (node, server) in fleet.iter().enumerate() {
            assert_eq!(
                text(server, &["GET", "resource"]).as_deref(),
                Some(guard.token().as_str())
            );
            let left = key_ends(fleet, node, "resource");
            assert!(
                left <= TTL && left + began.elapsed() + ms(1) >= TTL,
                "{left:?}"
            );
        }
        let until = guard.valid_until();
        assert!(
            until + ms(210) >= began + TTL,
            "the drift of 20 s is 202 ms"
        );
        assert!(until < Instant::now() + TTL);
        assert_eq!(guard.loss(), None);
        let released = guard.release().await.unwrap();
        assert!(!released.already_gone && released.deleted >= 2);
        released_everywhere(fleet, 0).await;
    });
}

#[test]
fn ttl_and_prefix_are_as_asked_for() {
    on_every_flavor(&async |fleet, _| {
        let redlock = builder(fleet.urls()).prefix("locks:").build().unwrap();
        warm_up(&redlock).await;
        released_everywhere(fleet, 0).await;
        let guard = redlock.try_acquire("a").ttl(ms(30_000)).await.unwrap();
        let mut keys = 0;
        for (node, server) in fleet.iter().enumerate() {
            match &lock_keys(server)[..] {
                [] => continue,
                [key] => assert_eq!(key, "locks:a"),
                keys => panic!("{keys:?}"),
            }
            keys += 1;
            let left = key_ends(fleet, node, "locks:a");
            assert!(left > ms(15_000) && left <= ms(30_000), "{left:?}");
        }
        assert!(keys >= 2, "a quorum");
        assert_eq!(guard.resource(), "a");
        guard.release().await.unwrap();
        released_everywhere(fleet, 0).await;
    });
}

#[test]
fn contenders_are_told_and_leave_the_holder_alone() {
    on_every_flavor(&async |fleet, redlock| {
        let guard = acquire_everywhere(redlock, "resource").await;
        let rival = builder(fleet.urls()).ttl(TTL).build().unwrap();
        warm_up(&rival).await;
        for contender in [redlock, &rival] {
            let error = soon(contender.try_acquire("resource")).await.unwrap_err();
            assert!(error.is_contended() && !error.is_outage(), "{error}");
            let tally = error.tally().unwrap();
            assert_eq!((tally.granted(), tally.quorum()), (0, 2));
            assert!(tally.contended() >= 2, "{tally}");
            for node in 0..3 {
                // The third vote was not waited for, or not even asked for.
                let late = [None, Some(Vote::Unsent(Unsent::Decided))];
                let vote = vote(tally, node);
                assert!(vote == Some(HELD) || late.contains(&vote), "{tally}");
            }
            assert!(!error.to_string().contains('\n'));
            assert!(!error.to_string().contains(guard.token().as_str()));
        }
        assert_eq!(guard.loss(), None);
        guard.release().await.unwrap();
        acquire_everywhere(&rival, "resource")
            .await
            .release()
            .await
            .unwrap();
        released_everywhere(fleet, 0).await;
    });
}

#[test]
fn a_waiting_acquire_gets_the_lock_when_it_is_released() {
    on_every_flavor(&async |fleet, redlock| {
        let guard = acquire_everywhere(redlock, "resource").await;
        let rival = builder(fleet.urls()).build().unwrap();
        warm_up(&rival).await;
        let attempts = || number_of_sets(fleet);
        let before = attempts();
        let waiting = tokio::spawn(rival.acquire("resource").into_future());
        eventually("the other one tries", async || attempts() >= before + 6).await;
        assert!(!waiting.is_finished());
        guard.release().await.unwrap();
        let next = soon(waiting).await.unwrap().unwrap();
        next.release().await.unwrap();
        released_everywhere(fleet, 0).await;
    });
}

fn number_of_sets(fleet: &Fleet) -> u64 {
    let stats = |server| crate::support::info(server, "commandstats", "cmdstat_set");
    let calls = fleet.iter().map(stats).map(|stats| {
        let calls = stats.strip_prefix("calls=").unwrap();
        calls.split(',').next().unwrap().parse::<u64>().unwrap()
    });
    calls.sum()
}

#[test]
fn an_extension_lengthens_and_never_shortens() {
    on_every_flavor(&async |fleet, redlock| {
        let guard = acquire_everywhere(redlock, "resource").await;
        let first = guard.valid_until();

        let shorter = guard.extend(ms(5_000)).await.unwrap();
        assert_eq!(shorter, first, "it lasts longer anyway");
        for node in 0..3 {
            assert!(key_ends(fleet, node, "resource") > ms(10_000));
        }

        let longer = guard.extend(ms(40_000)).await.unwrap();
        assert!(longer > first + ms(15_000));
        assert_eq!(longer, guard.valid_until());
        let last_so_long = (0..3)
            .filter(|&node| key_ends(fleet, node, "resource") > ms(30_000))
            .count();
        assert!(last_so_long >= 2, "a quorum has it");
        guard.release().await.unwrap();
        released_everywhere(fleet, 0).await;
    });
}

#[test]
fn a_lock_whose_keys_are_gone_is_lost_and_not_re_created() {
    on_every_flavor(&async |fleet, redlock| {
        let guard = acquire_everywhere(redlock, "resource").await;
        let lost = guard.lost();
        for server in fleet {
            ask(server, &["DEL", "resource"]);
        }
        match guard.extend(ms(30_000)).await {
            Err(ExtendError::Lost(LossCause::Gone)) => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(guard.loss(), Some(LossCause::Gone));
        assert_eq!(soon(lost).await, LossCause::Gone);
        match guard.extend(ms(30_000)).await {
            Err(ExtendError::Lost(LossCause::Gone)) => {}
            other => panic!("{other:?}"),
        }
        let released = guard.release().await.unwrap();
        assert!(released.already_gone);
        released_everywhere(fleet, 0).await;
    });
}

#[test]
fn an_extension_survives_the_loss_of_a_minority() {
    on_every_flavor(&async |fleet, redlock| {
        let guard = acquire_everywhere(redlock, "resource").await;
        ask(&fleet[1], &["SET", "resource", "somebody else's"]);
        guard.extend(ms(40_000)).await.unwrap();
        assert_eq!(guard.loss(), None);
        guard.release().await.unwrap();
        eventually("the others release", async || {
            lock_keys(&fleet[0]).is_empty() && lock_keys(&fleet[2]).is_empty()
        })
        .await;
        assert_eq!(
            text(&fleet[1], &["GET", "resource"]).as_deref(),
            Some("somebody else's")
        );
    });
}

#[test]
fn a_release_deletes_only_its_own_token() {
    on_every_flavor(&async |fleet, redlock| {
        let guard = acquire_everywhere(redlock, "resource").await;
        for server in fleet {
            ask(server, &["SET", "resource", "somebody else's"]);
        }
        let released: Released = guard.release().await.unwrap();
        assert!(released.already_gone);
        assert_eq!(released.deleted, 0);
        assert!(redlock.clone().close(TTL).await.is_complete());
        for server in fleet {
            assert_eq!(
                text(server, &["GET", "resource"]).as_deref(),
                Some("somebody else's")
            );
        }
    });
}

#[test]
fn a_key_of_another_type_is_somebody_elses() {
    on_every_flavor(&async |fleet, redlock| {
        for server in fleet {
            ask(server, &["RPUSH", "list", "element"]);
        }
        let error = redlock.try_acquire("list").await.unwrap_err();
        assert!(error.is_contended(), "{error}");

        let guard = acquire_everywhere(redlock, "resource").await;
        for server in fleet {
            ask(server, &["DEL", "resource"]);
            ask(server, &["RPUSH", "resource", "element"]);
        }
        match guard.extend(ms(30_000)).await {
            Err(ExtendError::Lost(LossCause::Gone)) => {}
            other => panic!("{other:?}"),
        }
        assert!(guard.release().await.unwrap().already_gone);

        let guard = acquire_everywhere(redlock, "other").await;
        for server in fleet {
            ask(server, &["DEL", "other"]);
            ask(server, &["RPUSH", "other", "element"]);
        }
        assert!(guard.release().await.unwrap().already_gone);
        assert!(redlock.clone().close(TTL).await.is_complete());
        for server in fleet {
            for key in ["list", "resource", "other"] {
                assert_eq!(number(server, &["LLEN", key]), 1, "{key}");
            }
        }
    });
}

#[test]
fn flushed_scripts_are_sent_again() {
    on_every_flavor(&async |fleet, redlock| {
        for _ in 0..5 {
            let guard = acquire_everywhere(redlock, "resource").await;
            flush_scripts(fleet);
            guard.extend(ms(40_000)).await.unwrap();
            flush_scripts(fleet);
            let released = guard.release().await.unwrap();
            assert!(!released.already_gone);
        }
        released_everywhere(fleet, 0).await;
    });
}

#[test]
fn a_dropped_guard_is_released() {
    on_every_flavor(&async |fleet, redlock| {
        drop(acquire_everywhere(redlock, "resource").await);
        let next = redlock.acquire("resource").await.unwrap();
        drop(next);
        released_everywhere(fleet, 0).await;
    });
}

#[test]
fn a_quorum_is_more_than_half_of_any_number_of_nodes() {
    run(async {
        for nodes in 1..=5 {
            let quorum = nodes / 2 + 1;
            let mut fleet = crate::support::fleet(nodes);
            let redlock = builder(fleet.urls()).ttl(TTL).build().unwrap();
            warm_up(&redlock).await;
            let guard = acquire_everywhere(&redlock, "resource").await;
            let tally = guard.tally();
            assert_eq!(tally.quorum(), quorum);
            assert_eq!(tally.nodes().len(), nodes);
            let names: Vec<_> = tally.nodes().map(|line| line.node().to_owned()).collect();
            let ports: Vec<_> = fleet
                .iter()
                .map(|server| format!("127.0.0.1:{}", server.port()))
                .collect();
            assert_eq!(names, ports, "in the order of the list");
            guard.release().await.unwrap();

            // As many nodes as leave a quorum may die, and not one more.
            for server in fleet.iter_mut().take(nodes - quorum) {
                server.kill().unwrap();
            }
            let guard = soon(redlock.try_acquire("resource")).await.unwrap();
            guard.release().await.unwrap();
            fleet[nodes - quorum].kill().unwrap();
            let error = soon(redlock.try_acquire("resource")).await.unwrap_err();
            assert!(error.is_outage() && !error.is_contended(), "{error}");
            for server in fleet.iter().skip(nodes - quorum + 1) {
                eventually("what was granted is released", async || {
                    lock_keys(server).is_empty()
                })
                .await;
            }
        }
    });
}

#[test]
fn with_four_nodes_two_to_two_is_nobodys() {
    run(async {
        let fleet = crate::support::fleet(4);
        let redlock = builder(fleet.urls()).ttl(TTL).build().unwrap();
        warm_up(&redlock).await;
        for server in fleet.iter().take(2) {
            ask(server, &["SET", "resource", "somebody else's"]);
        }
        let error = soon(redlock.try_acquire("resource")).await.unwrap_err();
        assert!(error.is_contended(), "{error}");
        for server in fleet.iter().skip(2) {
            eventually("the other half is released", async || {
                lock_keys(server).is_empty()
            })
            .await;
        }
    });
}
