//! What wakes those who wait for a lock that others hold, and what does not.

use std::time::Duration;

use redlock_quorum::testkit::memory::{CutFate, Latency, Restart};
use redlock_quorum::{Guard, Redlock, Renewal, RestartGuard, Wait};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use crate::life::now;
use crate::world::{ONE_WAY, World, ms, warm};

const TRIP: Duration = ms(20);
/// Two reconnects, each a pause and a handshake; the poll floor is 1.5 s at least.
const SOON: Duration = ms(500);

/// A holder and a waiter whom the nodes have told for how long yet, and who hears of any change.
async fn waiting(world: &World, holder: &Redlock) -> (Guard, JoinHandle<Instant>) {
    let waiter = world.builder().restart_guard(RestartGuard::Off);
    let waiter = waiter.build().unwrap();
    warm(&waiter).await;
    warm(holder).await;
    let guard = holder.acquire("a").ttl(ms(60_000)).await.unwrap();
    let waits = tokio::spawn(async move {
        let guard = waiter.acquire("a").wait(Wait::Forever).await.unwrap();
        let granted = now();
        guard.release().await.unwrap();
        granted
    });
    tokio::time::sleep(TRIP * 3).await;
    (guard, waits)
}

#[tokio::test(start_paused = true)]
async fn a_release_wakes_a_waiter_elsewhere() {
    let world = World::new(5);
    let (guard, waits) = waiting(&world, &world.stranger()).await;
    let released = now();
    drop(guard);
    // There, and back with the news, and once more with the lock.
    assert_eq!(waits.await.unwrap() - released, TRIP * 2);
}

