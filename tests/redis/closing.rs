//! The end of a client, of a guard on a thread without a runtime, and of a runtime.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::thread::{self, Thread};
use std::time::Duration;

use redlock_quorum::{AcquireError, LossCause};

use crate::support::{
    acquire_everywhere, builder, eventually, expired, fleet, info, lock_keys, ms,
    released_everywhere, run, soon, warm_up,
};

const LIMIT: Duration = Duration::from_secs(5);

#[test]
fn close_releases_what_is_held_and_ends_what_waits() {
    run(async {
        let fleet = fleet(3);
        let redlock = builder(fleet.urls()).build().unwrap();
        warm_up(&redlock).await;
        let mut guards = Vec::new();
        for resource in ["a", "b", "c"] {
            guards.push(redlock.try_acquire(resource).await.unwrap());
        }
        let lost = tokio::spawn(guards[0].lost());
        let waiting: Vec<_> = ["a", "b"]
            .map(|resource| tokio::spawn(redlock.acquire(resource).into_future()))
            .into();
        let commands = || info(&fleet[0], "stats", "total_commands_processed");
        let before = commands();
        eventually("they wait", async || commands() != before).await;
        let clone = redlock.clone();

        let drained = soon(redlock.close(LIMIT)).await;
        assert!(drained.is_complete(), "{drained:?}");
        assert_eq!(drained.owed().len(), 0);
        for server in &fleet {
            assert_eq!(lock_keys(server), [""; 0]);
            assert_eq!(expired(server), 0);
        }
        for guard in &guards {
            assert_eq!(guard.loss(), Some(LossCause::Closed));
        }
        assert_eq!(soon(lost).await.unwrap(), LossCause::Closed);
        for waiting in waiting {
            let error = soon(waiting).await.unwrap().unwrap_err();
            assert!(matches!(error, AcquireError::Closed), "{error}");
        }
        let error = soon(clone.try_acquire("d")).await.unwrap_err();
        assert!(matches!(error, AcquireError::Closed), "{error}");
        for guard in guards {
            assert!(guard.release().await.unwrap().already_gone);
        }
        assert!(soon(clone.close(LIMIT)).await.is_complete());
    });
}

#[test]
fn close_lists_what_is_owed_to_nodes_that_are_down() {
    run(async {
        let mut fleet = fleet(3);
        let redlock = builder(fleet.urls()).build().unwrap();
        warm_up(&redlock).await;
        let mut guards = Vec::new();
        for resource in ["a", "b"] {
            let guard = acquire_everywhere(&redlock, resource).await;
            guards.push(guard);
        }
        fleet[1].kill().unwrap();
        drop(guards);
        let drained = soon(redlock.close(LIMIT)).await;
        assert!(!drained.is_complete());
        let down = format!("127.0.0.1:{}", fleet[1].port());
        assert_eq!(drained.owed().collect::<Vec<_>>(), [(down.as_str(), 2)]);
        for node in [0, 2] {
            assert_eq!(lock_keys(&fleet[node]), [""; 0]);
        }
    });
}

#[test]
fn close_waits_no_longer_than_it_may() {
    run(async {
        let fleet = fleet(3);
        let redlock = builder(fleet.urls()).build().unwrap();
        warm_up(&redlock).await;
        let guard = acquire_everywhere(&redlock, "a").await;
        fleet[1].freeze().unwrap();
        let drained = soon(redlock.close(ms(200))).await;
        // On a busy machine perhaps to others, too.
        let frozen = format!("127.0.0.1:{}", fleet[1].port());
        let mut owed = drained.owed();
        assert!(owed.any(|owed| owed == (frozen.as_str(), 1)), "{drained:?}");
        drop(guard);
        // What is owed is paid all the same.
        fleet[1].thaw().unwrap();
        released_everywhere(&fleet, 0).await;
    });
}

#[test]
fn closing_a_client_that_was_never_used_is_quick() {
    run(async {
        let mut fleet = fleet(1);
        fleet[0].kill().unwrap();
        let redlock = builder(fleet.urls()).build().unwrap();
        assert!(soon(redlock.close(LIMIT)).await.is_complete());
    });
}

#[test]
fn a_guard_dropped_on_a_thread_without_a_runtime_is_released() {
    run(async {
        let fleet = fleet(3);
        let redlock = builder(fleet.urls()).build().unwrap();
        let guard = acquire_everywhere(&redlock, "resource").await;
        thread::spawn(move || drop(guard)).join().unwrap();
        released_everywhere(&fleet, 0).await;
    });
}

/// A guard may outlive the runtime that drives its client.
#[test]
fn a_guard_without_its_runtime_is_harmless() {
    let fleet = fleet(3);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let redlock = builder(fleet.urls()).ttl(ms(1000)).build().unwrap();
    let guard = runtime
        .block_on(redlock.acquire("resource").into_future())
        .unwrap();
    runtime.shutdown_timeout(LIMIT);
    drop(guard);
    // The ttl does what nobody else can.
    run(async {
        eventually("the keys expire", async || {
            fleet.iter().all(|server| lock_keys(server).is_empty())
        })
        .await;
        let error = soon(redlock.try_acquire("resource")).await.unwrap_err();
        assert!(matches!(error, AcquireError::Closed), "{error}");
    });
}

/// Unparks the thread that polls.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// An executor that knows nothing of tokio.
fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Arc::new(Unpark(thread::current())).into();
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn a_client_may_be_driven_by_another_runtime_than_its_callers() {
    let fleet = fleet(3);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let builder = builder(fleet.urls()).runtime(runtime.handle().clone());
    let redlock = builder.build().unwrap();
    let acquired = thread::spawn({
        let redlock = redlock.clone();
        move || block_on(redlock.acquire("resource").into_future())
    });
    let guard = acquired.join().unwrap().unwrap();
    assert_eq!(guard.loss(), None);
    run(async {
        guard.release().await.unwrap();
        released_everywhere(&fleet, 0).await;
    });
    drop(runtime);
}
