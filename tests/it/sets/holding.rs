//! A held set: renewal, healing, loss, and its fencing token.

use std::time::{Duration, SystemTime};

use redlock_quorum::testkit::memory::MemoryServer;
use redlock_quorum::{LossCause, Redlock, Renewal, UsingError};

use super::{is_whole, locks};
use crate::life::now;
use crate::world::{World, ms, soon};

#[tokio::test(start_paused = true)]
async fn a_set_is_renewed_whole() {
    for fenced in [false, true] {
        let world = World::new(3);
        let redlock = world.client();
        let request = redlock.acquire_all(["x", "y"]).ttl(ms(3000));
        let request = if fenced { request.fenced() } else { request };
        let guard = request.await.unwrap();
        for _ in 0..100 {
            tokio::time::sleep(ms(300)).await;
            assert_eq!(guard.loss(), None);
            assert!(is_whole(&world, &guard));
        }
        let until = guard.extend(ms(20_000)).await.unwrap();
        assert_eq!(until, guard.valid_until());
        soon("every node has it so long", || {
            let ttl = |server: &MemoryServer, key| server.ttl(key) > Some(ms(19_000));
            world
                .servers
                .iter()
                .all(|server| ttl(server, "x") && ttl(server, "y"))
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_set_that_is_broken_at_a_minority_is_whole_again_after_a_renewal() {
    for fenced in [false, true] {
        let world = World::new(3);
        let redlock = world.client();
        let request = redlock.acquire_all(["x", "y"]).ttl(ms(3000));
        let request = if fenced { request.fenced() } else { request };
        let guard = request.await.unwrap();
        soon("every node has it", || guard.tally().granted() == 3).await;
        world.servers[1].delete("x");
        assert!(!is_whole(&world, &guard));
        tokio::time::sleep(ms(1500)).await;
        for server in &world.servers {
            assert_eq!(locks(server), ["x", "y"], "fenced: {fenced}");
        }
        assert!(is_whole(&world, &guard));
        assert_eq!(guard.loss(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_set_that_is_broken_at_a_quorum_is_lost_and_leaves_nothing() {
    for fenced in [false, true] {
        let world = World::new(3);
        let redlock = world.client();
        let request = redlock.acquire_all(["x", "y"]).ttl(ms(3000));
        let request = if fenced { request.fenced() } else { request };
        let guard = request.await.unwrap();
        soon("every node has it", || guard.tally().granted() == 3).await;
        world.servers[0].delete("x");
        world.servers[1].delete("y");
        let broken = now();
        assert_eq!(guard.lost().await, LossCause::Gone, "fenced: {fenced}");
        assert!(now() - broken < ms(1500), "at the next renewal");
        soon("no lock is left", || {
            world.servers.iter().all(|server| locks(server).is_empty())
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_set_whose_resource_was_taken_does_not_heal_there() {
    let world = World::new(3);
    let redlock = world.client();
    let guard = redlock.acquire_all(["x", "y"]).ttl(ms(3000)).await.unwrap();
    soon("every node has it", || guard.tally().granted() == 3).await;
    world.servers[2].set("y", "somebody else", None);
    tokio::time::sleep(ms(5000)).await;
    assert_eq!(guard.loss(), None);
    assert_eq!(locks(&world.servers[2]), ["y"]);
    guard.release().await.unwrap();
    soon("ours are gone", || locks(&world.servers[0]).is_empty()).await;
    assert_eq!(world.servers[2].get("y").as_deref(), Some("somebody else"));
}

#[tokio::test(start_paused = true)]
async fn fencing_tokens_of_sets_and_single_locks_are_in_one_order() {
    let world = World::new(3);
    // The first has the later clock: what it was granted orders the others.
    let clock =
        |hours: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(978_307_200 + 3600 * hours);
    let client = |seed, hours| {
        Redlock::builder()
            .memory_nodes(world.servers.iter().map(MemoryServer::link))
            .seed(seed)
            .wall_clock(clock(hours))
            .fenced(true)
            .build()
            .unwrap()
    };
    let (ahead, behind) = (client(1, 9), client(2, 1));
    let single = async |redlock: &Redlock, resource: &str| {
        let guard = redlock.acquire(resource).await.unwrap();
        let token = guard.fencing_token().unwrap();
        guard.release().await.unwrap();
        token
    };
    let set = async |redlock: &Redlock| {
        let guard = redlock.acquire_all(["y", "x"]).await.unwrap();
        let token = guard.fencing_token("x").unwrap();
        assert_eq!(guard.fencing_token("y"), Some(token));
        assert_eq!(guard.fencing_token("z"), None);
        assert_eq!(guard.fencing_token(""), None);
        guard.release().await.unwrap();
        token
    };
    let mut last = single(&ahead, "y").await;
    let x = single(&behind, "x").await;
    assert!(x < last, "it knows nothing of the other resource");
    for redlock in [&behind, &ahead, &behind] {
        for resource in ["x", "y"] {
            let token = set(redlock).await;
            assert!(token > last, "{token} after {last}");
            last = single(&behind, resource).await;
            assert!(last > token, "{last} after {token}");
        }
    }
    let acquires = || world.servers[0].commands().acquire;
    let before = acquires();
    set(&behind).await;
    assert_eq!(acquires() - before, 1, "it knew of both: one round");
    let plain = world.client().acquire_all(["x"]).await.unwrap();
    assert_eq!(plain.fencing_token("x"), None);
}

#[tokio::test(start_paused = true)]
async fn a_section_runs_under_all_of_them() {
    let world = World::new(3);
    let redlock = world.client();
    let number = redlock.acquire_all(["x", "y"]).using(async |guard| {
        assert!(guard.resources().eq(["x", "y"]));
        assert!(redlock.try_acquire("y").await.unwrap_err().is_contended());
        7
    });
    assert_eq!(number.await.unwrap(), 7);
    world.is_soon_empty("it is released").await;
    let lost = redlock
        .acquire_all(["x", "y"])
        .renewal(Renewal::off())
        .ttl(ms(500));
    let lost = lost.using(async |_guard| std::future::pending::<()>().await);
    let lost = tokio::spawn(lost).await.unwrap();
    assert!(
        matches!(lost, Err(UsingError::Lost(LossCause::Expired))),
        "{lost:?}"
    );
}
