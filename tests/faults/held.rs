//! Locks that are held, renewed and released while servers stand still or are slow.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use redlock_quorum::testkit::fleet::Fleet;
use redlock_quorum::testkit::proxy::Direction;
use redlock_quorum::{Guard, Renewal};

use crate::support::{Proxied, builder, calls, eventually, ms, released_everywhere, run, warm_up};

const TTL: Duration = ms(3000);

/// When the last renewal began, or the acquisition.
fn renewed(guard: &Guard) -> Instant {
    const VALIDITY: Duration = ms(3000 - 30 - 2);
    guard.valid_until().checked_sub(VALIDITY).unwrap()
}

/// The next renewal is due between 900 and 1,100 ms after the one before, at its next tick: while all
/// servers stand still.
#[test]
fn servers_that_pause_around_a_renewal_cost_nothing() {
    // The round of a renewal lasts 300 ms: some are answered in it, some are tried again.
    const PAUSES: [Duration; 5] = [ms(300), ms(700), ms(300), ms(700), ms(300)];
    run(async {
        let fleet = Fleet::start(3).unwrap();
        let redlock = builder(fleet.urls()).ttl(TTL).build().unwrap();
        warm_up(&redlock).await;
        let steps = AtomicU32::new(0);
        let section = async |guard: &Guard| {
            let work = async {
                loop {
                    steps.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(ms(10)).await;
                }
            };
            let pauses = async {
                let mut pauses = PAUSES.into_iter().peekable();
                while let Some(&pause) = pauses.peek() {
                    let began = renewed(guard);
                    tokio::time::sleep_until((began + ms(840)).into()).await;
                    let until = guard.valid_until();
                    for server in &fleet {
                        server.freeze().unwrap();
                    }
                    let frozen = steps.load(Ordering::Relaxed);
                    tokio::time::sleep(pause).await;
                    // It goes on, however slowly.
                    eventually("ten steps while nobody answers", async || {
                        steps.load(Ordering::Relaxed) >= frozen + 10
                    })
                    .await;
                    // On a busy machine the renewal may have been before the pause: then another one.
                    if renewed(guard) == began {
                        pauses.next();
                    }
                    for server in &fleet {
                        server.thaw().unwrap();
                    }
                    eventually("it is renewed after all", async || {
                        guard.valid_until() > until
                    })
                    .await;
                    assert_eq!(guard.loss(), None);
                }
            };
            tokio::select! {
                () = work => {}
                () = pauses => {}
            }
            guard.token().as_str().to_owned()
        };
        let token = redlock.acquire("resource").using(section).await.unwrap();
        assert_eq!(token.len(), 32);
        released_everywhere(&fleet, 0).await;
    });
}

/// How often a node was asked to extend or to set a lock, or to release one.
fn asked(nodes: &Proxied) -> Vec<u64> {
    let calls = |server| calls(server, "evalsha") + calls(server, "set");
    nodes.fleet.iter().map(calls).collect()
}

/// Whatever the moment: no key is left, nothing renews after the release, and nothing is lost.
#[test]
fn releases_that_meet_renewals_on_real_nodes() {
    const TASKS: u64 = 16;
    const RELEASES: u64 = 2000;
    run(async {
        let nodes = Proxied::start(3);
        let redlock = nodes.builder().ttl(ms(20_000)).build().unwrap();
        warm_up(&redlock).await;
        for proxy in &nodes.proxies {
            // A renewal is on its way for as long as it is not.
            proxy.delay(Direction::Requests, ms(5));
        }
        let tasks = (0..TASKS).map(|task| {
            let redlock = redlock.clone();
            tokio::spawn(async move {
                let renewal = Renewal::every(ms(10));
                let mut renewed = 0;
                for round in 0..RELEASES / TASKS {
                    let request = redlock.acquire(format!("resource-{task}"));
                    let guard = request.renewal(renewal).await.unwrap();
                    let first = guard.valid_until();
                    let micros = 10_000 + (round * TASKS + task) * 7 % 20_000;
                    tokio::time::sleep(Duration::from_micros(micros)).await;
                    assert_eq!(guard.loss(), None, "no false loss");
                    renewed += u64::from(guard.valid_until() > first);
                    let released = guard.release().await.unwrap();
                    assert!(!released.already_gone, "no false loss");
                }
                renewed
            })
        });
        let mut renewed = 0;
        for task in tasks.collect::<Vec<_>>() {
            renewed += task.await.unwrap();
        }
        println!("{renewed} of {RELEASES} were renewed before");
        assert!(renewed > RELEASES / 4, "{renewed}");
        released_everywhere(&nodes.fleet, 0).await;
        eventually("all is settled", async || redlock.unsettled() == 0).await;
        let before = asked(&nodes);
        tokio::time::sleep(ms(500)).await;
        assert_eq!(asked(&nodes), before, "nothing renews after the release");
        released_everywhere(&nodes.fleet, 0).await;
    });
}
