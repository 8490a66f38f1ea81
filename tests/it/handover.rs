//! A lock that goes from one holder to another without being free in between.

use std::time::Duration;

use redlock_quorum::{AttachError, LossCause};

use crate::world::{ONE_WAY, World, ms, soon, unrenewed};

#[tokio::test(start_paused = true)]
async fn a_detached_lock_is_attached_elsewhere_and_was_never_free() {
    let world = World::new(3);
    let (ours, theirs, third) = (world.client(), world.stranger(), world.stranger());
    let guard = ours.acquire("a").ttl(ms(5000)).await.unwrap();
    soon("all votes are in", || guard.tally().pending() == 0).await;
    let (lost, token) = (guard.lost(), guard.token().clone());
    let lease = guard.detach().unwrap();
    assert_eq!(lost.await, LossCause::Detached);
    assert_eq!((lease.resource(), lease.ttl()), ("a", ms(5000)));
    tokio::time::sleep(ms(1000)).await;
    assert!(third.try_acquire("a").await.unwrap_err().is_contended());
    assert!(
        ours.close(Duration::from_secs(1)).await.is_complete(),
        "nothing is owed for it"
    );

    let guard = theirs.attach(lease).await.unwrap();
    assert_eq!((guard.token(), guard.resource()), (&token, "a"));
    tokio::time::sleep(ms(20_000)).await;
    assert_eq!(guard.loss(), None, "it is renewed again");
    assert!(third.try_acquire("a").await.unwrap_err().is_contended());
    guard.release().await.unwrap();
    world.is_soon_empty("its release went to all nodes").await;
}

#[tokio::test(start_paused = true)]
async fn a_detached_lock_ends_with_its_ttl() {
    let world = World::new(3);
    let redlock = world.client();
    let lease = redlock
        .acquire("a")
        .ttl(ms(3000))
        .await
        .unwrap()
        .detach()
        .unwrap();
    tokio::time::sleep(ms(3100)).await;
    assert!(world.is_empty());
    let error = redlock.attach(lease.clone()).await.unwrap_err();
    assert!(matches!(error, AttachError::Gone { .. }), "{error}");
    assert_eq!(error.into_lease(), lease);
    assert!(world.is_empty(), "and is not created again");
}

