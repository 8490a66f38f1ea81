//! Looking at locks on real servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redlock_quorum::testkit::fleet::{Flavor, Fleet, Options};
use redlock_quorum::{Holder, Inspection, Redlock, Sight, Unsent};

use crate::support::{
    acquire_everywhere, ask, builder, eventually, fleet, ms, number, released_everywhere, run,
    warm_up,
};

const TTL: Duration = Duration::from_secs(20);

fn sights(inspection: &Inspection) -> Vec<Sight> {
    inspection.nodes().map(|line| line.sight()).collect()
}

/// The rest of the ttl at each node that has the key.
fn rests(inspection: &Inspection) -> Vec<Option<Duration>> {
    let rest = |sight| {
        let Sight::Held { ttl, .. } = sight else {
            return None;
        };
        Some(ttl)
    };
    sights(inspection).into_iter().filter_map(rest).collect()
}

fn client(fleet: &Fleet) -> Redlock {
    builder(fleet.urls()).ttl(TTL).build().unwrap()
}

#[test]
fn a_lock_is_seen_as_it_is_on_every_server() {
    run(async {
        for flavor in Flavor::available() {
            let fleet = Fleet::with(&flavor, 3, &Options::new()).unwrap();
            let (us, them) = (client(&fleet), client(&fleet));
            warm_up(&them).await;
            assert_eq!(sights(&us.inspect("resource").await), [Sight::Free; 3]);
            let guard = acquire_everywhere(&us, "resource").await;
            let inspection = them.inspect("resource").await;
            assert_eq!(inspection.holder(), Holder::Another, "{inspection}");
            let rests = rests(&inspection);
            assert_eq!(rests.len(), 3, "{inspection}");
            for rest in rests {
                assert!(rest.is_some_and(|rest| rest > ms(15_000) && rest <= TTL));
            }
            let inspection = us.inspect("resource").await;
            assert_eq!(inspection.holder(), Holder::Ours, "{inspection}");
            guard.release().await.unwrap();
            // By a quorum, so far.
            released_everywhere(&fleet, 0).await;

            // No lock's, and no end.
            ask(&fleet[0], &["RPUSH", "resource", "element"]);
            ask(&fleet[1], &["SET", "resource", "for ever"]);
            let inspection = us.inspect("resource").await;
            assert_eq!(inspection.holder(), Holder::Split, "{inspection}");
            let text = inspection.to_string();
            assert!(text.contains("token 2, no ttl"), "{text}");
            assert!(text.contains("token 1, no ttl"), "{text}");
            assert_eq!(number(&fleet[0], &["LLEN", "resource"]), 1);
        }
    });
}

#[test]
fn fences_and_tombstones_are_seen() {
    run(async {
        let fleet = fleet(3);
        let redlock = builder(fleet.urls()).fenced(true).build().unwrap();
        warm_up(&redlock).await;
        let guard = acquire_everywhere(&redlock, "resource").await;
        let fence = guard.fencing_token().map(|token| token.as_u64());
        let inspection = redlock.inspect("resource").await;
        assert!(inspection.nodes().all(|line| line.fence() == fence));
        guard.release().await.unwrap();
        ask(&fleet[2], &["SET", "redlock-quorum:fence:resource", "17"]);
        let inspection = redlock.inspect("resource").await;
        let fences: Vec<_> = inspection.nodes().map(|line| line.fence()).collect();
        assert_eq!(fences, [fence, fence, Some(17)]);
    });
}

#[test]
fn frozen_dead_and_forbidding_servers_are_told_apart() {
    run(async {
        let mut fleet = fleet(5);
        let rules = "ACL SETUSER locker on >secret ~* +@all -get";
        ask(&fleet[2], &rules.split(' ').collect::<Vec<_>>());
        let mut urls = fleet.urls();
        urls[2] = urls[2].replace("redis://", "redis://locker:secret@");
        let redlock = builder(urls).ttl(ms(5000)).build().unwrap();
        let guard = redlock.acquire("warm").await.unwrap();
        guard.release().await.unwrap();
        fleet[0].freeze().unwrap();
        fleet[1].kill().unwrap();
        let down = Sight::Unreachable(Unsent::NotConnected);
        eventually("the end of one is noticed", async || {
            sights(&redlock.inspect("resource").await)[1] == down
        })
        .await;
        let inspection = redlock.inspect("resource").await;
        assert_eq!(inspection.holder(), Holder::Unknown, "{inspection}");
        let [frozen, _, denied, free @ ..] = &sights(&inspection)[..] else {
            panic!("{inspection}");
        };
        assert_eq!((*denied, free), (Sight::Unanswered, &[Sight::Free; 2][..]));
        assert!(matches!(frozen, Sight::Unanswered | Sight::Unreachable(_)));
        let text = inspection.to_string();
        assert!(text.contains("unanswered (NOPERM "), "{text}");
        fleet[0].thaw().unwrap();
        eventually("it is back", async || {
            redlock.inspect("resource").await.holder() == Holder::Nobody
        })
        .await;
    });
}

/// A look between the halves of a transaction would be queued by it, and carried out by its `EXEC`.
#[test]
fn a_look_does_not_come_into_a_transaction() {
    run(async {
        let fleet = fleet(3);
        for server in &fleet {
            let rules = "ACL SETUSER locker on >secret ~* +@all -@scripting";
            ask(server, &rules.split(' ').collect::<Vec<_>>());
        }
        let urls: Vec<String> = fleet
            .iter()
            .map(|server| format!("redis://locker:secret@127.0.0.1:{}", server.port()))
            .collect();
        let redlock = builder(urls).ttl(TTL).build().unwrap();
        warm_up(&redlock).await;
        let standing = acquire_everywhere(&redlock, "standing").await;
        let is_over = Arc::new(AtomicBool::new(false));
        let locking = (0..8).map(|task| {
            let (redlock, is_over) = (redlock.clone(), Arc::clone(&is_over));
            tokio::spawn(async move {
                let mut locks = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let guard = redlock.acquire(format!("other-{task}")).await.unwrap();
                    guard.extend(2 * TTL).await.unwrap();
                    assert!(!guard.release().await.unwrap().already_gone);
                    locks += 1;
                }
                locks
            })
        });
        let locking: Vec<_> = locking.collect();
        let looking = (0..4).map(|_| {
            let redlock = redlock.clone();
            tokio::spawn(async move {
                for _ in 0..200 {
                    let inspection = redlock.inspect("standing").await;
                    assert_eq!(inspection.holder(), Holder::Ours, "{inspection}");
                    assert_eq!(rests(&inspection).len(), 3, "{inspection}");
                }
            })
        });
        for task in looking.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
        let mut locks = 0;
        for task in locking {
            locks += task.await.unwrap();
        }
        println!("{locks} locks");
        assert!(locks > 20, "{locks}");
        assert!(!standing.release().await.unwrap().already_gone);
    });
}
