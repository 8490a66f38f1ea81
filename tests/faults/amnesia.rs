//! Nodes that forget what they granted, and processes that have never seen them before.
#![expect(
    clippy::disallowed_methods,
    reason = "what real servers do is measured in real time"
)]

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use redlock_quorum::testkit::fleet::{Fleet, Options};
use redlock_quorum::{
    Builder, Guard, LossCause, Redlock, Renewal, RestartGuard, Unsent, Vote, defaults,
};
use tokio::task::spawn_blocking;

use crate::support::{
    Proxied, ask, builder, eventually, eventually_within, flavor, ms, run, soon, text, vote,
    warm_up,
};

/// Short, so that a quarantine is.
const TTL: Duration = ms(3000);
const MARKER: &str = "redlock-quorum:node";
const QUARANTINED: Option<Vote> = Some(Vote::Unsent(Unsent::Quarantined));

/// This very program as another process: it tries for the lock for so long, and says how that ended.
async fn another_process(urls: &[String], guard: &str, wait: &str) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "amnesia::what_another_process_does"])
        .args(["--nocapture", "--test-threads", "1"])
        .env("REDLOCK_TEST_CHILD", "1")
        .env("REDLOCK_NODES", urls.join(","))
        .env("REDLOCK_TTL", "3s")
        .env("REDLOCK_MAX_TTL", "3s")
        .env("REDLOCK_WAIT", wait)
        .env("REDLOCK_RESTART_GUARD", guard);
    let output: Output = spawn_blocking(move || command.output())
        .await
        .unwrap()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}");
    said
}

/// Not a test of its own: see above.
#[test]
fn what_another_process_does() {
    if std::env::var_os("REDLOCK_TEST_CHILD").is_none() {
        return;
    }
    run(async {
        let redlock = Builder::from_env().build().unwrap();
        match redlock.acquire("resource").await {
            // It dies with the lock.
            Ok(guard) => println!("it won: {}", guard.tally()),
            Err(error) => println!("it lost: {error}"),
        }
    });
}

/// How a node loses its data.
#[derive(Clone, Copy)]
enum Loss {
    /// It is killed and starts again without them.
    Restart,
    Flush,
}

/// Three nodes, and a lock that is held on the first two, without renewal. The second one forgets it.
async fn held_and_forgotten(
    guard: RestartGuard,
    ttl: Duration,
    how: Loss,
) -> (Proxied, Redlock, Guard, Instant) {
    let mut nodes = Proxied::start(3);
    let builder = nodes.builder().ttl(ttl).max_ttl(ttl).restart_guard(guard);
    let ours = builder.build().unwrap();
    warm_up(&ours).await;
    nodes.proxies[2].refuse();
    nodes.proxies[2].cut();
    let held = soon(ours.acquire("resource").renewal(Renewal::off()))
        .await
        .unwrap();
    let key = |node: usize| text(&nodes.fleet[node], &["GET", "resource"]);
    assert!(key(0).is_some() && key(1).is_some() && key(2).is_none());
    match how {
        Loss::Restart => nodes.fleet[1].restart().unwrap(),
        Loss::Flush => drop(ask(&nodes.fleet[1], &["FLUSHALL"])),
    }
    let forgotten = Instant::now();
    assert_eq!(text(&nodes.fleet[1], &["GET", "resource"]), None);
    (nodes, ours, held, forgotten)
}

/// What a process is given that reaches the second and the third node, and not the first.
fn without_the_first(nodes: &Proxied) -> Vec<String> {
    nodes.proxies[2].resume().unwrap();
    vec![
        "redis://127.0.0.1:1".into(),
        nodes.fleet[1].url(),
        nodes.fleet[2].url(),
    ]
}

async fn a_fresh_process_waits_for_the_end_of_the_quarantine(how: Loss) {
    let (nodes, _ours, held, forgotten) =
        held_and_forgotten(RestartGuard::Observed, TTL, how).await;
    let urls = without_the_first(&nodes);
    let said = another_process(&urls, "observed", "1s").await;
    assert!(said.contains("it lost: too few nodes"), "{said}");
    assert!(said.contains("unsent, quarantined"), "{said}");
    let said = another_process(&urls, "observed", "20s").await;
    assert!(said.contains("it won: 2 of 3 granted"), "{said}");
    let (took, least) = (forgotten.elapsed(), defaults::quarantine(TTL));
    assert!(took >= least, "{took:?} of {least:?}");
    assert_eq!(held.loss(), Some(LossCause::Expired));
}

#[test]
fn a_fresh_process_cannot_win_through_a_restarted_node_until_its_quarantine_ends() {
    run(a_fresh_process_waits_for_the_end_of_the_quarantine(
        Loss::Restart,
    ));
}

