//! Nodes that forget what they granted: restarts, flushes, and the first use of a fleet.

use std::time::Duration;

use redlock_quorum::testkit::memory::{MemoryLink, MemoryServer, Restart};
use redlock_quorum::{
    AcquireError, Builder, Guard, LossCause, Redlock, Renewal, RestartGuard, Tally, Unsent, Vote,
    defaults,
};

use crate::life::now;
use crate::world::{World, link, ms, soon};

const TTL: Duration = Duration::from_secs(10);
/// Long enough for connections, rounds and looks of a node that is waited for.
const A_MOMENT: Duration = Duration::from_millis(2500);
const QUARANTINED: Vote = Vote::Unsent(Unsent::Quarantined);

fn quarantine() -> Duration {
    defaults::quarantine(TTL)
}

/// A client with links of its own: a process that has seen nothing yet.
fn fresh(world: &World, guard: RestartGuard) -> (Vec<MemoryLink>, Builder) {
    let links: Vec<MemoryLink> = world.servers.iter().map(link).collect();
    let builder = Redlock::builder().memory_nodes(links.clone()).seed(9);
    (links, builder.ttl(TTL).max_ttl(TTL).restart_guard(guard))
}

fn fresh_client(world: &World, guard: RestartGuard) -> Redlock {
    fresh(world, guard).1.build().unwrap()
}

fn votes(tally: &Tally) -> Vec<Option<Vote>> {
    tally.nodes().map(|line| line.vote()).collect()
}

async fn tried(redlock: &Redlock, resource: &str) -> (Vec<Option<Vote>>, Option<Guard>) {
    match redlock.try_acquire(resource).await {
        Ok(guard) => {
            soon("all votes", || guard.tally().pending() == 0).await;
            (votes(&guard.tally()), Some(guard))
        }
        Err(error) => (votes(error.tally().unwrap()), None),
    }
}

/// `ours` holds on the first two of three nodes, without renewal.
async fn held_on_two(world: &World, guard: RestartGuard) -> (Redlock, Guard) {
    let (links, builder) = fresh(world, guard);
    let ours = builder.build().unwrap();
    links[2].partition(true);
    let held = ours.acquire("a").renewal(Renewal::off()).await.unwrap();
    assert_eq!(
        (world.servers[1].get("a"), world.servers[2].get("a")),
        (Some(held.token().as_str().to_owned()), None)
    );
    (ours, held)
}

/// The second node restarts empty; another process that reaches only it and the third one wins
/// after so long.
async fn won_through_a_restarted_node_after(guard: RestartGuard) -> (Duration, Option<LossCause>) {
    let world = World::new(3);
    let (_ours, held) = held_on_two(&world, guard).await;
    let restarted = now();
    world.servers[1].restart(Restart::Empty);
    let (links, builder) = fresh(&world, guard);
    links[0].partition(true);
    let theirs = builder.build().unwrap();
    let won = theirs.acquire("a").wait(Duration::from_secs(60)).await;
    assert!(won.is_ok(), "{won:?}");
    (now() - restarted, held.loss())
}

#[tokio::test(start_paused = true)]
async fn a_restarted_node_does_not_vote_until_every_lock_it_forgot_is_over() {
    for guard in [RestartGuard::Observed, RestartGuard::Strict] {
        let (took, loss) = won_through_a_restarted_node_after(guard).await;
        assert!(took >= quarantine(), "{took:?}");
        assert!(took <= quarantine() + A_MOMENT, "{took:?}");
        assert_eq!(loss, Some(LossCause::Expired));
    }
}

/// The test before this one can fail.
#[tokio::test(start_paused = true)]
async fn without_a_guard_a_restarted_node_makes_two_holders() {
    let (took, loss) = won_through_a_restarted_node_after(RestartGuard::Off).await;
    assert!(took < A_MOMENT, "{took:?}");
    assert_eq!(loss, None, "both hold it");
}

/// Two nodes restart empty, one after the other, while a lock is held on all three. When does another
/// process get it, and is it still held then?
async fn won_after_two_restarts(guard: RestartGuard) -> Option<LossCause> {
    let world = World::new(3);
    let ours = fresh_client(&world, guard);
    let held = ours.acquire("a").renewal(Renewal::off()).await.unwrap();
    soon("all nodes have it", || held.tally().granted() == 3).await;
    let theirs = fresh_client(&world, guard);
    world.servers[0].restart(Restart::Empty);
    let waiting = tokio::spawn(
        theirs
            .acquire("a")
            .wait(Duration::from_secs(60))
            .into_future(),
    );
    tokio::time::sleep(ms(3000)).await;
    world.servers[1].restart(Restart::Empty);
    let won = waiting.await.unwrap();
    assert!(won.is_ok(), "{won:?}");
    held.loss()
}

