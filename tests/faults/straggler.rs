//! A `SET` that arrives late, after the client has given it up, leaves no key behind.
//!
//! Each scenario is played to a naive client as well, at the same time and over the same network:
//! its key stays, so the scenario does tell the two apart.
#![expect(
    clippy::disallowed_methods,
    reason = "a ttl is waited for in real time"
)]

use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{Client, Script};
use redlock_quorum::testkit::fleet::{Flavor, Fleet, Options, Server};
use redlock_quorum::testkit::proxy::{Direction, Fault, Proxy, Scope};
use redlock_quorum::{Guard, Redlock, Unsent, Vote};

use crate::support::{
    PATIENCE, Proxied, ask, builder, eventually, eventually_within, fleet, info, keys_expired,
    lock_keys, ms, released_everywhere, run, taken, text, vote, warm_up,
};

const TTL: Duration = Duration::from_secs(10);
const NAIVE: &str = "naive";
const OURS: &str = "ours";
const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/// What many clients do at one node: a time-out is the end of it.
struct Naive {
    client: Client,
    connection: MultiplexedConnection,
}

impl Naive {
    /// How long it waits for what does not come.
    const TIMEOUT: Duration = Duration::from_millis(100);

    async fn connect(url: &str) -> Self {
        let client = Client::open(url).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        redis::cmd("PING")
            .exec_async(&mut connection)
            .await
            .unwrap();
        Self { client, connection }
    }

    /// `None`: no answer in time.
    async fn acquire(&mut self, ttl: Duration) -> Option<bool> {
        let mut set = redis::cmd("SET");
        set.arg(NAIVE).arg("token").arg("NX").arg("PX");
        set.arg(u64::try_from(ttl.as_millis()).unwrap());
        let answer = set.query_async::<Option<String>>(&mut self.connection);
        let answer = tokio::time::timeout(Self::TIMEOUT, answer).await.ok()?;
        Some(answer.unwrap().is_some())
    }

    /// Releases over a new connection. `None`: no answer in time.
    async fn release_anew(&mut self, patience: Duration) -> Option<usize> {
        let released = async {
            self.connection = self.client.get_multiplexed_async_connection().await?;
            Script::new(RELEASE)
                .key(NAIVE)
                .arg("token")
                .invoke_async(&mut self.connection)
                .await
        };
        tokio::time::timeout(patience, released).await.ok()?.ok()
    }
}

/// How many `SET`s the server has executed.
fn sets(server: &Server) -> u64 {
    let stats = info(server, "commandstats", "cmdstat_set");
    let calls = stats.strip_prefix("calls=").unwrap();
    calls.split(',').next().unwrap().parse().unwrap()
}

/// Acquires by the votes of the other nodes, with one `SET` on its way to the first, which may have a
/// proxy.
async fn acquire_with_one_sent(redlock: &Redlock, proxy: Option<&Proxy>) -> Guard {
    loop {
        let before = proxy.map(|proxy| proxy.stats().taken_bytes);
        let guard = redlock.try_acquire(OURS).await.unwrap();
        if vote(&guard.tally(), 0).is_none() {
            // It is pending: written, or about to be.
            if let (Some(proxy), Some(before)) = (proxy, before) {
                taken(proxy, before).await;
            }
            return guard;
        }
        guard.release().await.unwrap();
    }
}

/// The naive client's key is on the first server, and the only one anywhere.
async fn only_the_naive_key_is_left(fleet: &Fleet) {
    eventually("only the naive client's key is left", async || {
        let mut keys = fleet.iter().map(lock_keys);
        keys.next().unwrap() == [NAIVE] && keys.all(|keys| keys.is_empty())
    })
    .await;
    assert_eq!(keys_expired(fleet), 0, "a ttl did what a release should");
}

#[test]
fn law_4_a_release_follows_an_unknown_vote() {
    run(async {
        let nodes = Proxied::start(3);
        let redlock = nodes.builder().ttl(TTL).build().unwrap();
        warm_up(&redlock).await;
        let mut naive = Naive::connect(&nodes.proxies[0].url()).await;
        let before = sets(&nodes.fleet[0]);
        nodes.proxies[0].inject(Scope::Open, Direction::Requests, Fault::Hold);

        // The naive form: what did not answer is not released.
        assert_eq!(naive.acquire(TTL).await, None);
        let guard = acquire_with_one_sent(&redlock, Some(&nodes.proxies[0])).await;
        guard.release().await.unwrap();

        nodes.proxies[0].resume().unwrap();
        eventually("both late SETs arrive", async || {
            sets(&nodes.fleet[0]) == before + 2
        })
        .await;
        only_the_naive_key_is_left(&nodes.fleet).await;
        assert!(redlock.close(TTL).await.is_complete());
    });
}

