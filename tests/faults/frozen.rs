//! One node of five that does not answer costs nothing.
#![expect(
    clippy::disallowed_methods,
    reason = "how long cycles take is measured in real time"
)]

use std::time::{Duration, Instant};

use redlock_quorum::testkit::fleet::Fleet;
use redlock_quorum::{Redlock, Unsent, Vote};

use crate::support::{
    builder, eventually, fleet, median, ms, released_everywhere, run, vote, warm_up,
};

async fn five_nodes() -> (Fleet, Redlock) {
    let fleet = fleet(5);
    let redlock = builder(fleet.urls()).build().unwrap();
    warm_up(&redlock).await;
    (fleet, redlock)
}

async fn cycle(redlock: &Redlock) -> Duration {
    let began = Instant::now();
    let guard = redlock.try_acquire("resource").await.unwrap();
    guard.release().await.unwrap();
    began.elapsed()
}

#[test]
fn law_3_a_frozen_node_is_not_waited_for() {
    const BLOCKS: usize = 50;
    run(async {
        let (fleet, redlock) = five_nodes().await;
        let (mut healthy, mut frozen) = (Vec::new(), Vec::new());
        for block in 0..BLOCKS {
            let node = block % fleet.len();
            fleet[node].freeze().unwrap();
            for _ in 0..20 {
                frozen.push(cycle(&redlock).await);
            }
            fleet[node].thaw().unwrap();
            // It catches up before the others are measured.
            warm_up(&redlock).await;
            for _ in 0..20 {
                healthy.push(cycle(&redlock).await);
            }
        }
        let (frozen, healthy) = (median(&frozen), median(&healthy));
        let ratio = frozen.as_secs_f64() / healthy.as_secs_f64();
        println!("frozen {frozen:?}, healthy {healthy:?}, ratio {ratio:.2}");
        assert!(ratio <= 1.3, "{ratio}");
        released_everywhere(&fleet, 0).await;
    });
}

#[test]
fn no_cycle_waits_for_a_frozen_node_once_the_breaker_is_open() {
    run(async {
        let (fleet, redlock) = five_nodes().await;
        fleet[2].freeze().unwrap();
        eventually("the breaker opens", async || {
            let guard = redlock.try_acquire("resource").await.unwrap();
            vote(&guard.tally(), 2) == Some(Vote::Unsent(Unsent::BreakerOpen))
        })
        .await;
        let mut times = Vec::new();
        for _ in 0..200 {
            let began = Instant::now();
            let guard = redlock.try_acquire("resource").await.unwrap();
            let tally = guard.tally();
            assert!(
                matches!(vote(&tally, 2), Some(Vote::Unsent(_))),
                "nothing is sent there: {tally}"
            );
            guard.release().await.unwrap();
            times.push(began.elapsed());
        }
        times.sort_unstable();
        // Much less than a round time-out, which is what waiting would take; some may be slow for other
        // reasons.
        assert!(times[190] < ms(500), "{times:?}");
        fleet[2].thaw().unwrap();
        warm_up(&redlock).await;
        released_everywhere(&fleet, 0).await;
    });
}

#[test]
fn two_frozen_nodes_of_five_are_too_few_to_matter_and_three_are_an_outage() {
    run(async {
        let (fleet, redlock) = five_nodes().await;
        for node in 0..2 {
            fleet[node].freeze().unwrap();
        }
        for _ in 0..20 {
            cycle(&redlock).await;
        }
        fleet[2].freeze().unwrap();
        let error = redlock.try_acquire("resource").await.unwrap_err();
        assert!(error.is_outage(), "{error}");
        for node in 0..3 {
            fleet[node].thaw().unwrap();
        }
        warm_up(&redlock).await;
        released_everywhere(&fleet, 0).await;
    });
}