#[test]
fn a_fresh_process_cannot_win_through_a_flushed_node_until_its_quarantine_ends() {
    run(a_fresh_process_waits_for_the_end_of_the_quarantine(
        Loss::Flush,
    ));
}

/// The tests before this one can fail.
#[test]
fn without_a_guard_a_fresh_process_wins_what_is_held() {
    run(async {
        for how in [Loss::Restart, Loss::Flush] {
            // Longer than it takes to start a process.
            let ttl = Duration::from_secs(60);
            let (nodes, _ours, held, _) = held_and_forgotten(RestartGuard::Off, ttl, how).await;
            let said = another_process(&without_the_first(&nodes), "off", "20s").await;
            assert_eq!(held.loss(), None, "it is held");
            assert!(said.contains("it won: 2 of 3 granted"), "{said}");
        }
    });
}

#[test]
fn a_lock_with_renewal_outlives_a_restart_in_quarantine() {
    run(async {
        let mut fleet = Fleet::start(3).unwrap();
        let redlock = builder(fleet.urls()).ttl(TTL).max_ttl(TTL).build().unwrap();
        warm_up(&redlock).await;
        let held = redlock.acquire("resource").await.unwrap();
        let token = held.token().as_str().to_owned();
        for node in 0..3 {
            fleet[node].restart().unwrap();
            // Renewals and heals go there; acquires do not.
            eventually("it is healed", async || {
                text(&fleet[node], &["GET", "resource"]).as_ref() == Some(&token)
            })
            .await;
            assert_eq!(held.loss(), None);
        }
        let said = another_process(&fleet.urls(), "observed", "10ms").await;
        assert!(said.contains("it lost"), "{said}");
        assert_eq!(held.loss(), None);
        held.release().await.unwrap();
    });
}

#[test]
fn a_connected_client_learns_of_a_flush_within_a_second() {
    run(async {
        let fleet = Fleet::start(3).unwrap();
        let redlock = builder(fleet.urls()).ttl(TTL).max_ttl(TTL).build().unwrap();
        warm_up(&redlock).await;
        let held = redlock.acquire("held").await.unwrap();
        ask(&fleet[0], &["FLUSHALL"]);
        let quarantined = async || match redlock.try_acquire("other").await {
            Ok(guard) => vote(&guard.tally(), 0) == QUARANTINED,
            Err(error) => error
                .tally()
                .is_some_and(|tally| vote(tally, 0) == QUARANTINED),
        };
        let took = eventually_within(ms(1500), "it is quarantined", quarantined).await;
        assert!(took > Duration::ZERO);
        // It is marked, so that others know as well, who have seen nothing of it.
        eventually_within(ms(3000), "it is marked", async || {
            text(&fleet[0], &["GET", MARKER]).is_some_and(|marker| !marker.ends_with("|0"))
        })
        .await;
        let alone = [
            fleet[0].url(),
            "redis://127.0.0.1:1".into(),
            "redis://127.0.0.1:2".into(),
        ];
        // Time to connect: else the two others may have decided it before.
        let said = another_process(&alone, "observed", "1s").await;
        assert!(said.contains("unsent, quarantined"), "{said}");
        assert_eq!(held.loss(), None);
        warm_up(&redlock).await;
    });
}

#[test]
fn a_new_fleet_is_founded_by_its_first_client() {
    run(async {
        let fleet = Fleet::with(&flavor(), 3, &Options::new().unfounded()).unwrap();
        let clients = [(); 2].map(|()| builder(fleet.urls()).prefix("p:").build().unwrap());
        for client in &clients {
            soon(client.try_acquire("resource"))
                .await
                .unwrap()
                .release()
                .await
                .unwrap();
        }
        for server in &fleet {
            eventually("it is founded", async || {
                text(server, &["GET", MARKER]).is_some_and(|marker| marker.ends_with("|0"))
            })
            .await;
            let settings = text(server, &["GET", "redlock-quorum:config:p:"]);
            assert_eq!(settings.as_deref(), Some("3|60000"));
            assert_eq!(crate::support::number(server, &["TTL", MARKER]), -1);
        }
    });
}

#[test]
fn a_new_fleet_with_a_node_missing_waits() {
    run(async {
        let mut fleet = Fleet::with(&flavor(), 3, &Options::new().unfounded()).unwrap();
        fleet[2].kill().unwrap();
        let redlock = builder(fleet.urls()).ttl(TTL).max_ttl(TTL).build().unwrap();
        let error = soon(redlock.try_acquire("resource")).await.unwrap_err();
        let told = error.to_string();
        assert!(
            told.contains("quarantined") && told.contains("RestartGuard"),
            "{told}"
        );
        let guard = redlock
            .acquire("resource")
            .wait(Duration::from_secs(20))
            .await;
        assert!(guard.is_ok(), "{guard:?}");
    });
}