/// When the client gives up a connection, and when its release is submitted.
#[derive(Clone, Copy, PartialEq)]
enum Order {
    /// The release waits behind the `SET`, on the connection that is given up.
    ReleaseFirst,
    /// The release is sent over the new connection only: nothing but the `SET` is on the old one.
    BreakFirst,
}

/// Holds back one connection, makes the client move to a new one, and delivers then.
async fn hold_one_connection(flavor: &Flavor, cut: bool, order: Order) {
    let nodes = Proxied::of(flavor, 3, &Options::new());
    let proxy = &nodes.proxies[0];
    let redlock = nodes.builder().ttl(TTL).build().unwrap();
    warm_up(&redlock).await;
    let mut naive = Naive::connect(&proxy.url()).await;
    proxy.inject(Scope::Open, Direction::Requests, Fault::Hold);

    assert_eq!(naive.acquire(TTL).await, None);
    let mut guard = Some(acquire_with_one_sent(&redlock, Some(proxy)).await);
    if order == Order::ReleaseFirst {
        guard.take().unwrap().release().await.unwrap();
    }
    // The naive form: the release goes over a second connection.
    assert_eq!(naive.release_anew(PATIENCE).await, Some(0));
    if cut {
        proxy.cut_clients();
    }
    warm_up(&redlock).await;
    if let Some(guard) = guard {
        assert_eq!(guard.loss(), None);
        guard.release().await.unwrap();
        // What is granted after it on the new connection shows that it has been executed.
        warm_up(&redlock).await;
    }
    eventually("nothing has arrived at the first node", async || {
        lock_keys(&nodes.fleet[0]).is_empty()
    })
    .await;

    proxy.resume().unwrap();
    only_the_naive_key_is_left(&nodes.fleet).await;
    drop(naive);
    eventually("the old connections have ended", async || {
        proxy.stats().open == 1
    })
    .await;
    only_the_naive_key_is_left(&nodes.fleet).await;
    assert!(redlock.close(TTL).await.is_complete());
}

async fn hold_one_connection_of_every_flavor(cut: bool) {
    for flavor in Flavor::available() {
        for order in [Order::ReleaseFirst, Order::BreakFirst] {
            hold_one_connection(&flavor, cut, order).await;
        }
    }
}

#[test]
fn law_4_a_broken_connection_is_finished_before_the_release_counts() {
    run(hold_one_connection_of_every_flavor(true));
}

#[test]
fn law_4_a_silent_connection_is_finished_before_the_release_counts() {
    run(hold_one_connection_of_every_flavor(false));
}

#[test]
fn law_4_the_ttl_of_a_straggler_counts_from_its_arrival() {
    run(async {
        // Longer than it takes to connect again after the thaw.
        const TTL: Duration = Duration::from_secs(5);
        let nodes = fleet(3);
        let redlock = builder(nodes.urls()).ttl(TTL).build().unwrap();
        warm_up(&redlock).await;
        // What the last of the nodes still has would expire while it is frozen.
        released_everywhere(&nodes, 0).await;
        let mut naive = Naive::connect(&nodes[0].url()).await;
        nodes[0].freeze().unwrap();

        let sent = Instant::now();
        assert_eq!(naive.acquire(TTL).await, None);
        let guard = acquire_with_one_sent(&redlock, None).await;
        eventually("the connection is given up", async || {
            let other = redlock.try_acquire("other").await.unwrap();
            vote(&other.tally(), 0) == Some(Vote::Unsent(Unsent::NotConnected))
        })
        .await;
        guard.release().await.unwrap();
        let released = Instant::now();
        // The naive form: one ttl after it was sent, nothing can be there any more.
        while sent.elapsed() < TTL {
            assert_eq!(naive.release_anew(Naive::TIMEOUT).await, None);
        }
        // Nor one ttl after the release.
        tokio::time::sleep((TTL + ms(100)).saturating_sub(released.elapsed())).await;

        nodes[0].thaw().unwrap();
        eventually("the naive client's SET arrives", async || {
            text(&nodes[0], &["GET", NAIVE]).is_some()
        })
        .await;
        only_the_naive_key_is_left(&nodes).await;
        warm_up(&redlock).await;
        assert!(redlock.close(TTL).await.is_complete());
    });
}

