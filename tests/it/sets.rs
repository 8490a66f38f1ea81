//! One lock on several resources: all or nothing, at every node and over a quorum.

mod handing;
mod holding;

use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use redlock_quorum::testkit::memory::{Effect, Latency, MemoryServer};
use redlock_quorum::{AcquireError, GuardSet, InvalidRequest, Refusal, Wait};
use tokio::task::JoinSet;

use crate::life::now;
use crate::world::{ONE_WAY, World, ms, soon, warm};

/// At every node there are all locks of a set, or none.
fn is_whole(world: &World, guard: &GuardSet) -> bool {
    world.servers.iter().all(|server| {
        let token = |resource: &str| server.get(resource);
        let ours = guard.token().as_str();
        let mut there = guard
            .resources()
            .map(|resource| token(resource).as_deref() == Some(ours));
        let first = there.next();
        there.all(|there| Some(there) == first)
    })
}

fn locks(server: &MemoryServer) -> Vec<String> {
    let mut keys = server.keys();
    keys.retain(|key| !key.starts_with("redlock-quorum:"));
    keys
}

#[tokio::test(start_paused = true)]
async fn a_set_is_one_lock_on_all_of_its_resources() {
    let world = World::new(3);
    let redlock = world.client();
    warm(&redlock).await;
    let before = (now(), world.servers[0].commands().acquire);
    let guard = redlock.acquire_all(["y", "x", "y"]).await.unwrap();
    assert_eq!(now() - before.0, ONE_WAY * 2, "one round trip");
    let acquires = world.servers[0].commands().acquire - before.1;
    assert_eq!(acquires, 1, "one command a node");
    assert!(guard.resources().eq(["x", "y"]), "{guard:?}");
    soon("every node has it", || guard.tally().granted() == 3).await;
    for server in &world.servers {
        for resource in ["x", "y"] {
            assert_eq!(
                server.get(resource).as_deref(),
                Some(guard.token().as_str())
            );
        }
    }
    let text = format!("{guard:?}");
    assert!(
        text.contains(r#"["x", "y"]"#) && !text.contains(guard.token().as_str()),
        "{text}"
    );
    let released = guard.release().await.unwrap();
    assert!(
        !released.already_gone && released.deleted >= 2,
        "{released:?}"
    );
    world.is_soon_empty("all nodes were told").await;
}

#[tokio::test(start_paused = true)]
async fn it_excludes_each_of_its_resources_and_is_excluded_by_each() {
    let world = World::new(3);
    let (ours, theirs) = (world.client(), world.stranger());
    let set = ours.acquire_all(["x", "y"]).await.unwrap();
    for resource in ["x", "y"] {
        let error = theirs.try_acquire(resource).await.unwrap_err();
        assert!(error.is_contended(), "{resource}: {error}");
    }
    for other in [["w", "x"], ["y", "z"], ["y", "x"]] {
        let other = theirs.acquire_all(other).wait(Wait::Once).await;
        assert!(other.unwrap_err().is_contended());
    }
    drop(theirs.try_acquire("z").await.unwrap());
    set.release().await.unwrap();
    world.is_soon_empty("nothing is left").await;

    let single = theirs.acquire("y").await.unwrap();
    let error = ours.acquire_all(["x", "y"]).wait(Wait::Once).await;
    assert!(error.unwrap_err().is_contended());
    drop(ours.try_acquire("x").await.unwrap());
    single.release().await.unwrap();
    world.is_soon_empty("nothing is left").await;
}

#[tokio::test(start_paused = true)]
async fn where_one_resource_is_held_a_node_grants_none() {
    let world = World::new(3);
    let redlock = world.client();
    for server in &world.servers[..2] {
        server.set("y", "somebody else", Some(ms(60_000)));
    }
    let error = redlock.acquire_all(["x", "y", "z"]).wait(Wait::Once).await;
    assert!(error.unwrap_err().is_contended());
    assert_eq!(locks(&world.servers[0]), ["y"]);
    soon("the third is released", || {
        locks(&world.servers[2]).is_empty()
    })
    .await;

    world.servers[0].delete("y");
    let guard = redlock.acquire_all(["x", "y", "z"]).await.unwrap();
    soon("all have voted", || guard.tally().pending() == 0).await;
    assert_eq!(guard.tally().granted(), 2, "a quorum is enough");
    assert_eq!(
        locks(&world.servers[1]),
        ["y"],
        "and there is nothing elsewhere"
    );
    assert!(is_whole(&world, &guard));
}

/// Contenders that name the same resources in every order, alone and in sets, in two processes.
#[tokio::test(start_paused = true)]
async fn overlapping_sets_in_any_order_do_not_deadlock() {
    for fenced in [false, true] {
        let world = World::new(3);
        let clients = [world.client(), world.stranger()];
        let inside: [AtomicUsize; 3] = Default::default();
        let inside = Arc::new(inside);
        let sets: [&[&str]; 6] = [
            &["x", "y"],
            &["y", "x"],
            &["z", "x"],
            &["y", "z"],
            &["x"],
            &["z", "y", "x"],
        ];
        let mut tasks = JoinSet::new();
        for redlock in &clients {
            for set in sets {
                let (redlock, inside) = (redlock.clone(), Arc::clone(&inside));
                tasks.spawn(async move {
                    for _ in 0..3 {
                        let request = redlock.acquire_all(set.iter().copied()).wait(ms(60_000));
                        let request = if fenced { request.fenced() } else { request };
                        let guard = request.await.unwrap();
                        let places = || {
                            guard
                                .resources()
                                .map(|one| usize::from(one.as_bytes()[0] - b'x'))
                        };
                        for place in places() {
                            assert_eq!(inside[place].fetch_add(1, Ordering::Relaxed), 0);
                        }
                        tokio::time::sleep(ms(7)).await;
                        for place in places() {
                            inside[place].fetch_sub(1, Ordering::Relaxed);
                        }
                        guard.release().await.unwrap();
                    }
                });
            }
        }
        tasks.join_all().await;
        soon("no lock is left", || {
            world.servers.iter().all(|server| locks(server).is_empty())
        })
        .await;
        assert!(clients.iter().all(|redlock| redlock.lines() == 0));
    }
}

#[tokio::test(start_paused = true)]
async fn limits_of_sets_are_told_before_anything_is_sent() {
    let world = World::new(3);
    let redlock = world.client();
    let problem = async |resources: Vec<String>| match redlock.acquire_all(resources).await {
        Err(AcquireError::InvalidRequest(problem)) => Some(problem),
        _ => None,
    };
    let many = |count: usize| {
        (0..count)
            .map(|number| format!("r{number}"))
            .collect::<Vec<_>>()
    };
    assert_eq!(problem(Vec::new()).await, Some(InvalidRequest::NoResources));
    let count = 65;
    assert_eq!(
        problem(many(count)).await,
        Some(InvalidRequest::TooManyResources { count })
    );
    let empty = vec!["x".to_owned(), String::new()];
    assert_eq!(problem(empty).await, Some(InvalidRequest::EmptyResource));
    let long = vec!["x".repeat(512), "y".repeat(513)];
    let bytes = 513;
    assert_eq!(
        problem(long).await,
        Some(InvalidRequest::ResourceTooLong { bytes })
    );
    let reserved = vec!["a".to_owned(), "redlock-quorum:node".to_owned()];
    assert_eq!(
        problem(reserved).await,
        Some(InvalidRequest::ReservedResource)
    );
    let acquires = world.servers.iter().map(|server| server.commands().acquire);
    assert_eq!(acquires.sum::<u64>(), 0);
    // Each counts once.
    let most = [many(64), many(64)].concat();
    let guard = redlock.acquire_all(most).fenced().await.unwrap();
    assert_eq!(guard.resources().len(), 64);
    drop(redlock.acquire_all(["x".repeat(512)]).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_waiter_gets_all_of_them_once_the_last_is_free() {
    let world = World::new(3);
    let (ours, theirs) = (world.client(), world.stranger());
    let (x, y) = (
        theirs.acquire("x").await.unwrap(),
        theirs.acquire("y").await.unwrap(),
    );
    let waiter = tokio::spawn(ours.acquire_all(["x", "y"]).wait(ms(60_000)).into_future());
    tokio::time::sleep(ms(3000)).await;
    x.release().await.unwrap();
    tokio::time::sleep(ms(3000)).await;
    assert!(!waiter.is_finished());
    assert!(theirs.try_acquire("x").await.is_ok(), "nobody holds it");
    let released = now();
    y.release().await.unwrap();
    drop(waiter.await.unwrap().unwrap());
    let waited = now() - released;
    assert!(waited <= ONE_WAY * 7, "it was told: {waited:?}");
}

/// Dropped at every step, whatever the nodes do, nothing is left.
#[tokio::test(start_paused = true)]
async fn a_dropped_request_for_a_set_leaves_nothing() {
    for fenced in [false, true] {
        for trouble in 0..4 {
            for offset in (0..=60).step_by(5) {
                let world = World::new(3);
                let redlock = world.client();
                warm(&redlock).await;
                let (server, link) = (&world.servers[1], &world.links[1]);
                match trouble {
                    1 => server.set("y", "somebody else", None),
                    2 => server.fail_with_error(Some(Effect::Applied)),
                    3 => link.set_latency(Latency::fixed(ms(45)), Latency::fixed(ms(45))),
                    _ => {}
                }
                let request = redlock.acquire_all(["x", "y", "z"]);
                let request = if fenced { request.fenced() } else { request };
                drop(tokio::time::timeout(ms(offset), request.into_future()).await);
                server.fail_with_error(None);
                server.delete("y");
                soon("nothing is left", || {
                    world.servers.iter().all(|server| locks(server).is_empty())
                        && redlock.unsettled() == 0
                        && redlock.lines() == 0
                })
                .await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_told_as_for_a_single_lock() {
    let world = World::new(3);
    let redlock = world.client();
    for server in &world.servers[..2] {
        server.refuse(Some(Refusal::NoPerm));
    }
    let error = redlock
        .acquire_all(["x", "y"])
        .wait(Wait::Once)
        .await
        .unwrap_err();
    assert!(matches!(error, AcquireError::NoQuorum(_)), "{error}");
    world.is_soon_empty("what the third granted").await;
}
