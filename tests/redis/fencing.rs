//! Fenced locks on real servers, and that their tokens grow.
#![expect(
    clippy::disallowed_methods,
    reason = "late commands are waited for in real time"
)]

use std::time::{Duration, SystemTime};

use redlock_quorum::testkit::fleet::{Flavor, Fleet, Options, Server};
use redlock_quorum::testkit::proxy::{Direction, Fault, Scope};
use redlock_quorum::{Guard, NodeVote, Redlock, Refusal, Unsent, Vote};

use crate::support::{
    Proxied, ask, builder, eventually, eventually_all_granted, fleet, flush_scripts, info,
    lock_keys, ms, number, released_everywhere, run, soon, taken, text, trouble, vote, warm_up,
};

const TTL: Duration = Duration::from_secs(20);
const FENCE: &str = "redlock-quorum:fence:resource";

fn on_every_flavor(scene: &impl AsyncFn(&Fleet, &Redlock)) {
    run(async {
        for flavor in Flavor::available() {
            let fleet = Fleet::with(&flavor, 3, &Options::new()).unwrap();
            let redlock = builder(fleet.urls()).ttl(TTL).fenced(true).build().unwrap();
            warm_up(&redlock).await;
            scene(&fleet, &redlock).await;
        }
    });
}

async fn acquire_everywhere(redlock: &Redlock) -> Guard {
    loop {
        let guard = redlock.acquire("resource").await.unwrap();
        if eventually_all_granted(&guard).await {
            return guard;
        }
        guard.release().await.unwrap();
    }
}

fn token(guard: &Guard) -> u64 {
    guard.fencing_token().unwrap().as_u64()
}

fn fence(server: &Server) -> Option<u64> {
    text(server, &["GET", FENCE]).map(|text| text.parse().unwrap())
}

#[test]
fn a_fenced_lock_is_its_token_and_its_ballot() {
    on_every_flavor(&async |fleet, redlock| {
        let before = SystemTime::now();
        let guard = acquire_everywhere(redlock).await;
        let micros = before
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap()
            .as_micros();
        assert!(u128::from(token(&guard)) >= micros, "the wall clock");
        for server in fleet {
            let stored = text(server, &["GET", "resource"]);
            assert_eq!(stored.as_deref(), Some(guard.token().as_str()));
            assert!(number(server, &["PTTL", "resource"]) > 15_000);
            assert_eq!(fence(server), Some(token(&guard)));
            let left = number(server, &["PTTL", FENCE]);
            assert!((590_000..=600_000).contains(&left), "{left}");
            ask(server, &["PEXPIRE", FENCE, "60000"]);
        }
        guard.extend(ms(40_000)).await.unwrap();
        eventually("the fence lives on while it is used", async || {
            fleet
                .iter()
                .all(|server| number(server, &["PTTL", FENCE]) > 590_000)
        })
        .await;
        let first = token(&guard);
        // Behind the answers to the extension: a release that cannot know them leaves a tombstone.
        warm_up(redlock).await;
        guard.release().await.unwrap();
        released_everywhere(fleet, 0).await;
        assert!(fleet.iter().all(|server| fence(server) == Some(first)));
        let next = redlock.try_acquire("resource").await.unwrap();
        assert!(token(&next) > first);
        next.release().await.unwrap();
    });
}

#[test]
fn contenders_are_told_the_rest_of_the_ttl_and_the_ballot() {
    on_every_flavor(&async |fleet, redlock| {
        let guard = acquire_everywhere(redlock).await;
        let rival = builder(fleet.urls()).fenced(true).build().unwrap();
        warm_up(&rival).await;
        let error = soon(rival.try_acquire("resource")).await.unwrap_err();
        assert!(error.is_contended(), "{error}");
        let tally = error.tally().unwrap();
        // Law 3: what is not yet written when two nodes have decided the round is taken back.
        let late = [None, Some(Vote::Unsent(Unsent::Decided))];
        let told = tally.nodes().map(NodeVote::vote);
        let told: Vec<Vote> = told.filter(|vote| !late.contains(vote)).flatten().collect();
        assert!(told.len() >= 2, "{tally}");
        for vote in told {
            let Vote::Held {
                ttl: Some(ttl),
                fence,
            } = vote
            else {
                panic!("{vote}");
            };
            assert!(ttl > ms(15_000) && ttl <= TTL, "{ttl:?}");
            assert_eq!(fence, Some(token(&guard)));
        }
        guard.release().await.unwrap();
        // Whoever knows nothing of it, and whose clock is behind, is told and succeeds.
        let far_ahead = 8_000_000_000_000_000_u64;
        for server in fleet {
            ask(server, &["SET", FENCE, &far_ahead.to_string()]);
        }
        let guard = soon(rival.try_acquire("resource")).await.unwrap();
        assert_eq!(token(&guard), far_ahead + 1);
        guard.release().await.unwrap();
        released_everywhere(fleet, 0).await;
    });
}

#[test]
fn a_node_that_lacks_the_key_gets_it_back_unless_a_larger_ballot_was_there() {
    on_every_flavor(&async |fleet, redlock| {
        let guard = acquire_everywhere(redlock).await;
        let has_it = |server: &Server| {
            text(server, &["GET", "resource"]).as_deref() == Some(guard.token().as_str())
        };
        ask(&fleet[0], &["DEL", "resource", FENCE]);
        guard.extend(ms(30_000)).await.unwrap();
        eventually("it is healed", async || {
            has_it(&fleet[0]) && fence(&fleet[0]) == Some(token(&guard))
        })
        .await;
        // Somebody with a larger ballot was there and has gone: the lock is not set again.
        ask(&fleet[0], &["DEL", "resource"]);
        ask(&fleet[0], &["SET", FENCE, &(token(&guard) + 1).to_string()]);
        guard.extend(ms(40_000)).await.unwrap();
        tokio::time::sleep(ms(100)).await;
        assert!(!has_it(&fleet[0]));
        assert_eq!(guard.loss(), None);
        guard.release().await.unwrap();
        released_everywhere(fleet, 0).await;
    });
}

