//! Looking at locks: what each node has, what a majority supports, and that nothing is touched.
#![expect(clippy::disallowed_methods, reason = "the clock is paused")]

use std::time::Duration;

use redlock_quorum::testkit::memory::{MemoryServer, Restart};
use redlock_quorum::{Holder, Inspection, InvalidRequest, Renewal, Sight, Unsent};
use tokio::time::Instant;

use crate::world::{ONE_WAY, World, ms, soon, warm};

/// For this ttl.
const ROUND_TIMEOUT: Duration = Duration::from_secs(1);

fn sights(inspection: &Inspection) -> Vec<Sight> {
    inspection.nodes().map(|line| line.sight()).collect()
}

/// What of it is the same on every run.
fn table(inspection: &Inspection) -> Vec<String> {
    inspection.to_string().lines().map(String::from).collect()
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_ours_anothers_or_nobodys() {
    let world = World::new(3);
    let (us, them) = (world.client(), world.stranger());
    assert_eq!(
        table(&us.inspect("a").await),
        [
            "a: free (3 nodes, quorum 2)",
            "  memory:0  free",
            "  memory:1  free",
            "  memory:2  free",
        ]
    );
    let guard = us.clone().acquire("a").await.unwrap();
    soon("all nodes have it", || guard.tally().pending() == 0).await;
    let inspection = us.inspect("a").await;
    assert_eq!(inspection.holder(), Holder::Ours);
    let text = inspection.to_string();
    assert!(text.starts_with("a: held by us for 59"), "{text}");
    assert_eq!(text.matches("ours, token 1, 599").count(), 3, "{text}");
    let inspection = them.inspect("a").await;
    assert_eq!(inspection.holder(), Holder::Another);
    let text = inspection.to_string();
    assert!(text.starts_with("a: held by another for 59"), "{text}");
    assert_eq!(text.matches("another's, token 1, 599").count(), 3, "{text}");
    guard.release().await.unwrap();
    world.is_soon_empty("the key").await;
    assert_eq!(them.inspect("a").await.holder(), Holder::Nobody);
}

#[tokio::test(start_paused = true)]
async fn no_token_is_shown() {
    let world = World::new(3);
    let guard = world.client().acquire("a").await.unwrap();
    for client in [world.client(), world.stranger()] {
        let inspection = client.inspect("a").await;
        let shown = format!("{inspection} {inspection:?}");
        for start in 0..28 {
            let part = &guard.token().as_str()[start..start + 5];
            assert!(!shown.contains(part), "{part} of the token in {shown}");
        }
    }
}

/// The end that is told is not after the key's end on a quorum of nodes, and near it.
#[tokio::test(start_paused = true)]
async fn a_quorum_keeps_the_token_until_the_end_that_is_told() {
    let world = World::new(5);
    let client = world.client();
    warm(&client).await;
    for (server, seconds) in world.servers.iter().zip([9, 3, 5, 7]) {
        server.set("a", "theirs", Some(Duration::from_secs(seconds)));
    }
    let began = Instant::now();
    let inspection = client.inspect("a").await;
    assert_eq!(inspection.holder(), Holder::Another);
    // The third largest of 9, 7, 5 and 3 is 5 s, read 10 ms after it was asked for and set.
    let (set, read_after, drift) = (ms(5000), ONE_WAY, ms(50 + 2));
    let until = Instant::from_std(inspection.held_until().unwrap());
    assert_eq!(until, began + set - read_after - drift);
    world.servers[0].set("a", "theirs", None);
    world.servers[2].set("a", "theirs", None);
    world.servers[3].set("a", "theirs", None);
    let inspection = client.inspect("a").await;
    assert_eq!(
        (inspection.holder(), inspection.held_until()),
        (Holder::Another, None)
    );
    assert!(inspection.to_string().contains("no ttl"), "{inspection}");
}

#[tokio::test(start_paused = true)]
async fn split_nodes_are_told_from_free_and_silent_ones() {
    let world = World::new(3);
    let client = world.client();
    warm(&client).await;
    let set = |server: &MemoryServer, token: &str| server.set("a", token, Some(ms(700)));
    set(&world.servers[0], "one");
    assert_eq!(client.inspect("a").await.holder(), Holder::Nobody);
    set(&world.servers[1], "two");
    let inspection = client.inspect("a").await;
    assert_eq!(inspection.holder(), Holder::Split);
    assert_eq!(
        table(&inspection),
        [
            "a: held by nobody, and not free (3 nodes, quorum 2)",
            "  memory:0  another's, token 1, 670 ms left",
            "  memory:1  another's, token 2, 690 ms left",
            "  memory:2  free",
        ]
    );
    world.servers[2].freeze();
    assert_eq!(client.inspect("a").await.holder(), Holder::Unknown);
    world.servers[2].thaw();
    // Their ttl has ended meanwhile.
    assert_eq!(client.inspect("a").await.holder(), Holder::Nobody);
}

#[tokio::test(start_paused = true)]
async fn whoever_does_not_answer_is_waited_for_until_the_round_is_over() {
    let world = World::new(5);
    let client = world.client();
    warm(&client).await;
    world.servers[0].freeze();
    world.links[1].block_replies(true);
    world.servers[2].crash();
    soon("the crash is noticed", || {
        world.servers[2].connections() == 0
    })
    .await;
    tokio::time::sleep(ms(50)).await;
    let began = Instant::now();
    let inspection = client.inspect("a").await;
    assert_eq!(began.elapsed(), ROUND_TIMEOUT);
    assert_eq!(inspection.holder(), Holder::Unknown);
    let down = Sight::Unreachable(Unsent::NotConnected);
    assert_eq!(
        sights(&inspection),
        [
            Sight::Unanswered,
            Sight::Unanswered,
            down,
            Sight::Free,
            Sight::Free
        ]
    );
    let text = inspection.to_string();
    assert!(
        text.contains("\n  memory:2  unreachable, not connected (connection re"),
        "{text}"
    );
}

/// A look may be all that shows that a connection is dead.
#[tokio::test(start_paused = true)]
async fn a_connection_that_answers_no_look_is_replaced() {
    let world = World::new(1);
    let client = world.client();
    warm(&client).await;
    let held = world.links[0].hold_connection().unwrap();
    assert_eq!(sights(&client.inspect("a").await), [Sight::Unanswered]);
    tokio::time::sleep(ms(2500)).await;
    assert_eq!(sights(&client.inspect("a").await), [Sight::Free]);
    held.deliver();
}

#[tokio::test(start_paused = true)]
async fn nothing_is_touched() {
    let world = World::new(3);
    let (us, them) = (world.client(), world.stranger());
    let guard = us.acquire("a").renewal(Renewal::off()).await.unwrap();
    soon("all nodes have it", || guard.tally().pending() == 0).await;
    warm(&them).await;
    tokio::time::sleep(ms(100)).await;
    let before: Vec<_> = world.servers.iter().map(MemoryServer::commands).collect();
    let keys = world.keys();
    let (until, began) = (world.servers[0].ttl("a").unwrap(), Instant::now());
    for resource in ["a", "b"] {
        for client in [&us, &them] {
            client.inspect(resource).await;
        }
    }
    let after: Vec<_> = world.servers.iter().map(MemoryServer::commands).collect();
    assert_eq!((before, keys), (after, world.keys()));
    assert_eq!(world.servers[0].ttl("a").unwrap() + began.elapsed(), until);
    assert_eq!((us.unsettled(), them.unsettled()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn nodes_in_quarantine_are_looked_at() {
    let world = World::new(3);
    let client = world.client();
    let guard = client.acquire("a").await.unwrap();
    soon("all nodes have it", || guard.tally().pending() == 0).await;
    for server in &world.servers {
        server.restart(Restart::KeepData);
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    let stranger = world.stranger();
    let error = stranger.try_acquire("b").await.unwrap_err();
    assert!(error.to_string().contains("quarantined"), "{error}");
    assert_eq!(stranger.inspect("a").await.holder(), Holder::Another);
    assert_eq!(client.inspect("a").await.holder(), Holder::Ours);
}

/// What is not held is not ours, whatever is left of it on the nodes.
#[tokio::test(start_paused = true)]
async fn a_lost_lock_is_not_ours() {
    let world = World::new(3);
    let client = world.client();
    let renewal = Renewal::every_third().max_hold(Duration::from_secs(5));
    let guard = client.acquire("a").renewal(renewal).await.unwrap();
    assert_eq!(client.inspect("a").await.holder(), Holder::Ours);
    guard.lost().await;
    assert_eq!(client.inspect("a").await.holder(), Holder::Another);
    let lease = client.acquire("b").await.unwrap().detach().unwrap();
    assert_eq!(client.inspect("b").await.holder(), Holder::Another);
    let guard = client.attach(lease).await.unwrap();
    assert_eq!(client.inspect("b").await.holder(), Holder::Ours);
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn fences_are_shown() {
    let world = World::new(3);
    let client = world.client();
    let guard = client.acquire("a").fenced().await.unwrap();
    soon("all nodes have it", || guard.tally().pending() == 0).await;
    let fence = guard.fencing_token().map(|token| token.as_u64());
    let inspection = client.inspect("a").await;
    assert!(inspection.nodes().all(|line| line.fence() == fence));
    let shown = format!(" ms left, fence {}", fence.unwrap());
    let text = inspection.to_string();
    assert_eq!(text.matches(&shown).count(), 3, "{text}");
    guard.release().await.unwrap();
    world.servers[1].delete("redlock-quorum:fence:a");
    let fences: Vec<_> = client
        .inspect("a")
        .await
        .nodes()
        .map(|line| line.fence())
        .collect();
    assert_eq!(fences, [fence, None, fence]);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_locked_is_not_looked_for() {
    let world = World::new(3);
    let client = world.client();
    let inspection = client.inspect("").await;
    assert_eq!(inspection.problem(), Some(&InvalidRequest::EmptyResource));
    assert_eq!(
        (inspection.holder(), inspection.nodes().len()),
        (Holder::Unknown, 0)
    );
    assert_eq!(inspection.to_string(), ": the resource is empty");
    let inspection = client.inspect("redlock-quorum:node").await;
    assert_eq!(
        inspection.problem(),
        Some(&InvalidRequest::ReservedResource)
    );
    client.clone().close(ms(100)).await;
    let inspection = client.inspect("a").await;
    assert_eq!(sights(&inspection), [Sight::Unreachable(Unsent::Closed); 3]);
}

/// The first look of a client waits for its nodes to be connected, and no longer than that.
#[tokio::test(start_paused = true)]
async fn a_new_client_looks_when_it_is_connected() {
    let world = World::new(3);
    let began = Instant::now();
    assert_eq!(world.client().inspect("a").await.holder(), Holder::Nobody);
    assert!(began.elapsed() < ms(100), "{:?}", began.elapsed());
    world.servers[0].freeze();
    let began = Instant::now();
    let inspection = world.stranger().inspect("a").await;
    assert_eq!(inspection.holder(), Holder::Nobody);
    assert!(
        began.elapsed() <= Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
}
