//! Waiting for a lock: in line within a process, on the nodes' word among processes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use redlock_quorum::testkit::memory::MemoryLink;
use redlock_quorum::{AcquireError, Renewal, Vote, Wait};
use tokio::task::JoinSet;

use crate::life::now;
use crate::world::{ONE_WAY, World, ms, soon, warm};

const TRIP: Duration = ms(20);
const _: () = assert!(TRIP.as_nanos() == 2 * ONE_WAY.as_nanos());

fn acquires(world: &World) -> u64 {
    let acquires = world.servers.iter().map(|server| server.commands().acquire);
    acquires.max().unwrap_or(0)
}

/// Waits until everybody who can get anywhere has got there.
async fn settle() {
    tokio::time::sleep(ms(1)).await;
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_are_served_in_the_order_in_which_they_asked() {
    let world = World::new(5);
    let redlock = world.client();
    warm(&redlock).await;
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    let before = (now(), acquires(&world));
    for number in 0..16 {
        let (redlock, served) = (redlock.clone(), Arc::clone(&served));
        tasks.spawn(async move {
            for turn in 0..3 {
                let guard = redlock.acquire("a").wait(Wait::Forever).await.unwrap();
                served.lock().unwrap().push((turn, number));
                guard.release().await.unwrap();
            }
        });
        settle().await;
    }
    tasks.join_all().await;
    let expected: Vec<_> = (0..3)
        .flat_map(|turn| (0..16).map(move |number| (turn, number)))
        .collect();
    assert_eq!(*served.lock().unwrap(), expected);
    assert_eq!(acquires(&world) - before.1, 48, "one acquire for a grant");
    // Releases and acquires travel together; after 4, 12 and 28 grants there is a gap of two trips.
    let spent = now() - before.0;
    let least = TRIP * 48;
    assert!(
        spent <= least + 3 * (TRIP * 2 + ms(2)) + ms(20),
        "{spent:?}"
    );
    assert_eq!(redlock.lines(), 0);
}

#[tokio::test(start_paused = true)]
async fn behind_a_holder_of_the_same_process_nothing_is_sent() {
    let world = World::new(3);
    let redlock = world.client();
    let guard = redlock.acquire("a").await.unwrap();
    let before = acquires(&world);
    let waiter = tokio::spawn(redlock.acquire("a").into_future());
    tokio::time::sleep(ms(900)).await;
    assert_eq!(acquires(&world), before);
    let released = now();
    drop(guard);
    let guard = waiter.await.unwrap().unwrap();
    assert_eq!(now() - released, TRIP, "one round trip from the release");
    assert_eq!(acquires(&world), before + 1);
    guard.release().await.unwrap();
    assert_eq!(redlock.lines(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_is_wrong_is_found_out_at_the_poll_floor() {
    let world = World::new(3);
    let redlock = world.client();
    let guard = redlock.acquire("a").renewal(Renewal::off()).await.unwrap();
    let waiter = tokio::spawn(redlock.acquire("a").into_future());
    settle().await;
    let deleted = now();
    world.servers.iter().for_each(|server| server.delete("a"));
    let second = waiter.await.unwrap().unwrap();
    assert!(now() - deleted <= ms(3_000) + TRIP);
    assert!(second.loss().is_none());
    drop((guard, second));
    soon("nobody is in line", || redlock.lines() == 0).await;
}

/// Who has found the lock held at the poll floor is told of what happens from then on.
#[tokio::test(start_paused = true)]
async fn a_holder_that_is_wrong_is_found_out_at_once_if_the_nodes_tell() {
    for after in [3_000, 6_000] {
        let world = World::new(3);
        let redlock = world.client();
        let guard = redlock.acquire("a").renewal(Renewal::off()).await.unwrap();
        let waiter = tokio::spawn(redlock.acquire("a").into_future());
        tokio::time::sleep(ms(after)).await;
        let deleted = now();
        world.servers.iter().for_each(|server| server.delete("a"));
        let second = waiter.await.unwrap().unwrap();
        assert_eq!(now() - deleted, ONE_WAY + TRIP, "after {after} ms");
        drop((guard, second));
    }
}

/// Its keys outlast it, as long as nobody lets go of its guard.
#[tokio::test(start_paused = true)]
async fn a_lock_that_has_been_held_for_as_long_as_it_may_is_nobodys_turn() {
    for longest in [30, 100, 500, 1_500, 2_900] {
        let world = World::new(3);
        let redlock = world.client();
        warm(&redlock).await;
        let renewal = Renewal::off().max_hold(ms(longest));
        let ends = now() + ONE_WAY + ms(3_000);
        let request = redlock.acquire("a").ttl(ms(3_000)).renewal(renewal);
        let first = request.await.unwrap();
        let second = redlock.acquire("a").await.unwrap();
        let late = now() - ends;
        assert!(late <= ONE_WAY + TRIP + ms(2), "{longest} ms: {late:?}");
        drop((first, second));
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_a_detached_and_a_leaked_lock_let_the_next_one_go() {
    let world = World::new(3);
    let redlock = world.client();
    let short = || redlock.acquire("a").ttl(ms(500)).renewal(Renewal::off());
    let lost = short().await.unwrap();
    let second = redlock.acquire("a").await.unwrap();
    assert!(lost.loss().is_some());
    drop(second);
    let lease = short().await.unwrap().detach().unwrap();
    let third = redlock.acquire("a").await.unwrap();
    drop((lease, third));
    std::mem::forget(short().await.unwrap());
    drop(redlock.acquire("a").await.unwrap());
    world.is_soon_empty("all are gone").await;
    assert_eq!(redlock.lines(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_leaves_the_line_when_its_time_is_over_or_nobody_wants_it() {
    let world = World::new(3);
    let redlock = world.client();
    let guard = redlock.acquire("a").await.unwrap();
    let began = now();
    let first = tokio::spawn(redlock.acquire("a").wait(ms(300)).into_future());
    settle().await;
    let second = tokio::spawn(redlock.acquire("a").into_future());
    settle().await;
    let third = tokio::spawn(redlock.acquire("a").into_future());
    settle().await;
    second.abort();
    let error = first.await.unwrap().unwrap_err();
    assert_eq!(now() - began, ms(300) + TRIP, "its time and one round");
    assert!(matches!(error, AcquireError::Contended(_)), "{error}");
    let released = now();
    guard.release().await.unwrap();
    drop(third.await.unwrap().unwrap());
    assert_eq!(now() - released, TRIP);
    let is_left = || redlock.lines() + redlock.unsettled() > 0 || !world.is_empty();
    soon("nothing is left", || !is_left()).await;
}

#[tokio::test(start_paused = true)]
async fn a_head_that_is_dropped_on_the_wire_makes_way_behind_its_release() {
    let world = World::new(3);
    let redlock = world.client();
    warm(&redlock).await;
    for offset in 0..=20 {
        // One of its own, lest a row of grants brings a gap.
        let request = || redlock.acquire(offset.to_string()).into_future();
        let head = tokio::spawn(request());
        settle().await;
        let next = tokio::spawn(request());
        tokio::time::sleep(ms(offset)).await;
        let aborted = now();
        head.abort();
        // If it has won, its guard goes here.
        drop(head);
        drop(next.await.unwrap().unwrap());
        assert!(now() - aborted <= TRIP, "{offset} ms");
        world.is_soon_empty("all are gone").await;
    }
    assert_eq!(redlock.lines(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_single_attempt_neither_queues_nor_waits() {
    let world = World::new(3);
    let redlock = world.client();
    let guard = redlock.acquire("a").await.unwrap();
    let waiter = tokio::spawn(redlock.acquire("a").into_future());
    settle().await;
    let before = now();
    assert!(redlock.try_acquire("a").await.unwrap_err().is_contended());
    assert_eq!(now() - before, TRIP);
    guard.release().await.unwrap();
    drop(waiter.await.unwrap().unwrap());
    // What it wins is in the way of those in line, as any lock of the process.
    world.is_soon_empty("all are gone").await;
    let guard = redlock.try_acquire("a").await.unwrap();
    let before = acquires(&world);
    let waiter = tokio::spawn(redlock.acquire("a").into_future());
    tokio::time::sleep(ms(500)).await;
    assert_eq!(acquires(&world), before);
    drop(guard);
    drop(waiter.await.unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_is_told_that_the_client_closes() {
    let world = World::new(3);
    let redlock = world.client();
    let guard = world.stranger().acquire("a").await.unwrap();
    let waiters: Vec<_> = (0..3)
        .map(|_| tokio::spawn(redlock.acquire("a").wait(Wait::Forever).into_future()))
        .collect();
    tokio::time::sleep(ms(700)).await;
    redlock.close(ms(100)).await;
    for waiter in waiters {
        let error = waiter.await.unwrap().unwrap_err();
        assert!(matches!(error, AcquireError::Closed), "{error}");
    }
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_is_told_at_once_that_the_runtime_of_the_client_has_ended() {
    let world = World::new(3);
    let redlock = world.client();
    let guard = world.stranger().acquire("a").await.unwrap();
    let waiters: Vec<_> = (0..3)
        .map(|_| tokio::spawn(redlock.acquire("a").wait(Wait::Forever).into_future()))
        .collect();
    tokio::time::sleep(ms(700)).await;
    let ended = now();
    world.links.iter().for_each(MemoryLink::end_client);
    for waiter in waiters {
        let error = waiter.await.unwrap().unwrap_err();
        assert!(matches!(error, AcquireError::Closed), "{error}");
    }
    assert_eq!(now(), ended);
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn others_get_their_share() {
    let world = World::new(5);
    let clients = [1, 2, 3].map(|seed| world.unsteady(seed));
    let grants = Arc::new(Mutex::new([0_u32; 3]));
    let mut tasks = JoinSet::new();
    for (client, redlock) in clients.iter().enumerate() {
        for _ in 0..4 {
            let (redlock, grants) = (redlock.clone(), Arc::clone(&grants));
            tasks.spawn(async move {
                while grants.lock().unwrap().iter().sum::<u32>() < 300 {
                    let guard = redlock.acquire("a").wait(Wait::Forever).await.unwrap();
                    grants.lock().unwrap()[client] += 1;
                    tokio::time::sleep(ms(2)).await;
                    guard.release().await.unwrap();
                }
            });
        }
    }
    tasks.join_all().await;
    let grants = *grants.lock().unwrap();
    assert!(
        grants.iter().all(|&grants| (33..=300).contains(&grants)),
        "{grants:?}"
    );
}

/// Here nobody else of the process waits: each request comes after the guard before it is gone.
#[tokio::test(start_paused = true)]
async fn others_get_their_share_beside_one_task_that_takes_it_again_and_again() {
    let world = World::new(3);
    let (busy, other) = (world.client(), world.stranger());
    warm(&busy).await;
    warm(&other).await;
    let grants = Arc::new(Mutex::new(0_u32));
    let counted = Arc::clone(&grants);
    let task = tokio::spawn(async move {
        loop {
            let guard = busy.acquire("a").wait(Wait::Forever).await.unwrap();
            *counted.lock().unwrap() += 1;
            tokio::time::sleep(ms(2)).await;
            drop(guard);
        }
    });
    for _ in 0..20 {
        let guard = other.acquire("a").wait(ms(60_000)).await.unwrap();
        guard.release().await.unwrap();
    }
    task.abort();
    let grants = *grants.lock().unwrap();
    assert!((20..=20 * 8).contains(&grants), "{grants}");
}

#[tokio::test(start_paused = true)]
async fn an_error_tells_for_how_long_the_lock_is_held_yet() {
    let world = World::new(3);
    let (ours, theirs) = (world.client(), world.stranger());
    let guard = theirs.acquire("a").renewal(Renewal::off()).await.unwrap();
    let error = ours.acquire("a").wait(ms(500)).await.unwrap_err();
    let AcquireError::Contended(how) = &error else {
        panic!("{error}");
    };
    assert_eq!(how.waited(), ms(500) + TRIP);
    for node in how.tally().nodes() {
        let Some(Vote::Held { ttl: Some(ttl), .. }) = node.vote() else {
            panic!("{error}");
        };
        assert!((ms(9_000)..ms(10_000)).contains(&ttl), "{ttl:?}");
    }
    drop(guard);
}
