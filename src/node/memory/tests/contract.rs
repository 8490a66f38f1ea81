//! The contract of `Node`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::rig::{ACQUIRE, Client, EXTEND, ms, pass};
use crate::node::breaker::{OPENS_AFTER, REPLACES_AFTER};
use crate::node::gate::MAX_UNANSWERED;
use crate::node::memory::{Commands, CutFate, Latency, MemoryLink, MemoryServer, Restart};
use crate::node::{Caller, Link, Node, Request};
use crate::quorum::hold::Command;
use crate::quorum::vote::Unsent;
use crate::token::Token;

#[tokio::test(start_paused = true)]
async fn requests_wait_for_the_first_handshake_and_are_answered_in_order() {
    let server = MemoryServer::new(1);
    let link = server.link();
    link.set_latency(
        Latency::fixed(ms(2)),
        Latency::fixed(ms(1)).with_jitter(ms(5)),
    );
    let client = Client::start(&[&link]);
    assert_eq!(client.link(), Link::Connecting);
    for (name, bits, command) in [
        ("a", 1, ACQUIRE),
        ("b", 2, ACQUIRE),
        ("c", 1, EXTEND),
        ("d", 1, Command::Release),
        ("e", 2, ACQUIRE),
    ] {
        client.submit(0, name, bits, command).unwrap();
    }
    pass(ms(100)).await;
    let what: Vec<String> = client
        .trace
        .take()
        .iter()
        .map(|line| line.split_once(' ').unwrap().1.to_owned())
        .collect();
    let answered = "Answered(ConnectionId(1))";
    assert_eq!(
        what,
        [
            "0: link".to_owned(),
            "0: Up".to_owned(),
            format!("0: a granted, {answered}"),
            format!("0: b held, {answered}"),
            format!("0: c granted, {answered}"),
            format!("0: d granted, {answered}"),
            format!("0: e granted, {answered}"),
        ]
    );
    assert_eq!(
        server.get("k").as_deref(),
        Some(Token::from_bits(2).as_str())
    );
    assert_eq!(
        server.commands(),
        Commands {
            acquire: 3,
            extend: 1,
            release: 1,
            ..Commands::default()
        }
    );
}

#[tokio::test(start_paused = true)]
async fn what_was_withdrawn_is_never_written_and_owes_no_reply() {
    let server = MemoryServer::new(1);
    let client = Client::start(&[&server.link()]);
    let probe = client.probe("a", 1);
    client.nodes[0]
        .submit(Request::new(
            Arc::clone(&probe) as Arc<dyn Caller>,
            0,
            ACQUIRE,
        ))
        .unwrap();
    probe.withdrawn.store(true, Ordering::Relaxed);
    pass(ms(10)).await;
    assert_eq!(client.trace.take(), ["0 0: link", "0 0: Up"]);
    assert_eq!(server.commands(), Commands::default());
}

#[tokio::test(start_paused = true)]
async fn a_first_handshake_that_fails_answers_what_waited() {
    let server = MemoryServer::new(1);
    server.crash();
    let link = server.link();
    let client = Client::start(&[&link]);
    client.submit(0, "a", 1, ACQUIRE).unwrap();
    pass(ms(1)).await;
    assert_eq!(
        client.trace.take(),
        ["0 0: a unsent, not connected, NotWritten", "0 0: link"]
    );
    assert_eq!(
        client.submit(0, "b", 1, Command::Release),
        Err(Unsent::NotConnected)
    );
    assert_eq!(
        client.nodes[0].standing().error.as_deref(),
        Some("connection refused")
    );
    server.restart(Restart::KeepData);
    pass(ms(1000)).await;
    assert_eq!(client.link(), Link::Up);
}

#[tokio::test(start_paused = true)]
async fn silence_opens_the_breaker_and_then_replaces_the_connection() {
    let server = MemoryServer::new(1);
    let link = server.link();
    let client = Client::connected(&link).await;
    link.block_replies(true);
    client.submit(0, "a", 1, ACQUIRE).unwrap();
    pass(OPENS_AFTER + ms(1)).await;
    assert_eq!(client.link(), Link::ReleasesOnly(Unsent::BreakerOpen));
    assert_eq!(client.submit(0, "b", 2, ACQUIRE), Err(Unsent::BreakerOpen));
    assert_eq!(client.submit(0, "c", 1, Command::Release), Ok(()));
    pass(REPLACES_AFTER.saturating_sub(OPENS_AFTER)).await;
    assert_eq!(client.link(), Link::Down(Unsent::NotConnected));
    let broken = "Broken(ConnectionId(1))";
    assert_eq!(
        client.trace.take(),
        [
            "260 0: link".to_owned(),
            format!("2010 0: a unknown, {broken}"),
            format!("2010 0: c unknown, {broken}"),
            "2010 0: link".to_owned(),
        ]
    );
    assert_eq!(server.get("k"), None, "both were executed");
    assert_eq!(
        server.commands(),
        Commands {
            acquire: 1,
            extend: 0,
            release: 1,
            ..Commands::default()
        }
    );
}

