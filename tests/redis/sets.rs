//! Locks on several resources on real servers, and what is in their way there.
#![expect(
    clippy::disallowed_methods,
    reason = "what real servers tell takes real time"
)]

use std::future::IntoFuture;
use std::time::{Duration, Instant};

use redlock_quorum::testkit::fleet::{Flavor, Fleet, Options, Server};
use redlock_quorum::{AcquireAll, GuardSet, LossCause, Redlock, Refusal, Renewal, Vote, Wait};

use crate::support::{
    ask, builder, eventually, fleet, flush_scripts, info, lock_keys, ms, number,
    released_everywhere, run, soon, text, trouble, vote, warm_up,
};

const TTL: Duration = Duration::from_secs(20);
const SET: [&str; 3] = ["x", "y", "z"];

/// Plays a scene on three nodes of every kind, plain and fenced.
fn on_every_flavor(scene: &impl AsyncFn(&Fleet, &Redlock)) {
    run(async {
        for flavor in Flavor::available() {
            for fenced in [false, true] {
                let fleet = Fleet::with(&flavor, 3, &Options::new()).unwrap();
                let redlock = builder(fleet.urls()).ttl(TTL).fenced(fenced);
                let redlock = redlock.build().unwrap();
                warm_up(&redlock).await;
                scene(&fleet, &redlock).await;
            }
        }
    });
}

fn once(redlock: &Redlock) -> AcquireAll {
    redlock.acquire_all(SET).wait(Wait::Once)
}

/// Acquires until all nodes have granted.
async fn acquire_everywhere(redlock: &Redlock) -> GuardSet {
    for _ in 0..100 {
        let guard = redlock.acquire_all(SET).await.unwrap();
        eventually("no vote is pending", async || guard.tally().pending() == 0).await;
        if guard.tally().granted() == 3 {
            return guard;
        }
        guard.release().await.unwrap();
    }
    panic!("some node never grants it");
}

/// The locks of a server, sorted.
fn locks(server: &Server) -> Vec<String> {
    let mut locks = lock_keys(server);
    locks.sort();
    locks
}

fn scripts(server: &Server) -> u64 {
    let stats = info(server, "commandstats", "cmdstat_evalsha");
    let calls = stats.strip_prefix("calls=").unwrap();
    calls.split(',').next().unwrap().parse().unwrap()
}

#[test]
fn a_set_is_its_token_at_each_of_its_keys() {
    on_every_flavor(&async |fleet, redlock| {
        let guard = acquire_everywhere(redlock).await;
        let is_there = |server: &Server, least: i64| {
            SET.iter().all(|key| {
                let token = text(server, &["GET", key]);
                let left = number(server, &["PTTL", key]);
                token.as_deref() == Some(guard.token().as_str()) && left > least
            })
        };
        assert!(fleet.iter().all(|server| is_there(server, 15_000)));
        let before: Vec<u64> = fleet.iter().map(scripts).collect();
        guard.extend(ms(40_000)).await.unwrap();
        // What is unwritten when two have answered is taken back.
        let mut extended = 0;
        for (server, before) in fleet.iter().zip(before) {
            if is_there(server, 35_000) {
                extended += 1;
                assert_eq!(scripts(server) - before, 1, "one script a node");
            }
        }
        assert!(extended >= 2, "{extended} nodes");
        let other = redlock.try_acquire("y").await.unwrap_err();
        assert!(other.is_contended(), "{other}");
        let released = guard.release().await.unwrap();
        assert!(released.deleted >= 2, "{released:?}");
        released_everywhere(fleet, 0).await;
    });
}

#[test]
fn where_one_key_is_held_no_other_is_set() {
    on_every_flavor(&async |fleet, redlock| {
        for server in fleet.iter().take(2) {
            ask(server, &["SET", "y", "somebody else", "PX", "90000"]);
        }
        let error = soon(once(redlock)).await.unwrap_err();
        assert!(error.is_contended(), "{error}");
        let tally = error.tally().unwrap();
        for node in 0..2 {
            let Some(Vote::Held { ttl: Some(ttl), .. }) = vote(tally, node) else {
                panic!("without both it is not decided: {tally}");
            };
            assert!(ttl > ms(60_000) && ttl <= ms(90_000), "{ttl:?}");
        }
        assert_eq!(locks(&fleet[0]), ["y"]);
        assert_eq!(locks(&fleet[1]), ["y"]);
        eventually("the third has none", async || {
            lock_keys(&fleet[2]).is_empty()
        })
        .await;
        for server in fleet.iter().take(2) {
            assert_eq!(
                text(server, &["GET", "y"]).as_deref(),
                Some("somebody else")
            );
        }
    });
}

