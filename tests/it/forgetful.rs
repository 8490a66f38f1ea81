//! Nodes that forget at random times, and fresh processes that compete for one lock all the while.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redlock_quorum::testkit::memory::{MemoryServer, Restart};
use redlock_quorum::{Redlock, Renewal, RestartGuard};

use crate::life::now;
use crate::world::{World, link, ms};

const TTL: Duration = ms(2000);

/// A small generator: the same numbers for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

#[derive(Default)]
struct Seen {
    holders: AtomicU32,
    grants: AtomicU32,
    overlaps: AtomicU32,
}

/// Takes the lock again and again, each time as a process that has seen nothing before.
async fn contend(servers: Vec<MemoryServer>, guard: RestartGuard, mut dice: Dice, seen: Arc<Seen>) {
    loop {
        let redlock = Redlock::builder()
            .memory_nodes(servers.iter().map(link))
            .seed(dice.below(u64::MAX))
            .ttl(TTL)
            .max_ttl(TTL)
            .restart_guard(guard)
            .build()
            .unwrap();
        let renewal = match dice.below(2) {
            0 => Renewal::off(),
            _ => Renewal::every_third(),
        };
        let request = redlock.acquire("a").wait(ms(5000)).renewal(renewal);
        let Ok(held) = request.await else {
            continue;
        };
        seen.grants.fetch_add(1, Ordering::Relaxed);
        if seen.holders.fetch_add(1, Ordering::Relaxed) > 0 {
            seen.overlaps.fetch_add(1, Ordering::Relaxed);
        }
        tokio::select! {
            biased;
            _ = held.lost() => {}
            () = tokio::time::sleep(ms(dice.below(6000))) => {}
        }
        seen.holders.fetch_sub(1, Ordering::Relaxed);
        drop(held.release().await);
    }
}

/// Two minutes; returns grants and overlaps.
async fn two_minutes(seed: u64, guard: RestartGuard) -> (u32, u32) {
    let world = World::new(3);
    let seen = Arc::new(Seen::default());
    let contenders: Vec<_> = (0..3)
        .map(|number| {
            let dice = Dice(seed * 1000 + number);
            let servers = world.servers.clone();
            tokio::spawn(contend(servers, guard, dice, Arc::clone(&seen)))
        })
        .collect();
    let mut dice = Dice(seed);
    let until = now() + Duration::from_secs(120);
    while now() < until {
        // Often two in a short time; but not so fast that all forget before anybody has marked one:
        // they would look new.
        let pause = match dice.below(2) {
            0 => 800 + dice.below(500),
            _ => 4000 + dice.below(4000),
        };
        tokio::time::sleep(ms(pause)).await;
        let how = [Restart::Empty, Restart::KeepData][usize::from(dice.below(4) == 0)];
        let server = &world.servers[usize::try_from(dice.below(3)).unwrap()];
        if dice.below(4) == 0 {
            server.crash();
            tokio::time::sleep(ms(dice.below(1500))).await;
        }
        server.restart(how);
    }
    for contender in contenders {
        contender.abort();
    }
    let count = |count: &AtomicU32| count.load(Ordering::Relaxed);
    (count(&seen.grants), count(&seen.overlaps))
}

#[tokio::test(start_paused = true)]
async fn nodes_that_forget_at_random_make_no_second_holder() {
    let (mut unguarded, mut grants) = (0, 0);
    for seed in 1..=12 {
        let (granted, overlaps) = two_minutes(seed, RestartGuard::Observed).await;
        assert_eq!(overlaps, 0, "seed {seed}");
        grants += granted;
        unguarded += two_minutes(seed, RestartGuard::Off).await.1;
    }
    assert!(grants > 100, "{grants}");
    assert!(
        unguarded > 0,
        "without the guard this test sees second holders"
    );
    println!("{grants} grants; {unguarded} second holders without the guard");
}