#[tokio::test(start_paused = true)]
async fn two_nodes_that_restart_one_after_the_other_make_no_second_holder() {
    let observed = won_after_two_restarts(RestartGuard::Observed).await;
    assert_eq!(observed, Some(LossCause::Expired));
    let unguarded = won_after_two_restarts(RestartGuard::Off).await;
    assert_eq!(unguarded, None, "this shows two holders without the guard");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_restarts_with_its_data_is_quarantined_as_well() {
    // Data may be older than the restart: nobody can tell.
    let world = World::new(3);
    let redlock = fresh_client(&world, RestartGuard::Observed);
    drop(tried(&redlock, "warm").await);
    world.servers[1].restart(Restart::KeepData);
    tokio::time::sleep(A_MOMENT).await;
    let (seen, guard) = tried(&redlock, "a").await;
    assert_eq!(seen[1], Some(QUARANTINED));
    assert!(guard.is_some(), "the two others are enough");
    let run_id = world.servers[1].run_id();
    let marker = world.servers[1].get("redlock-quorum:node").unwrap();
    assert!(
        marker.starts_with(&run_id) && !marker.ends_with("|0"),
        "{marker}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_persistent_node_votes_at_once() {
    let world = World::new(3);
    let (_, builder) = fresh(&world, RestartGuard::Observed);
    let redlock = builder.persistent_node("memory:1").build().unwrap();
    drop(tried(&redlock, "warm").await);
    for node in [0, 1] {
        world.servers[node].restart(Restart::KeepData);
    }
    tokio::time::sleep(A_MOMENT).await;
    let (seen, guard) = tried(&redlock, "a").await;
    assert_eq!(
        seen,
        [Some(QUARANTINED), Some(Vote::Granted), Some(Vote::Granted)]
    );
    assert!(guard.is_some());
}

#[tokio::test(start_paused = true)]
async fn renewals_and_heals_reach_quarantined_nodes_and_count() {
    let world = World::new(3);
    let redlock = fresh_client(&world, RestartGuard::Observed);
    let theirs = fresh_client(&world, RestartGuard::Observed);
    let held = redlock.acquire("a").ttl(ms(3000)).await.unwrap();
    drop(tried(&theirs, "warm").await);
    // All of them within one quarantine.
    for server in &world.servers {
        server.restart(Restart::Empty);
        tokio::time::sleep(ms(2500)).await;
        assert_eq!(server.get("a").as_deref(), Some(held.token().as_str()));
    }
    let (seen, none) = tried(&redlock, "b").await;
    assert!(none.is_none());
    assert!(
        seen.iter()
            .filter(|&&vote| vote == Some(QUARANTINED))
            .count()
            >= 2
    );
    held.extend(ms(5000)).await.unwrap();
    assert!(theirs.try_acquire("a").await.is_err());
    assert_eq!(held.loss(), None);
    assert!(!held.release().await.unwrap().already_gone);
    soon("released in quarantine", || world.is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_is_told_of_a_flush_at_once() {
    for holds in [true, false] {
        let world = World::new(3);
        let redlock = fresh_client(&world, RestartGuard::Observed);
        let (_, held) = tried(&redlock, "a").await;
        let held = held.filter(|_| holds);
        tokio::time::sleep(ms(5500)).await;
        world.servers[0].flush();
        // The word of it, and one round trip.
        tokio::time::sleep(ms(50)).await;
        let (seen, _) = tried(&redlock, "b").await;
        assert_eq!(seen[0], Some(QUARANTINED), "not even asked");
        drop(held);
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_holds_learns_of_a_flush_within_a_second() {
    let world = World::new(3);
    world.servers[0].deny_tracking(true);
    let ours = fresh_client(&world, RestartGuard::Observed);
    let _held = ours.acquire("a").await.unwrap();
    tokio::time::sleep(ms(5500)).await;
    world.servers[0].flush();
    tokio::time::sleep(ms(1100)).await;
    let (seen, guard) = tried(&ours, "b").await;
    assert_eq!(seen[0], Some(QUARANTINED));
    drop(guard);
    // It has told the others.
    tokio::time::sleep(ms(1100)).await;
    assert!(world.servers[0].get("redlock-quorum:node").is_some());
    let theirs = fresh_client(&world, RestartGuard::Observed);
    assert_eq!(tried(&theirs, "b").await.0[0], Some(QUARANTINED));
    tokio::time::sleep(quarantine()).await;
    for client in [&ours, &theirs] {
        assert_eq!(tried(client, "b").await.0[0], Some(Vote::Granted));
        tokio::time::sleep(ms(100)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_client_learns_of_a_flush_with_its_next_acquire() {
    let world = World::new(1);
    world.servers[0].deny_tracking(true);
    let redlock = fresh_client(&world, RestartGuard::Observed);
    drop(tried(&redlock, "warm").await);
    tokio::time::sleep(Duration::from_secs(30)).await;
    world.servers[0].flush();
    let began = now();
    let error = redlock.try_acquire("a").await.unwrap_err();
    assert!(matches!(error, AcquireError::NoQuorum(_)), "{error}");
    assert_eq!(
        votes(error.tally().unwrap()),
        [Some(Vote::Unknown)],
        "its grant is none"
    );
    world.is_soon_empty("what it granted is released").await;
    let guard = redlock.acquire("a").wait(Duration::from_secs(60)).await;
    assert!(guard.is_ok());
    assert!(now() - began >= quarantine());
}

fn unfounded(nodes: u64) -> World {
    World::of((0..nodes).map(MemoryServer::unfounded).collect())
}

#[tokio::test(start_paused = true)]
async fn a_new_fleet_is_founded_and_used_at_once() {
    for nodes in [1, 3, 5] {
        let world = unfounded(nodes);
        let began = now();
        let first = fresh_client(&world, RestartGuard::Observed);
        let second = fresh_client(&world, RestartGuard::Observed);
        let (one, two) = tokio::join!(first.acquire("a"), second.acquire("b"));
        assert!(one.is_ok() && two.is_ok(), "{one:?} {two:?}");
        assert!(now() - began < ms(200), "{:?}", now() - began);
        for server in &world.servers {
            let founded = format!("{}|0", server.run_id());
            assert_eq!(server.get("redlock-quorum:node"), Some(founded));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_fleet_with_a_node_missing_waits_and_says_why() {
    let world = unfounded(3);
    world.servers[2].crash();
    let redlock = fresh_client(&world, RestartGuard::Observed);
    let began = now();
    let error = redlock.acquire("a").wait(ms(3000)).await.unwrap_err();
    assert!(matches!(error, AcquireError::NoQuorum(_)), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("unsent, quarantined") && text.contains("RestartGuard"),
        "{text}"
    );
    // One that comes later does not change it.
    world.servers[2].restart(Restart::Empty);
    let guard = redlock.acquire("a").wait(Duration::from_secs(60)).await;
    assert!(guard.is_ok(), "{guard:?}");
    let took = now() - began;
    assert!(
        took >= quarantine() && took < quarantine() + A_MOMENT,
        "{took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn strict_waits_for_a_new_fleet_as_well() {
    let world = unfounded(3);
    let began = now();
    let redlock = fresh_client(&world, RestartGuard::Strict);
    let guard = redlock.acquire("a").wait(Duration::from_secs(60)).await;
    assert!(guard.is_ok(), "{guard:?}");
    let took = now() - began;
    assert!(
        took >= quarantine() && took < quarantine() + A_MOMENT,
        "{took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn off_writes_no_marker_and_waits_for_none() {
    let world = unfounded(3);
    world.servers[2].crash();
    let redlock = fresh_client(&world, RestartGuard::Off);
    let _held = redlock.acquire("a").await.unwrap();
    tokio::time::sleep(A_MOMENT).await;
    assert_eq!(world.servers[0].get("redlock-quorum:node"), None);
}

#[tokio::test(start_paused = true)]
async fn a_lone_node_that_restarts_empty_looks_new_to_a_process_that_never_saw_it() {
    let world = World::new(1);
    let ours = fresh_client(&world, RestartGuard::Observed);
    let held = ours.acquire("a").renewal(Renewal::off()).await.unwrap();
    world.servers[0].restart(Restart::Empty);
    // The limit of what can be observed, closed by strict.
    let strict = fresh_client(&world, RestartGuard::Strict);
    assert_eq!(tried(&strict, "a").await.0, [Some(QUARANTINED)]);
    let world = World::new(1);
    let ours = fresh_client(&world, RestartGuard::Observed);
    let also = ours.acquire("a").renewal(Renewal::off()).await.unwrap();
    world.servers[0].restart(Restart::Empty);
    let theirs = fresh_client(&world, RestartGuard::Observed);
    assert!(theirs.try_acquire("a").await.is_ok());
    assert_eq!((held.loss(), also.loss()), (None, None));
    // Who saw it before does not take it for new.
    tokio::time::sleep(A_MOMENT).await;
    assert_eq!(tried(&ours, "b").await.0, [Some(QUARANTINED)]);
}

#[tokio::test(start_paused = true)]
async fn without_info_a_restart_with_data_goes_unseen_and_one_without_does_not() {
    let world = World::new(3);
    for server in &world.servers {
        server.deny_info(true);
    }
    let redlock = fresh_client(&world, RestartGuard::Observed);
    drop(tried(&redlock, "warm").await);
    world.servers[0].restart(Restart::KeepData);
    world.servers[1].restart(Restart::Empty);
    tokio::time::sleep(A_MOMENT).await;
    let (seen, _guard) = tried(&redlock, "a").await;
    assert_eq!(
        seen,
        [Some(Vote::Granted), Some(QUARANTINED), Some(Vote::Granted)]
    );
}

#[tokio::test(start_paused = true)]
async fn where_the_marker_is_denied_there_is_no_quarantine() {
    let world = unfounded(3);
    for server in &world.servers {
        server.deny_marker(true);
    }
    let redlock = fresh_client(&world, RestartGuard::Observed);
    drop(tried(&redlock, "warm").await);
    for server in &world.servers {
        server.restart(Restart::Empty);
    }
    tokio::time::sleep(A_MOMENT).await;
    assert!(tried(&redlock, "a").await.1.is_some());
}
