//! The end of a client: what is released, what is owed, and for how long that is waited for.

use std::future::IntoFuture;
use std::time::Duration;

use redlock_quorum::{AcquireError, ExtendError, LossCause, Wait};

use crate::life::now;
use crate::world::{World, ms, soon};

#[tokio::test(start_paused = true)]
async fn close_ends_requests_and_releases_what_is_held() {
    let world = World::new(3);
    let redlock = world.client();
    let guard = redlock.acquire("a").await.unwrap();
    let (other, lost) = (redlock.acquire("b").await.unwrap(), guard.lost());
    let waiter = tokio::spawn(redlock.acquire("a").wait(Wait::Forever).into_future());
    tokio::time::sleep(ms(200)).await;
    let drained = redlock.clone().close(Duration::from_secs(5)).await;
    assert!(
        drained.is_complete() && world.is_empty(),
        "{drained:?} {:?}",
        world.keys()
    );
    assert_eq!(
        (lost.await, other.loss()),
        (LossCause::Closed, Some(LossCause::Closed))
    );
    assert!(matches!(waiter.await.unwrap(), Err(AcquireError::Closed)));
    assert!(matches!(
        redlock.try_acquire("c").await,
        Err(AcquireError::Closed)
    ));
    assert!(matches!(
        guard.extend(ms(60_000)).await,
        Err(ExtendError::Lost(LossCause::Closed))
    ));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_close_closes_all_the_same() {
    let world = World::new(3);
    let redlock = world.client();
    let guard = redlock.acquire("a").await.unwrap();
    let close = redlock.clone().close(Duration::from_secs(5));
    assert!(tokio::time::timeout(ms(1), close).await.is_err());
    assert_eq!(guard.loss(), Some(LossCause::Closed));
    let error = redlock.try_acquire("b").await.unwrap_err();
    assert!(matches!(error, AcquireError::Closed), "{error}");
    world.is_soon_empty("what is owed is paid").await;
}

#[tokio::test(start_paused = true)]
async fn close_lists_what_a_lost_node_is_owed() {
    let world = World::new(3);
    let redlock = world.client();
    let guard = redlock.acquire("a").await.unwrap();
    soon("all three have it", || guard.tally().granted() == 3).await;
    world.servers[1].crash();
    tokio::time::sleep(ms(100)).await;
    let before = now();
    let drained = redlock.close(Duration::from_secs(5)).await;
    assert_eq!(drained.owed().collect::<Vec<_>>(), [("memory:1", 1)]);
    assert!(
        now() - before < ms(100),
        "only connected nodes are waited for"
    );
}

#[tokio::test(start_paused = true)]
async fn close_waits_for_releases_that_were_not_confirmed_in_time() {
    let world = World::new(3);
    let redlock = world.client();
    let guard = redlock.acquire("a").await.unwrap();
    soon("all three have it", || guard.tally().granted() == 3).await;
    for link in &world.links {
        link.block_requests(true);
    }
    assert!(guard.release().await.is_err());
    let before = now();
    let drained = redlock.clone().close(ms(300)).await;
    assert_eq!(drained.owed().count(), 3, "{drained:?}");
    assert_eq!(now() - before, ms(300), "the nodes are connected");
    for link in &world.links {
        link.block_requests(false);
    }
    let drained = redlock.close(Duration::from_secs(5)).await;
    assert!(drained.is_complete(), "{drained:?}");
    assert!(world.is_empty());
}

#[tokio::test(start_paused = true)]
async fn close_waits_no_longer_than_its_limit() {
    let world = World::new(3);
    let redlock = world.client();
    let _guard = redlock.acquire("a").await.unwrap();
    for link in &world.links {
        link.block_requests(true);
    }
    let before = now();
    let drained = redlock.close(ms(300)).await;
    assert_eq!(now() - before, ms(300));
    assert_eq!(drained.owed().count(), 3, "{drained:?}");
}
