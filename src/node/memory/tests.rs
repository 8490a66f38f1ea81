//! What a client sees of a memory server, fault by fault.

use std::sync::atomic::{AtomicBool, Ordering};

use super::driver::{CONNECT_TIMEOUT, FINISH_AFTER};
use super::*;
use crate::clock::Clock;
use crate::node::breaker::{OPENS_AFTER, REPLACES_AFTER};
use crate::node::gate::MAX_UNANSWERED;
use crate::node::{Caller, Link, Observer};
use crate::quorum::hold::{Command, Reply};
use crate::quorum::ledger::News;
use crate::quorum::trust::Identities;
use crate::quorum::validity::Moment;
use crate::quorum::vote::Refusal;
use crate::token::{Entropy, Token};

use std::time::Duration;

const TTL: Duration = Duration::from_secs(5);
const ACQUIRE: Command = Command::Acquire { ttl: TTL };
const EXTEND: Command = Command::Extend {
    ttl: TTL,
    number: 1,
};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

/// What has happened, one line each, with the virtual time.
#[derive(Clone)]
struct Trace(Arc<(Clock, Moment, Mutex<Vec<String>>)>);

impl Trace {
    fn new() -> Self {
        let clock = Clock::start();
        let start = clock.now();
        Self(Arc::new((clock, start, Mutex::default())))
    }

    fn push(&self, what: &str) {
        let (clock, start, lines) = &*self.0;
        lines
            .lock()
            .unwrap()
            .push(format!("{} {what}", clock.now().since(*start).as_millis()));
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.2.lock().unwrap())
    }
}

struct Watch {
    node: usize,
    trace: Trace,
}

impl Observer for Watch {
    fn on_news(&self, news: News) {
        self.trace.push(&format!("{}: {news:?}", self.node));
    }

    fn on_link(&self) {
        self.trace.push(&format!("{}: link", self.node));
    }
}

struct Probe {
    name: String,
    token: Token,
    trace: Trace,
    withdrawn: AtomicBool,
}

impl Caller for Probe {
    fn key(&self) -> &'static str {
        "k"
    }

    fn token(&self) -> &Token {
        &self.token
    }

    fn claim(&self, _: usize, _: Command) -> bool {
        !self.withdrawn.load(Ordering::Relaxed)
    }

    fn on_reply(self: Arc<Self>, node: usize, _: Command, reply: Reply) {
        self.trace.push(&format!(
            "{node}: {} {}, {:?}",
            self.name, reply.vote, reply.carrier
        ));
    }
}

/// One client of some servers.
struct Client {
    nodes: Vec<MemoryNode>,
    trace: Trace,
}

impl Client {
    fn start(links: &[&MemoryLink]) -> Self {
        let trace = Trace::new();
        let clock = Arc::new(Clock::start());
        let entropy = Arc::new(Entropy::seeded(7));
        let identities = Arc::new(Mutex::new(Identities::new(links.len())));
        let nodes: Vec<MemoryNode> = links.iter().map(|link| MemoryNode::new(link)).collect();
        for (node, memory) in nodes.iter().enumerate() {
            memory.start(Context {
                node,
                observer: Box::new(Watch {
                    node,
                    trace: trace.clone(),
                }),
                clock: Arc::clone(&clock),
                entropy: Arc::clone(&entropy),
                identities: Arc::clone(&identities),
            });
        }
        Self { nodes, trace }
    }

    fn probe(&self, name: &str, bits: u128) -> Arc<Probe> {
        let withdrawn = AtomicBool::new(false);
        Arc::new(Probe {
            name: name.into(),
            token: Token::from_bits(bits),
            trace: self.trace.clone(),
            withdrawn,
        })
    }

    fn submit(&self, node: usize, name: &str, bits: u128, command: Command) -> Result<(), Unsent> {
        self.nodes[node].submit(Request::new(self.probe(name, bits), node, command))
    }

    fn link(&self) -> Link {
        self.nodes[0].standing().link
    }

    /// One that is connected.
    async fn connected(link: &MemoryLink) -> Self {
        let client = Self::start(&[link]);
        pass(ms(10)).await;
        assert_eq!(client.link(), Link::Up);
        client.trace.take();
        client
    }
}

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
            release: 1
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
async fn a_partition_lets_nobody_connect() {
    let server = MemoryServer::new(1);
    let link = server.link();
    link.partition(true);
    let client = Client::start(&[&link]);
    client.submit(0, "a", 1, ACQUIRE).unwrap();
    pass(CONNECT_TIMEOUT - ms(1)).await;
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
    pass(REPLACES_AFTER - OPENS_AFTER).await;
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
            release: 1
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
async fn a_ttl_counts_from_execution() {
    let server = MemoryServer::new(1);
    let client = Client::connected(&server.link()).await;
    let command = Command::Acquire { ttl: ms(500) };
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
                release: 0
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
    pass(FINISH_AFTER - ms(2)).await;
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

/// Clients, faults and jitter, all from one seed.
fn timeline(seed: u64) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let dice = Entropy::seeded(seed);
        let servers: Vec<MemoryServer> = (0..3)
            .map(|number| MemoryServer::new(seed ^ number))
            .collect();
        for server in &servers {
            server.keep_log(true);
        }
        let links: Vec<Vec<MemoryLink>> = (0..3)
            .map(|_| servers.iter().map(MemoryServer::link).collect())
            .collect();
        for link in links.iter().flatten() {
            link.set_latency(
                Latency::fixed(ms(1)).with_jitter(ms(9)),
                Latency::default().with_jitter(ms(9)),
            );
        }
        let clients: Vec<Client> = links
            .iter()
            .map(|links| Client::start(&links.iter().collect::<Vec<_>>()))
            .collect();
        let mut lines = Vec::new();
        let mut held = Vec::new();
        for step in 0..600_u32 {
            let pick = |bound: u64| usize::try_from(pipe::scale(dice.jitter(), bound)).unwrap();
            let (client, node) = (pick(3), pick(3));
            let (server, link) = (&servers[node], &links[client][node]);
            match pick(24) {
                0 => server.freeze(),
                1 | 2 => servers.iter().for_each(MemoryServer::thaw),
                3 => server.restart(if pick(2) == 0 {
                    Restart::KeepData
                } else {
                    Restart::Empty
                }),
                4 => link.cut(CutFate::Either),
                5 => link.partition(true),
                6 | 7 => links
                    .iter()
                    .flatten()
                    .for_each(|link| link.partition(false)),
                8 => held.extend(link.hold_connection()),
                9 => held.iter().for_each(HeldConnection::deliver),
                10 => server.deny_client_kill(pick(2) == 0),
                _ => {
                    let command = [ACQUIRE, EXTEND, Command::Release][pick(3)];
                    let submitted = clients[client].submit(
                        node,
                        &format!("{step}"),
                        u128::from(step % 7),
                        command,
                    );
                    lines.push(format!("{step} {submitted:?}"));
                }
            }
            pass(ms(dice.jitter() % 40)).await;
        }
        pass(ms(10_000)).await;
        lines.extend(clients.iter().flat_map(|client| client.trace.take()));
        lines.extend(
            servers
                .iter()
                .flat_map(MemoryServer::take_log)
                .map(|line| format!("{line:?}")),
        );
        lines
    })
}

#[test]
fn one_seed_is_one_timeline() {
    for seed in 0..8 {
        let first = timeline(seed);
        assert!(first.len() > 600);
        assert_eq!(first, timeline(seed));
    }
    assert_ne!(timeline(1), timeline(2));
}
