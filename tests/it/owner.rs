//! Reentrancy: what an owner holds it can acquire again.

use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redlock_quorum::testkit::memory::{Latency, MemoryServer};
use redlock_quorum::{AcquireError, ExtendError, InvalidRequest, LossCause, Redlock, Wait};

use crate::life::now;
use crate::world::{ONE_WAY, World, ms, soon, unrenewed, warm};

#[tokio::test(start_paused = true)]
async fn a_nested_acquisition_costs_nothing_and_the_last_release_counts() {
    let world = World::new(3);
    let redlock = world.client();
    let owner = redlock.owner();
    let outer = owner.acquire("a").await.unwrap();
    soon("all votes are in", || outer.tally().pending() == 0).await;
    let commands = || {
        world
            .servers
            .iter()
            .map(|server| server.commands().acquire)
            .sum::<u64>()
    };
    let (before, count) = (now(), commands());
    let inner = owner.try_acquire("a").await.unwrap();
    assert_eq!((now(), commands()), (before, count), "no round trip");
    assert_eq!(inner.token(), outer.token());
    assert!(
        redlock.try_acquire("a").await.unwrap_err().is_contended(),
        "others are kept out"
    );
    assert!(
        redlock
            .owner()
            .try_acquire("a")
            .await
            .unwrap_err()
            .is_contended(),
        "other owners too"
    );
    outer.release().await.unwrap();
    assert_eq!(inner.loss(), None);
    assert!(redlock.try_acquire("a").await.unwrap_err().is_contended());
    assert!(inner.release().await.unwrap().deleted > 0);
    world
        .is_soon_empty("the last release reached the nodes")
        .await;
    assert_ne!(
        owner.acquire("a").await.unwrap().loss(),
        Some(LossCause::Released)
    );
}

#[tokio::test(start_paused = true)]
async fn a_second_acquisition_waits_for_the_first_in_flight() {
    let world = World::new(3);
    let redlock = world.client();
    let owner = redlock.owner();
    let (first, second) = tokio::join!(
        owner.acquire("a").into_future(),
        owner.try_acquire("a").into_future()
    );
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!(first.token(), second.token());
    drop((first, second));
    world.is_soon_empty("both are gone").await;
}

/// Here the first has no end of its own.
#[tokio::test(start_paused = true)]
async fn a_second_acquisition_waits_for_the_first_no_longer_than_it_may() {
    let world = World::new(3);
    let (redlock, stranger) = (world.client(), world.stranger());
    let held = stranger.acquire("a").await.unwrap();
    warm(&redlock).await;
    let owner = redlock.owner();
    let forever = owner.acquire("a").wait(Wait::Forever).into_future();
    let first = tokio::spawn(forever);
    tokio::time::sleep(ms(100)).await;
    let round = ms(1000);
    for (wait, most) in [(Wait::Once, round * 2), (ms(3000).into(), ms(3000) + round)] {
        let second = owner.acquire("a").wait(wait).into_future();
        let error = tokio::time::timeout(most, second).await.unwrap();
        let error = error.unwrap_err();
        assert!(error.is_contended(), "{error}");
    }
    held.release().await.unwrap();
    let guard = first.await.unwrap().unwrap();
    let nested = owner.try_acquire("a").await.unwrap();
    assert_eq!(nested.token(), guard.token());
}

