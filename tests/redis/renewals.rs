//! Many locks that are held: what their renewal costs, on every kind of server.
#![expect(
    clippy::disallowed_methods,
    reason = "renewals are counted in real time"
)]

use std::env;
use std::time::{Duration, Instant};

use redlock_quorum::testkit::fleet::{Flavor, Fleet, Options, Server, ServerKind};
use tokio::runtime::Handle;

use crate::support::{builder, calls, ms, released_everywhere, run, warm_up};

/// So many locks; `scripts/guards-long` has more.
const GUARDS: &str = "REDLOCK_GUARDS";

/// A node's extensions, in whatever form. While locks are held, nothing else sets or runs scripts
/// there: markers are read by `GET` and `TIME`.
fn extensions(server: &Server) -> u64 {
    ["evalsha", "eval", "set"]
        .iter()
        .map(|command| calls(server, command))
        .sum()
}

async fn held_on(flavor: &Flavor, guards: u32) {
    let fleet = Fleet::with(flavor, 3, &Options::new()).unwrap();
    // So that a second has two thousand renewals at each node, whatever their number.
    let ttl = ms(3000).max(ms(3) * guards / 2);
    let redlock = builder(fleet.urls()).ttl(ttl).build().unwrap();
    warm_up(&redlock).await;
    let metrics = Handle::current().metrics();
    let tasks = metrics.num_alive_tasks();
    let mut held = Vec::new();
    for number in 0..guards {
        let request = redlock.acquire(format!("resource-{number}"));
        held.push(request.await.unwrap());
    }
    assert_eq!(metrics.num_alive_tasks(), tasks, "a lock has no task");
    // By then each has been renewed, and nodes that had been left out were healed.
    tokio::time::sleep(ttl / 2).await;
    let (began, before) = (Instant::now(), fleet.iter().map(extensions));
    let before: Vec<_> = before.collect();
    // Whole intervals: locks that were taken at one moment are renewed at about one moment, and half an
    // interval may have all of it or nothing.
    tokio::time::sleep(5 * (ttl / 3)).await;
    let (after, took) = (fleet.iter().map(extensions), began.elapsed());
    let after: Vec<_> = after.collect();
    assert_eq!(metrics.num_alive_tasks(), tasks, "nor has its renewal");
    let expected = f64::from(guards) * took.as_secs_f64() / (ttl / 3).as_secs_f64();
    for (after, before) in after.iter().zip(&before) {
        let ratio = f64::from(u32::try_from(after - before).unwrap()) / expected;
        println!(
            "{:?}, {guards} guards: {} extensions in {took:.1?}, {ratio:.3} of what is expected",
            flavor.kind(),
            after - before
        );
        assert!((0.9..=1.1).contains(&ratio), "{ratio}");
    }
    assert!(held.iter().all(|guard| guard.loss().is_none()));
    drop(held);
    released_everywhere(&fleet, 0).await;
    assert!(redlock.close(Duration::from_secs(10)).await.is_complete());
}

#[test]
fn many_guards_are_renewed_by_no_more_tasks_or_commands() {
    let guards = env::var(GUARDS).map_or(2000, |guards| guards.parse().unwrap());
    run(async {
        // One that extends by script, and one that does it natively.
        let mut flavors = Flavor::available();
        flavors.dedup_by_key(|flavor| flavor.kind() == ServerKind::Valkey9);
        for flavor in &flavors {
            held_on(flavor, guards).await;
        }
    });
}
