//! Acquires that watch the key in their way.

use std::sync::mpsc;
use std::time::Duration;

use super::rig::{ANOTHER, Client, KEY, Master, TTL, Told, acquire, extend, tombstone};
use crate::node::Link;
use crate::quorum::hold::Command;
use crate::quorum::trust::amnesia::RestartGuard;
use crate::quorum::vote::{Unsent, Vote};
use crate::testkit::fleet::Server;
use crate::testkit::proxy::{Direction, Fault, Proxy, Scope};
use crate::token::Token;

/// Somebody has the lock, for about as long as its ttl.
fn is_held(vote: Vote) -> bool {
    matches!(vote, Vote::Held { ttl: Some(ttl), .. } if ttl <= TTL && ttl > TTL / 2)
}

const BARE: Vote = Vote::Held {
    ttl: None,
    fence: None,
};

#[tokio::test]
async fn a_watched_key_that_is_deleted_is_told_once() {
    for master in Master::all() {
        let mut waiter = Client::connected(1, &master).await;
        master.set("somebody", Some(TTL));
        assert!(is_held(waiter.watches(acquire(0)).await));
        waiter.hears_nothing().await;
        master.delete();
        waiter.hears_of_the_key().await;
        master.set("somebody", Some(TTL));
        master.delete();
        waiter.hears_nothing().await;
    }
}

#[tokio::test]
async fn an_acquire_that_does_not_watch_is_told_nothing() {
    for master in Master::all() {
        let mut other = Client::connected(1, &master).await;
        master.set("somebody", Some(TTL));
        assert_eq!(other.asks(acquire(0)).await, BARE);
        master.delete();
        other.hears_nothing().await;
    }
}

#[tokio::test]
async fn a_release_and_a_renewal_by_another_client_are_told() {
    for master in Master::all() {
        let holder = Client::connected(1, &master).await;
        let mut waiter = Client::connected(2, &master).await;
        assert_eq!(holder.asks(acquire(0)).await, Vote::Granted);
        assert!(is_held(waiter.watches(acquire(0)).await));
        for longer in [2, 3] {
            let extended = holder.asks(extend(longer * TTL)).await;
            assert_eq!(extended, Vote::Granted);
        }
        waiter.hears_of_the_key().await;
        waiter.hears_nothing().await;

        let vote = waiter.watches(acquire(0)).await;
        let left = matches!(vote, Vote::Held { ttl: Some(ttl), .. } if ttl > 2 * TTL);
        assert!(left, "{vote}");
        assert_eq!(holder.asks(Command::Release).await, Vote::Granted);
        waiter.hears_of_the_key().await;
        assert_eq!(waiter.watches(acquire(0)).await, Vote::Granted);
    }
}

#[tokio::test]
async fn own_changes_are_not_told_and_end_the_watch() {
    for master in Master::all() {
        let mut client = Client::connected(1, &master).await;
        assert_eq!(client.watches(acquire(0)).await, Vote::Granted);
        assert_eq!(client.asks(extend(2 * TTL)).await, Vote::Granted);
        master.delete();
        client.hears_nothing().await;
        assert_eq!(client.watches(acquire(0)).await, Vote::Granted);
        assert_eq!(client.asks(Command::Release).await, Vote::Granted);
        client.hears_nothing().await;
        // What somebody else does to a key that was granted is told.
        assert_eq!(client.watches(acquire(0)).await, Vote::Granted);
        master.delete();
        client.hears_of_the_key().await;
    }
}

#[tokio::test]
async fn a_key_without_a_ttl_is_watched_too() {
    for master in Master::all() {
        let mut waiter = Client::connected(1, &master).await;
        master.set("somebody", None);
        assert_eq!(waiter.watches(acquire(0)).await, BARE);
        master.delete();
        waiter.hears_of_the_key().await;
    }
}

#[tokio::test]
async fn a_key_that_expires_is_told_at_the_latest_when_somebody_looks() {
    let expires = async |master: Master| {
        let mut waiter = Client::connected(1, &master).await;
        let short = Duration::from_secs(1);
        master.set("somebody", Some(short));
        let vote = waiter.watches(acquire(0)).await;
        let left = matches!(vote, Vote::Held { ttl: Some(ttl), .. } if ttl <= short);
        assert!(left, "{vote}");
        while master.look() {
            tokio::time::sleep(short / 20).await;
        }
        waiter.hears_of_the_key().await;
        waiter.hears_nothing().await;
    };
    futures::future::join_all(Master::all().into_iter().map(expires)).await;
}

