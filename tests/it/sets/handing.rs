//! Sets that are handed over, and those that an owner nests.

use redlock_quorum::{AttachError, InvalidRequest, LossCause, Wait};

use super::{is_whole, locks};
use crate::life::now;
use crate::world::{World, ms, soon};

#[tokio::test(start_paused = true)]
async fn borders_between_resources_count() {
    let world = World::new(3);
    let redlock = world.client();
    let owner = redlock.owner();
    let first = owner.acquire_all(["ab", "c"]).await.unwrap();
    let second = owner.acquire_all(["a", "bc"]).await.unwrap();
    assert_ne!(first.token(), second.token(), "not nested");
    let lease = first.detach().unwrap();
    assert!(lease.resources().eq(["ab", "c"]), "{lease:?}");
    redlock.release_lease(lease).await.unwrap();
    soon("it is gone", || {
        world
            .servers
            .iter()
            .all(|server| locks(server) == ["a", "bc"])
    })
    .await;
    drop(second);
}

#[tokio::test(start_paused = true)]
async fn a_detached_set_is_attached_elsewhere_or_released() {
    for fenced in [false, true] {
        let world = World::new(3);
        let (ours, theirs) = (world.client(), world.stranger());
        let detached = async || {
            let request = ours.acquire_all(["x", "y"]).ttl(ms(5000));
            let request = if fenced { request.fenced() } else { request };
            let guard = request.await.unwrap();
            soon("all votes are in", || guard.tally().pending() == 0).await;
            let (lost, token) = (guard.lost(), guard.fencing_token("y"));
            let lease = guard.detach().unwrap();
            assert_eq!(lost.await, LossCause::Detached);
            (lease, token)
        };
        let (lease, token) = detached().await;
        assert_eq!((lease.resource(), lease.ttl()), ("x", ms(5000)));
        tokio::time::sleep(ms(3000)).await;
        assert!(theirs.try_acquire("y").await.unwrap_err().is_contended());

        // A guard of one resource cannot hold it.
        let error = theirs.attach(lease.clone()).await.unwrap_err();
        let is_told = |problem| problem == InvalidRequest::LeaseOfSet;
        let AttachError::InvalidRequest { problem, .. } = error.clone() else {
            panic!("{error}");
        };
        assert!(is_told(problem));
        assert_eq!(error.into_lease(), lease);

        let guard = theirs.attach_all(lease.clone()).await.unwrap();
        assert!(guard.resources().eq(["x", "y"]));
        assert_eq!(guard.fencing_token("y"), token);
        tokio::time::sleep(ms(20_000)).await;
        assert_eq!(guard.loss(), None, "it is renewed again");
        assert!(is_whole(&world, &guard));
        guard.release().await.unwrap();
        let is_empty = || world.servers.iter().all(|server| locks(server).is_empty());
        soon("its release went to all nodes", is_empty).await;
        let error = theirs.attach_all(lease).await.unwrap_err();
        assert!(matches!(error, AttachError::Gone { .. }), "{error}");
        soon("and is not created again", is_empty).await;

        let (lease, _) = detached().await;
        let released = theirs.release_lease(lease).await.unwrap();
        assert!(released.deleted >= 2, "{released:?}");
        soon("it is gone from all nodes", is_empty).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_set_of_one_is_the_lock_on_that_resource() {
    let world = World::new(3);
    let redlock = world.client();
    let owner = redlock.owner();
    let outer = owner.acquire_all(["x", "x"]).await.unwrap();
    let inner = owner.try_acquire("x").await.unwrap();
    assert_eq!(inner.token(), outer.token());
    outer.release().await.unwrap();
    let lease = inner.detach().unwrap();
    let guard = redlock.attach_all(lease).await.unwrap();
    let guard = redlock.attach(guard.detach().unwrap()).await.unwrap();
    assert_eq!(guard.resource(), "x");
}

#[tokio::test(start_paused = true)]
async fn a_lease_keeps_the_prefix_it_was_made_with() {
    let world = World::new(3);
    let ours = world.builder().prefix("ours:").build().unwrap();
    let theirs = world.builder().prefix("theirs:").seed(9).build().unwrap();
    let lease = ours.acquire("x").await.unwrap().detach().unwrap();
    let again = theirs.attach(lease.clone()).await.unwrap();
    soon("it is known where it is", || again.tally().pending() == 0).await;
    let again = again.detach().unwrap();
    assert_eq!((again.prefix(), &again), ("ours:", &lease));
}

#[cfg(feature = "serde")]
#[tokio::test(start_paused = true)]
async fn a_lease_of_a_set_travels_as_text_and_those_of_single_ones_are_as_ever() {
    let world = World::new(3);
    let redlock = world.client();
    let resources = ["1:a", "\u{e9}\"", "a"];
    let lease = redlock
        .acquire_all(resources)
        .await
        .unwrap()
        .detach()
        .unwrap();
    let text = serde_json::to_string(&lease).unwrap();
    let back: redlock_quorum::Lease = serde_json::from_str(&text).unwrap();
    assert_eq!(back, lease);
    assert!(back.resources().eq(["1:a", "a", "\u{e9}\""]), "{text}");
    for (from, to) in [
        ("\"format\":2", "\"format\":1"),
        ("\"format\":2", "\"format\":3"),
        ("\"3:1:a", "\"4:1:a"),
        ("\"3:1:a1:a", "\""),
    ] {
        assert!(text.contains(from), "{text}");
        let damaged: redlock_quorum::Lease =
            serde_json::from_str(&text.replacen(from, to, 1)).unwrap();
        let error = redlock.attach_all(damaged.clone()).await;
        assert!(error.is_err(), "{damaged:?}");
    }
    assert!(redlock.attach_all(back).await.is_ok());

    let token = "0123456789abcdef0123456789abcdef";
    let old = format!(
        r#"{{"format":1,"prefix":"","resource":"old","token":"{token}","fence":null,"ttl_millis":9000}}"#
    );
    for server in &world.servers {
        server.set("old", token, Some(ms(5000)));
    }
    let old: redlock_quorum::Lease = serde_json::from_str(&old).unwrap();
    assert!(old.resources().eq(["old"]));
    assert_eq!(redlock.attach(old).await.unwrap().token().as_str(), token);
}

#[tokio::test(start_paused = true)]
async fn an_owner_nests_the_same_set_and_no_other() {
    let world = World::new(3);
    let redlock = world.client();
    let owner = redlock.owner();
    let outer = owner.acquire_all(["x", "y"]).fenced().await.unwrap();
    let before = now();
    let inner = owner
        .acquire_all(["y", "x"])
        .wait(Wait::Once)
        .await
        .unwrap();
    assert_eq!(now(), before, "no round trip");
    assert_eq!(inner.token(), outer.token());
    assert_eq!(inner.fencing_token("y"), outer.fencing_token("y"));
    assert!(inner.detach().is_err(), "a shared one cannot be detached");
    // Other locks on its resources are in its way.
    assert!(owner.try_acquire("x").await.unwrap_err().is_contended());
    let other = owner.acquire_all(["y", "z"]).wait(Wait::Once).await;
    assert!(other.unwrap_err().is_contended());
    assert_eq!(outer.loss(), None);
    outer.release().await.unwrap();
    drop(owner.acquire_all(["y", "z"]).await.unwrap());
}
