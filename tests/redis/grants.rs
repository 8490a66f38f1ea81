//! Fencing tokens of thousands of grants, to several processes whose clocks differ.
#![expect(
    clippy::disallowed_methods,
    reason = "processes and clocks run in real time"
)]

use std::collections::BTreeSet;
use std::env;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use redlock_quorum::testkit::fleet::{Fleet, Options, Server};
use redlock_quorum::{Redlock, Vote, defaults};
use tokio::task::spawn_blocking;

use crate::support::{
    ask, builder, eventually, fleet, ms, number, released_everywhere, run, server, vote, warm_up,
};

/// Set for the processes that these tests start: the lock's nodes, and behind them the log.
const NODES: &str = "REDLOCK_TEST_GRANTS";
/// What they are told besides, in milliseconds: the longest ttl, and how far their clock is behind.
const TERMS: &str = "REDLOCK_TEST_GRANT_TERMS";
const PROCESSES: usize = 3;
/// A busy machine gets through fewer grants. Two of these, and what is between, are less than a test may
/// take.
const LONGEST: Duration = Duration::from_secs(30);

/// Processes that take one lock in turn, each with two clients, and log their tokens.
struct Race<'a> {
    log: &'a Server,
    processes: Vec<Child>,
    began: Instant,
}

impl<'a> Race<'a> {
    /// Starts this very program as other processes, which do what `grants` does. The clock of each is
    /// so much behind that of the one before.
    fn start(
        test: &str,
        fleet: &Fleet,
        log: &'a Server,
        max_ttl: Duration,
        clocks_apart: Duration,
    ) -> Self {
        ask(log, &["DEL", "enough"]);
        let urls = [fleet.urls(), vec![log.url()]].concat().join(",");
        let process = |number: usize| {
            let behind = clocks_apart * u32::try_from(number).unwrap();
            Command::new(env::current_exe().unwrap())
                .args(["--exact", &format!("grants::{test}")])
                .env(NODES, &urls)
                .env(
                    TERMS,
                    format!("{},{}", max_ttl.as_millis(), behind.as_millis()),
                )
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        };
        Self {
            log,
            processes: (0..PROCESSES).map(process).collect(),
            began: Instant::now(),
        }
    }

    /// Waits for so many grants, counted with all before, and ends the processes.
    async fn finish(mut self, grants: i64) {
        while number(self.log, &["LLEN", "log"]) < grants && self.began.elapsed() < LONGEST {
            tokio::time::sleep(ms(20)).await;
        }
        ask(self.log, &["SET", "enough", "yes"]);
        for mut process in std::mem::take(&mut self.processes) {
            let ended = spawn_blocking(move || process.wait().unwrap());
            assert!(ended.await.unwrap().success());
        }
    }
}

impl Drop for Race<'_> {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // It may have ended by itself.
            drop(process.kill());
            drop(process.wait());
        }
    }
}

/// Checks what so many processes have logged.
fn tokens_grow(log: &Server, processes: usize) {
    let logged = ask(log, &["LRANGE", "log", "0", "-1"]);
    let logged: Vec<String> = redis::from_redis_value(logged).unwrap();
    let grants = logged.iter().map(|one| one.split_once(' ').unwrap());
    let (tokens, by): (Vec<u64>, BTreeSet<&str>) = grants
        .map(|(token, process)| (token.parse::<u64>().unwrap(), process))
        .unzip();
    println!("{} grants", tokens.len());
    assert_eq!(by.len(), processes, "each got it at times");
    for pair in tokens.windows(2) {
        assert!(pair[0] < pair[1], "{} came before {}", pair[0], pair[1]);
    }
    assert!(tokens.len() >= 300, "{} grants", tokens.len());
}

