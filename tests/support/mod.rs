//! What the suites on real servers share.
#![allow(dead_code, reason = "each suite uses a part of it")]
#![expect(
    clippy::disallowed_methods,
    reason = "what real servers do is waited for in real time"
)]

use std::fmt::Debug;
use std::future::Future;
use std::path::Path;
use std::time::{Duration, Instant};

use redis::Value;
use redlock_quorum::testkit::fleet::{Flavor, Fleet, Options, Server};
use redlock_quorum::testkit::proxy::Proxy;
use redlock_quorum::{Builder, Guard, Redlock, Tally, Vote};

/// How long something that will happen may take, on a machine that is busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);
/// How long a test may take. Whatever hangs ends here.
const LIMIT: Duration = Duration::from_secs(100);
/// Two reconnect delays, each a pause of a second at most, and the handshake.
pub(crate) const TWO_RECONNECTS: Duration = Duration::from_millis(2500);

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Runs a test on two worker threads; one that hangs fails.
pub(crate) fn run(test: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    run_on(runtime.worker_threads(2), test);
}

/// Runs a test, and the client in it, on one thread: tasks run in the order in which they are woken.
pub(crate) fn run_on_one_thread(test: impl Future<Output = ()>) {
    run_on(&mut tokio::runtime::Builder::new_current_thread(), test);
}

fn run_on(runtime: &mut tokio::runtime::Builder, test: impl Future<Output = ()>) {
    let runtime = runtime.enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(LIMIT, test)
            .await
            .expect("the test ends in time");
    });
    // What a failed test left running must not hold up the report.
    runtime.shutdown_background();
}

/// Looks again and again until the condition holds, and says how long that took.
pub(crate) async fn eventually(what: &str, condition: impl AsyncFnMut() -> bool) -> Duration {
    eventually_within(PATIENCE, what, condition).await
}

pub(crate) async fn eventually_within(
    limit: Duration,
    what: &str,
    mut condition: impl AsyncFnMut() -> bool,
) -> Duration {
    let began = Instant::now();
    while !condition().await {
        assert!(began.elapsed() < limit, "not within {limit:?}: {what}");
        tokio::time::sleep(ms(5)).await;
    }
    began.elapsed()
}

/// A result that comes soon, whatever it is.
pub(crate) async fn soon<T>(what: impl IntoFuture<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what)
        .await
        .expect("nothing hangs")
}

pub(crate) fn flavor() -> Flavor {
    Flavor::first().expect("scripts/install-test-deps installs a server")
}

pub(crate) fn server(options: Options) -> Server {
    Server::start(&flavor(), options).expect("a server starts")
}

pub(crate) fn fleet(nodes: usize) -> Fleet {
    Fleet::start(nodes).expect("servers start")
}

pub(crate) fn builder<U: Into<String>>(urls: impl IntoIterator<Item = U>) -> Builder {
    Redlock::builder().nodes(urls)
}

/// Servers behind proxies.
pub(crate) struct Proxied {
    // Before the servers: connections are reset before their ends disappear.
    pub(crate) proxies: Vec<Proxy>,
    pub(crate) fleet: Fleet,
}

impl Proxied {
    pub(crate) fn start(nodes: usize) -> Self {
        Self::of(&flavor(), nodes, &Options::new())
    }

    pub(crate) fn of(flavor: &Flavor, nodes: usize, options: &Options) -> Self {
        let fleet = Fleet::with(flavor, nodes, options).expect("servers start");
        let proxies = fleet
            .iter()
            .map(|server| Proxy::start(([127, 0, 0, 1], server.port()).into()).unwrap())
            .collect();
        Self { proxies, fleet }
    }

    pub(crate) fn urls(&self) -> Vec<String> {
        self.proxies.iter().map(Proxy::url).collect()
    }

    pub(crate) fn builder(&self) -> Builder {
        builder(self.urls())
    }
}

/// One command at a server; the server must know it.
pub(crate) fn ask(server: &Server, words: &[&str]) -> Value {
    server
        .command(words)
        .unwrap_or_else(|error| panic!("{words:?}: {error}"))
}

/// The servers forget all scripts.
#[expect(
    single_use_lifetimes,
    reason = "it cannot be left out in an argument's associated type"
)]
pub(crate) fn flush_scripts<'a>(servers: impl IntoIterator<Item = &'a Server>) {
    for server in servers {
        ask(server, &["SCRIPT", "FLUSH"]);
    }
}

pub(crate) fn number(server: &Server, words: &[&str]) -> i64 {
    redis::from_redis_value(ask(server, words)).unwrap()
}

