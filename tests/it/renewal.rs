//! A held lock is kept alive while its guard lives, and no longer.

use std::time::Duration;

use redlock_quorum::testkit::memory::{Latency, MemoryServer, Restart};
use redlock_quorum::{AcquireError, InvalidRequest, LossCause, Renewal};

use crate::life::now;
use crate::world::{World, ms, soon, warm};

fn extensions(world: &World) -> Vec<u64> {
    world
        .servers
        .iter()
        .map(|server| server.commands().extend)
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_renewed_until_its_guard_goes() {
    let world = World::new(3);
    let redlock = world.client();
    let guard = redlock.acquire("a").ttl(ms(3000)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(guard.loss(), None);
    for count in extensions(&world) {
        assert!(
            (54..=67).contains(&count),
            "one a second, give or take a tenth: {count}"
        );
    }
    drop(guard);
    world.is_soon_empty("it went with its guard").await;
    let before = extensions(&world);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(extensions(&world), before, "and is renewed no more");
}

#[tokio::test(start_paused = true)]
async fn many_guards_are_renewed_together_by_no_more_tasks() {
    let world = World::new(3);
    let redlock = world.client();
    let first = redlock.acquire("0").ttl(ms(3000)).await.unwrap();
    let tasks = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    let before = tasks();
    let mut guards = vec![first];
    for resource in 1..2000 {
        let attempt = redlock.acquire(resource.to_string()).ttl(ms(3000));
        guards.push(attempt.await.unwrap());
    }
    assert_eq!(tasks(), before);
    let counted = extensions(&world);
    tokio::time::sleep(Duration::from_secs(10)).await;
    for (after, before) in extensions(&world).into_iter().zip(counted) {
        let expected = 2000.0 * 10.0;
        let ratio = f64::from(u32::try_from(after - before).unwrap()) / expected;
        assert!((0.9..=1.1).contains(&ratio), "{ratio}");
    }
    assert!(guards.iter().all(|guard| guard.loss().is_none()));
}

#[tokio::test(start_paused = true)]
async fn law_5_with_all_links_cut_the_loss_is_on_time() {
    let world = World::new(5);
    let redlock = world.client();
    let guard = redlock.acquire("a").ttl(ms(3000)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(20)).await;
    for link in &world.links {
        link.partition(true);
    }
    let lost = tokio::spawn(guard.lost());
    let cause = guard.lost().await;
    let early = guard.valid_until() - now().into_std();
    assert!(early >= ms(1) && early < ms(3), "{early:?} before the end");
    assert_eq!(
        (cause, lost.await.unwrap()),
        (LossCause::Expired, LossCause::Expired)
    );
}

#[tokio::test(start_paused = true)]
async fn a_pause_around_a_renewal_costs_nothing() {
    let world = World::new(3);
    let redlock = world.client();
    let guard = redlock.acquire("a").ttl(ms(3000)).await.unwrap();
    for _ in 0..50 {
        tokio::time::sleep(ms(650)).await;
        for server in &world.servers {
            server.freeze();
        }
        tokio::time::sleep(ms(300)).await;
        for server in &world.servers {
            server.thaw();
        }
        assert_eq!(guard.loss(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_away_or_forgot_gets_the_key_back() {
    let world = World::new(5);
    let redlock = world.client();
    warm(&redlock).await;
    world.servers[0].crash();
    let guard = redlock.acquire("a").ttl(ms(3000)).await.unwrap();
    soon("the others have it", || guard.tally().granted() == 4).await;
    world.servers[0].restart(Restart::Empty);
    world.servers[4].delete("a");
    let everywhere = |world: &World| world.servers.iter().all(|server| server.get("a").is_some());
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert!(
        everywhere(&world),
        "3 of 5 became 5 of 5 {:?}",
        world.keys()
    );
    let token = guard.token().as_str();
    assert!(
        world
            .servers
            .iter()
            .all(|server| server.get("a").as_deref() == Some(token))
    );
    guard.release().await.unwrap();
    world.is_soon_empty("healed keys are released too").await;
}

#[tokio::test(start_paused = true)]
async fn whatever_the_number_of_nodes_a_quorum_keeps_the_lock_and_fewer_do_not() {
    for nodes in [1_usize, 2, 4, 31] {
        let world = World::new(u64::try_from(nodes).unwrap());
        let redlock = world.client();
        let spare = nodes - (nodes / 2 + 1);
        let delete = |many: usize| {
            let servers = world.servers.iter().take(many);
            servers.for_each(|server| server.delete("a"));
        };
        let guard = redlock.acquire("a").ttl(ms(3000)).await.unwrap();
        tokio::time::sleep(ms(500)).await;
        delete(spare);
        tokio::time::sleep(ms(1500)).await;
        assert_eq!(guard.loss(), None);
        assert!(world.keys().iter().all(|keys| keys.len() == 1), "healed");
        delete(spare + 1);
        let before = now();
        assert_eq!(guard.lost().await, LossCause::Gone);
        assert!(now() - before < ms(1200), "by the next renewal");
        world.is_soon_empty("what is left is cleaned up").await;
        let guard = redlock.acquire("a").ttl(ms(3000)).await.unwrap();
        let cut = |is_cut| {
            let links = world.links.iter().take(spare + 1);
            links.for_each(|link| link.partition(is_cut));
        };
        cut(true);
        assert_eq!(guard.lost().await, LossCause::Expired);
        cut(false);
        world.is_soon_empty("it is released").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_of_another_is_never_healed_away() {
    let world = World::new(3);
    let guard = world.client().acquire("a").ttl(ms(3000)).await.unwrap();
    world.servers[2].delete("a");
    world.servers[2].set("a", "somebody else", None);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(guard.loss(), None);
    assert_eq!(world.servers[2].get("a").as_deref(), Some("somebody else"));
}

#[tokio::test(start_paused = true)]
async fn a_lost_lock_is_not_created_again() {
    let world = World::new(3);
    let guard = world.client().acquire("a").ttl(ms(3000)).await.unwrap();
    for server in &world.servers {
        server.flush();
    }
    assert_eq!(guard.lost().await, LossCause::Gone);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(world.is_empty());
}

#[tokio::test(start_paused = true)]
async fn max_hold_bounds_a_leaked_guard() {
    let world = World::new(3);
    let redlock = world.client();
    let renewal = Renewal::every_third().max_hold(Duration::from_secs(10));
    warm(&redlock).await;
    let before = now();
    let guard = redlock
        .acquire("a")
        .ttl(ms(3000))
        .renewal(renewal)
        .await
        .unwrap();
    let lost = guard.lost();
    std::mem::forget(guard);
    assert_eq!(lost.await, LossCause::MaxHold);
    let held = now() - before;
    assert!(
        held < Duration::from_secs(10) && held > ms(9990),
        "{held:?}"
    );
    assert!(!world.is_empty(), "a section may still be at work");
    tokio::time::sleep(ms(3000)).await;
    assert!(world.is_empty(), "nobody renews it");
    assert!(world.stranger().try_acquire("a").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn renewals_can_be_counted_out() {
    let world = World::new(3);
    let renewal = Renewal::every_third().max_renewals(2);
    let guard = world
        .client()
        .acquire("a")
        .ttl(ms(3000))
        .renewal(renewal)
        .await
        .unwrap();
    let before = now();
    assert_eq!(guard.lost().await, LossCause::Expired);
    let held = now() - before;
    assert!(held > ms(4500) && held < ms(5500), "{held:?}");
    assert_eq!(extensions(&world), [2, 2, 2]);
}

#[tokio::test(start_paused = true)]
async fn an_extension_by_hand_that_is_dropped_while_it_waits_is_not_sent() {
    let world = World::new(3);
    let redlock = world.client();
    let guard = redlock.acquire("a").ttl(ms(3000)).await.unwrap();
    for link in &world.links {
        link.set_latency(Latency::fixed(ms(100)), Latency::fixed(ms(100)));
    }
    let renewing = || extensions(&world) == [1, 1, 1];
    while !renewing() {
        tokio::time::sleep(ms(1)).await;
    }
    {
        let mut waiting = std::pin::pin!(guard.extend(ms(30_000)));
        assert!(futures::poll!(waiting.as_mut()).is_pending());
    }
    tokio::time::sleep(ms(700)).await;
    assert!(renewing());
    assert!(guard.valid_until() - now().into_std() < ms(3000));
    let until = guard.extend(ms(30_000)).await.unwrap();
    assert!(until - now().into_std() > ms(29_000), "another one is");
}

#[tokio::test(start_paused = true)]
async fn an_unsound_renewal_is_refused() {
    let world = World::new(1);
    let redlock = world.client();
    for renewal in [
        Renewal::every(ms(3000)),
        Renewal::every(ms(0)),
        Renewal::off().max_hold(ms(0)),
    ] {
        let outcome = redlock.acquire("a").ttl(ms(3000)).renewal(renewal).await;
        assert!(matches!(
            outcome,
            Err(AcquireError::InvalidRequest(InvalidRequest::UnsoundRenewal))
        ));
    }
    assert_eq!(
        world
            .servers
            .iter()
            .map(MemoryServer::connections)
            .sum::<usize>(),
        0
    );
}

/// Whatever the moment, a release that meets a renewal leaves no key, and nothing renews after it.
#[tokio::test(start_paused = true)]
async fn releases_that_meet_renewals() {
    let world = World::new(3);
    let redlock = world.client();
    for offset in 0..10_000_u64 {
        let guard = redlock.acquire("a").ttl(ms(90)).await.unwrap();
        // Renewals go out about every 30 ms and take 20 ms.
        tokio::time::sleep(Duration::from_micros(offset * 7 % 70_000)).await;
        assert_eq!(guard.loss(), None, "no false loss");
        assert!(!guard.release().await.unwrap().already_gone);
        let renewed = extensions(&world);
        soon("no key is left", || world.is_empty()).await;
        assert_eq!(extensions(&world), renewed, "no renewal after the release");
    }
}