#[tokio::test(start_paused = true)]
async fn an_attachment_without_a_quorum_gives_the_lease_back() {
    let world = World::new(3);
    let redlock = world.client();
    let guard = redlock.acquire("a").ttl(ms(60_000)).await.unwrap();
    soon("all votes are in", || guard.tally().pending() == 0).await;
    let lease = guard.detach().unwrap();
    world.links[..2]
        .iter()
        .for_each(|link| link.partition(true));
    let error = redlock.attach(lease).await.unwrap_err();
    assert!(matches!(error, AttachError::NoQuorum { .. }), "{error}");
    world.links[..2]
        .iter()
        .for_each(|link| link.partition(false));
    tokio::time::sleep(ms(3000)).await;
    assert!(redlock.attach(error.into_lease()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_attachment_leaves_the_lock_as_it_was() {
    let world = World::new(3);
    let redlock = world.client();
    let lease = redlock.acquire("a").await.unwrap().detach().unwrap();
    for offset in 0..5 {
        let attach = redlock.attach(lease.clone());
        assert!(
            tokio::time::timeout(ONE_WAY * offset / 3, attach)
                .await
                .is_err()
        );
    }
    let guard = redlock.attach(lease).await.unwrap();
    assert_eq!(guard.loss(), None);
}

#[tokio::test(start_paused = true)]
async fn a_lease_can_be_released_without_a_guard() {
    let world = World::new(3);
    let (ours, theirs) = (world.client(), world.stranger());
    let lease = ours.acquire("a").await.unwrap().detach().unwrap();
    let released = theirs.release_lease(lease.clone()).await.unwrap();
    assert!(
        !released.already_gone && released.deleted > 0,
        "{released:?}"
    );
    world.is_soon_empty("it is released").await;
    assert!(theirs.release_lease(lease).await.unwrap().already_gone);
}

#[tokio::test(start_paused = true)]
async fn a_lost_lock_cannot_be_detached() {
    let world = World::new(3);
    let guard = unrenewed(world.client().acquire("a"), ms(1000)).await;
    guard.lost().await;
    let guard = guard.detach().unwrap_err();
    assert_eq!(guard.loss(), Some(LossCause::Expired));
}

#[tokio::test(start_paused = true)]
async fn a_lease_does_not_show_its_token() {
    let world = World::new(3);
    let guard = world.client().acquire("a").await.unwrap();
    let token = guard.token().as_str().to_owned();
    let lease = guard.detach().unwrap();
    assert!(!format!("{lease:?}").contains(&token));
}

#[cfg(feature = "serde")]
#[tokio::test(start_paused = true)]
async fn a_lease_travels_as_text() {
    let world = World::new(3);
    let redlock = world.client();
    let lease = redlock.acquire("a").await.unwrap().detach().unwrap();
    let text = serde_json::to_string(&lease).unwrap();
    let back: redlock_quorum::Lease = serde_json::from_str(&text).unwrap();
    assert_eq!(back, lease);
    for (from, to) in [
        ("\"format\":1", "\"format\":2"),
        ("\"token\":\"", "\"token\":\"x"),
    ] {
        let damaged: redlock_quorum::Lease = serde_json::from_str(&text.replace(from, to)).unwrap();
        let error = redlock.attach(damaged).await.unwrap_err();
        assert!(
            matches!(error, AttachError::InvalidRequest { .. }),
            "{error}"
        );
    }
    assert!(redlock.attach(back).await.is_ok());
}

#[cfg(feature = "serde")]
#[tokio::test(start_paused = true)]
async fn a_lease_of_what_cannot_be_locked_is_refused() {
    let world = World::new(3);
    let redlock = world.client();
    let lease = redlock.acquire("resource").await.unwrap().detach().unwrap();
    let text = serde_json::to_string(&lease).unwrap();
    let with = |from: &str, to: &str| -> redlock_quorum::Lease {
        assert!(text.contains(from), "{text}");
        serde_json::from_str(&text.replace(from, to)).unwrap()
    };
    let before = world.keys();
    let long = format!("\"{}\"", "x".repeat(513));
    let empty_prefix = "\"prefix\":\"\"";
    for damaged in [
        with("\"resource\":\"resource\"", "\"resource\":\"\""),
        with("\"resource\":\"resource\"", &format!("\"resource\":{long}")),
        with(":\"resource\"", ":\"redlock-quorum:node\""),
        with(empty_prefix, "\"prefix\":\"redlock-quorum:\""),
        with(empty_prefix, &format!("\"prefix\":{long}")),
    ] {
        let error = redlock.attach(damaged.clone()).await.unwrap_err();
        let is_refused = matches!(error, AttachError::InvalidRequest { .. });
        assert!(is_refused, "{error}");
        let error = redlock.release_lease(damaged).await.unwrap_err();
        let is_refused = matches!(error, redlock_quorum::ReleaseError::InvalidRequest(_));
        assert!(is_refused, "{error}");
    }
    assert_eq!(world.keys(), before);
    // A wrong ttl attaches nothing, and hinders no release.
    for ttl in ["0", "18446744073709551615"] {
        let damaged = with("\"ttl_millis\":60000", &format!("\"ttl_millis\":{ttl}"));
        let error = redlock.attach(damaged.clone()).await.unwrap_err();
        let is_refused = matches!(error, AttachError::InvalidRequest { .. });
        assert!(is_refused, "{error}");
        assert!(redlock.release_lease(damaged).await.is_ok());
    }
    world.is_soon_empty("it is released").await;
}

#[tokio::test(start_paused = true)]
async fn a_fenced_lock_keeps_its_token_on_the_way() {
    let world = World::new(3);
    let (ours, theirs) = (world.client(), world.stranger());
    let guard = ours.acquire("a").fenced().await.unwrap();
    let token = guard.fencing_token().unwrap();
    let lease = guard.detach().unwrap();
    assert_eq!(lease.fencing_token(), Some(token));
    let guard = theirs.attach(lease.clone()).await.unwrap();
    assert_eq!(guard.fencing_token(), Some(token));
    guard.release().await.unwrap();
    let is_free = || world.servers.iter().all(|server| server.get("a").is_none());
    soon("it is released", is_free).await;
    let next = ours.acquire("a").fenced().await.unwrap();
    assert!(next.fencing_token().unwrap() > token);
    let error = theirs.attach(lease).await.unwrap_err();
    assert!(matches!(error, AttachError::Gone { .. }), "{error}");
}