/// Guards of one lock that are released at one moment, on two threads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_releases_at_once_one_reaches_the_nodes() {
    let redlock = Redlock::builder().memory_nodes([MemoryServer::new(1).link()]);
    let redlock = redlock.build().unwrap();
    for _ in 0..1000 {
        let owner = redlock.owner();
        let outer = owner.acquire("a").await.unwrap();
        let inner = owner.acquire("a").await.unwrap();
        let ready = Arc::new(AtomicUsize::new(0));
        let releases = [outer, inner].map(|guard| {
            let ready = Arc::clone(&ready);
            tokio::spawn(async move {
                ready.fetch_add(1, Ordering::SeqCst);
                while ready.load(Ordering::SeqCst) < 2 {
                    // Where the other one has no core of its own it gets this one.
                    std::thread::yield_now();
                }
                guard.release().await.unwrap().deleted
            })
        });
        let [outer, inner] = releases;
        assert_eq!(outer.await.unwrap() + inner.await.unwrap(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_first_acquisition_leaves_the_way_to_the_second() {
    let world = World::new(3);
    let redlock = world.client();
    warm(&redlock).await;
    let owner = redlock.owner();
    let first = tokio::time::timeout(ONE_WAY, owner.acquire("a").into_future());
    let (first, second) = tokio::join!(first, owner.acquire("a").into_future());
    assert!(first.is_err());
    second.unwrap().release().await.unwrap();
    world.is_soon_empty("nothing is left of either").await;
}

#[tokio::test(start_paused = true)]
async fn a_nested_acquisition_with_a_longer_ttl_extends() {
    let world = World::new(3);
    let redlock = world.client();
    let owner = redlock.owner();
    let outer = unrenewed(owner.acquire("a"), ms(1000)).await;
    let before = outer.valid_until();
    let inner = owner.acquire("a").ttl(ms(5000)).await.unwrap();
    assert!(outer.valid_until() > before + ms(3000));
    assert_eq!(inner.valid_until(), outer.valid_until());

    world.links.iter().for_each(|link| link.partition(true));
    let error = owner.acquire("a").ttl(ms(9000)).await.unwrap_err();
    assert!(matches!(error, AcquireError::NoQuorum(_)), "{error}");
    assert_eq!(
        (outer.loss(), inner.loss()),
        (None, None),
        "the outer is untouched"
    );
}

/// Each asks for a longer ttl than the one before, so none can do with another's extension.
#[tokio::test(start_paused = true)]
async fn nested_acquisitions_that_extend_one_after_another_end_in_time() {
    let world = World::new(3);
    let builder = world.builder().ttl(ms(10_000)).max_ttl(ms(60_000));
    let redlock = builder.build().unwrap();
    let owner = Arc::new(redlock.owner());
    let outer = owner.acquire("a").await.unwrap();
    let slow = Latency::fixed(ms(100));
    world
        .links
        .iter()
        .for_each(|link| link.set_latency(slow, slow));
    let (began, limit) = (now(), ms(50) + ms(1_000));
    let tasks = (20..36).map(|seconds| {
        let owner = Arc::clone(&owner);
        tokio::spawn(async move {
            let nested = owner.acquire("a").ttl(ms(seconds * 1_000)).wait(ms(50));
            let nested = nested.await.map(drop);
            assert!(now() - began <= limit + ms(1), "{:?}", now() - began);
            nested
        })
    });
    let nested = futures::future::join_all(tasks).await;
    let nested: Vec<_> = nested.into_iter().map(Result::unwrap).collect();
    assert!(nested[0].is_ok());
    let error = nested[15].as_ref().unwrap_err();
    assert!(matches!(error, AcquireError::NoQuorum(_)), "{error}");
    let text = error.to_string();
    let expected = "too few nodes answered for the lock on a (waited ";
    assert!(text.starts_with(expected), "{text}");
    assert_eq!(outer.loss(), None);
}

#[tokio::test(start_paused = true)]
async fn a_lost_outer_lock_is_not_acquired_again() {
    let world = World::new(3);
    let redlock = world.client();
    let owner = redlock.owner();
    let outer = unrenewed(owner.acquire("a"), ms(1000)).await;
    outer.lost().await;
    let error = owner.acquire("a").await.unwrap_err();
    assert!(
        matches!(error, AcquireError::Lost(LossCause::Expired)),
        "{error}"
    );
    assert!(matches!(
        outer.extend(ms(2000)).await,
        Err(ExtendError::Lost(_))
    ));
    drop(outer);
    assert!(
        owner.acquire("a").await.is_ok(),
        "when its guards are gone it can be"
    );
}

#[tokio::test(start_paused = true)]
async fn a_shared_guard_cannot_be_detached() {
    let world = World::new(3);
    let redlock = world.client();
    let owner = redlock.owner();
    let outer = owner.acquire("a").await.unwrap();
    let inner = owner.acquire("a").await.unwrap();
    let outer = outer.detach().unwrap_err();
    let inner = inner.detach().unwrap_err();
    drop(outer);
    assert_eq!(inner.loss(), None);
    assert!(inner.detach().is_ok(), "the last one can");
}

#[tokio::test(start_paused = true)]
async fn an_owner_forgets_what_it_no_longer_holds() {
    let world = World::new(1);
    let redlock = world.client();
    let owner = redlock.owner();
    for resource in 0..2000 {
        drop(owner.acquire(resource.to_string()).await.unwrap());
    }
    let shown = format!("{owner:?}");
    assert!(shown.len() < 2000, "{} bytes", shown.len());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(world.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_nested_lock_has_the_token_of_the_outer_or_none() {
    let world = World::new(3);
    let redlock = world.client();
    let owner = redlock.owner();
    let outer = owner.acquire("a").fenced().await.unwrap();
    let inner = owner.acquire("a").fenced().await.unwrap();
    assert!(inner.fencing_token().is_some());
    assert_eq!(inner.fencing_token(), outer.fencing_token());
    let plain = owner.acquire("b").await.unwrap();
    let error = owner.acquire("b").fenced().await.unwrap_err();
    assert!(
        matches!(
            error,
            AcquireError::InvalidRequest(InvalidRequest::FencedInPlain)
        ),
        "{error}"
    );
    assert_eq!(plain.loss(), None);
}
