//! Waiting on real servers: what a hand-over costs, how soon a waiter is woken, and what it sends.
#![expect(
    clippy::disallowed_methods,
    reason = "hand-overs between real servers take real time"
)]

mod counts;
mod handovers;
mod processes;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redlock_quorum::testkit::fleet::{Fleet, Server};
use redlock_quorum::{Renewal, Wait};

use self::counts::{Sets, counts};
use crate::support::{
    ask, builder, eventually, fleet, lock_keys, median, ms, released_everywhere, run, warm_up,
};

#[test]
fn a_waiter_is_quiet_while_it_waits() {
    const MOST_IN_A_SECOND: u128 = 4;
    run(async {
        let fleet = fleet(5);
        let [holder, waiter] = [(); 2].map(|()| builder(fleet.urls()).build().unwrap());
        warm_up(&holder).await;
        warm_up(&waiter).await;
        let lease = holder
            .acquire("resource")
            .ttl(ms(10_000))
            .renewal(Renewal::off())
            .await
            .unwrap()
            .detach()
            .unwrap();
        let (before, began) = (counts(&fleet), Instant::now());
        let waits = tokio::spawn(waiter.acquire("resource").wait(ms(20_000)).into_future());
        // It is held for a while yet, also if this takes longer.
        tokio::time::sleep(ms(8_900)).await;
        let (after, waited) = (counts(&fleet), began.elapsed());
        let most = u64::try_from(MOST_IN_A_SECOND * waited.as_millis() / 1000).unwrap();
        for (before, after) in before.iter().zip(after) {
            let spent = after.since(before).commands();
            println!("{spent} commands in {waited:?}");
            assert!((2..=most).contains(&spent), "{spent} of {most} commands");
        }
        holder.release_lease(lease).await.unwrap();
        waits.await.unwrap().unwrap().release().await.unwrap();
        released_everywhere(&fleet, 0).await;
    });
}

#[test]
fn a_waiter_is_woken_by_a_release() {
    run(async {
        let fleet = fleet(5);
        let [holder, waiter] = [(); 2].map(|()| builder(fleet.urls()).build().unwrap());
        warm_up(&holder).await;
        warm_up(&waiter).await;
        let mut nodes = connections(&fleet).await;
        let (mut samples, mut trips) = (Vec::new(), Vec::new());
        for _ in 0..50 {
            let guard = holder.acquire("resource").await.unwrap();
            let waits = waiter.acquire("resource").into_future();
            let waits = tokio::spawn(async move {
                let guard = waits.await.unwrap();
                (guard, Instant::now())
            });
            tokio::time::sleep(ms(50)).await;
            // In between, after the same rest: what slows the machine down slows down both.
            trips.push(round_trip(&mut nodes).await);
            let released = Instant::now();
            let release = tokio::spawn(guard.release());
            let (guard, woken) = waits.await.unwrap();
            samples.push(woken - released);
            release.await.unwrap().unwrap();
            guard.release().await.unwrap();
        }
        let (woken, trip) = (median(&samples), median(&trips));
        println!("a waiter has the lock {woken:?} after the release; a round trip takes {trip:?}");
        assert!(
            woken <= 5 * trip + ms(2),
            "{woken:?}, a trip takes {trip:?}"
        );
        released_everywhere(&fleet, 0).await;
    });
}

async fn connections(fleet: &Fleet) -> Vec<MultiplexedConnection> {
    let mut connections = Vec::new();
    for server in fleet {
        let client = redis::Client::open(server.url()).unwrap();
        connections.push(client.get_multiplexed_async_connection().await.unwrap());
    }
    connections
}

/// What the slowest of a quorum of nodes takes to answer.
async fn round_trip(nodes: &mut [MultiplexedConnection]) -> Duration {
    let began = Instant::now();
    let pings = nodes.iter_mut().map(|connection| async {
        let ping = redis::cmd("PING").query_async::<()>(connection).await;
        ping.unwrap();
        began.elapsed()
    });
    let mut answers = futures::future::join_all(pings).await;
    answers.sort_unstable();
    answers[answers.len() / 2]
}

/// How the nodes stop being in a waiter's way, other than by a release.
#[test]
fn a_waiter_is_woken_by_whatever_frees_the_lock() {
    type Free = fn(&Server);
    let ways: [(&str, Free); 3] = [
        ("deleted by hand", |server| {
            ask(server, &["DEL", "resource"]);
        }),
        ("flushed", |server| {
            ask(server, &["FLUSHALL"]);
        }),
        ("released by another kind of client", |server| {
            let text = "return redis.call('DEL', KEYS[1])";
            ask(server, &["EVAL", text, "1", "resource"]);
        }),
    ];
    run(async {
        let fleet = fleet(3);
        let guard = redlock_quorum::RestartGuard::Off;
        let waiter = builder(fleet.urls()).restart_guard(guard).build().unwrap();
        warm_up(&waiter).await;
        for (way, free) in ways {
            let mut samples = Vec::new();
            for _ in 0..7 {
                for server in &fleet {
                    ask(server, &["SET", "resource", "theirs", "NX", "PX", "60000"]);
                }
                let waits = tokio::spawn(waiter.acquire("resource").into_future());
                tokio::time::sleep(ms(30)).await;
                let began = Instant::now();
                fleet.iter().for_each(free);
                waits.await.unwrap().unwrap().release().await.unwrap();
                samples.push(began.elapsed());
            }
            println!("{way}: {:?}", median(&samples));
            // Without news it takes a second at least.
            assert!(median(&samples) < ms(500), "{way}: {samples:?}");
        }
        released_everywhere(&fleet, 0).await;
    });
}

