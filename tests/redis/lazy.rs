//! A client is built without its nodes, and uses them when they are there.
#![expect(
    clippy::disallowed_methods,
    reason = "how soon things happen is measured in real time"
)]

use std::time::{Duration, Instant};

use redlock_quorum::testkit::fleet::Fleet;
use redlock_quorum::{AcquireError, Redlock, RestartGuard, Unsent, Vote};

use crate::support::{
    TWO_RECONNECTS, builder, calls, eventually, fleet, ms, released_everywhere, run, soon, vote,
    warm_up,
};

/// A client that lets restarted nodes vote at once: these tests look at connections.
fn unguarded(fleet: &Fleet) -> Redlock {
    let builder = builder(fleet.urls()).restart_guard(RestartGuard::Off);
    builder.build().unwrap()
}

#[test]
fn a_client_of_nodes_that_are_down_uses_them_when_they_come_up() {
    run(async {
        let mut fleet = fleet(3);
        for server in &mut fleet {
            server.kill().unwrap();
        }
        let redlock = unguarded(&fleet);
        for _ in 0..3 {
            let began = Instant::now();
            let error = soon(redlock.try_acquire("resource")).await.unwrap_err();
            assert!(matches!(error, AcquireError::NoQuorum(_)), "{error}");
            assert!(began.elapsed() < ms(2000), "{:?}", began.elapsed());
            let tally = error.tally().unwrap();
            for node in 0..3 {
                // Two votes decide it.
                let unsent = [Unsent::NotConnected, Unsent::Decided].map(Vote::Unsent);
                assert!(vote(tally, node).is_some_and(|vote| unsent.contains(&vote)));
            }
        }

        for server in &mut fleet {
            server.restart().unwrap();
        }
        let request = redlock.acquire("resource").wait(TWO_RECONNECTS);
        let guard = request.await.expect("within two reconnect delays");
        guard.release().await.unwrap();
        warm_up(&redlock).await;
        released_everywhere(&fleet, 0).await;
    });
}

#[test]
fn an_acquire_waits_for_nodes_that_come_up() {
    run(async {
        let mut fleet = fleet(3);
        for server in fleet.iter_mut().take(2) {
            server.kill().unwrap();
        }
        let redlock = unguarded(&fleet);
        let request = redlock.acquire("resource").wait(Duration::from_secs(20));
        let waiting = tokio::spawn(request.into_future());
        // One node is up, and every attempt asks it.
        let sets = || calls(&fleet[2], "set");
        let before = sets();
        eventually("it tries", async || sets() > before).await;
        assert!(!waiting.is_finished());
        fleet[0].restart().unwrap();
        let guard = soon(waiting).await.unwrap().unwrap();
        guard.release().await.unwrap();
        fleet[1].restart().unwrap();
        warm_up(&redlock).await;
        released_everywhere(&fleet, 0).await;
    });
}

#[test]
fn nothing_is_sent_before_a_request_is_polled() {
    run(async {
        let fleet = fleet(1);
        let connections = || crate::support::info(&fleet[0], "stats", "total_connections_received");
        let redlock = builder(fleet.urls()).build().unwrap();
        let before: u64 = connections().parse().unwrap();
        drop(redlock.acquire("resource"));
        let later: u64 = connections().parse().unwrap();
        assert_eq!(later, before + 1, "only this test's own");
    });
}