/// Tasks go on acquiring and releasing while a node is frozen for some time.
async fn freeze_under_traffic(ttl: Duration, frozen: Duration) {
    const TASKS: usize = 4;
    let nodes = fleet(3);
    let redlock = builder(nodes.urls()).ttl(ttl).build().unwrap();
    warm_up(&redlock).await;
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let (redlock, stopped) = (redlock.clone(), stopped.clone());
            tokio::spawn(async move {
                let mut cycles = 0_u32;
                while !*stopped.borrow() {
                    let guard = redlock.try_acquire(format!("task-{task}")).await.unwrap();
                    guard.release().await.unwrap();
                    cycles += 1;
                }
                cycles
            })
        })
        .collect();

    let before = sets(&nodes[1]);
    eventually("traffic", async || sets(&nodes[1]) > before + 100).await;
    nodes[0].freeze().unwrap();
    tokio::time::sleep(frozen).await;
    nodes[0].thaw().unwrap();
    let thawed = Instant::now();
    eventually("the node is used again", async || {
        let guard = redlock.try_acquire("other").await.unwrap();
        vote(&guard.tally(), 0) == Some(Vote::Granted)
    })
    .await;
    stop.send(true).unwrap();
    for task in tasks {
        assert!(task.await.unwrap() > 0);
    }
    // What was executed after the thaw has not expired yet: releases have ended it.
    let left = ttl.saturating_sub(thawed.elapsed());
    eventually_within(left, "no lock key anywhere", async || {
        nodes.iter().all(|server| lock_keys(server).is_empty())
    })
    .await;
    // What was executed before the freeze has, if that lasted for longer.
    let most = if frozen > ttl { TASKS } else { 0 };
    assert!(keys_expired(&nodes) <= u64::try_from(most).unwrap());
    assert!(redlock.close(ttl).await.is_complete());
}

#[test]
fn no_orphan_when_a_node_is_frozen_for_less_than_the_ttl() {
    run(freeze_under_traffic(TTL, ms(700)));
}

#[test]
fn no_orphan_when_a_node_is_frozen_for_more_than_the_ttl() {
    run(freeze_under_traffic(ms(6000), ms(6500)));
}

/// A user who may do everything but what `rules` take away.
fn with_user(rules: &str) -> (Proxied, Vec<String>) {
    let nodes = Proxied::start(3);
    for server in &nodes.fleet {
        let mut words = vec!["ACL", "SETUSER", "locker", "on", ">secret", "~*", "+@all"];
        words.extend(rules.split_whitespace());
        ask(server, &words);
    }
    let urls = nodes
        .proxies
        .iter()
        .map(|proxy| format!("redis://locker:secret@{}", proxy.addr()));
    let urls = urls.collect();
    (nodes, urls)
}

/// Where the server does not confirm that the old connection is finished, a round time-out has to
/// do: a straggler that arrives within it is released.
async fn kill_is_denied(rules: &str) {
    let (nodes, urls) = with_user(rules);
    let proxy = &nodes.proxies[0];
    let redlock = builder(urls)
        .ttl(TTL)
        .round_timeout(TTL / 2)
        .build()
        .unwrap();
    warm_up(&redlock).await;
    let mut naive = Naive::connect(&proxy.url()).await;
    let before = sets(&nodes.fleet[0]);
    proxy.inject(Scope::Open, Direction::Requests, Fault::Hold);

    assert_eq!(naive.acquire(TTL).await, None);
    let guard = acquire_with_one_sent(&redlock, Some(proxy)).await;
    assert_eq!(naive.release_anew(PATIENCE).await, Some(0));
    proxy.cut_clients();
    warm_up(&redlock).await;
    guard.release().await.unwrap();
    // What is granted after it on the new connection shows that it has been executed.
    warm_up(&redlock).await;
    eventually("nothing has arrived at the first node", async || {
        lock_keys(&nodes.fleet[0]).is_empty()
    })
    .await;
    let others = sets(&nodes.fleet[0]) - before;

    proxy.resume().unwrap();
    eventually("both late SETs arrive", async || {
        sets(&nodes.fleet[0]) == before + others + 2
    })
    .await;
    only_the_naive_key_is_left(&nodes.fleet).await;
    assert!(redlock.close(TTL).await.is_complete());
}

#[test]
fn no_orphan_where_client_kill_is_denied() {
    run(kill_is_denied("-client|kill"));
}

#[test]
fn no_orphan_where_info_is_denied_too() {
    run(kill_is_denied("-@dangerous"));
}