pub(crate) fn text(server: &Server, words: &[&str]) -> Option<String> {
    redis::from_redis_value(ask(server, words)).unwrap()
}

/// A field of the server's `INFO`.
pub(crate) fn info(server: &Server, section: &str, field: &str) -> String {
    let info: String = redis::from_redis_value(ask(server, &["INFO", section])).unwrap();
    info.lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
        .unwrap_or_else(|| panic!("INFO {section} has no {field}"))
        .trim()
        .to_owned()
}

/// How often a server has carried out a command, by itself or for a script.
pub(crate) fn calls(server: &Server, command: &str) -> u64 {
    let stats: String = redis::from_redis_value(ask(server, &["INFO", "commandstats"])).unwrap();
    let line = format!("cmdstat_{command}:calls=");
    let calls = stats.lines().find_map(|stat| stat.strip_prefix(&line));
    calls.map_or(0, |calls| {
        let (calls, _) = calls.split_once(',').unwrap();
        calls.parse().unwrap()
    })
}

/// All lock keys of a server: everything but what the client keeps under its own prefix.
pub(crate) fn lock_keys(server: &Server) -> Vec<String> {
    let keys: Vec<String> = redis::from_redis_value(ask(server, &["KEYS", "*"])).unwrap();
    keys.into_iter()
        .filter(|key| !key.starts_with("redlock-quorum:"))
        .collect()
}

/// How many keys the server has ended for their ttl: keys that nobody had released.
pub(crate) fn expired(server: &Server) -> u64 {
    info(server, "stats", "expired_keys").parse().unwrap()
}

pub(crate) fn keys_expired(fleet: &Fleet) -> u64 {
    fleet.iter().map(expired).sum()
}

/// Waits until no lock key is left on any server, and sees to it that releases did that, not the
/// ttl: `expired_before` keys had expired on all servers together when the test began to count.
#[expect(
    single_use_lifetimes,
    reason = "it cannot be left out in an argument's associated type"
)]
pub(crate) async fn released_everywhere<'a>(
    servers: impl IntoIterator<Item = &'a Server>,
    expired_before: u64,
) {
    let servers: Vec<_> = servers.into_iter().collect();
    eventually("no lock key anywhere", async || {
        servers.iter().all(|server| lock_keys(server).is_empty())
    })
    .await;
    let expired: u64 = servers.iter().map(|server| expired(server)).sum();
    assert_eq!(expired, expired_before, "keys were left to their ttl");
}

/// Acquires until all nodes have granted: a round that a quorum has decided takes back what is not
/// yet written to the others.
pub(crate) async fn acquire_everywhere(redlock: &Redlock, resource: &str) -> Guard {
    for _ in 0..100 {
        let guard = redlock.acquire(resource).await.unwrap();
        if eventually_all_granted(&guard).await {
            return guard;
        }
        guard.release().await.unwrap();
    }
    panic!("some node never grants {resource}");
}

/// Opens all connections of a client: the next round asks every node at once.
pub(crate) async fn warm_up(redlock: &Redlock) {
    eventually("every node grants", async || {
        match redlock.try_acquire("warm-up").await {
            Ok(guard) => {
                let all = eventually_all_granted(&guard).await;
                guard.release().await.unwrap();
                all
            }
            Err(_) => false,
        }
    })
    .await;
}

/// Waits for the votes that were pending when the lock was won. Did all nodes grant?
pub(crate) async fn eventually_all_granted(guard: &Guard) -> bool {
    eventually("no vote is pending", async || guard.tally().pending() == 0).await;
    let tally = guard.tally();
    tally.granted() == tally.nodes().len()
}

/// Waits until a proxy holds an acquire that is on its way, now that it had taken so many bytes before.
/// A look at the marker may be before it, which is shorter.
pub(crate) async fn taken(proxy: &Proxy, before: u64) {
    const LOOK: u64 = 64;
    eventually("the proxy has it", async || {
        proxy.stats().taken_bytes > before + LOOK
    })
    .await;
}

pub(crate) fn vote(tally: &Tally, node: usize) -> Option<Vote> {
    tally
        .nodes()
        .nth(node)
        .expect("there is such a node")
        .vote()
}

/// What the tally says went wrong at a node.
pub(crate) fn trouble(tally: &Tally, node: usize) -> String {
    tally
        .nodes()
        .nth(node)
        .expect("there is such a node")
        .error()
        .map(ToString::to_string)
        .unwrap_or_default()
}

pub(crate) fn median<T: Copy + Ord + Debug>(samples: &[T]) -> T {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}

/// How many files this process has open.
pub(crate) fn open_files() -> usize {
    Path::new("/proc/self/fd").read_dir().unwrap().count()
}