#[test]
fn flushed_scripts_of_fencing_are_sent_again() {
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

#[test]
fn a_key_of_another_type_is_in_a_fenced_lock_s_way() {
    on_every_flavor(&async |fleet, redlock| {
        for server in fleet {
            ask(server, &["RPUSH", "resource", "element"]);
        }
        let error = soon(redlock.try_acquire("resource")).await.unwrap_err();
        assert!(error.is_contended(), "{error}");
        for server in fleet {
            assert_eq!(number(server, &["LLEN", "resource"]), 1);
        }
    });
}

#[test]
fn a_node_that_forbids_scripts_says_so() {
    run(async {
        let fleet = fleet(3);
        for server in &fleet {
            let rules = "ACL SETUSER locker on >secret ~* +@all -@scripting";
            ask(server, &rules.split(' ').collect::<Vec<_>>());
        }
        let urls = fleet
            .iter()
            .map(|server| format!("redis://locker:secret@127.0.0.1:{}", server.port()));
        let redlock = builder(urls).build().unwrap();
        let request = redlock.try_acquire("resource").fenced();
        let error = soon(request).await.unwrap_err();
        assert!(error.is_outage(), "{error}");
        let tally = error.tally().unwrap();
        let refused = |node| vote(tally, node) == Some(Vote::Refused(Refusal::NoPerm));
        let node = (0..3).find(|&node| refused(node)).expect("it is refused");
        let told = trouble(tally, node);
        assert!(told.contains("fencing needs scripts"), "{told}");
        for server in &fleet {
            assert_eq!(lock_keys(server), [""; 0]);
        }
    });
}

/// How many times the server has run a script.
fn scripts(server: &Server) -> u64 {
    let stats = info(server, "commandstats", "cmdstat_evalsha");
    let calls = stats.strip_prefix("calls=").unwrap();
    calls.split(',').next().unwrap().parse().unwrap()
}

/// A clock that is behind costs a second round at most, in the same attempt.
#[test]
fn a_client_whose_clock_is_behind_acquires_at_its_first_try() {
    run(async {
        for flavor in Flavor::available() {
            let fleet = Fleet::with(&flavor, 3, &Options::new()).unwrap();
            let now = SystemTime::now();
            let hour = Duration::from_secs(3600);
            let client = async |clock| {
                let builder = builder(fleet.urls()).ttl(TTL).fenced(true);
                let redlock = builder.wall_clock(clock).build().unwrap();
                warm_up(&redlock).await;
                redlock
            };
            let (ahead, behind) = (client(now + hour).await, client(now - hour).await);
            let mut last = 0;
            for _ in 0..50 {
                for redlock in [&ahead, &behind] {
                    let guard = soon(redlock.try_acquire("resource")).await.unwrap();
                    assert!(token(&guard) > last);
                    last = token(&guard);
                    guard.release().await.unwrap();
                    eventually("it is free", async || {
                        fleet.iter().all(|server| lock_keys(server).is_empty())
                    })
                    .await;
                }
            }
        }
    });
}

/// Without `CLIENT KILL` a plain lock is at the mercy of time-outs here: see
/// `without_kill_a_held_connection_breaks_the_assumption`. Behind a tombstone nothing can happen.
#[test]
fn law_4_a_late_acquire_behind_a_tombstone_does_nothing_at_a_real_node() {
    run(async {
        let nodes = Proxied::start(3);
        for server in &nodes.fleet {
            let rules = "ACL SETUSER locker on >secret ~* +@all -client|kill";
            ask(server, &rules.split(' ').collect::<Vec<_>>());
        }
        let urls = nodes.proxies.iter();
        let urls = urls.map(|proxy| format!("redis://locker:secret@{}", proxy.addr()));
        let redlock = builder(urls).ttl(TTL).fenced(true).build().unwrap();
        warm_up(&redlock).await;
        let proxy = &nodes.proxies[0];
        proxy.inject(Scope::Open, Direction::Requests, Fault::Hold);
        let guard = loop {
            let before = proxy.stats().taken_bytes;
            let guard = redlock.acquire("resource").await.unwrap();
            if vote(&guard.tally(), 0).is_none() {
                // It is pending: written, or about to be.
                taken(proxy, before).await;
                break guard;
            }
            guard.release().await.unwrap();
        };
        let accepted = proxy.stats().accepted;
        proxy.cut_clients();
        eventually("the client connects again", async || {
            proxy.stats().accepted > accepted && vote(&guard.tally(), 0) == Some(Vote::Unknown)
        })
        .await;
        let token = token(&guard);
        guard.release().await.unwrap();
        eventually("a tombstone stands", async || {
            fence(&nodes.fleet[0]) == Some(token + 1)
        })
        .await;
        assert!(redlock.close(TTL).await.is_complete(), "nothing is owed");
        tokio::time::sleep(ms(1500)).await;

        let before = scripts(&nodes.fleet[0]);
        proxy.resume().unwrap();
        eventually("the late acquire arrives", async || {
            scripts(&nodes.fleet[0]) > before
        })
        .await;
        tokio::time::sleep(ms(100)).await;
        assert_eq!(lock_keys(&nodes.fleet[0]), [""; 0]);
    });
}
