//! Users who may not do all that watching needs: the line of `docs/operations.md`, less a right.

use super::rig::{Client, Master, TTL, Told, acquire, extend};
use crate::node::Link;
use crate::node::memory::MemoryServer;
use crate::quorum::hold::Command;
use crate::quorum::trust::amnesia::RestartGuard;
use crate::quorum::vote::{Unsent, Vote};
use crate::testkit::fleet::Server;

const OPERATIONS: &str = include_str!("../../../docs/operations.md");

/// Makes the user at a server, without this right.
fn allow(master: &Master, right: &str) {
    let line = OPERATIONS
        .lines()
        .find(|line| line.starts_with("ACL SETUSER locker ") && line.contains("+evalsha"))
        .unwrap();
    let words: Vec<&str> = line.split(' ').filter(|&word| word != right).collect();
    assert_eq!(
        words.len() + usize::from(!right.is_empty()),
        line.split(' ').count()
    );
    if let Master::Real(server) = master {
        server.command(&words).unwrap();
    }
}

/// Makes the user with all rights but these.
fn allow_all_but(server: &Server, rights: &[&str]) {
    let user = "ACL SETUSER locker on >secret ~* +@all";
    let words: Vec<&str> = user.split(' ').chain(rights.iter().copied()).collect();
    server.command(&words).unwrap();
}

async fn connected(master: &Master, tells: bool) -> Client {
    let mut client = Client::start(1, master, RestartGuard::Off, "locker:secret@");
    client.hears(&Told::Link(Link::Up, tells)).await;
    client
}

/// Acquires as a waiter while somebody else has the lock. Returns whether the ttl was told.
async fn waits(client: &Client, master: &Master) -> bool {
    master.set("somebody", Some(TTL));
    let vote = client.watches(acquire(0)).await;
    let Vote::Held { ttl, fence: None } = vote else {
        panic!("{vote}")
    };
    assert!(ttl.is_none_or(|ttl| ttl <= TTL && ttl > TTL / 2));
    ttl.is_some()
}

fn real() -> impl Iterator<Item = Master> {
    Master::all().into_iter().skip(1)
}

#[tokio::test]
async fn the_user_of_the_operations_page_may_watch() {
    for master in real() {
        allow(&master, "");
        let mut client = connected(&master, true).await;
        assert!(waits(&client, &master).await);
        assert!(client.node.tells());
        master.delete();
        client.hears_of_the_key().await;
        assert_eq!(client.watches(acquire(1)).await, Vote::Granted);
    }
}

#[tokio::test]
async fn a_connection_that_may_not_track_tells_nothing_but_the_ttl() {
    let forgetful = MemoryServer::new(1);
    forgetful.deny_tracking(true);
    for master in real().chain([Master::Memory(forgetful)]) {
        allow(&master, "+client|tracking");
        let mut client = connected(&master, false).await;
        assert!(waits(&client, &master).await);
        master.delete();
        client.hears_nothing().await;
        assert_eq!(client.watches(acquire(0)).await, Vote::Granted);
        assert!(!client.node.tells());
    }
}

#[tokio::test]
async fn a_key_that_cannot_be_watched_is_known_not_to_be() {
    for master in real() {
        for right in ["+client|caching", "+get"] {
            allow(&master, right);
            let client = connected(&master, true).await;
            assert!(waits(&client, &master).await, "{right}");
            assert!(!client.node.tells(), "{right}");
            master.delete();
            assert_eq!(client.watches(acquire(0)).await, Vote::Granted, "{right}");
            let Master::Real(server) = &master else {
                unreachable!()
            };
            server.command(&["ACL", "DELUSER", "locker"]).unwrap();
        }
    }
}

#[tokio::test]
async fn without_pttl_a_key_is_watched_and_its_ttl_is_not_known() {
    for master in real() {
        allow(&master, "+pttl");
        let mut client = connected(&master, true).await;
        assert!(!waits(&client, &master).await);
        assert!(client.node.tells());
        master.delete();
        client.hears_of_the_key().await;
    }
}

#[tokio::test]
async fn a_key_is_watched_where_releases_are_transactions() {
    for master in real() {
        let Master::Real(server) = &master else {
            unreachable!()
        };
        allow_all_but(server, &["-@scripting"]);
        let mut holder = connected(&master, true).await;
        let mut waiter = Client::connected(2, &master).await;
        assert_eq!(holder.watches(acquire(0)).await, Vote::Granted);
        let held = waiter.watches(acquire(0)).await;
        assert!(matches!(held, Vote::Held { ttl: Some(_), .. }), "{held}");
        let (extension, release) = (extend(2 * TTL), Command::Release);
        assert_eq!(holder.asks(extension).await, Vote::Granted);
        waiter.hears_of_the_key().await;
        let held = waiter.watches(acquire(0)).await;
        assert!(matches!(held, Vote::Held { ttl: Some(_), .. }), "{held}");
        assert_eq!(holder.asks(release).await, Vote::Granted);
        waiter.hears_of_the_key().await;
        waiter.hears_nothing().await;
        holder.hears_nothing().await;
    }
}

/// Rights can be taken away while a connection lasts, and said so once it is noticed.
#[tokio::test]
async fn a_connection_that_told_may_tell_no_more() {
    for master in real() {
        let Master::Real(server) = &master else {
            unreachable!()
        };
        allow_all_but(server, &[]);
        let mut client = connected(&master, true).await;
        assert!(waits(&client, &master).await);
        allow_all_but(server, &["-client|caching"]);
        master.delete();
        client.hears_of_the_key().await;
        assert!(client.node.tells());
        assert!(waits(&client, &master).await);
        assert!(!client.node.tells());
        assert!(client.watches(acquire(1)).await.is_contention());
        allow_all_but(server, &[]);
        client.cut_off(&master);
        let down = Link::Down(Unsent::NotConnected);
        client.hears(&Told::Link(down, false)).await;
        client.hears(&Told::Link(Link::Up, true)).await;
    }
}
