//! A holder who is cut off learns in time that its lock is lost.
#![expect(clippy::disallowed_methods, reason = "a ttl runs in real time")]

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use redlock_quorum::{ExtendError, Guard, Holder, LossCause};

use crate::support::{
    Proxied, eventually, eventually_all_granted, lock_keys, ms, released_everywhere, run,
    run_on_one_thread, warm_up,
};

const GUARDS: u64 = 5;

/// They end one after the other.
const fn ttl(number: u64) -> Duration {
    Duration::from_millis(1500 + 100 * number)
}

/// Looks at a guard again and again. Never is it held at or after its end, which comes a millisecond
/// before `valid_until` at the latest.
pub(crate) fn watch(guard: &Guard) -> LossCause {
    let mut lost = guard.lost();
    loop {
        let now = Instant::now();
        // What is seen later than `now` may not be more than was true at `now`.
        let told = (&mut lost).now_or_never();
        let (loss, until) = (guard.loss(), guard.valid_until());
        if let Some(cause) = loss {
            assert_eq!(lost.now_or_never(), Some(cause));
            return cause;
        }
        assert_eq!(told, None, "it is final");
        assert!(
            now + ms(1) < until,
            "held {:?} too late",
            now + ms(1) - until
        );
        // Often, but it must not keep the others from running.
        thread::sleep(Duration::from_micros(200));
    }
}

#[test]
fn law_5_loss_is_told_in_time_when_all_links_are_cut() {
    // On one thread, so that a busy machine cannot change the order of events.
    run_on_one_thread(async {
        let nodes = Proxied::start(3);
        let redlock = nodes.builder().build().unwrap();
        warm_up(&redlock).await;
        let mut guards = Vec::new();
        for number in 0..GUARDS {
            let request = redlock.try_acquire(format!("lock-{number}"));
            let guard = request.ttl(ttl(number)).await.unwrap();
            eventually_all_granted(&guard).await;
            guards.push(Arc::new(guard));
        }
        // Each has been renewed by then.
        let first: Vec<_> = guards.iter().map(|guard| guard.valid_until()).collect();
        eventually("they are renewed", async || {
            let mut both = guards.iter().zip(&first);
            both.all(|(guard, first)| guard.valid_until() > *first)
        })
        .await;
        for proxy in &nodes.proxies {
            proxy.black_hole();
        }
        let watchers = guards.iter().map(|guard| {
            let guard = Arc::clone(guard);
            thread::spawn(move || watch(&guard))
        });
        let watchers: Vec<_> = watchers.collect();
        let told = guards.iter().map(|guard| {
            let (lost, until) = (guard.lost(), guard.valid_until());
            let lost = tokio::spawn(async move { (lost.await, Instant::now()) });
            // A busy machine may let nothing run in time; what is told comes before such a timer.
            let timer = tokio::spawn(async move {
                tokio::time::sleep_until(until.into()).await;
                Instant::now()
            });
            (lost, timer)
        });
        let told: Vec<_> = told.collect();
        match guards[1].extend(ttl(1)).await {
            Err(ExtendError::NoQuorum(_)) => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(
            guards[1].loss(),
            None,
            "an extension that fails harms nothing"
        );

        let mut in_time = 0;
        for (guard, (lost, timer)) in guards.iter().zip(told) {
            let (cause, at) = lost.await.unwrap();
            assert_eq!(cause, LossCause::Expired);
            assert_eq!(guard.loss(), Some(LossCause::Expired));
            let seen = redlock.inspect(guard.resource()).await;
            assert_ne!(seen.holder(), Holder::Ours, "{seen}");
            let (until, timer) = (guard.valid_until(), timer.await.unwrap());
            assert!(at + ms(5) >= until, "{:?} too early", until - at);
            assert!(at <= timer, "later than a timer for the end");
            in_time += usize::from(at <= until);
        }
        println!("{in_time} of {GUARDS} before the end of their validity");
        for watcher in watchers {
            assert_eq!(watcher.join().unwrap(), LossCause::Expired);
        }
        match guards[1].extend(ttl(1)).await {
            Err(ExtendError::Lost(LossCause::Expired)) => {}
            other => panic!("{other:?}"),
        }

        for proxy in &nodes.proxies {
            proxy.resume().unwrap();
        }
        warm_up(&redlock).await;
        for guard in guards {
            let guard = Arc::into_inner(guard).expect("nobody else has it");
            assert!(guard.release().await.unwrap().already_gone);
        }
        assert!(redlock.close(ms(5000)).await.is_complete());
        for server in &nodes.fleet {
            assert_eq!(lock_keys(server), [""; 0]);
        }
    });
}

#[test]
fn a_lock_outlives_a_short_cut() {
    run(async {
        let nodes = Proxied::start(3);
        let redlock = nodes.builder().ttl(ms(20_000)).build().unwrap();
        warm_up(&redlock).await;
        let guard = redlock.try_acquire("resource").await.unwrap();
        eventually_all_granted(&guard).await;
        for proxy in &nodes.proxies {
            proxy.cut();
        }
        warm_up(&redlock).await;
        assert_eq!(guard.loss(), None);
        guard.extend(ms(30_000)).await.unwrap();
        assert!(!guard.release().await.unwrap().already_gone);
        released_everywhere(&nodes.fleet, 0).await;
    });
}
