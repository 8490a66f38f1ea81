//! A client whose runtime ends before its guards do, or that has none.

use std::future::IntoFuture;
use std::task::Poll;

use redlock_quorum::{AcquireError, LossCause};

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
