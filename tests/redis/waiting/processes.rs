//! Waiting among processes: shares, and holders that die.

use std::collections::BTreeMap;
use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use redis::AsyncCommands;
use redlock_quorum::testkit::fleet::{Fleet, Options, Server};
use redlock_quorum::{Redlock, Wait};
use tokio::task::JoinSet;

use crate::support::{ask, builder, fleet, ms, number, released_everywhere, run, server, warm_up};

/// Set for the processes that a test starts, as what they are told.
const TOLD: &str = "REDLOCK_TEST_WAITING";

/// Another process, which runs the test of this name and is told something.
fn process(test: &str, told: &str) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "--nocapture", test])
        .env(TOLD, told)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn client(urls: &str) -> Redlock {
    builder(urls.split(',')).build().unwrap()
}

const GRANTS: usize = 400;

#[test]
fn four_processes_of_four_tasks_share_a_lock() {
    if let Ok(urls) = env::var(TOLD) {
        return run(take_turns(urls));
    }
    run(async {
        let (fleet, log) = (fleet(5), server(Options::new()));
        let urls = [fleet.urls(), vec![log.url()]].concat().join(",");
        let name = "waiting::processes::four_processes_of_four_tasks_share_a_lock";
        let processes: Vec<Child> = (0..4).map(|_| process(name, &urls)).collect();
        for mut process in processes {
            let ended = tokio::task::spawn_blocking(move || process.wait().unwrap());
            assert!(ended.await.unwrap().success());
        }
        let logged = ask(&log, &["LRANGE", "log", "0", "-1"]);
        let logged: Vec<String> = redis::from_redis_value(logged).unwrap();
        let mut shares: BTreeMap<&str, usize> = BTreeMap::new();
        for process in logged.iter().take(GRANTS) {
            *shares.entry(process).or_default() += 1;
        }
        println!("{shares:?}");
        assert_eq!(shares.len(), 4);
        let share = GRANTS / 4;
        for &grants in shares.values() {
            assert!((share / 3..=share * 3).contains(&grants), "{shares:?}");
        }
        released_everywhere(&fleet, 0).await;
    });
}

/// Four tasks that take the lock in turn with all others, and write down who they are.
async fn take_turns(urls: String) {
    let (urls, log) = urls.rsplit_once(',').unwrap();
    let redlock = client(urls);
    let log = redis::Client::open(log).unwrap();
    let mut log = log.get_multiplexed_async_connection().await.unwrap();
    warm_up(&redlock).await;
    let _: usize = log.rpush("ready", 1).await.unwrap();
    while log.llen::<_, usize>("ready").await.unwrap() < 4 {
        tokio::time::sleep(ms(5)).await;
    }
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        let (redlock, mut log) = (redlock.clone(), log.clone());
        tasks.spawn(async move {
            let mut logged = 0;
            while logged < GRANTS {
                let guard = redlock
                    .acquire("resource")
                    .wait(Wait::Forever)
                    .await
                    .unwrap();
                logged = log.rpush("log", std::process::id()).await.unwrap();
                tokio::time::sleep(ms(2)).await;
                guard.release().await.unwrap();
            }
        });
    }
    tasks.join_all().await;
    assert!(redlock.close(ms(5_000)).await.is_complete());
}

const TTL: Duration = ms(1_000);

/// Servers tell late that a key has expired, the later the more keys there are that will: so a
/// waiter must not rely on being told.
#[test]
fn a_waiter_takes_over_when_the_holder_has_been_killed() {
    if let Ok(urls) = env::var(TOLD) {
        return run(hold(urls));
    }
    run(async {
        let fleet = fleet(3);
        fleet.iter().for_each(fill);
        let waiter = builder(fleet.urls()).build().unwrap();
        warm_up(&waiter).await;
        let name = "waiting::processes::a_waiter_takes_over_when_the_holder_has_been_killed";
        let urls = fleet.urls().join(",");
        let mut late = Vec::new();
        for _ in 0..10 {
            let mut holder = process(name, &urls);
            let mut said = BufReader::new(holder.stdout.take().unwrap()).lines();
            assert!(said.any(|line| line.unwrap() == "held"));
            let waits = tokio::spawn(waiter.acquire("resource").into_future());
            tokio::time::sleep(ms(400)).await;
            holder.kill().unwrap();
            holder.wait().unwrap();
            let (earliest, latest) = quorum_end(&fleet);
            let guard = waits.await.unwrap().unwrap();
            let taken = Instant::now();
            assert!(taken >= earliest, "not while it is held");
            late.push(taken.saturating_duration_since(latest));
            guard.release().await.unwrap();
        }
        late.sort_unstable();
        println!("after the end of a quorum of keys: {late:?}");
        assert!(late[8] <= ms(300), "{late:?}");
    });
}

async fn hold(urls: String) {
    let redlock = client(&urls);
    warm_up(&redlock).await;
    let _guard = redlock.acquire("resource").ttl(TTL).await.unwrap();
    // Not before the harness's own words on this line.
    println!("\nheld");
    std::future::pending::<()>().await;
}

/// Keys that will expire, and not soon.
fn fill(server: &Server) {
    let mut connection = server.connection().unwrap();
    for batch in 0..20 {
        let mut pipeline = redis::pipe();
        for key in 0..1000 {
            pipeline
                .cmd("SET")
                .arg(format!("other:{batch}:{key}"))
                .arg("x")
                .arg("EX")
                .arg(36_000)
                .ignore();
        }
        pipeline.query::<()>(&mut connection).unwrap();
    }
}

/// Between which moments the lock ends on a quorum of nodes: they tell the rest in whole milliseconds,
/// some time before it is heard.
fn quorum_end(fleet: &Fleet) -> (Instant, Instant) {
    let end = |server: &Server| {
        let asked = Instant::now();
        let left = number(server, &["PTTL", "resource"]);
        let left = ms(u64::try_from(left).unwrap_or(0));
        (asked + left.saturating_sub(ms(1)), Instant::now() + left)
    };
    let (mut earliest, mut latest): (Vec<_>, Vec<_>) = fleet.iter().map(end).unzip();
    earliest.sort_unstable();
    latest.sort_unstable();
    (earliest[fleet.len() / 2], latest[fleet.len() / 2])
}
