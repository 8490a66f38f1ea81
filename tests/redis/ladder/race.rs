//! A key that somebody touches between our look at it and our change of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use redlock_quorum::testkit::fleet::ServerKind;
use redlock_quorum::{ExtendError, Guard, LossCause, Redlock};

use super::nodes::{Nodes, at};
use super::relay::Relay;
use crate::support::{acquire_everywhere, builder, eventually, ms, run, warm_up};

const FOREIGN: &str = "somebody else's";

/// Nodes without scripts, and relays that do something before an `EXEC` behind this command.
struct Raced {
    nodes: Nodes,
    relays: Vec<Relay>,
    redlock: Redlock,
    /// How often it was done.
    count: Arc<AtomicU32>,
    is_armed: Arc<AtomicBool>,
}

impl Raced {
    /// At each node, `times` times, does `words` just before the change named `change` is carried out.
    async fn start(
        change: &'static str,
        times: u32,
        words: &'static [&'static str],
    ) -> Option<Self> {
        let nodes = Nodes::start(ServerKind::Redis, "-@scripting")?;
        let count = Arc::new(AtomicU32::new(0));
        let is_armed = Arc::new(AtomicBool::new(false));
        let mut relays = Vec::new();
        for admin in &nodes.admins {
            let (admin, count) = (admin.clone(), Arc::clone(&count));
            let is_armed = Arc::clone(&is_armed);
            let (left, is_next) = (AtomicU32::new(times), AtomicU32::new(0));
            let before = move |command: &[String]| {
                if command == ["EXEC"] && is_next.swap(0, Ordering::SeqCst) == 1 {
                    let less = |left: u32| left.checked_sub(1);
                    if left
                        .fetch_update(Ordering::SeqCst, Ordering::SeqCst, less)
                        .is_ok()
                    {
                        at(&admin, words);
                        count.fetch_add(1, Ordering::SeqCst);
                    }
                } else if command[0] == change && is_armed.load(Ordering::SeqCst) {
                    is_next.store(1, Ordering::SeqCst);
                }
            };
            relays.push(Relay::start(&nodes.admins[relays.len()], before).await);
        }
        let urls = nodes
            .users
            .iter()
            .zip(&relays)
            .map(|(url, relay)| relay.url(url));
        let redlock = builder(urls).ttl(Duration::from_secs(20)).build().unwrap();
        warm_up(&redlock).await;
        Some(Self {
            nodes,
            relays,
            redlock,
            count,
            is_armed,
        })
    }

    /// A lock on all nodes; from now on somebody is in its way.
    async fn guard(&self) -> Guard {
        let guard = acquire_everywhere(&self.redlock, "resource").await;
        self.is_armed.store(true, Ordering::SeqCst);
        guard
    }

    fn count(&self) -> u32 {
        self.count.load(Ordering::SeqCst)
    }
}

#[test]
fn a_key_overwritten_between_look_and_delete_is_not_deleted() {
    run(async {
        let words = &["SET", "resource", FOREIGN];
        let Some(raced) = Raced::start("DEL", 1, words).await else {
            return;
        };
        let guard = raced.guard().await;
        let released = guard.release().await.unwrap();
        assert!(released.already_gone && released.deleted == 0);
        assert!(raced.redlock.clone().close(ms(10_000)).await.is_complete());
        assert_eq!(
            raced.count(),
            3,
            "it was overwritten at that moment, at each node"
        );
        for node in 0..3 {
            assert_eq!(raced.nodes.get(node, "resource").as_deref(), Some(FOREIGN));
        }
    });
}

#[test]
fn a_key_overwritten_between_look_and_extension_is_not_extended() {
    run(async {
        let words = &["SET", "resource", FOREIGN, "PX", "15000"];
        let Some(raced) = Raced::start("PEXPIRE", 1, words).await else {
            return;
        };
        let guard = raced.guard().await;
        match guard.extend(ms(60_000)).await {
            Err(ExtendError::Lost(LossCause::Gone)) => {}
            other => panic!("{other:?}"),
        }
        drop(guard);
        assert!(raced.redlock.clone().close(ms(10_000)).await.is_complete());
        assert!(raced.count() >= 2);
        for node in 0..3 {
            let ours = raced.nodes.get(node, "resource").as_deref() != Some(FOREIGN);
            assert!(ours || raced.nodes.ttl(node, "resource") <= 15_000);
        }
    });
}

#[test]
fn a_key_that_was_touched_and_is_still_ours_is_released() {
    run(async {
        let words = &["PEXPIRE", "resource", "90000"];
        let Some(raced) = Raced::start("DEL", 1, words).await else {
            return;
        };
        let guard = raced.guard().await;
        assert!(!guard.release().await.unwrap().already_gone);
        eventually("it is released", async || raced.nodes.are_empty()).await;
        assert_eq!(raced.count(), 3);
    });
}

#[test]
fn a_key_that_is_touched_again_and_again_is_released_in_the_end() {
    run(async {
        let words = &["PEXPIRE", "resource", "90000"];
        let Some(raced) = Raced::start("DEL", 20, words).await else {
            return;
        };
        let guard = raced.guard().await;
        guard.release().await.ok();
        assert!(raced.redlock.clone().close(ms(10_000)).await.is_complete());
        eventually("it is released", async || raced.nodes.are_empty()).await;
        assert_eq!(raced.count(), 60);
    });
}

#[test]
fn nothing_is_written_inside_a_transaction() {
    run(async {
        let Some(raced) = Raced::start("DEL", 0, &[]).await else {
            return;
        };
        let tasks: Vec<_> = (0..8)
            .map(|task| {
                let redlock = raced.redlock.clone();
                tokio::spawn(async move {
                    for cycle in 0..10 {
                        let guard = redlock.acquire(format!("r{}", task % 4)).await.unwrap();
                        if cycle % 2 == 0 {
                            guard.extend(ms(30_000)).await.unwrap();
                        }
                        guard.release().await.unwrap();
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert!(raced.redlock.close(ms(10_000)).await.is_complete());
        let mut transactions = 0;
        for commands in raced.relays.iter().flat_map(Relay::seen) {
            let mut commands = commands.iter().map(String::as_str);
            while let Some(command) = commands.next() {
                if command != "WATCH" {
                    assert!(!["MULTI", "DEL", "PEXPIRE"].contains(&command), "{command}");
                    continue;
                }
                transactions += 1;
                let inside: Vec<_> = commands
                    .by_ref()
                    .take_while(|word| *word != "EXEC")
                    .collect();
                let known: [&[&str]; 4] = [
                    &["GET", "MULTI"],
                    &["GET", "MULTI", "DEL"],
                    &["GET", "PTTL", "MULTI"],
                    &["GET", "PTTL", "MULTI", "PEXPIRE"],
                ];
                assert!(known.contains(&&inside[..]), "{inside:?}");
            }
        }
        // Releases and extensions of a quorum: what is unwritten at the third when a round is decided
        // is taken back.
        assert!(transactions >= 2 * (80 + 40), "{transactions}");
    });
}
