//! Nodes that are no good: the tally says which and why, the others do, and nothing hangs.

use std::io;
use std::time::Duration;

use redlock_quorum::testkit::fleet::{Fleet, Options, Server};
use redlock_quorum::{Redlock, Refusal, RestartGuard, Tally, Unsent, Vote};

use crate::support::{
    acquire_everywhere, ask, builder, eventually, eventually_all_granted, fleet, info, lock_keys,
    ms, released_everywhere, run, server, soon, trouble, vote, warm_up,
};

const TTL: Duration = Duration::from_secs(20);

/// The tally of a lock that the two others granted, once the bad node's vote is known. The lock is
/// released.
async fn outvoted(redlock: &Redlock) -> Tally {
    let guard = soon(redlock.try_acquire("resource")).await.unwrap();
    eventually_all_granted(&guard).await;
    let tally = guard.tally();
    assert_eq!(tally.granted(), 2, "{tally}");
    guard.release().await.unwrap();
    tally
}

/// The same once the bad node's vote is this one. It need not come at once: the round may be decided
/// before anything is written there.
async fn outvoted_with(redlock: &Redlock, expected: Vote) -> Tally {
    let mut found = None;
    eventually(&format!("the bad node's vote is: {expected}"), async || {
        let tally = outvoted(redlock).await;
        let is_it = vote(&tally, 0) == Some(expected);
        found = is_it.then_some(tally);
        is_it
    })
    .await;
    found.unwrap()
}

/// Two good nodes after a bad one, which the tally finds at fault with these words.
async fn found_at_fault(bad: &str, why: Unsent, words: &[&str]) {
    let fleet = fleet(2);
    let urls = [bad.to_owned(), fleet[0].url(), fleet[1].url()];
    let redlock = builder(urls).ttl(TTL).build().unwrap();
    // The first time while it is connecting, then when that has failed, for as long as one likes.
    for _ in 0..3 {
        let tally = outvoted_with(&redlock, Vote::Unsent(why)).await.to_string();
        assert!(
            words.iter().any(|word| tally.contains(word)),
            "none of {words:?}: {tally}"
        );
        assert!(!tally.contains('\n'), "{tally:?}");
    }
    released_everywhere(&fleet, 0).await;

    // Nothing but bad nodes is an outage, and no reason to wait for long.
    let alone = builder([bad]).ttl(TTL).build().unwrap();
    for _ in 0..2 {
        let error = soon(alone.try_acquire("resource")).await.unwrap_err();
        assert!(error.is_outage() && !error.is_contended(), "{error}");
        let text = error.to_string();
        assert!(words.iter().any(|word| text.contains(word)), "{text}");
    }
}

#[test]
fn a_wrong_password() {
    run(async {
        let server = server(Options::new().password("right"));
        let url = format!("redis://:wrong@127.0.0.1:{}", server.port());
        found_at_fault(
            &url,
            Unsent::NotConnected,
            &["WRONGPASS", "NOAUTH", "uthentication"],
        )
        .await;
    });
}

#[test]
fn a_missing_password() {
    run(async {
        let server = server(Options::new().password("right"));
        let url = format!("redis://127.0.0.1:{}", server.port());
        found_at_fault(&url, Unsent::NotConnected, &["NOAUTH", "uthentication"]).await;
    });
}

#[test]
fn a_name_that_does_not_resolve() {
    run(found_at_fault(
        "redis://no-such-node.invalid:6379",
        Unsent::NotConnected,
        &["lookup", "resolve", "Name or service", "no answer"],
    ));
}

#[test]
fn a_node_that_is_down() {
    run(async {
        let mut server = server(Options::new());
        server.kill().unwrap();
        found_at_fault(&server.url(), Unsent::NotConnected, &["refused"]).await;
    });
}

#[test]
fn a_replica() {
    run(async {
        let (master, replica) = (server(Options::new()), server(Options::new()));
        let port = master.port().to_string();
        ask(&replica, &["REPLICAOF", "127.0.0.1", &port]);
        found_at_fault(&replica.url(), Unsent::Replica, &["replica"]).await;
    });
}

#[test]
fn a_cluster_node() {
    run(async {
        let options = Options::new().argument("--cluster-enabled").argument("yes");
        let server = server(options);
        found_at_fault(&server.url(), Unsent::Cluster, &["cluster"]).await;
    });
}

#[test]
fn one_server_under_two_addresses_has_one_vote() {
    run(async {
        let mut fleet = fleet(2);
        let (twice, other) = (fleet[0].url(), fleet[1].url());
        let alias = twice.replace("127.0.0.1", "localhost");
        let redlock = builder([twice, alias, other]).ttl(TTL).build().unwrap();
        let mut duplicates = 0;
        eventually("the duplicate is found", async || {
            let tally = outvoted(&redlock).await;
            let votes = (vote(&tally, 0), vote(&tally, 1), vote(&tally, 2));
            let duplicate = |node| Some(Vote::Unsent(Unsent::DuplicateOf { node }));
            let granted = Some(Vote::Granted);
            duplicates += usize::from(
                votes == (granted, duplicate(0), granted)
                    || votes == (duplicate(1), granted, granted),
            );
            duplicates == 3
        })
        .await;
        fleet[1].kill().unwrap();
        let error = soon(redlock.try_acquire("resource")).await.unwrap_err();
        assert!(error.is_outage(), "{error}");
        eventually("what it granted is released", async || {
            lock_keys(&fleet[0]).is_empty()
        })
        .await;
    });
}

