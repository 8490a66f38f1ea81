//! Whether a client can be used: nobody has to ask.

use std::time::Duration;

use redlock_quorum::testkit::memory::Restart;
use redlock_quorum::{Redlock, RestartGuard};

use crate::life::now;
use crate::world::{ONE_WAY, World, ms};

fn unguarded(world: &World) -> Redlock {
    let builder = world.builder().restart_guard(RestartGuard::Off);
    builder.build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_client_is_ready_when_a_quorum_votes_and_not_before() {
    let world = World::new(3);
    world.links[0].partition(true);
    let redlock = world.client();
    assert!(!redlock.ready(ONE_WAY).await, "nobody has answered yet");
    let began = now();
    assert!(redlock.ready(ms(1000)).await);
    assert!(now() - began < ms(100), "two of three are enough");
    let began = now();
    assert!(redlock.ready(Duration::ZERO).await);
    drop(redlock.try_acquire("a").await.unwrap());
    assert_eq!(now() - began, ONE_WAY * 2, "it was connected");
}

#[tokio::test(start_paused = true)]
async fn a_client_waits_for_nodes_that_come_up_later() {
    let world = World::new(3);
    world.servers.iter().for_each(|server| server.crash());
    let redlock = unguarded(&world);
    let began = now();
    assert!(!redlock.ready(ms(3000)).await);
    assert_eq!(now() - began, ms(3000));
    let waiting = tokio::spawn({
        let redlock = redlock.clone();
        async move { redlock.ready(ms(3000)).await }
    });
    tokio::time::sleep(ms(500)).await;
    let both = &world.servers[..2];
    both.iter()
        .for_each(|server| server.restart(Restart::Empty));
    assert!(waiting.await.unwrap());
    assert!(redlock.try_acquire("a").await.is_ok());
    both.iter().for_each(|server| server.crash());
    tokio::time::sleep(ms(100)).await;
    assert!(!redlock.ready(ms(10)).await, "it was, and is not any more");
}

#[tokio::test(start_paused = true)]
async fn a_quarantined_quorum_is_not_ready() {
    let world = World::new(3);
    let redlock = world.client();
    assert!(redlock.ready(ms(1000)).await);
    for server in &world.servers[..2] {
        server.restart(Restart::Empty);
    }
    tokio::time::sleep(ms(3000)).await;
    assert!(!redlock.ready(ms(10)).await);
    assert!(redlock.ready(Duration::from_secs(70)).await);
}

#[tokio::test(start_paused = true)]
async fn a_closed_client_is_never_ready() {
    let world = World::new(3);
    let redlock = world.client();
    let waiting = tokio::spawn({
        let redlock = redlock.clone();
        async move { redlock.ready(Duration::from_secs(60)).await }
    });
    world.links.iter().for_each(|link| link.partition(true));
    tokio::time::sleep(ms(100)).await;
    let began = now();
    redlock.clone().close(ms(100)).await;
    assert!(!waiting.await.unwrap());
    assert!(now() - began < ms(200), "it does not wait on");
    world.links.iter().for_each(|link| link.partition(false));
    tokio::time::sleep(ms(3000)).await;
    assert!(!redlock.ready(ms(100)).await);
}

#[test]
fn without_a_runtime_a_client_is_not_ready() {
    let redlock = World::new(1).client();
    assert!(!futures::executor::block_on(redlock.ready(ms(100))));
}
