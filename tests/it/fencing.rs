//! Fencing tokens grow with every grant, whatever clocks say.

use std::time::{Duration, SystemTime};

use redlock_quorum::testkit::memory::{CutFate, MemoryServer};
use redlock_quorum::{FencingToken, Redlock, Refusal, Vote};

use crate::world::{World, ms, soon};

const FENCE: &str = "redlock-quorum:fence:a";
const HOUR: Duration = Duration::from_secs(3600);

/// A client whose wall clock is so many hours after the year 2001 began, more or less.
fn client(world: &World, seed: u64, hours: u32) -> Redlock {
    let clock = SystemTime::UNIX_EPOCH + Duration::from_secs(978_307_200) + HOUR * hours;
    Redlock::builder()
        .memory_nodes(world.servers.iter().map(MemoryServer::link))
        .seed(seed)
        .wall_clock(clock)
        .fenced(true)
        .build()
        .unwrap()
}

fn fences(world: &World) -> Vec<Option<String>> {
    world
        .servers
        .iter()
        .map(|server| server.get(FENCE))
        .collect()
}

async fn no_lock_is_left(world: &World) {
    let is_lock = |key: &String| !key.starts_with("redlock-quorum:");
    soon("no lock key is left", || {
        world.keys().iter().flatten().all(|key| !is_lock(key))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_fenced_lock_has_a_token_and_others_have_none() {
    let world = World::new(3);
    let redlock = world.client();
    let plain = redlock.acquire("a").await.unwrap();
    assert_eq!(plain.fencing_token(), None);
    plain.release().await.unwrap();
    assert_eq!(fences(&world), [None, None, None]);

    let guard = redlock.acquire("a").fenced().await.unwrap();
    let token = guard.fencing_token().unwrap();
    soon("every node has it", || guard.tally().granted() == 3).await;
    let expected = Some(token.to_string());
    assert_eq!(fences(&world), [&expected; 3].map(Clone::clone));
    for server in &world.servers {
        assert_eq!(server.get("a").as_deref(), Some(guard.token().as_str()));
        let left = server.ttl(FENCE).unwrap();
        assert!(left > ms(599_000) && left <= ms(600_000), "{left:?}");
    }
    guard.release().await.unwrap();
    no_lock_is_left(&world).await;
    assert_eq!(fences(&world), [&expected; 3].map(Clone::clone), "kept");
}

#[tokio::test(start_paused = true)]
async fn a_client_whose_clock_is_behind_succeeds_at_once() {
    let world = World::new(3);
    let ahead = client(&world, 1, 5);
    let behind = client(&world, 2, 0);
    let mut last = None;
    for _ in 0..20 {
        for redlock in [&ahead, &behind] {
            let guard = redlock.try_acquire("a").await.unwrap();
            let token = guard.fencing_token();
            assert!(token > last, "{token:?} after {last:?}");
            last = token;
            guard.release().await.unwrap();
            no_lock_is_left(&world).await;
        }
    }
    // And one that has never heard of the resource.
    let guard = client(&world, 3, 1).try_acquire("a").await.unwrap();
    assert!(guard.fencing_token() > last);
}

#[tokio::test(start_paused = true)]
async fn tokens_grow_over_contended_grants_with_clocks_an_hour_apart() {
    let world = World::new(5);
    let granted: std::sync::Arc<std::sync::Mutex<Vec<FencingToken>>> = Default::default();
    let mut contenders = Vec::new();
    for seed in 0..4 {
        let redlock = client(&world, u64::from(seed), (7 * seed) % 4);
        let granted = std::sync::Arc::clone(&granted);
        contenders.push(tokio::spawn(async move {
            for _ in 0..50 {
                let guard = redlock
                    .acquire("a")
                    .wait(Duration::from_secs(600))
                    .await
                    .unwrap();
                granted.lock().unwrap().push(guard.fencing_token().unwrap());
                tokio::time::sleep(ms(3)).await;
                assert_eq!(guard.loss(), None);
                guard.release().await.unwrap();
            }
        }));
    }
    for contender in contenders {
        contender.await.unwrap();
    }
    let granted = granted.lock().unwrap().clone();
    assert_eq!(granted.len(), 200);
    assert!(granted.is_sorted_by(|earlier, later| earlier < later));
    no_lock_is_left(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_fenced_lock_is_renewed_and_healed_under_its_token() {
    let world = World::new(3);
    let redlock = client(&world, 1, 0);
    let guard = redlock.acquire("a").ttl(ms(3000)).await.unwrap();
    let token = guard.fencing_token();
    soon("every node has it", || guard.tally().granted() == 3).await;
    // The fence is gone with the key, by an eviction, say.
    world.servers[0].delete("a");
    world.servers[0].delete(FENCE);
    tokio::time::sleep(Duration::from_secs(1200)).await;
    assert_eq!((guard.loss(), guard.fencing_token()), (None, token));
    let everywhere = token.map(|token| token.to_string());
    assert_eq!(fences(&world), [&everywhere; 3].map(Clone::clone));
    for server in &world.servers {
        assert_eq!(server.get("a").as_deref(), Some(guard.token().as_str()));
        assert!(server.ttl(FENCE).unwrap() > ms(590_000), "in use");
    }
    guard.release().await.unwrap();
    no_lock_is_left(&world).await;
}

#[tokio::test(start_paused = true)]
async fn whoever_was_overtaken_learns_it_at_its_next_extension() {
    let world = World::new(3);
    let first = client(&world, 1, 0);
    let guard = first.acquire("a").ttl(ms(3000)).await.unwrap();
    soon("every node has it", || guard.tally().granted() == 3).await;
    // Two nodes forget the lock; somebody else takes it and is gone again before any renewal.
    world.servers[0].delete("a");
    world.servers[1].delete("a");
    let second = client(&world, 2, 0);
    let other = second.try_acquire("a").await.unwrap();
    assert!(other.fencing_token() > guard.fencing_token());
    other.release().await.unwrap();
    assert_eq!(guard.lost().await, redlock_quorum::LossCause::Gone);
    no_lock_is_left(&world).await;
}

#[tokio::test(start_paused = true)]
async fn law_4_a_late_acquire_behind_a_tombstone_does_nothing() {
    let world = World::new(3);
    let redlock = world.builder().fenced(true).build().unwrap();
    let warm = redlock.acquire("warm").await.unwrap();
    soon("all are connected", || warm.tally().granted() == 3).await;
    // The old connection is neither killed nor finished, by nobody's word but a time-out's.
    world.servers[0].deny_client_kill(true);
    let held = world.links[0].hold_connection().unwrap();
    let guard = redlock.acquire("a").await.unwrap();
    soon("it is written there", || held.commands() > 0).await;
    world.links[0].cut(CutFate::Executed);
    let token = guard.fencing_token().unwrap();
    guard.release().await.unwrap();
    let buried = (token.as_u64() + 1).to_string();
    soon("a tombstone stands", || {
        world.servers[0].get(FENCE).as_ref() == Some(&buried)
    })
    .await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    let before = world.servers[0].commands().acquire;
    held.deliver();
    tokio::time::sleep(ms(100)).await;
    let executed = world.servers[0].commands().acquire - before;
    assert_eq!((held.commands(), executed), (0, 1), "it has arrived");
    assert_eq!(world.servers[0].get("a"), None);
    // What is granted next is larger than the tombstone.
    let next = redlock.acquire("a").await.unwrap();
    assert!(next.fencing_token().unwrap().as_u64() > token.as_u64() + 1);
}

#[tokio::test(start_paused = true)]
async fn busy_and_stale_answers_are_told() {
    let world = World::new(3);
    let guard = client(&world, 1, 0).acquire("a").await.unwrap();
    soon("every node has it", || guard.tally().granted() == 3).await;
    let error = client(&world, 2, 0).try_acquire("a").await.unwrap_err();
    assert!(error.is_contended(), "{error}");
    let fence = guard.fencing_token().map(FencingToken::as_u64);
    for line in error.tally().unwrap().nodes() {
        match line.vote() {
            Some(Vote::Held { ttl, fence: told }) => {
                assert!(ttl > Some(ms(9_000)) && told == fence, "{error}");
            }
            None => {}
            other => panic!("{other:?}"),
        }
    }
    guard.release().await.unwrap();
    // A poisoned fence: no ballot is larger.
    for server in &world.servers {
        server.set(FENCE, &u64::MAX.to_string(), None);
    }
    let error = client(&world, 3, 0).try_acquire("a").await.unwrap_err();
    assert!(error.is_contended(), "{error}");
    let stale = Some(Vote::Stale { fence: u64::MAX });
    assert!(
        error
            .tally()
            .unwrap()
            .nodes()
            .any(|line| line.vote() == stale)
    );
    for server in &world.servers {
        server.delete(FENCE);
        server.refuse(Some(Refusal::NoPerm));
    }
    let error = client(&world, 4, 0).try_acquire("a").await.unwrap_err();
    assert!(error.is_outage(), "{error}");
}

#[cfg(feature = "serde")]
#[tokio::test(start_paused = true)]
async fn a_fencing_token_is_serialised_as_a_number() {
    let world = World::new(3);
    let guard = world.client().acquire("a").fenced().await.unwrap();
    let token = guard.fencing_token().unwrap();
    let text = serde_json::to_string(&token).unwrap();
    assert_eq!(text, token.as_u64().to_string());
    let back: FencingToken = serde_json::from_str(&text).unwrap();
    assert_eq!(back, token);
    let largest = (1_u64 << 53) - 2;
    for (number, is_one) in [(0, false), (1, true), (largest, true), (largest + 1, false)] {
        let back: Result<FencingToken, _> = serde_json::from_str(&number.to_string());
        assert_eq!(back.is_ok(), is_one, "{number}: {back:?}");
    }
    assert!(serde_json::from_str::<FencingToken>("\"7\"").is_err());
}
