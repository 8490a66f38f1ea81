//! Sequences that seeds have found, or cannot reach.

use std::future::Future;
use std::task::{Context, Poll, Waker};

use redlock_quorum::testkit::memory::MemoryServer;
use redlock_quorum::{ExtendError, Guard, LossCause, Redlock, ReleaseError, Renewal, RestartGuard};
use tokio::runtime::Runtime;

use crate::dice::ms;

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
}

fn hold(runtime: &Runtime) -> (Vec<MemoryServer>, Guard) {
    runtime.block_on(async {
        let servers: Vec<MemoryServer> = (0..3).map(MemoryServer::new).collect();
        let redlock = Redlock::builder()
            .memory_nodes(servers.iter().map(MemoryServer::link))
            .seed(1)
            .restart_guard(RestartGuard::Off)
            .build()
            .unwrap();
        let request = redlock.acquire("r").renewal(Renewal::off());
        let guard = request.await.unwrap();
        tokio::time::sleep(ms(10)).await;
        (servers, guard)
    })
}

/// One runtime cannot see another end within one paused clock, so no seed does this.
#[test]
fn a_guard_outlives_its_runtime() {
    let first = runtime();
    let (servers, guard) = hold(&first);
    drop(first);
    assert!(servers.iter().all(|server| server.get("r").is_some()));
    runtime().block_on(async {
        assert_eq!(guard.loss(), None);
        let mut lost = std::pin::pin!(guard.lost());
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(lost.as_mut().poll(&mut context), Poll::Pending);
        let extended = guard.extend(ms(20_000)).await;
        assert!(
            matches!(extended, Err(ExtendError::NoQuorum(_))),
            "{extended:?}"
        );
        let released = tokio::time::timeout(ms(60_000), guard.release()).await;
        let Ok(Err(ReleaseError::Unconfirmed { nodes })) = released else {
            panic!("nothing was released, and it says {released:?}");
        };
        assert_eq!(nodes.len(), 3);
        assert_eq!(lost.await, LossCause::Released);
    });
}

#[test]
fn a_guard_is_dropped_after_its_runtime_and_outside_of_any() {
    let first = runtime();
    let (servers, guard) = hold(&first);
    let lost = guard.lost();
    drop(first);
    drop(guard);
    let mut context = Context::from_waker(Waker::noop());
    let lost = std::pin::pin!(lost);
    assert_eq!(lost.poll(&mut context), Poll::Ready(LossCause::Released));
    assert!(
        servers.iter().all(|server| server.get("r").is_some()),
        "the ttl ends it"
    );
}