/// Two clients of this process take the lock in turn with all others, and log their tokens in
/// another server while they hold it.
async fn grants(urls: String) {
    let mut urls: Vec<String> = urls.split(',').map(String::from).collect();
    let log = redis::Client::open(urls.pop().unwrap()).unwrap();
    let terms = env::var(TERMS).unwrap();
    let (max_ttl, behind) = terms.split_once(',').unwrap();
    let max_ttl = ms(max_ttl.parse().unwrap());
    let clock = SystemTime::now() - ms(behind.parse().unwrap());
    let client = async || {
        let builder = builder(urls.clone()).fenced(true).max_ttl(max_ttl);
        let builder = builder.ttl(max_ttl.min(ms(20_000))).wall_clock(clock);
        let redlock = builder.build().unwrap();
        let mut log = log.get_multiplexed_async_connection().await.unwrap();
        loop {
            let request = redlock.acquire("resource").wait(2 * LONGEST);
            let guard = request.await.unwrap();
            let token = guard.fencing_token().unwrap();
            let (_, enough): (u64, bool) = redis::pipe()
                .cmd("RPUSH")
                .arg("log")
                .arg(format!("{token} {}", std::process::id()))
                .cmd("EXISTS")
                .arg("enough")
                .query_async(&mut log)
                .await
                .unwrap();
            assert_eq!(guard.loss(), None);
            // A node may be away just now: then the rest is settled behind.
            drop(guard.release().await);
            if enough {
                break;
            }
        }
        assert!(redlock.close(ms(20_000)).await.is_complete());
    };
    tokio::join!(client(), client());
}

/// However far clocks are apart, while nodes keep what they remember.
#[test]
fn fencing_tokens_of_several_processes_strictly_grow() {
    if let Ok(urls) = env::var(NODES) {
        return run(grants(urls));
    }
    run(async {
        let (fleet, log) = (fleet(3), server(Options::new()));
        let name = "fencing_tokens_of_several_processes_strictly_grow";
        let hour = Duration::from_secs(3600);
        let race = Race::start(name, &fleet, &log, defaults::MAX_TTL, hour);
        race.finish(10_000).await;
        tokens_grow(&log, PROCESSES);
        released_everywhere(&fleet, 0).await;
    });
}

/// Kills a node, starts it without its data, and waits until it votes again.
async fn forgets(fleet: &mut Fleet, node: usize, witness: &Redlock) {
    fleet[node].kill().unwrap();
    tokio::time::sleep(ms(100)).await;
    fleet[node].restart().unwrap();
    eventually("it votes again", async || {
        let Ok(guard) = witness.try_acquire("other").await else {
            return false;
        };
        eventually("all votes are in", async || guard.tally().pending() == 0).await;
        vote(&guard.tally(), node) == Some(Vote::Granted)
    })
    .await;
}

/// Clocks are apart by a quarter of `max_ttl`: so a node that has forgotten votes again only when the
/// clock that is furthest behind shows more than the largest token it had accepted.
#[test]
fn fencing_tokens_grow_while_nodes_forget_them() {
    if let Ok(urls) = env::var(NODES) {
        return run(grants(urls));
    }
    run(async {
        let (mut fleet, log) = (fleet(3), server(Options::new()));
        let name = "fencing_tokens_grow_while_nodes_forget_them";
        let (max_ttl, apart) = (ms(1600), ms(200));
        let witness = builder(fleet.urls()).ttl(max_ttl).max_ttl(max_ttl);
        let witness = witness.build().unwrap();
        warm_up(&witness).await;
        let race = Race::start(name, &fleet, &log, max_ttl, apart);
        race.finish(5000).await;
        // Meanwhile nobody asks for it: in the end no node remembers anything of it.
        for node in 0..3 {
            forgets(&mut fleet, node, &witness).await;
        }
        let race = Race::start(name, &fleet, &log, max_ttl, apart);
        forgets(&mut fleet, 1, &witness).await;
        race.finish(10_000).await;
        tokens_grow(&log, 2 * PROCESSES);
    });
}
