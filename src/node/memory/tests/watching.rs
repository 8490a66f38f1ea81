//! When and to whom a server in memory tells of changes.

use super::rig::{ACQUIRE, Client, EXTEND, TTL, ms, pass};
use crate::node::memory::{CutFate, Latency, MemoryServer, Restart};
use crate::node::{Link, Node};
use crate::quorum::hold::Command;
use crate::quorum::sabotage::{Bug, commit};

const HELD: &str = "0: b held for 5000 ms, Answered(ConnectionId(1))";

#[tokio::test(start_paused = true)]
async fn a_change_is_told_behind_the_reply_and_as_late_as_one() {
    let server = MemoryServer::new(1);
    let link = server.link();
    let client = Client::connected(&link).await;
    link.set_latency(Latency::default(), Latency::fixed(ms(20)));
    server.set("k", "somebody", Some(TTL));
    client.watch(0, "b", 2, ACQUIRE).unwrap();
    pass(ms(5)).await;
    link.set_latency(Latency::default(), Latency::fixed(ms(1)));
    server.delete("k");
    pass(ms(100)).await;
    server.set("k", "somebody", None);
    pass(ms(100)).await;
    assert_eq!(
        client.trace.take(),
        [format!("30 {HELD}"), "30 0: touched k".to_owned()]
    );
    client.watch(0, "c", 3, ACQUIRE).unwrap();
    pass(ms(5)).await;
    client.trace.take();
    server.delete("k");
    pass(ms(10)).await;
    assert_eq!(client.trace.take(), ["221 0: touched k"]);
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_stands_still_finds_both_later() {
    let server = MemoryServer::new(1);
    let link = server.link();
    let client = Client::connected(&link).await;
    link.set_latency(Latency::fixed(ms(5)), Latency::default());
    server.set("k", "somebody", Some(TTL));
    client.watch(0, "b", 2, ACQUIRE).unwrap();
    pass(ms(1)).await;
    link.pause_client(true);
    pass(ms(100)).await;
    server.delete("k");
    pass(ms(100)).await;
    assert_eq!(client.trace.take().len(), 0);
    link.pause_client(false);
    pass(ms(1)).await;
    let told = client.trace.take();
    assert!(told[0].contains("b held for 4"), "{told:?}");
    assert!(told[1].ends_with("0: touched k"), "{told:?}");
    assert_eq!(told.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_expiry_is_told_when_somebody_comes_across_it() {
    let server = MemoryServer::new(1);
    let (link, other) = (server.link(), server.link());
    let client = Client::connected(&link).await;
    let other = Client::connected(&other).await;
    server.set("k", "somebody", Some(ms(50)));
    client.watch(0, "b", 2, ACQUIRE).unwrap();
    pass(ms(5000)).await;
    assert_eq!(client.trace.take().len(), 1, "nobody has looked");
    other.submit(0, "a", 1, ACQUIRE).unwrap();
    pass(ms(1)).await;
    let told = client.trace.take();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].ends_with("touched k"));

    // Whoever finds it out by itself is not told.
    client.watch(0, "b", 2, ACQUIRE).unwrap();
    pass(TTL).await;
    client.trace.take();
    client.submit(0, "b", 2, ACQUIRE).unwrap();
    pass(ms(1)).await;
    let told = client.trace.take();
    assert!(told.len() == 1 && told[0].contains("b granted"), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn each_watcher_is_told_but_not_whoever_changed_it() {
    let server = MemoryServer::new(1);
    let links = [server.link(), server.link(), server.link()];
    let mut clients = Vec::new();
    for link in &links {
        clients.push(Client::connected(link).await);
    }
    for (bits, client) in (1..).zip(&clients) {
        client.watch(0, "x", bits, ACQUIRE).unwrap();
        pass(ms(1)).await;
    }
    clients[0].submit(0, "x", 1, EXTEND).unwrap();
    pass(ms(1)).await;
    clients[0].submit(0, "x", 1, Command::Release).unwrap();
    pass(ms(1)).await;
    for (client, expected) in clients.iter().zip([0, 1, 1]) {
        let told = client.trace.take();
        let touched = told.iter().filter(|line| line.contains("touched"));
        assert_eq!(touched.count(), expected, "{told:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_watched_ends_with_the_connection_or_the_server() {
    for restarts in [false, true] {
        let server = MemoryServer::new(1);
        let link = server.link();
        let client = Client::connected(&link).await;
        assert!(client.nodes[0].tells());
        server.set("k", "somebody", None);
        client.watch(0, "b", 2, ACQUIRE).unwrap();
        pass(ms(1)).await;
        if restarts {
            server.restart(Restart::KeepData);
        } else {
            link.cut(CutFate::Executed);
        }
        pass(ms(1)).await;
        assert!(!client.nodes[0].tells());
        pass(ms(1000)).await;
        assert_eq!(client.link(), Link::Up);
        assert!(client.nodes[0].tells());
        client.trace.take();
        server.delete("k");
        pass(ms(1)).await;
        assert_eq!(client.trace.take().len(), 0, "{restarts}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_flush_during_the_handshake_does_no_harm() {
    let server = MemoryServer::new(1);
    let link = server.link();
    let client = Client::connected(&link).await;
    link.cut(CutFate::Executed);
    link.set_latency(Latency::default(), Latency::fixed(ms(100)));
    pass(ms(1)).await;
    client.trace.take();
    // The next one is introduced, and waits to hear that this one is finished.
    while server.connections() == 0 {
        pass(ms(1)).await;
    }
    pass(ms(150)).await;
    server.flush();
    pass(ms(1000)).await;
    let told = client.trace.take();
    let place = |what: &str| told.iter().position(|line| line.contains(what));
    assert!(place("touched all") < place("Up"), "{told:?}");
    assert!(place("touched all").is_some(), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_server_may_not_tell() {
    let server = MemoryServer::new(1);
    let (link, late) = (server.link(), server.link());
    let client = Client::connected(&link).await;
    server.deny_tracking(true);
    let late = Client::connected(&late).await;
    assert!(client.nodes[0].tells() && !late.nodes[0].tells());
    server.set("k", "somebody", Some(TTL));
    for client in [&client, &late] {
        client.watch(0, "b", 2, ACQUIRE).unwrap();
    }
    pass(ms(1)).await;
    server.flush();
    pass(ms(1)).await;
    assert!(client.trace.take()[1].ends_with("touched all"));
    let told = late.trace.take();
    assert!(told.len() == 1 && told[0].ends_with(HELD), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn the_deliberate_mistake_drops_what_is_told() {
    let server = MemoryServer::new(1);
    let link = server.link();
    let client = Client::connected(&link).await;
    commit(Some(Bug::WakeUpLost));
    server.set("k", "somebody", Some(TTL));
    client.watch(0, "b", 2, ACQUIRE).unwrap();
    pass(ms(1)).await;
    server.delete("k");
    server.flush();
    pass(ms(1)).await;
    commit(None);
    assert_eq!(client.trace.take().len(), 1);
}
