//! What a client promises, from its first request on.

use std::future::IntoFuture;
use std::time::Duration;

use redlock_quorum::testkit::memory::Restart;
use redlock_quorum::{AcquireError, ExtendError, LossCause, RestartGuard, Unsent, Vote, Wait};
use tokio::time::Instant;

use crate::world::{ONE_WAY, World, ms, soon, unrenewed, warm};

pub(crate) fn now() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "tests read the paused clock")]
    Instant::now()
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_before_the_first_poll() {
    let world = World::new(3);
    let redlock = world.client();
    let request = redlock.acquire("a").into_future();
    tokio::time::sleep(ms(500)).await;
    assert!(world.servers.iter().all(|server| server.connections() == 0));
    drop(request);
    drop(redlock.acquire("a").await.unwrap());
    assert!(world.servers.iter().all(|server| server.connections() == 1));
    world.is_soon_empty("the lock is gone with its guard").await;
}

#[tokio::test(start_paused = true)]
async fn a_lock_excludes_until_it_is_released() {
    let world = World::new(5);
    let (ours, theirs) = (world.client(), world.stranger());
    let guard = ours.acquire("a").await.unwrap();
    let error = theirs.try_acquire("a").await.unwrap_err();
    assert!(error.is_contended(), "{error}");
    assert!(
        theirs.try_acquire("b").await.is_ok(),
        "another resource is free"
    );
    let released = guard.release().await.unwrap();
    assert!(
        !released.already_gone && released.deleted >= 3,
        "{released:?}"
    );
    assert!(theirs.acquire("a").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn law_1_validity_counts_from_before_the_first_send() {
    let world = World::new(3);
    let redlock = world.client();
    warm(&redlock).await;
    let before = now();
    let guard = redlock.acquire("a").await.unwrap();
    assert_eq!(now() - before, ONE_WAY * 2);
    let expected = before + Duration::from_secs(60) - ms(602);
    assert_eq!(guard.valid_until(), expected.into_std());
}

#[tokio::test(start_paused = true)]
async fn law_3_a_black_holed_node_costs_nothing() {
    let world = World::new(5);
    let redlock = world.client();
    warm(&redlock).await;
    world.links[0].partition(true);
    for round in 0..100 {
        let before = now();
        let guard = redlock.acquire(round.to_string()).await.unwrap();
        assert_eq!(now() - before, ONE_WAY * 2, "round {round}");
        guard.release().await.unwrap();
    }
    let tally = redlock.acquire("a").await.unwrap().tally();
    let vote = tally
        .nodes()
        .next()
        .and_then(redlock_quorum::NodeVote::vote);
    assert!(matches!(vote, Some(Vote::Unsent(_))), "{tally}");
}

#[tokio::test(start_paused = true)]
async fn law_3_an_outage_is_known_at_once_and_named() {
    let world = World::new(5);
    let redlock = world.client();
    warm(&redlock).await;
    for server in &world.servers[..3] {
        server.crash();
    }
    tokio::time::sleep(ms(100)).await;
    let before = now();
    let error = redlock.try_acquire("a").await.unwrap_err();
    assert_eq!(now(), before, "nothing was waited for");
    assert!(error.is_outage(), "{error}");
    let down = error
        .tally()
        .unwrap()
        .nodes()
        .filter(|node| node.vote() == Some(Vote::Unsent(Unsent::NotConnected)));
    assert_eq!(down.count(), 3, "{error}");
    world.is_soon_empty("what the others granted").await;
}

#[tokio::test(start_paused = true)]
async fn a_node_joins_when_it_comes_up() {
    let world = World::new(3);
    for server in &world.servers {
        server.crash();
    }
    let builder = world.builder().restart_guard(RestartGuard::Off);
    let redlock = builder.build().unwrap();
    assert!(redlock.try_acquire("a").await.unwrap_err().is_outage());
    for server in &world.servers[..2] {
        server.restart(Restart::Empty);
    }
    let before = now();
    let guard = redlock.acquire("a").await.unwrap();
    assert!(
        now() - before <= Duration::from_secs(2),
        "two reconnect delays"
    );
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_waiter_ends_by_its_deadline_and_tells_how_long_it_waited() {
    let world = World::new(3);
    let (ours, theirs) = (world.client(), world.stranger());
    let _guard = ours.acquire("a").await.unwrap();
    let before = now();
    let error = theirs.acquire("a").wait(ms(1500)).await.unwrap_err();
    let waited = now() - before;
    assert!(waited <= ms(1500) + ONE_WAY * 2, "{waited:?}");
    assert!(waited > ms(1000), "{waited:?}");
    let AcquireError::Contended(how) = error else {
        panic!("{error}")
    };
    assert_eq!(how.waited(), waited);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_gets_the_lock_when_it_is_free() {
    let world = World::new(3);
    let (ours, theirs) = (world.client(), world.stranger());
    let guard = ours.acquire("a").await.unwrap();
    let waiter = tokio::spawn(theirs.acquire("a").wait(Wait::Forever).into_future());
    tokio::time::sleep(ms(3000)).await;
    assert!(!waiter.is_finished());
    let before = now();
    guard.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
    assert!(now() - before <= ms(400), "one pause and a few round trips");
    world
        .is_soon_empty("no attempt of the waiter left a key")
        .await;
}

#[tokio::test(start_paused = true)]
async fn law_5_loss_is_on_time_without_any_reply() {
    let world = World::new(3);
    let redlock = world.client();
    let guard = unrenewed(redlock.acquire("a"), ms(1000)).await;
    let until = guard.valid_until();
    for link in &world.links {
        link.partition(true);
    }
    assert_eq!(guard.loss(), None);
    let cause = guard.lost().await;
    let early = until - now().into_std();
    assert!(early >= ms(1) && early < ms(3), "{early:?} before the end");
    assert_eq!(
        (cause, guard.loss()),
        (LossCause::Expired, Some(LossCause::Expired))
    );
    let released = guard.release().await.unwrap();
    assert!(released.already_gone);
}

#[tokio::test(start_paused = true)]
async fn law_5_every_watcher_is_told_and_told_again() {
    let world = World::new(3);
    let guard = world.client().acquire("a").await.unwrap();
    let lost = guard.lost();
    let mut again = lost.clone();
    let other = tokio::spawn(guard.lost());
    guard.release().await.unwrap();
    assert_eq!(
        (lost.await, other.await.unwrap()),
        (LossCause::Released, LossCause::Released)
    );
    for _ in 0..2 {
        assert_eq!((&mut again).await, LossCause::Released);
    }
}

#[tokio::test(start_paused = true)]
async fn an_extension_moves_the_loss() {
    let world = World::new(3);
    let redlock = world.client();
    let guard = unrenewed(redlock.acquire("a"), ms(1000)).await;
    let lost = tokio::spawn(guard.lost());
    tokio::time::sleep(ms(600)).await;
    let before = now();
    let until = guard.extend(ms(5000)).await.unwrap();
    assert_eq!(until, (before + ms(5000 - 52)).into_std());
    assert_eq!(
        guard.extend(ms(500)).await.unwrap(),
        until,
        "a shorter one changes nothing"
    );
    tokio::time::sleep(ms(4000)).await;
    assert!(!lost.is_finished());
    assert_eq!(lost.await.unwrap(), LossCause::Expired);
    assert!(until - now().into_std() < ms(3));
}

#[tokio::test(start_paused = true)]
async fn an_extension_without_a_quorum_leaves_the_lock_as_it_was() {
    let world = World::new(3);
    let redlock = world.client();
    let guard = unrenewed(redlock.acquire("a"), ms(5000)).await;
    let until = guard.valid_until();
    for link in &world.links[..2] {
        link.partition(true);
    }
    let error = guard.extend(ms(10_000)).await.unwrap_err();
    assert!(matches!(error, ExtendError::NoQuorum(_)), "{error}");
    assert_eq!((guard.loss(), guard.valid_until()), (None, until));
    for link in &world.links[..2] {
        link.partition(false);
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(guard.extend(ms(30_000)).await.unwrap() > until);
}

#[tokio::test(start_paused = true)]
async fn keys_that_are_gone_are_a_loss_at_the_next_extension() {
    let world = World::new(3);
    let redlock = world.client();
    let guard = unrenewed(redlock.acquire("a"), ms(10_000)).await;
    soon("all three have it", || guard.tally().granted() == 3).await;
    for server in &world.servers[..2] {
        server.flush();
    }
    assert_eq!(guard.loss(), None);
    let error = guard.extend(ms(60_000)).await.unwrap_err();
    assert!(
        matches!(error, ExtendError::Lost(LossCause::Gone)),
        "{error}"
    );
    assert_eq!(guard.lost().await, LossCause::Gone);
    world.is_soon_empty("the third is cleaned up").await;
}

#[tokio::test(start_paused = true)]
async fn a_release_touches_only_its_own_token() {
    let world = World::new(3);
    let guard = world.client().acquire("a").await.unwrap();
    soon("all three have it", || guard.tally().granted() == 3).await;
    for server in &world.servers {
        server.delete("a");
        server.set("a", "somebody else", None);
    }
    assert!(guard.release().await.unwrap().already_gone);
    tokio::time::sleep(ms(1000)).await;
    for server in &world.servers {
        assert_eq!(server.get("a").as_deref(), Some("somebody else"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_that_nobody_confirms_says_so_and_goes_on() {
    let world = World::new(3);
    let redlock = world.client();
    let guard = redlock.acquire("a").await.unwrap();
    for link in &world.links[..2] {
        link.block_requests(true);
    }
    let before = now();
    let error = guard.release().await.unwrap_err();
    assert_eq!(now() - before, Duration::from_secs(1), "the round time-out");
    assert_eq!(
        error.to_string(),
        "the release is not confirmed by memory:0, memory:1"
    );
    for link in &world.links[..2] {
        link.block_requests(false);
    }
    world.is_soon_empty("the client went on").await;
}