/// Three nodes of which the first is about to turn bad, and a client that uses them.
async fn used_nodes(options: Options) -> (Fleet, Server, Redlock) {
    used_nodes_guarded(options, RestartGuard::Observed).await
}

async fn used_nodes_guarded(options: Options, guard: RestartGuard) -> (Fleet, Server, Redlock) {
    let good = fleet(2);
    let bad = server(options);
    let urls = [bad.url(), good[0].url(), good[1].url()];
    let builder = builder(urls).ttl(TTL).restart_guard(guard);
    let redlock = builder.build().unwrap();
    warm_up(&redlock).await;
    (good, bad, redlock)
}

async fn refused(redlock: &Redlock, refusal: Refusal) {
    for _ in 0..3 {
        let tally = outvoted_with(redlock, Vote::Refused(refusal)).await;
        let trouble = trouble(&tally, 0);
        assert!(trouble.contains(refusal.code()), "{trouble:?}");
    }
}

#[test]
fn a_master_that_becomes_a_replica() {
    run(async {
        let master = server(Options::new());
        let (good, bad, redlock) = used_nodes(Options::new()).await;
        let port = master.port().to_string();
        ask(&bad, &["REPLICAOF", "127.0.0.1", &port]);
        refused(&redlock, Refusal::ReadOnly).await;

        // When the client connects again it sees what the node has become.
        ask(&bad, &["CLIENT", "KILL", "TYPE", "normal"]);
        outvoted_with(&redlock, Vote::Unsent(Unsent::Replica)).await;
        ask(&bad, &["REPLICAOF", "NO", "ONE"]);
        warm_up(&redlock).await;
        released_everywhere(good.iter().chain([&bad]), 0).await;
    });
}

#[test]
fn a_node_out_of_memory() {
    run(async {
        let (good, bad, redlock) = used_nodes(Options::new()).await;
        let held = acquire_everywhere(&redlock, "held").await;
        ask(&bad, &["CONFIG", "SET", "maxmemory", "1"]);
        refused(&redlock, Refusal::Oom).await;
        // A release needs no memory.
        held.release().await.unwrap();
        eventually("it is released there", async || lock_keys(&bad).is_empty()).await;
        ask(&bad, &["CONFIG", "SET", "maxmemory", "0"]);
        warm_up(&redlock).await;
        released_everywhere(good.iter().chain([&bad]), 0).await;
    });
}

#[test]
fn a_node_with_a_busy_script() {
    run(async {
        let options = Options::new()
            .argument("--busy-reply-threshold")
            .argument("20");
        let (good, bad, redlock) = used_nodes(options).await;
        let held = acquire_everywhere(&redlock, "held").await;
        let mut connection = bad.connection().unwrap();
        let endless = redis::cmd("EVAL")
            .arg("while true do end")
            .arg(0)
            .to_owned();
        connection
            .send_packed_command(&endless.get_packed_command())
            .unwrap();
        eventually("the script is busy", async || {
            let ping = bad.command(&["PING"]);
            ping.is_err_and(|error| error.code() == Some("BUSY"))
        })
        .await;
        refused(&redlock, Refusal::Busy).await;
        held.release().await.unwrap();
        ask(&bad, &["SCRIPT", "KILL"]);
        warm_up(&redlock).await;
        // The release that was refused has been repeated.
        released_everywhere(good.iter().chain([&bad]), 0).await;
    });
}

#[test]
fn a_node_that_is_loading_its_data() {
    run(async {
        // Eight seconds for its data, or until it is told otherwise, and it answers every now and then
        // meanwhile.
        let mut options = Options::new();
        for argument in [
            "--key-load-delay",
            "4000",
            "--loading-process-events-interval-bytes",
            "1024",
        ] {
            options = options.argument(argument);
        }
        // What it answers while it loads would not be asked for in quarantine.
        let (good, mut bad, redlock) = used_nodes_guarded(options, RestartGuard::Off).await;
        let fill = "for i = 1, 2000 do redis.call('SET', 'data:' .. i, string.rep('x', 100)) end";
        ask(&bad, &["EVAL", fill, "0"]);
        ask(&bad, &["SAVE"]);
        bad.kill().unwrap();
        let url = bad.url();
        let coming_up = tokio::task::spawn_blocking(move || {
            bad.restart()?;
            Ok::<_, io::Error>(bad)
        });
        outvoted_with(&redlock, Vote::Refused(Refusal::Loading)).await;
        let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
        let mut hurry = redis::cmd("CONFIG");
        let hurry = hurry.arg("SET").arg("key-load-delay").arg(0);
        hurry.exec(&mut connection).unwrap();
        let bad = coming_up.await.unwrap().unwrap();
        warm_up(&redlock).await;
        released_everywhere(&good, 0).await;
        ask(&bad, &["FLUSHALL"]);
    });
}

#[test]
fn servers_that_may_evict_locks_are_used_all_the_same() {
    run(async {
        let mut options = Options::new();
        for argument in ["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"] {
            options = options.argument(argument);
        }
        let (good, bad, redlock) = used_nodes(options).await;
        assert_eq!(info(&bad, "memory", "maxmemory_policy"), "allkeys-lru");
        let guard = acquire_everywhere(&redlock, "resource").await;
        guard.release().await.unwrap();
        released_everywhere(&good, 0).await;
        redlock.close(ms(5000)).await;
    });
}