#[test]
fn a_thousand_waiters_that_are_dropped_leave_nothing() {
    run(async {
        let fleet = fleet(3);
        let [holder, waiter] = [(); 2].map(|()| builder(fleet.urls()).build().unwrap());
        warm_up(&holder).await;
        warm_up(&waiter).await;
        for remote in [true, false] {
            let by = if remote { &holder } else { &waiter };
            let guard = by.acquire("resource").await.unwrap();
            let waiters: Vec<_> = (0..1000_u64)
                .map(|number| {
                    let request = waiter.acquire("resource").wait(Wait::Forever);
                    // A scattered permutation of the first second.
                    let until = ms(number * 617 % 1000);
                    tokio::spawn(tokio::time::timeout(until, request.into_future()))
                })
                .collect();
            tokio::time::sleep(ms(500)).await;
            guard.release().await.unwrap();
            for waits in waiters {
                drop(waits.await.unwrap());
            }
            eventually("nothing is left", async || {
                waiter.lines() + waiter.unsettled() == 0
            })
            .await;
            released_everywhere(&fleet, 0).await;
        }
    });
}

#[test]
fn five_who_start_together_have_a_winner_soon() {
    const TRIALS: usize = 1000;
    run(async {
        let fleet = Fleet::with(
            &crate::support::flavor(),
            3,
            &redlock_quorum::testkit::fleet::Options::new()
                .argument("--slowlog-log-slower-than")
                .argument("0")
                .argument("--slowlog-max-len")
                .argument("1000000"),
        )
        .unwrap();
        let clients = [(); 5].map(|()| builder(fleet.urls()).build().unwrap());
        for client in &clients {
            warm_up(client).await;
        }
        let mut rounds = Vec::new();
        let mut winners = BTreeMap::new();
        for trial in 0..TRIALS {
            let resource = format!("trial-{trial}");
            let together = Arc::new(tokio::sync::Barrier::new(clients.len()));
            let requests = clients.clone().map(|client| {
                let (together, resource) = (Arc::clone(&together), resource.clone());
                Box::pin(tokio::spawn(async move {
                    together.wait().await;
                    client.acquire(resource).await.unwrap()
                }))
            });
            let (winner, _, others) = futures::future::select_all(requests).await;
            others.iter().for_each(|other| other.abort());
            let winner = winner.unwrap();
            winners.insert(resource, winner.token().as_str().to_owned());
            winner.release().await.unwrap();
            drop(futures::future::join_all(others).await);
        }
        let sets: Vec<Sets> = fleet.iter().map(Sets::of).collect();
        for (resource, token) in &winners {
            let seen = sets.iter().filter_map(|sets| sets.rounds(resource, token));
            rounds.push(seen.max().expect("a quorum of nodes has been asked"));
        }
        rounds.sort_unstable();
        let (middle, worst) = (rounds[TRIALS / 2], rounds[TRIALS * 99 / 100]);
        println!(
            "rounds: median {middle}, p99 {worst}, most {:?}",
            rounds.last()
        );
        assert!(middle <= 2 && worst <= 6, "median {middle}, p99 {worst}");
        eventually("no lock key is left", async || {
            fleet.iter().all(|server| lock_keys(server).is_empty())
        })
        .await;
    });
}

/// What a node that does not tell costs, and that it is polled.
#[test]
fn where_tracking_is_refused_a_waiter_polls() {
    run(async {
        let fleet = fleet(3);
        for server in &fleet {
            ask(
                server,
                &[
                    "ACL",
                    "SETUSER",
                    "quiet",
                    "on",
                    ">quiet",
                    "~*",
                    "+@all",
                    "-client|tracking",
                ],
            );
        }
        let urls = fleet
            .iter()
            .map(|server| format!("redis://quiet:quiet@127.0.0.1:{}", server.port()));
        let waiter = builder(urls).build().unwrap();
        let holder = builder(fleet.urls()).build().unwrap();
        warm_up(&waiter).await;
        warm_up(&holder).await;
        let mut samples = Vec::new();
        for _ in 0..9 {
            let guard = holder.acquire("resource").await.unwrap();
            let waits = tokio::spawn(waiter.acquire("resource").into_future());
            tokio::time::sleep(ms(300)).await;
            let released = Instant::now();
            guard.release().await.unwrap();
            waits.await.unwrap().unwrap().release().await.unwrap();
            samples.push(released.elapsed());
        }
        // A backoff is a quarter of a second at most; the poll floor 1.5 s at least.
        assert!(median(&samples) < ms(500), "{samples:?}");
        released_everywhere(&fleet, 0).await;
    });
}