#[test]
fn a_broken_set_is_whole_again_after_a_renewal() {
    run(async {
        for fenced in [false, true] {
            let fleet = fleet(3);
            let redlock = builder(fleet.urls()).ttl(ms(1500)).fenced(fenced);
            let redlock = redlock.build().unwrap();
            warm_up(&redlock).await;
            let guard = acquire_everywhere(&redlock).await;
            ask(&fleet[1], &["DEL", "y"]);
            eventually("it heals", async || locks(&fleet[1]) == SET).await;
            assert_eq!(guard.loss(), None);
            // A renewal between the two would make the first one whole again.
            eventually("a renewal finds two of them broken", async || {
                ask(&fleet[0], &["DEL", "x"]);
                ask(&fleet[2], &["DEL", "z"]);
                guard.loss() == Some(LossCause::Gone)
            })
            .await;
            assert_eq!(soon(guard.lost()).await, LossCause::Gone);
            released_everywhere(&fleet, 0).await;
        }
    });
}

#[test]
fn a_key_of_another_type_is_in_the_way_and_stays() {
    on_every_flavor(&async |fleet, redlock| {
        let push = |server: &Server| {
            ask(server, &["DEL", "y"]);
            ask(server, &["RPUSH", "y", "element"]);
        };
        // At one node it appears while the set is held: the rest of the set goes there.
        let guard = acquire_everywhere(redlock).await;
        push(&fleet[0]);
        let until = guard.extend(ms(40_000)).await.unwrap();
        assert!(until > Instant::now() + ms(30_000));
        eventually("the rest has gone", async || locks(&fleet[0]) == ["y"]).await;
        // And at another just before the release.
        push(&fleet[1]);
        guard.release().await.unwrap();
        eventually("released, but for what is not ours", async || {
            locks(&fleet[1]) == ["y"] && lock_keys(&fleet[2]).is_empty()
        })
        .await;
        let error = soon(once(redlock)).await.unwrap_err();
        if redlock
            .acquire("other")
            .await
            .unwrap()
            .fencing_token()
            .is_some()
        {
            assert!(error.is_contended(), "{error}");
        } else {
            assert!(error.is_outage(), "{error}");
            let told = trouble(error.tally().unwrap(), 0) + &trouble(error.tally().unwrap(), 1);
            assert!(told.contains("WRONGTYPE"), "{error}");
        }
        for server in fleet.iter().take(2) {
            assert_eq!(number(server, &["LLEN", "y"]), 1);
        }
        eventually("nothing else is left", async || {
            locks(&fleet[0]) == ["y"]
                && locks(&fleet[1]) == ["y"]
                && lock_keys(&fleet[2]).is_empty()
        })
        .await;
    });
}

#[test]
fn a_fence_key_of_another_type_is_told_and_a_held_lock_is_released_all_the_same() {
    run(async {
        let fleet = fleet(1);
        let redlock = builder(fleet.urls()).ttl(TTL).fenced(true);
        let redlock = redlock.build().unwrap();
        warm_up(&redlock).await;
        let guard = redlock
            .acquire_all(SET)
            .renewal(Renewal::off())
            .await
            .unwrap();
        let fence = "redlock-quorum:fence:y";
        ask(&fleet[0], &["DEL", fence]);
        ask(&fleet[0], &["RPUSH", fence, "element"]);
        let error = guard.extend(ms(40_000)).await.unwrap_err().to_string();
        assert!(error.contains("WRONGTYPE"), "{error}");
        assert_eq!(guard.loss(), None, "its locks stand");
        assert_eq!(locks(&fleet[0]), SET);
        guard.release().await.unwrap();
        released_everywhere(&fleet, 0).await;
        let error = soon(once(&redlock)).await.unwrap_err();
        assert!(
            error.is_outage() && error.to_string().contains("WRONGTYPE"),
            "{error}"
        );
        assert_eq!(lock_keys(&fleet[0]), [""; 0]);
    });
}

#[test]
fn flushed_scripts_of_sets_are_sent_again() {
    on_every_flavor(&async |fleet, redlock| {
        for _ in 0..5 {
            flush_scripts(fleet);
            let guard = acquire_everywhere(redlock).await;
            flush_scripts(fleet);
            guard.extend(ms(40_000)).await.unwrap();
            flush_scripts(fleet);
            assert!(!guard.release().await.unwrap().already_gone);
        }
        released_everywhere(fleet, 0).await;
    });
}

