//! Futures that are dropped at any point leave nothing behind and block nobody.
#![expect(clippy::disallowed_methods, reason = "the offsets are in real time")]

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use redlock_quorum::testkit::proxy::Direction;
use redlock_quorum::{Guard, Redlock};

use crate::support::{
    Proxied, eventually, lock_keys, median, ms, released_everywhere, run, warm_up,
};

const SEED: u64 = 20_261_130;
/// Much longer than each test: no key may end by itself.
const TTL: Duration = Duration::from_secs(60);
const DELAY: Duration = Duration::from_millis(5);
const MEASURES: usize = 15;

fn nodes() -> Proxied {
    let nodes = Proxied::start(3);
    for proxy in &nodes.proxies {
        proxy.delay(Direction::Requests, DELAY);
    }
    nodes
}

/// Polls a future for so long, then drops it. With no time at all it is polled once.
async fn poll_for<F: IntoFuture>(limit: Duration, future: F) -> Option<F::Output> {
    let end = Instant::now() + limit;
    let over = async {
        // Timers are too coarse for the last part.
        tokio::time::sleep(limit.saturating_sub(ms(3))).await;
        while Instant::now() < end {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        output = future.into_future() => Some(output),
        () = over, if !limit.is_zero() => None,
        () = std::future::ready(()), if limit.is_zero() => None,
    }
}

struct Offsets {
    rng: StdRng,
    /// What the last acquisitions took: the machine may become slower, or faster, meanwhile.
    times: VecDeque<Duration>,
}

impl Offsets {
    /// From the time that an acquisition takes here.
    async fn measure(redlock: &Redlock) -> Self {
        let mut offsets = Self {
            rng: StdRng::seed_from_u64(SEED),
            times: VecDeque::new(),
        };
        for _ in 0..MEASURES {
            offsets.remeasure(redlock).await;
        }
        offsets
    }

    async fn remeasure(&mut self, redlock: &Redlock) {
        let began = Instant::now();
        let guard = redlock.try_acquire("measure").await.unwrap();
        self.times.push_back(began.elapsed());
        if self.times.len() > MEASURES {
            self.times.pop_front();
        }
        guard.release().await.unwrap();
    }

    /// Somewhere in three round trips.
    fn next(&mut self) -> Duration {
        let round_trip = median(self.times.make_contiguous());
        let most = u64::try_from(round_trip.as_nanos()).unwrap() * 3;
        Duration::from_nanos(self.rng.random_range(0..most))
    }
}

async fn acquire(redlock: &Redlock) -> Guard {
    let next = redlock.acquire("resource").wait(Duration::from_secs(5));
    next.await.expect("what was dropped is in nobody's way")
}

#[test]
fn a_dropped_acquire_leaves_nothing_and_is_in_nobodys_way() {
    run(async {
        let nodes = nodes();
        let redlock = nodes.builder().ttl(TTL).build().unwrap();
        warm_up(&redlock).await;
        let mut offsets = Offsets::measure(&redlock).await;
        let (mut dropped, mut ended) = (0, 0);
        for _ in 0..300 {
            let request = redlock.acquire("resource");
            match poll_for(offsets.next(), request).await {
                None => dropped += 1,
                Some(guard) => {
                    ended += 1;
                    drop(guard.unwrap());
                }
            }
            acquire(&redlock).await.release().await.unwrap();
            offsets.remeasure(&redlock).await;
        }
        assert!(
            dropped > 50 && ended > 50,
            "{dropped} dropped, {ended} ended"
        );
        released_everywhere(&nodes.fleet, 0).await;
        assert!(redlock.close(ms(5000)).await.is_complete());
    });
}

#[test]
fn a_dropped_waiting_acquire_leaves_nothing() {
    run(async {
        let nodes = nodes();
        let redlock = nodes.builder().ttl(TTL).build().unwrap();
        warm_up(&redlock).await;
        let mut offsets = Offsets::measure(&redlock).await;
        let holder = acquire(&redlock).await;
        for _ in 0..100 {
            let waiting = poll_for(offsets.next() * 3, redlock.acquire("resource")).await;
            assert!(waiting.is_none(), "it is held");
        }
        assert_eq!(holder.loss(), None);
        for server in &nodes.fleet {
            eventually("the holder's key stands", async || {
                lock_keys(server) == ["resource"]
            })
            .await;
        }
        holder.release().await.unwrap();
        released_everywhere(&nodes.fleet, 0).await;
    });
}

#[test]
fn a_client_dropped_with_its_first_acquire_leaves_nothing() {
    run(async {
        let nodes = nodes();
        let others = nodes.builder().ttl(TTL).build().unwrap();
        warm_up(&others).await;
        let mut offsets = Offsets::measure(&others).await;
        for _ in 0..60 {
            // Connecting takes some round trips more.
            let client = nodes.builder().ttl(TTL).build().unwrap();
            let guard = poll_for(offsets.next() * 2, client.try_acquire("resource")).await;
            drop(client);
            drop(guard);
            acquire(&others).await.release().await.unwrap();
        }
        released_everywhere(&nodes.fleet, 0).await;
        eventually("the dropped clients are gone", async || {
            nodes.proxies.iter().all(|proxy| proxy.stats().open == 1)
        })
        .await;
    });
}

#[test]
fn a_dropped_release_releases() {
    run(async {
        let nodes = nodes();
        let redlock = nodes.builder().ttl(TTL).build().unwrap();
        warm_up(&redlock).await;
        let mut offsets = Offsets::measure(&redlock).await;
        for round in 0..100 {
            let guard = acquire(&redlock).await;
            if round % 10 == 0 {
                // Never polled.
                drop(guard.release());
            } else if let Some(released) = poll_for(offsets.next(), guard.release()).await {
                released.unwrap();
            }
        }
        acquire(&redlock).await.release().await.unwrap();
        released_everywhere(&nodes.fleet, 0).await;
    });
}

#[test]
fn a_dropped_extension_counts_or_not_but_harms_nothing() {
    run(async {
        let nodes = nodes();
        let redlock = nodes
            .builder()
            .ttl(TTL)
            .max_ttl(Duration::from_secs(600))
            .build()
            .unwrap();
        warm_up(&redlock).await;
        let mut offsets = Offsets::measure(&redlock).await;
        for round in 0_u32..100 {
            let guard = acquire(&redlock).await;
            let before = guard.valid_until();
            let extension = guard.extend(TTL + Duration::from_secs(1));
            poll_for(offsets.next(), extension).await;
            assert_eq!(guard.loss(), None);
            assert!(guard.valid_until() >= before);
            if round % 2 == 0 {
                let longer = guard.extend(TTL + Duration::from_secs(2)).await.unwrap();
                assert!(longer > before);
                assert_eq!(longer, guard.valid_until());
            }
            if round % 4 < 2 {
                guard.release().await.unwrap();
            }
        }
        acquire(&redlock).await.release().await.unwrap();
        released_everywhere(&nodes.fleet, 0).await;
    });
}