#[tokio::test(start_paused = true)]
async fn deletion_by_hand_and_a_flush_wake_a_waiter() {
    for flush in [false, true] {
        let world = World::new(5);
        let holder = world.stranger();
        let (guard, waits) = waiting(&world, &holder).await;
        let deleted = now();
        for server in &world.servers {
            if flush {
                server.flush();
            } else {
                server.delete("a");
            }
        }
        assert_eq!(waits.await.unwrap() - deleted, ONE_WAY + TRIP);
        drop(guard);
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_quorum_of_keys_wakes_a_waiter_though_no_node_tells() {
    let world = World::new(5);
    let holder = world.stranger();
    let (guard, waits) = waiting(&world, &holder).await;
    // Three keys end in two seconds, two much later; and their servers do not say so.
    let ends = now() + ms(400);
    for (place, server) in world.servers.iter().enumerate() {
        let ttl = if place < 3 { ms(400) } else { ms(30_000) };
        let token = guard.token().as_str();
        server.set("a", token, Some(ttl));
    }
    let late = waits.await.unwrap() - ends;
    // The ttl was told on the way back, and counts from its arrival.
    assert!(late >= TRIP && late <= ONE_WAY + TRIP + ms(2), "{late:?}");
}

/// Two nodes say that they hold it for long, which decides the round. What the third says later makes
/// a quorum of keys that end soon.
#[tokio::test(start_paused = true)]
async fn a_vote_that_comes_after_the_round_counts_for_when_a_quorum_of_keys_ends() {
    let world = World::new(3);
    let waiter = world.client();
    warm(&waiter).await;
    let slow = Latency::fixed(ONE_WAY * 3);
    world.links[2].set_latency(slow, slow);
    for (server, ttl) in world.servers.iter().zip([400, 30_000, 400]) {
        server.set("a", "somebody else", Some(ms(ttl)));
    }
    let end = now() + ms(400);
    let guard = waiter.acquire("a").await.unwrap();
    let late = now() - end;
    // It is told how long the key lives yet when that is up to three ways old.
    assert!(late <= ONE_WAY * 9 + ms(2), "{late:?}");
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_node_that_comes_back_wakes_a_waiter() {
    let mut world = World::new(3);
    let holder = world.stranger();
    let (guard, waits) = waiting(&world, &holder).await;
    // Two nodes forget it, and nobody tells; their clients connect again.
    let forgotten = now();
    for server in &mut world.servers[..2] {
        server.restart(Restart::Empty);
    }
    assert!(waits.await.unwrap() - forgotten < SOON);
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn what_happened_while_a_waiter_was_cut_off_is_found_out_when_it_is_back() {
    let world = World::new(3);
    let holder = world.stranger();
    let (guard, waits) = waiting(&world, &holder).await;
    world.links.iter().for_each(|link| link.cut(CutFate::Lost));
    let released = now();
    guard.release().await.unwrap();
    assert!(waits.await.unwrap() - released < SOON);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_costs_a_waiter_one_look() {
    let world = World::new(3);
    let holder = world.stranger();
    let (guard, waits) = waiting(&world, &holder).await;
    let attempts = || world.servers[0].commands().acquire;
    let before = attempts();
    for _ in 0..5 {
        guard.extend(ms(59_000)).await.unwrap();
        tokio::time::sleep(ms(100)).await;
    }
    // An extension that ends no later sends nothing.
    assert_eq!(attempts(), before);
    guard.extend(ms(60_000)).await.unwrap();
    tokio::time::sleep(ms(100)).await;
    assert_eq!(attempts(), before + 1);
    drop(guard);
    waits.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_set_that_waits_for_one_lock_is_not_at_every_change_of_another() {
    let world = World::new(3);
    let [holder, other, waiter] = [8, 9, 10].map(|seed| world.another(seed));
    warm(&waiter).await;
    warm(&other).await;
    let guard = holder.acquire("b").ttl(ms(60_000)).await.unwrap();
    let waits = tokio::spawn(async move {
        let set = waiter.acquire_all(["a", "b"]).wait(Wait::Forever);
        let granted = set.await.map(|_guard| now());
        granted.unwrap()
    });
    let attempts = || world.servers[0].commands().acquire;
    let before = attempts();
    for _ in 0..100 {
        let guard = other.acquire("a").await.unwrap();
        guard.release().await.unwrap();
    }
    let looks = attempts() - before - 100;
    // For 4 s: the bare one, the one that watches, and at the poll floor.
    assert!((3..=5).contains(&looks), "{looks}");
    // And it is woken as ever when that is over.
    tokio::time::sleep(ms(300)).await;
    let released = now();
    drop(guard);
    assert_eq!(waits.await.unwrap() - released, TRIP * 2);
}

/// Others hand one of its resources on and on, with a gap now and then; the other resource is free.
#[tokio::test(start_paused = true)]
async fn a_set_gets_its_turn_as_soon_as_a_single_lock() {
    let mut waited = [Duration::ZERO; 2];
    for (waited, set) in waited.iter_mut().zip([&["a"][..], &["a", "b"]]) {
        let world = World::new(3);
        let (busy, other) = (world.client(), world.stranger());
        warm(&busy).await;
        warm(&other).await;
        let mut tasks = JoinSet::new();
        for _ in 0..4 {
            let busy = busy.clone();
            tasks.spawn(async move {
                loop {
                    drop(busy.acquire("a").wait(Wait::Forever).await);
                }
            });
        }
        for _ in 0..20 {
            tokio::time::sleep(ms(3_000)).await;
            let began = now();
            let guard = other.acquire_all(set.iter().copied()).wait(Wait::Forever);
            drop(guard.await.unwrap());
            *waited += now() - began;
        }
    }
    let [single, set] = waited;
    assert!(set <= single * 3 / 2, "{set:?}, alone {single:?}");
}

#[tokio::test(start_paused = true)]
async fn nodes_that_do_not_tell_are_asked_unless_a_quorum_tells() {
    for quiet in 0..=3 {
        let world = World::new(3);
        for server in &world.servers[..quiet] {
            server.deny_tracking(true);
        }
        let (guard, waits) = waiting(&world, &world.stranger()).await;
        let attempts = || world.servers[0].commands().acquire;
        let before = attempts();
        tokio::time::sleep(ms(10_000)).await;
        let attempts = attempts() - before;
        if quiet < 2 {
            assert!((3..=10).contains(&attempts), "{quiet} quiet: {attempts}");
        } else {
            assert!((40..200).contains(&attempts), "{quiet} quiet: {attempts}");
        }
        let released = now();
        drop(guard);
        let late = waits.await.unwrap() - released;
        assert!(late <= TRIP * 3 + ms(250), "{quiet} quiet: {late:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn contenders_who_split_the_votes_get_through() {
    for (nodes, down) in [(3, 0), (3, 1), (4, 0), (2, 0), (5, 2)] {
        let world = World::new(nodes);
        for server in &world.servers[..down] {
            server.crash();
        }
        let clients = [1, 2, 3, 4, 5].map(|seed| world.unsteady(seed));
        for client in &clients {
            warm(client).await;
        }
        for trial in 0..20 {
            let began = now();
            let contend = |client: Redlock| async move {
                let guard = client.acquire("a").renewal(Renewal::off()).await.unwrap();
                let taken = now() - began;
                guard.release().await.unwrap();
                taken
            };
            let contend = clients.clone().map(|client| Box::pin(contend(client)));
            let (first, ..) = futures::future::select_all(contend).await;
            let waited = format!("{nodes} nodes, {down} down, trial {trial}: {first:?}");
            assert!(first < ms(1_000), "{waited}");
        }
    }
}