/// A server that knows the release and not the acquire would carry out the acquire's text last.
#[test]
fn law_4_an_acquire_that_is_over_is_not_sent_again_behind_its_release() {
    run(async {
        let fleet = fleet(1);
        let redlock = builder(fleet.urls()).ttl(TTL).build().unwrap();
        warm_up(&redlock).await;
        let guard = redlock.acquire_all(SET).await.unwrap();
        ask(&fleet[0], &["SCRIPT", "FLUSH"]);
        guard.release().await.unwrap();
        fleet[0].freeze().unwrap();
        let error = soon(once(&redlock)).await.unwrap_err();
        assert!(error.is_outage(), "{error}");
        // Its release is written, too.
        tokio::time::sleep(ms(50)).await;
        fleet[0].thaw().unwrap();
        assert!(redlock.close(TTL / 4).await.is_complete());
        assert_eq!(lock_keys(&fleet[0]), [""; 0]);
    });
}

/// A user of each server with these rights, and its addresses.
fn locker(fleet: &Fleet, rights: &str) -> Vec<String> {
    let rules = format!("ACL SETUSER locker on >secret {rights}");
    for server in fleet {
        ask(server, &rules.split(' ').collect::<Vec<_>>());
    }
    let url = |server: &Server| format!("redis://locker:secret@127.0.0.1:{}", server.port());
    fleet.iter().map(url).collect()
}

#[test]
fn a_node_that_forbids_scripts_grants_no_set_and_single_locks_as_ever() {
    run(async {
        let fleet = fleet(3);
        let urls = locker(&fleet, "~* +@all -@scripting");
        let redlock = builder(urls).build().unwrap();
        warm_up(&redlock).await;
        for _ in 0..3 {
            let error = soon(once(&redlock)).await.unwrap_err();
            assert!(error.is_outage(), "{error}");
            let tally = error.tally().unwrap();
            let refused = |node| vote(tally, node) == Some(Vote::Refused(Refusal::NoPerm));
            let node = (0..3).find(|&node| refused(node)).expect("it is refused");
            let told = trouble(tally, node);
            assert!(
                told.contains("several resources at once need scripts"),
                "{told}"
            );
            let guard = redlock.acquire("x").await.unwrap();
            guard.extend(TTL).await.unwrap();
            guard.release().await.unwrap();
        }
        released_everywhere(&fleet, 0).await;
    });
}

#[test]
fn a_key_that_is_denied_leaves_all_others_untouched() {
    run(async {
        let fleet = fleet(3);
        let urls = locker(&fleet, "~x ~z ~warm-up ~redlock-quorum:* +@all");
        for fenced in [false, true] {
            let redlock = builder(urls.clone()).fenced(fenced).build().unwrap();
            warm_up(&redlock).await;
            let error = soon(once(&redlock)).await.unwrap_err();
            assert!(error.is_outage(), "{error}");
            drop(redlock.acquire_all(["x", "z"]).await.unwrap());
            released_everywhere(&fleet, 0).await;
        }
    });
}

#[test]
fn a_server_without_memory_refuses_a_set_whole_and_lets_it_go() {
    on_every_flavor(&async |fleet, redlock| {
        let limit = |bytes: &str| {
            for server in fleet {
                ask(server, &["CONFIG", "SET", "maxmemory", bytes]);
            }
        };
        let guard = acquire_everywhere(redlock).await;
        limit("1");
        let error = redlock
            .acquire_all(["u", "v"])
            .wait(Wait::Once)
            .await
            .unwrap_err();
        assert!(
            error.is_outage() && error.to_string().contains("OOM"),
            "{error}"
        );
        for server in fleet {
            assert_eq!(locks(server), SET, "neither of the two");
        }
        guard.release().await.unwrap();
        released_everywhere(fleet, 0).await;
        limit("0");
    });
}

/// Neither of the other keys' ttl nor the poll floor ends the wait, but the node's word.
#[test]
fn a_waiter_for_a_set_is_told_of_each_of_its_keys() {
    on_every_flavor(&async |fleet, redlock| {
        for key in ["y", "z"] {
            for server in fleet {
                ask(server, &["SET", key, "somebody else"]);
            }
            let waiter = tokio::spawn(redlock.acquire_all(SET).wait(Wait::Forever).into_future());
            eventually("it has been told that it must wait", async || {
                let calls = |server: &Server| {
                    let info = ask(server, &["INFO", "commandstats"]);
                    let info: String = redis::from_redis_value(info).unwrap();
                    info.contains("cmdstat_client|caching")
                };
                fleet.iter().all(calls)
            })
            .await;
            tokio::time::sleep(ms(200)).await;
            let deleted = Instant::now();
            for server in fleet {
                ask(server, &["DEL", key]);
            }
            let guard = soon(waiter).await.unwrap().unwrap();
            let waited = deleted.elapsed();
            assert!(
                waited < ms(1_400),
                "{waited:?}: the poll floor is 1.5 s at least"
            );
            guard.release().await.unwrap();
            released_everywhere(fleet, 0).await;
        }
    });
}
