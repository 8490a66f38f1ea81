//! A client whose runtime ends before its guards do, or that has none.

use std::future::IntoFuture;
use std::sync::Barrier;
use std::task::Poll;

use redlock_quorum::testkit::memory::MemoryServer;
use redlock_quorum::{AcquireError, LossCause, Redlock};

use crate::life::now;
use crate::world::{World, ms};

#[test]
fn a_guard_outlives_its_runtime_and_is_dropped_anywhere() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let (guard, other, redlock) = runtime.block_on(async {
        let redlock = World::new(3).client();
        (
            redlock.acquire("a").await.unwrap(),
            redlock.acquire("b").await.unwrap(),
            redlock,
        )
    });
    std::thread::spawn(move || drop(other)).join().unwrap();
    drop(runtime);
    drop(guard);
    let later = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let outcome = later.block_on(redlock.acquire("a").into_future());
    assert!(matches!(outcome, Err(AcquireError::Closed)), "{outcome:?}");
}

#[test]
fn law_5_a_loss_is_on_time_without_any_runtime() {
    let runtime = || tokio::runtime::Runtime::new().unwrap();
    let (before, meanwhile) = (runtime(), runtime());
    let watches: Vec<_> = [&before, &meanwhile]
        .map(|runtime| {
            let guard = runtime.block_on(async {
                let redlock = World::new(3).client();
                redlock.acquire("a").ttl(ms(600)).await.unwrap()
            });
            (guard.lost(), guard)
        })
        .into();
    drop(before);
    let (waits, waiting) = std::sync::mpsc::channel();
    let watches: Vec<_> = watches
        .into_iter()
        .map(|(mut lost, guard)| {
            let waits = waits.clone();
            let watch = async move {
                let first = futures::poll!(&mut lost);
                waits.send(()).unwrap();
                let cause = match first {
                    Poll::Pending => lost.await,
                    Poll::Ready(cause) => cause,
                };
                (cause, now().into_std())
            };
            let watch = std::thread::spawn(|| futures::executor::block_on(watch));
            (watch, guard)
        })
        .collect();
    assert_eq!(waiting.iter().take(2).count(), 2);
    drop(meanwhile);
    for (watch, guard) in watches {
        let (cause, at) = watch.join().unwrap();
        assert_eq!(cause, LossCause::Expired);
        let early = guard.valid_until().saturating_duration_since(at);
        assert!(early < ms(3), "{early:?}");
    }
}

#[test]
fn without_a_runtime_there_is_an_error_and_no_panic() {
    let world = World::new(1);
    let outcome = futures::executor::block_on(world.client().acquire("a").into_future());
    assert!(matches!(
        outcome,
        Err(AcquireError::InvalidRequest(
            redlock_quorum::InvalidRequest::NoRuntime
        ))
    ));
}

/// Each of them is the first, or waits for the one that is.
#[test]
fn threads_without_a_runtime_may_use_a_client_first_at_one_moment() {
    let runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = { runtime }.worker_threads(1).enable_all().build().unwrap();
    for _ in 0..300 {
        let builder = Redlock::builder().memory_nodes([MemoryServer::new(1).link()]);
        let redlock = builder.runtime(runtime.handle().clone()).build().unwrap();
        let ready = Barrier::new(2);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    ready.wait();
                    let look = futures::executor::block_on(redlock.inspect("a"));
                    assert_eq!(look.problem(), None);
                });
            }
        });
    }
}
