//! A node that does not answer costs a bounded amount of memory, however long that lasts.

use std::fs;

use redlock_quorum::{Redlock, RestartGuard};

use crate::support::{
    TWO_RECONNECTS, builder, eventually_all_granted, eventually_within, fleet, open_files,
    released_everywhere, run, warm_up,
};

const WARM_UP: u32 = 10_000;
const CYCLES: u32 = 100_000;
const TASKS: u32 = 8;
const MOST_GROWTH_KB: u64 = 16 * 1024;

/// The memory of this process.
fn resident_kb() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let words = line.unwrap().split_whitespace();
    words.rev().nth(1).unwrap().parse().unwrap()
}

async fn cycles(redlock: &Redlock, count: u32) {
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let redlock = redlock.clone();
            tokio::spawn(async move {
                for cycle in 0..count / TASKS {
                    // Ever new names, as a real service has.
                    let resource = format!("task-{task}-{cycle}");
                    let guard = redlock.try_acquire(resource).await.unwrap();
                    guard.release().await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

async fn stays_flat(redlock: &Redlock) {
    cycles(redlock, WARM_UP).await;
    let (memory, files) = (resident_kb(), open_files());
    cycles(redlock, CYCLES).await;
    let (growth, more_files) = (
        resident_kb().saturating_sub(memory),
        open_files().saturating_sub(files),
    );
    println!("grown by {growth} KB and {more_files} files");
    assert!(growth < MOST_GROWTH_KB, "{growth} KB");
    assert!(more_files < 16, "{more_files} files");
}

/// Waits until the node grants again, and no longer than it may take.
async fn used_again(redlock: &Redlock) {
    let took = eventually_within(TWO_RECONNECTS, "the node is used again", async || {
        let guard = redlock.try_acquire("again").await.unwrap();
        eventually_all_granted(&guard).await
    })
    .await;
    println!("used again after {took:?}");
}

#[test]
fn memory_stays_flat_with_a_dead_node() {
    run(async {
        let mut fleet = fleet(3);
        // The node comes back empty, and is to be used at once.
        let builder = builder(fleet.urls()).restart_guard(RestartGuard::Off);
        let redlock = builder.build().unwrap();
        warm_up(&redlock).await;
        fleet[0].kill().unwrap();
        stays_flat(&redlock).await;
        fleet[0].restart().unwrap();
        used_again(&redlock).await;
        released_everywhere(&fleet, 0).await;
    });
}

#[test]
fn memory_stays_flat_with_a_frozen_node() {
    run(async {
        let fleet = fleet(3);
        let redlock = builder(fleet.urls()).build().unwrap();
        warm_up(&redlock).await;
        fleet[0].freeze().unwrap();
        stays_flat(&redlock).await;
        fleet[0].thaw().unwrap();
        used_again(&redlock).await;
        released_everywhere(&fleet, 0).await;
    });
}
