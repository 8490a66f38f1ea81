//! Many tasks at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::support::{builder, fleet, lock_keys, released_everywhere, run, warm_up};

#[test]
fn a_hundred_thousand_cycles_leave_no_key() {
    const TASKS: u32 = 64;
    const CYCLES: u32 = 100_000;
    run(async {
        let fleet = fleet(5);
        let redlock = builder(fleet.urls()).build().unwrap();
        warm_up(&redlock).await;
        let left = Arc::new(AtomicU64::new(CYCLES.into()));
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let (redlock, left) = (redlock.clone(), Arc::clone(&left));
                tokio::spawn(async move {
                    let resource = format!("task-{task}");
                    let take = |left: u64| left.checked_sub(1);
                    while left
                        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
                        .is_ok()
                    {
                        let guard = redlock.try_acquire(resource.as_str()).await.unwrap();
                        assert!(!guard.release().await.unwrap().already_gone);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        released_everywhere(&fleet, 0).await;
        assert!(redlock.close(Duration::from_secs(10)).await.is_complete());
        for server in &fleet {
            assert_eq!(lock_keys(server), [""; 0]);
        }
    });
}

/// A number that loses updates when two change it at a time.
#[derive(Default)]
struct Counter(AtomicU64);

impl Counter {
    async fn increment(&self) {
        let seen = self.0.load(Ordering::Relaxed);
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
        self.0.store(seen + 1, Ordering::Relaxed);
    }

    fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[test]
fn a_counter_guarded_by_a_lock_loses_no_update() {
    const TASKS: u64 = 16;
    const UPDATES: u64 = 25;
    run(async {
        let fleet = fleet(5);
        let counter = Arc::new(Counter::default());
        // Two clients, as two processes would have.
        let clients = [(); 2].map(|()| {
            let builder = builder(fleet.urls()).wait(Duration::from_secs(60));
            builder.build().unwrap()
        });
        let tasks: Vec<_> = (0..TASKS)
            .zip(clients.iter().cycle())
            .map(|(_, redlock)| {
                let (redlock, counter) = (redlock.clone(), Arc::clone(&counter));
                tokio::spawn(async move {
                    for _ in 0..UPDATES {
                        let guard = redlock.acquire("counter").await.unwrap();
                        counter.increment().await;
                        assert_eq!(guard.loss(), None);
                        guard.release().await.unwrap();
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(counter.value(), TASKS * UPDATES);
        released_everywhere(&fleet, 0).await;
    });
}

/// The counter above does lose updates where nothing guards it.
#[test]
fn a_counter_without_a_lock_loses_updates() {
    run(async {
        let counter = Arc::new(Counter::default());
        let tasks: Vec<_> = (0..16)
            .map(|_| {
                let counter = Arc::clone(&counter);
                tokio::spawn(async move {
                    for _ in 0..1000 {
                        counter.increment().await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert!(counter.value() < 16_000);
    });
}
