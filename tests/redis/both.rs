//! One suite for both kinds of nodes: servers in memory behave as real ones do, on every kind at hand.

use std::time::Duration;

use redlock_quorum::testkit::fleet::{Flavor, Fleet, Options};
use redlock_quorum::testkit::memory::MemoryServer;
use redlock_quorum::{Builder, ExtendError, Guard, LossCause, Redlock, Renewal, Vote};

use crate::support::{
    ask, eventually, eventually_all_granted, ms, number, run, soon, text, warm_up,
};

const TTL: Duration = Duration::from_secs(20);
const KEY: &str = "resource";

/// Three nodes of one kind, as seen past the client.
enum Nodes {
    Real(Fleet),
    Memory(Vec<MemoryServer>),
}

impl Nodes {
    fn builder(&self) -> Builder {
        let builder = match self {
            Self::Real(fleet) => Redlock::builder().nodes(fleet.urls()),
            Self::Memory(servers) => {
                Redlock::builder().memory_nodes(servers.iter().map(MemoryServer::link))
            }
        };
        builder.ttl(TTL)
    }

    fn get(&self, node: usize) -> Option<String> {
        match self {
            Self::Real(fleet) => text(&fleet[node], &["GET", KEY]),
            Self::Memory(servers) => servers[node].get(KEY),
        }
    }

    fn ttl(&self, node: usize) -> Duration {
        match self {
            Self::Real(fleet) => {
                let left = number(&fleet[node], &["PTTL", KEY]);
                ms(u64::try_from(left).unwrap_or(0))
            }
            Self::Memory(servers) => servers[node].ttl(KEY).unwrap_or_default(),
        }
    }

    fn set(&self, node: usize, value: &str) {
        match self {
            Self::Real(fleet) => drop(ask(&fleet[node], &["SET", KEY, value])),
            Self::Memory(servers) => servers[node].set(KEY, value, None),
        }
    }

    fn delete(&self, node: usize) {
        match self {
            Self::Real(fleet) => drop(ask(&fleet[node], &["DEL", KEY])),
            Self::Memory(servers) => servers[node].delete(KEY),
        }
    }

    async fn all(&self, what: &str, value: Option<&str>) {
        eventually(what, async || {
            (0..3).all(|node| self.get(node).as_deref() == value)
        })
        .await;
    }
}

/// A lock on all nodes that is not renewed: where it was not written when a quorum had decided, it would
/// never be.
async fn unrenewed(redlock: &Redlock, ttl: Duration) -> Guard {
    for _ in 0..100 {
        let request = redlock.acquire(KEY).ttl(ttl).renewal(Renewal::off());
        let guard = request.await.unwrap();
        if eventually_all_granted(&guard).await {
            return guard;
        }
        guard.release().await.unwrap();
    }
    panic!("some node never grants it");
}

fn on_both(test: &impl AsyncFn(&Nodes, &Redlock)) {
    run(async {
        let mut kinds = vec![Nodes::Memory((0..3).map(MemoryServer::new).collect())];
        for flavor in Flavor::available() {
            kinds.push(Nodes::Real(
                Fleet::with(&flavor, 3, &Options::new()).unwrap(),
            ));
        }
        for nodes in &kinds {
            let redlock = nodes.builder().build().unwrap();
            // A node that is not connected yet does not get a lock that was won without it.
            warm_up(&redlock).await;
            test(nodes, &redlock).await;
            assert!(redlock.close(Duration::from_secs(5)).await.is_complete());
        }
    });
}

#[test]
fn both_hold_the_token_for_the_ttl_and_delete_it_on_release() {
    on_both(&async |nodes, redlock| {
        let guard = redlock.acquire(KEY).await.unwrap();
        nodes
            .all("the token is everywhere", Some(guard.token().as_str()))
            .await;
        for node in 0..3 {
            let left = nodes.ttl(node);
            assert!(left <= TTL && left > TTL / 2, "{left:?}");
        }
        assert!(!guard.release().await.unwrap().already_gone);
        nodes.all("it is deleted", None).await;
    });
}

#[test]
fn both_leave_the_keys_of_others_alone() {
    on_both(&async |nodes, redlock| {
        for node in 0..2 {
            nodes.set(node, "somebody else");
        }
        let error = redlock.try_acquire(KEY).await.unwrap_err();
        assert!(error.is_contended(), "{error}");
        let tally = error.tally().unwrap();
        assert!(
            tally
                .nodes()
                .filter(|node| matches!(node.vote(), Some(Vote::Held { .. })))
                .count()
                >= 2
        );
        eventually("our own is gone", async || nodes.get(2).is_none()).await;
        for node in 0..2 {
            assert_eq!(nodes.get(node).as_deref(), Some("somebody else"));
            nodes.delete(node);
        }
        // A key that was taken over is not released.
        let guard = unrenewed(redlock, TTL).await;
        nodes
            .all("the token is everywhere", Some(guard.token().as_str()))
            .await;
        for node in 0..3 {
            nodes.set(node, "somebody else");
        }
        assert!(guard.release().await.unwrap().already_gone);
        nodes.all("all are theirs", Some("somebody else")).await;
        for node in 0..3 {
            nodes.delete(node);
        }
    });
}

#[test]
fn both_extend_what_is_ours_and_never_shorten_it() {
    on_both(&async |nodes, redlock| {
        let short = Duration::from_secs(5);
        let guard = unrenewed(redlock, short).await;
        nodes
            .all("the token is everywhere", Some(guard.token().as_str()))
            .await;
        let until = guard.extend(TTL).await.unwrap();
        let extended = || (0..3).filter(|&node| nodes.ttl(node) > 2 * short).count();
        assert!(extended() >= 2, "a quorum is extended");
        assert_eq!(guard.extend(short).await.unwrap(), until, "nothing is sent");
        assert!(extended() >= 2);
        for node in 0..2 {
            nodes.delete(node);
        }
        let longer = TTL + Duration::from_secs(20);
        let error = guard.extend(longer).await.unwrap_err();
        assert!(
            matches!(error, ExtendError::Lost(LossCause::Gone)),
            "{error}"
        );
        assert_eq!(soon(guard.lost()).await, LossCause::Gone);
        nodes
            .all(
                "nothing is created again, and the third is cleaned up",
                None,
            )
            .await;
    });
}

#[test]
fn both_let_a_key_expire() {
    on_both(&async |nodes, redlock| {
        let guard = redlock
            .acquire(KEY)
            .ttl(ms(300))
            .renewal(Renewal::off())
            .await
            .unwrap();
        std::mem::forget(guard);
        nodes
            .all("it has expired, or was cleaned up at the loss", None)
            .await;
        assert!(redlock.try_acquire(KEY).await.is_ok());
    });
}

#[test]
fn both_grant_again_what_a_dropped_guard_held() {
    on_both(&async |nodes, redlock| {
        for _ in 0..20 {
            drop(redlock.acquire(KEY).await.unwrap());
        }
        nodes.all("all are released", None).await;
    });
}
