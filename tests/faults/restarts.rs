//! Nodes that die and come back, links that break and heal, while locks are taken and held.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redlock_quorum::testkit::fleet::{Fleet, Options};
use redlock_quorum::{ExtendError, LossCause, Redlock, RestartGuard};
use tokio::task::JoinHandle;

use crate::support::{
    Proxied, TWO_RECONNECTS, acquire_everywhere, builder, eventually, eventually_all_granted,
    eventually_within, flavor, lock_keys, ms, released_everywhere, run, soon, text, warm_up,
};

/// Longer than any test: no key may end by itself.
const TTL: Duration = Duration::from_secs(60);

async fn three_nodes(options: Options) -> (Fleet, Redlock) {
    let fleet = Fleet::with(&flavor(), 3, &options).unwrap();
    // Restarted nodes vote at once: these tests look at what is left on them.
    let builder = builder(fleet.urls()).restart_guard(RestartGuard::Off);
    let redlock = builder.ttl(TTL).build().unwrap();
    warm_up(&redlock).await;
    (fleet, redlock)
}

/// Waits until every node grants again, and no longer than it may take.
async fn used_again(redlock: &Redlock) {
    eventually_within(
        TWO_RECONNECTS,
        "every node is used again",
        async || match redlock.try_acquire("again").await {
            Ok(guard) => eventually_all_granted(&guard).await,
            Err(_) => false,
        },
    )
    .await;
}

/// Tasks that acquire and release, each a name of its own, until they are stopped.
struct Traffic {
    stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<u32>>,
}

impl Traffic {
    fn start(redlock: &Redlock) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let tasks = (0..4)
            .map(|task| {
                let (redlock, stop) = (redlock.clone(), Arc::clone(&stop));
                tokio::spawn(async move {
                    let mut cycles = 0;
                    while !stop.load(Ordering::Relaxed) {
                        let guard = redlock.try_acquire(format!("task-{task}")).await.unwrap();
                        guard.release().await.unwrap();
                        cycles += 1;
                    }
                    cycles
                })
            })
            .collect();
        Self { stop, tasks }
    }

    /// None of them has met an error.
    async fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.tasks {
            assert!(soon(task).await.unwrap() > 0);
        }
    }
}

#[test]
fn a_lock_survives_restarts_one_after_another_and_not_two_at_once() {
    run(async {
        let (mut fleet, redlock) = three_nodes(Options::new()).await;
        let guard = acquire_everywhere(&redlock, "resource").await;
        let token = guard.token().as_str().to_owned();
        // Each comes back empty, and is healed before the next one goes.
        for node in [0, 1, 2] {
            fleet[node].restart().unwrap();
            used_again(&redlock).await;
            guard.extend(TTL).await.unwrap();
            eventually("the key is healed", async || {
                text(&fleet[node], &["GET", "resource"]).as_ref() == Some(&token)
            })
            .await;
        }
        assert_eq!(guard.loss(), None);

        for node in [0, 1] {
            fleet[node].restart().unwrap();
        }
        used_again(&redlock).await;
        match guard.extend(TTL).await {
            Err(ExtendError::Lost(LossCause::Gone)) => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(soon(guard.lost()).await, LossCause::Gone);
        assert!(guard.release().await.unwrap().already_gone);
        released_everywhere(&fleet, 0).await;
    });
}

#[test]
fn law_4_a_node_that_kept_its_data_is_owed_the_release() {
    run(async {
        let (mut fleet, redlock) = three_nodes(Options::new().durable()).await;
        let released = acquire_everywhere(&redlock, "a").await;
        let dropped = acquire_everywhere(&redlock, "b").await;
        fleet[0].kill().unwrap();
        assert!(!released.release().await.unwrap().already_gone);
        drop(dropped);
        fleet[0].restart().unwrap();
        used_again(&redlock).await;
        released_everywhere(&fleet, 0).await;
        assert!(redlock.close(ms(5000)).await.is_complete());
    });
}

#[test]
fn nodes_killed_and_started_under_traffic() {
    run(async {
        for options in [Options::new(), Options::new().durable()] {
            let (mut fleet, redlock) = three_nodes(options).await;
            for node in 0..3 {
                let traffic = Traffic::start(&redlock);
                tokio::time::sleep(ms(50)).await;
                fleet[node].kill().unwrap();
                tokio::time::sleep(ms(300)).await;
                fleet[node].restart().unwrap();
                used_again(&redlock).await;
                traffic.stop().await;
            }
            released_everywhere(&fleet, 0).await;
        }
    });
}

async fn link_breaks_under_traffic(breaks: impl Fn(&Proxied, usize), lasts: Duration) {
    let nodes = Proxied::start(3);
    let redlock = nodes.builder().ttl(TTL).build().unwrap();
    warm_up(&redlock).await;
    for node in 0..3 {
        let traffic = Traffic::start(&redlock);
        tokio::time::sleep(ms(50)).await;
        breaks(&nodes, node);
        tokio::time::sleep(lasts).await;
        nodes.proxies[node].resume().unwrap();
        used_again(&redlock).await;
        traffic.stop().await;
    }
    released_everywhere(&nodes.fleet, 0).await;
    assert!(redlock.close(ms(5000)).await.is_complete());
}

#[test]
fn links_reset_under_traffic() {
    run(link_breaks_under_traffic(
        |nodes, node| nodes.proxies[node].cut(),
        ms(50),
    ));
}

#[test]
fn links_black_holed_for_a_moment_under_traffic() {
    run(link_breaks_under_traffic(
        |nodes, node| nodes.proxies[node].black_hole(),
        ms(600),
    ));
}

#[test]
fn links_black_holed_for_long_under_traffic() {
    run(link_breaks_under_traffic(
        |nodes, node| nodes.proxies[node].black_hole(),
        ms(4000),
    ));
}

#[test]
fn links_that_lose_replies_under_traffic() {
    run(link_breaks_under_traffic(
        |nodes, node| nodes.proxies[node].drop_replies(),
        ms(3000),
    ));
}

#[test]
fn a_waiting_acquire_outlives_an_outage() {
    run(async {
        let nodes = Proxied::start(3);
        let redlock = nodes.builder().ttl(TTL).build().unwrap();
        warm_up(&redlock).await;
        for proxy in &nodes.proxies {
            proxy.black_hole();
        }
        let request = redlock.acquire("resource").wait(Duration::from_secs(30));
        let waiting = tokio::spawn(request.into_future());
        let swallowed = || nodes.proxies.iter().all(|p| p.stats().swallowed_bytes > 0);
        eventually_within(ms(5000), "it tries", async || swallowed()).await;
        for proxy in &nodes.proxies {
            proxy.resume().unwrap();
        }
        let guard = soon(waiting).await.unwrap().unwrap();
        assert_eq!(guard.loss(), None);
        guard.release().await.unwrap();
        warm_up(&redlock).await;
        released_everywhere(&nodes.fleet, 0).await;
        for server in &nodes.fleet {
            assert_eq!(lock_keys(server), [""; 0]);
        }
    });
}
