//! What a client sees of its server's faults, one by one.

use super::rig::{ACQUIRE, Client, EXTEND, ms, pass};
use crate::node::memory::driver::FINISH_AFTER;
use crate::node::memory::{Commands, CutFate, Effect, Latency, MemoryServer, Restart};
use crate::node::reconnect::CONNECT_TIMEOUT;
use crate::node::{Link, Node};
use crate::quorum::hold::Command;
use crate::quorum::vote::{Refusal, Unsent};

#[tokio::test(start_paused = true)]
async fn a_partition_lets_nobody_connect() {
    let server = MemoryServer::new(1);
    let link = server.link();
    link.partition(true);
    let client = Client::start(&[&link]);
    client.submit(0, "a", 1, ACQUIRE).unwrap();
    pass(CONNECT_TIMEOUT.saturating_sub(ms(1))).await;
    assert_eq!(client.link(), Link::Connecting);
    pass(ms(2)).await;
    assert_eq!(
        client.trace.take(),
        [
            "1000 0: a unsent, not connected, NotWritten",
            "1000 0: link"
        ]
    );
    link.partition(false);
    pass(ms(1100)).await;
    assert_eq!(client.link(), Link::Up);
    assert_eq!(server.connections(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_ttl_counts_from_execution() {
    let server = MemoryServer::new(1);
    let client = Client::connected(&server.link()).await;
    let command = Command::Acquire {
        ttl: ms(500),
        ballot: None,
    };
    server.freeze();
    client.submit(0, "a", 1, command).unwrap();
    pass(ms(1200)).await;
    server.thaw();
    assert_eq!(server.ttl("k"), Some(ms(500)));
    pass(ms(1)).await;
    client.submit(0, "b", 2, command).unwrap();
    server.freeze();
    pass(ms(498)).await;
    server.thaw();
    pass(ms(1)).await;
    client.submit(0, "c", 3, command).unwrap();
    pass(ms(1)).await;
    let votes: Vec<String> = client
        .trace
        .take()
        .into_iter()
        .filter(|line| line.contains(", Ans"))
        .collect();
    let answered = "Answered(ConnectionId(1))";
    assert_eq!(
        votes,
        [
            format!("1210 0: a granted, {answered}"),
            format!("1709 0: b held, {answered}"),
            format!("1710 0: c granted, {answered}"),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_crash_breaks_what_is_out_and_a_restart_finishes_the_old_connection() {
    for how in [Restart::KeepData, Restart::Empty] {
        let server = MemoryServer::new(1);
        let client = Client::connected(&server.link()).await;
        client.submit(0, "a", 1, ACQUIRE).unwrap();
        pass(ms(1)).await;
        server.freeze();
        client.submit(0, "b", 1, EXTEND).unwrap();
        pass(ms(1)).await;
        server.crash();
        pass(ms(1)).await;
        assert_eq!(client.link(), Link::Down(Unsent::NotConnected));
        let run_id = server.run_id();
        server.restart(how);
        assert_ne!(server.run_id(), run_id);
        assert_eq!(server.get("k").is_some(), how == Restart::KeepData);
        pass(ms(1000)).await;
        let lines: Vec<String> = client
            .trace
            .take()
            .iter()
            .map(|line| line.split_once(' ').unwrap().1.to_owned())
            .collect();
        assert_eq!(
            lines,
            [
                "0: a granted, Answered(ConnectionId(1))",
                "0: b unknown, Broken(ConnectionId(1))",
                "0: link",
                "0: Finished(ConnectionId(1))",
                "0: link",
                "0: Up",
            ]
        );
        assert_eq!(client.nodes[0].standing().finished.map(|id| id.0), Some(1));
        assert_eq!(
            server.commands(),
            Commands {
                acquire: 1,
                extend: 0,
                release: 0,
                ..Commands::default()
            },
            "the unread is lost"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_killed_connection_delivers_nothing() {
    let server = MemoryServer::new(1);
    let link = server.link();
    let client = Client::connected(&link).await;
    let held = link.hold_connection().unwrap();
    client.submit(0, "a", 1, ACQUIRE).unwrap();
    pass(ms(1)).await;
    assert_eq!(held.commands(), 1);
    link.cut(CutFate::Executed);
    pass(ms(1)).await;
    assert_eq!(client.link(), Link::Down(Unsent::NotConnected));
    assert_eq!(
        held.commands(),
        1,
        "the client has closed it, and it is still on the way"
    );
    pass(ms(1000)).await;
    let lines = client.trace.take();
    assert!(lines[2].ends_with("Finished(ConnectionId(1))"), "{lines:?}");
    assert!(
        lines[3].ends_with("link") && lines[4].ends_with("Up"),
        "{lines:?}"
    );
    held.deliver();
    pass(ms(10)).await;
    assert_eq!(
        (server.commands(), server.connections()),
        (Commands::default(), 1)
    );
}

#[tokio::test(start_paused = true)]
async fn without_kill_a_held_connection_breaks_the_assumption() {
    let server = MemoryServer::new(1);
    server.deny_client_kill(true);
    let link = server.link();
    let client = Client::connected(&link).await;
    let held = link.hold_connection().unwrap();
    client.submit(0, "a", 1, ACQUIRE).unwrap();
    pass(ms(1)).await;
    link.cut(CutFate::Executed);
    pass(ms(1)).await;
    while client.link() != Link::Up {
        pass(ms(1)).await;
    }
    assert_eq!(client.nodes[0].standing().finished, None);
    client.submit(0, "b", 1, Command::Release).unwrap();
    pass(FINISH_AFTER.saturating_sub(ms(2))).await;
    assert_eq!(client.nodes[0].standing().finished, None);
    pass(ms(2)).await;
    assert_eq!(client.nodes[0].standing().finished.map(|id| id.0), Some(1));
    held.deliver();
    pass(ms(1)).await;
    assert!(server.get("k").is_some(), "the straggler came after all");
    assert_eq!(
        server.connections(),
        1,
        "its connection is closed behind it"
    );
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_heals_delivers_what_it_kept() {
    let server = MemoryServer::new(1);
    let link = server.link();
    let client = Client::connected(&link).await;
    link.partition(true);
    client.submit(0, "a", 1, ACQUIRE).unwrap();
    pass(ms(1500)).await;
    assert_eq!(server.commands(), Commands::default());
    link.partition(false);
    pass(ms(1)).await;
    assert_eq!(
        client.trace.take().last().unwrap(),
        "1510 0: a granted, Answered(ConnectionId(1))"
    );
}

#[tokio::test(start_paused = true)]
async fn a_cut_decides_what_arrives() {
    for (fate, executed) in [
        (CutFate::Executed, 3..=3),
        (CutFate::Lost, 0..=0),
        (CutFate::Either, 0..=3),
    ] {
        let server = MemoryServer::new(1);
        let link = server.link();
        let client = Client::connected(&link).await;
        link.set_latency(Latency::fixed(ms(10)), Latency::default());
        for _ in 0..3 {
            client.submit(0, "a", 1, ACQUIRE).unwrap();
        }
        pass(ms(1)).await;
        link.sever(fate);
        pass(ms(20)).await;
        assert!(
            client.trace.take()[..3]
                .iter()
                .all(|line| line.starts_with("11 0: a unknown, Broken"))
        );
        assert!(
            executed.contains(&server.commands().acquire),
            "{fate:?}: {:?}",
            server.commands()
        );
        assert_eq!(server.connections(), 0);
        pass(ms(5000)).await;
        assert_eq!(server.connections(), 0, "nobody is there to connect again");
    }
}

#[tokio::test(start_paused = true)]
async fn refusals_change_nothing_and_errors_do_not_tell() {
    let server = MemoryServer::new(1);
    let client = Client::connected(&server.link()).await;
    server.keep_log(true);
    server.refuse(Some(Refusal::Loading));
    client.submit(0, "a", 1, ACQUIRE).unwrap();
    pass(ms(1)).await;
    assert_eq!(server.get("k"), None);
    server.refuse(None);
    server.fail_with_error(Some(Effect::NotApplied));
    client.submit(0, "b", 1, ACQUIRE).unwrap();
    pass(ms(1)).await;
    assert_eq!(server.get("k"), None);
    server.fail_with_error(Some(Effect::Applied));
    client.submit(0, "c", 1, ACQUIRE).unwrap();
    pass(ms(1)).await;
    assert!(server.get("k").is_some());
    let answered = "Answered(ConnectionId(1))";
    assert_eq!(
        client.trace.take(),
        [
            format!("10 0: a refused LOADING, {answered}"),
            format!("11 0: b unknown, {answered}"),
            format!("12 0: c unknown, {answered}"),
        ]
    );
    let effects: Vec<bool> = server
        .take_log()
        .iter()
        .map(|line| line.took_effect)
        .collect();
    assert_eq!(effects, [false, false, true]);
}

#[tokio::test(start_paused = true)]
async fn the_servers_clock_is_its_own() {
    let server = MemoryServer::new(1);
    let key = || server.set("k", "foreign", Some(ms(1000)));
    key();
    server.set_clock_offset(1000);
    assert_eq!(server.get("k"), None, "a jump ages every key");
    key();
    server.set_clock_offset(0);
    assert_eq!(server.ttl("k"), Some(ms(2000)));
    key();
    server.set_clock_rate(100_000);
    pass(ms(500)).await;
    assert_eq!(server.ttl("k"), Some(ms(450)));
    assert_eq!(server.keys(), ["k"]);
    server.delete("k");
    assert_eq!(server.get("k"), None);
    key();
    server.flush();
    assert_eq!(server.keys(), [""; 0]);
}