#[tokio::test(start_paused = true)]
async fn the_first_reply_closes_the_breaker() {
    let server = MemoryServer::new(1);
    let link = server.link();
    let client = Client::connected(&link).await;
    server.freeze();
    client.submit(0, "a", 1, ACQUIRE).unwrap();
    pass(ms(300)).await;
    assert_eq!(client.link(), Link::ReleasesOnly(Unsent::BreakerOpen));
    server.thaw();
    pass(ms(1)).await;
    assert_eq!(client.link(), Link::Up);
    assert_eq!(
        client.trace.take(),
        [
            "260 0: link",
            "310 0: link",
            "310 0: a granted, Answered(ConnectionId(1))"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn wrong_servers_are_set_aside_and_looked_at_again() {
    let servers = [
        MemoryServer::new(1),
        MemoryServer::new(2),
        MemoryServer::new(3),
    ];
    servers[1].set_replica(true);
    servers[2].set_cluster(true);
    let links: Vec<MemoryLink> = [0, 0, 1, 2]
        .map(|server: usize| servers[server].link())
        .into();
    let client = Client::start(&links.iter().collect::<Vec<_>>());
    client.submit(1, "a", 1, ACQUIRE).unwrap();
    pass(ms(1)).await;
    let standing: Vec<Link> = client
        .nodes
        .iter()
        .map(|node| node.standing().link)
        .collect();
    let expected = [
        Link::Up,
        Link::Down(Unsent::DuplicateOf { node: 0 }),
        Link::Down(Unsent::Replica),
        Link::Down(Unsent::Cluster),
    ];
    assert_eq!(standing, expected);
    assert!(
        client
            .trace
            .take()
            .contains(&"0 1: a unsent, duplicate of node 0, NotWritten".to_owned())
    );
    servers[1].set_replica(false);
    servers[2].set_cluster(false);
    pass(ms(1000)).await;
    let standing: Vec<Link> = client
        .nodes
        .iter()
        .map(|node| node.standing().link)
        .collect();
    assert_eq!(standing, [Link::Up, expected[1], Link::Up, Link::Up]);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_takes_releases_only() {
    let server = MemoryServer::new(1);
    let link = server.link();
    let client = Client::connected(&link).await;
    server.freeze();
    for _ in 0..MAX_UNANSWERED {
        client.submit(0, "a", 1, ACQUIRE).unwrap();
    }
    assert_eq!(client.submit(0, "b", 2, ACQUIRE), Err(Unsent::QueueFull));
    assert_eq!(client.submit(0, "c", 1, Command::Release), Ok(()));
    pass(ms(1)).await;
    link.cut(CutFate::Lost);
    pass(ms(1000)).await;
    server.thaw();
    pass(ms(2000)).await;
    for _ in 0..MAX_UNANSWERED {
        client.submit(0, "d", 1, ACQUIRE).unwrap();
    }
    assert_eq!(
        client.submit(0, "e", 2, ACQUIRE),
        Err(Unsent::QueueFull),
        "every one was counted back"
    );
}

#[tokio::test(start_paused = true)]
async fn a_dropped_node_finishes_what_is_out() {
    let server = MemoryServer::new(1);
    let link = server.link();
    link.set_latency(Latency::fixed(ms(5)), Latency::fixed(ms(5)));
    let mut client = Client::start(&[&link]);
    client.submit(0, "a", 1, ACQUIRE).unwrap();
    client.nodes.clear();
    pass(ms(100)).await;
    assert_eq!(
        client.trace.take(),
        [
            "20 0: link",
            "20 0: Up",
            "30 0: a granted, Answered(ConnectionId(1))",
            "30 0: link",
            "30 0: Gone",
        ]
    );
    assert_eq!(server.connections(), 0);
}

#[test]
fn a_driver_that_ends_with_its_runtime_answers_everything() {
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap()
    };
    let first = runtime();
    let (server, client) = first.block_on(async {
        let server = MemoryServer::new(1);
        let link = server.link();
        let client = Client::connected(&link).await;
        server.freeze();
        client.submit(0, "a", 1, ACQUIRE).unwrap();
        pass(ms(1)).await;
        client.submit(0, "b", 1, EXTEND).unwrap();
        (server, client)
    });
    drop(first);
    assert_eq!(
        client.submit(0, "c", 1, Command::Release),
        Err(Unsent::Closed)
    );
    assert_eq!(client.link(), Link::Down(Unsent::Closed));
    let lines: Vec<String> = client
        .trace
        .take()
        .iter()
        .map(|line| line.split_once(' ').unwrap().1.to_owned())
        .collect();
    assert_eq!(
        lines,
        [
            "0: a unknown, Broken(ConnectionId(1))",
            "0: b unsent, closed, NotWritten",
            "0: link",
            "0: Gone"
        ]
    );
    server.thaw();
    let second = runtime();
    second.block_on(async {
        let client = Client::connected(&server.link()).await;
        assert_eq!(client.submit(0, "d", 2, ACQUIRE), Ok(()));
        pass(ms(1)).await;
        assert_eq!(client.trace.take().len(), 1, "another runtime carries on");
    });
}
