//! Everything at once: links that are cut, held, delayed and black-holed at random, while tasks of
//! two clients change a counter under one lock.
#![expect(
    clippy::disallowed_methods,
    reason = "the faults go on for some real time"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use redlock_quorum::testkit::proxy::{Direction, Fault, Proxy, Scope};

use crate::support::{Proxied, ms, released_everywhere, run, soon, warm_up};

const SEED: u64 = 20_261_130;
const LASTS: Duration = Duration::from_secs(10);
const TASKS: usize = 8;
/// Longer than the test: only a release ends a key, and an orphan stops everybody.
const TTL: Duration = Duration::from_secs(60);

async fn hurt(proxy: &Proxy, rng: &mut StdRng) {
    match rng.random_range(0..9) {
        0 => proxy.cut(),
        1 => proxy.cut_clients(),
        2 => proxy.black_hole(),
        3 => proxy.drop_replies(),
        4 => proxy.inject(Scope::Open, Direction::Requests, Fault::Hold),
        5 => {
            // What is held is delivered when the link heals, after its client has gone elsewhere.
            proxy.inject(Scope::Open, Direction::Requests, Fault::Hold);
            tokio::time::sleep(ms(rng.random_range(1..60))).await;
            proxy.cut_clients();
        }
        6 => {
            proxy.refuse();
            proxy.cut();
        }
        7 => proxy.delay(Direction::Both, ms(rng.random_range(1..80))),
        _ => heal(proxy),
    }
}

fn heal(proxy: &Proxy) {
    proxy.resume().unwrap();
}

#[test]
fn chaos_loses_no_update_and_leaves_no_key() {
    run(async {
        println!("seed {SEED}");
        let mut rng = StdRng::seed_from_u64(SEED);
        let nodes = Proxied::start(3);
        let clients = [(); 2].map(|()| nodes.builder().ttl(TTL).build().unwrap());
        for redlock in &clients {
            warm_up(redlock).await;
        }
        let (counter, stop) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let tasks: Vec<_> = (0..TASKS)
            .zip(clients.iter().cycle())
            .map(|(_, redlock)| {
                let (redlock, counter, stop) = (redlock.clone(), counter.clone(), stop.clone());
                tokio::spawn(async move {
                    let mut updates = 0;
                    while !stop.load(Ordering::Relaxed) {
                        let request = redlock.acquire("counter").wait(Duration::from_secs(40));
                        let guard = request.await.unwrap();
                        let seen = counter.load(Ordering::Relaxed);
                        tokio::task::yield_now().await;
                        counter.store(seen + 1, Ordering::Relaxed);
                        updates += 1;
                        assert_eq!(guard.loss(), None);
                        // A release that is not confirmed in time is paid later.
                        guard.release().await.ok();
                    }
                    updates
                })
            })
            .collect();

        let began = Instant::now();
        while began.elapsed() < LASTS {
            let victim = rng.random_range(0..nodes.proxies.len());
            hurt(&nodes.proxies[victim], &mut rng).await;
            tokio::time::sleep(ms(rng.random_range(1..150))).await;
            // A link in three is healthy again, lest nothing ever happens.
            let cured = rng.random_range(0..nodes.proxies.len());
            if rng.random_range(0..2) == 0 {
                heal(&nodes.proxies[cured]);
            }
        }
        nodes.proxies.iter().for_each(heal);
        stop.store(true, Ordering::Relaxed);
        let mut updates = 0;
        for task in tasks {
            updates += soon(task).await.unwrap();
        }
        println!("{updates} updates");
        assert!(updates > 0);
        assert_eq!(counter.load(Ordering::Relaxed), updates);
        for redlock in &clients {
            warm_up(redlock).await;
        }
        released_everywhere(&nodes.fleet, 0).await;
        for redlock in clients {
            assert!(redlock.close(ms(5000)).await.is_complete());
        }
    });
}