#[tokio::test]
async fn a_flush_is_told_whether_or_not_anything_is_watched() {
    for master in Master::all() {
        let mut client = Client::connected(1, &master).await;
        let mut waiter = Client::connected(2, &master).await;
        master.set("somebody", Some(TTL));
        assert!(is_held(waiter.watches(acquire(0)).await));
        master.flush();
        for client in [&mut client, &mut waiter] {
            client.hears(&Told::Touched(None)).await;
            client.hears_nothing().await;
        }
    }
}

#[tokio::test]
async fn a_fenced_acquire_watches_by_its_script() {
    for master in Master::all() {
        let holder = Client::connected(1, &master).await;
        let mut waiter = Client::connected(2, &master).await;
        assert_eq!(holder.asks(acquire(7)).await, Vote::Granted);
        for known in [true, false] {
            if let (false, Master::Real(server)) = (known, &master) {
                server.command(&["SCRIPT", "FLUSH"]).unwrap();
            }
            let vote = waiter.watches(acquire(8)).await;
            assert!(is_held(vote) && vote.fence() == Some(7), "{vote}");
            waiter.hears_nothing().await;
            master.set(Token::from_bits(1).as_str(), Some(TTL));
            waiter.hears_of_the_key().await;
        }
        assert!(is_held(waiter.watches(acquire(8)).await));
        // It also changes the ballot that is kept beside the lock, which is nobody's lock.
        assert_eq!(holder.asks(tombstone(8)).await, Vote::Granted);
        waiter.hears_of_the_key().await;
        waiter.hears_nothing().await;
        assert_eq!(waiter.watches(acquire(20)).await, Vote::Granted);
    }
}

#[tokio::test]
async fn a_connection_that_has_ended_tells_nothing_and_the_next_one_does() {
    for master in Master::all() {
        let mut waiter = Client::connected(1, &master).await;
        master.set("somebody", Some(TTL));
        assert!(is_held(waiter.watches(acquire(0)).await));
        waiter.cut_off(&master);
        let down = Link::Down(Unsent::NotConnected);
        waiter.hears(&Told::Link(down, false)).await;
        waiter.hears(&Told::Link(Link::Up, true)).await;
        master.delete();
        waiter.hears_nothing().await;
        master.set("somebody", Some(TTL));
        assert!(is_held(waiter.watches(acquire(0)).await));
        master.delete();
        waiter.hears_of_the_key().await;
    }
}

/// Whoever takes replies may be slow: what follows them is told all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_is_told_while_the_reply_waits_to_be_taken() {
    for master in Master::all() {
        let Master::Real(server) = &master else {
            continue;
        };
        let proxy = Proxy::start(([127, 0, 0, 1], server.port()).into()).unwrap();
        let mut waiter = Client::at(1, &proxy.url(), RestartGuard::Off);
        waiter.hears(&Told::Link(Link::Up, true)).await;
        master.set("somebody", Some(TTL));
        let (go_on, wait) = mpsc::channel();
        let (taken, votes) = mpsc::channel();
        proxy.inject(Scope::All, Direction::Replies, Fault::Hold);
        let slow = move |_| tokio::task::block_in_place(|| wait.recv().unwrap());
        let take = move |vote| taken.send(vote).unwrap();
        let release = Command::Release;
        waiter.submit(ANOTHER, release, false, slow).unwrap();
        waiter.submit(KEY, acquire(0), true, take).unwrap();
        while !has_read(server, "pttl") {
            tokio::task::yield_now().await;
        }
        proxy.resume().unwrap();
        master.delete();
        waiter.hears_of_the_key().await;
        assert_eq!(votes.try_recv().ok(), None, "it is not taken yet");
        go_on.send(()).unwrap();
        let vote = tokio::task::spawn_blocking(move || votes.recv().unwrap());
        assert!(is_held(vote.await.unwrap()));
        waiter.hears_nothing().await;
    }
}

/// Is this the last command of one of its clients?
fn has_read(server: &Server, command: &str) -> bool {
    let list = server.command(&["CLIENT", "LIST"]).unwrap();
    let list: String = redis::from_redis_value(list).unwrap();
    list.contains(&format!(" cmd={command} "))
}
