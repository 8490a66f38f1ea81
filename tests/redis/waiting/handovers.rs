//! What it costs to hand a lock over within a process, and in which order that is done.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant};

use redlock_quorum::{Guard, Redlock, Wait, defaults};

use super::counts::counts;
use crate::support::{builder, eventually, fleet, median, ms, released_everywhere, run, warm_up};

/// Gets in line and writes down who it is, in one step: so what is written down is the line.
async fn acquire_in_line(redlock: &Redlock, task: usize, line: &Mutex<Vec<usize>>) -> Guard {
    let mut request = redlock.acquire("resource").into_future();
    let first = poll_fn(|context| {
        let mut line = line.lock().unwrap();
        line.push(task);
        Poll::Ready(Pin::new(&mut request).poll(context))
    });
    match first.await {
        Poll::Ready(guard) => guard.unwrap(),
        Poll::Pending => request.await.unwrap(),
    }
}

/// Every release comes at the end of one: what lies idle for a moment is slower afterwards.
const SECTION: Duration = ms(2);

/// What so many uncontended releases take, each at the end of a section and with the acquire of the
/// next one.
async fn uncontended(redlock: &Redlock, count: usize) -> Vec<Duration> {
    let mut guard = redlock.acquire("alone").await.unwrap();
    let mut samples = Vec::new();
    for _ in 0..count {
        tokio::time::sleep(SECTION).await;
        let began = Instant::now();
        guard.release().await.unwrap();
        guard = redlock.acquire("alone").await.unwrap();
        samples.push(began.elapsed());
    }
    guard.release().await.unwrap();
    samples
}

#[test]
fn sixteen_tasks_hand_a_lock_over_in_order_and_at_a_low_price() {
    const TASKS: usize = 16;
    const GRANTS: usize = 20;
    /// In each section of one of the tasks.
    const ALONE: usize = 6;
    run(async {
        let fleet = fleet(5);
        let redlock = builder(fleet.urls()).wait(Wait::Forever).build().unwrap();
        warm_up(&redlock).await;
        let before = counts(&fleet);
        uncontended(&redlock, 200).await;
        for (before, after) in before.iter().zip(counts(&fleet)) {
            let spent = after.since(before).commands();
            assert!(spent <= 2 * 201, "{spent} commands for 201 grants");
        }

        let before = counts(&fleet);
        let sections = Arc::new(Mutex::new(Vec::new()));
        let line = Arc::new(Mutex::new(Vec::new()));
        let alone = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = tokio::task::JoinSet::new();
        let holder = redlock.acquire("resource").await.unwrap();
        for task in 0..TASKS {
            let (redlock, sections) = (redlock.clone(), Arc::clone(&sections));
            let (line, alone) = (Arc::clone(&line), Arc::clone(&alone));
            tasks.spawn(async move {
                for _ in 0..GRANTS {
                    let guard = acquire_in_line(&redlock, task, &line).await;
                    let began = Instant::now();
                    tokio::time::sleep(SECTION).await;
                    if task == 0 {
                        // Here, while all others wait: what slows the machine down slows down both.
                        let samples = uncontended(&redlock, ALONE).await;
                        alone.lock().unwrap().extend(samples);
                    }
                    sections.lock().unwrap().push((task, began, Instant::now()));
                    guard.release().await.unwrap();
                }
            });
        }
        eventually("all are in line", async || {
            line.lock().unwrap().len() == TASKS
        })
        .await;
        holder.release().await.unwrap();
        tasks.join_all().await;
        let alone = median(&alone.lock().unwrap());
        let sections = std::mem::take(&mut *sections.lock().unwrap());
        let order: Vec<usize> = sections.iter().map(|&(task, ..)| task).collect();
        assert_eq!(order.len(), TASKS * GRANTS);
        assert_eq!(order, *line.lock().unwrap(), "first in, first out");
        let between: Vec<Duration> = sections
            .windows(2)
            .map(|pair| pair[1].1.duration_since(pair[0].2))
            .collect();
        // The mean of a row of grants, for a pause belongs to its row; and of the rows the median, for
        // sometimes the machine has something else to do.
        let row = usize::try_from(defaults::LONGEST_ROW).unwrap();
        let rows = between.chunks(row).map(|row| {
            let length = u32::try_from(row.len()).unwrap();
            row.iter().sum::<Duration>() / length
        });
        let handover = median(&rows.collect::<Vec<_>>());
        println!("a hand-over takes {handover:?}, a release and an acquire {alone:?}");
        assert!(handover <= 2 * alone, "{handover:?} against {alone:?}");
        for (before, after) in before.iter().zip(counts(&fleet)) {
            let spent = after.since(before).commands();
            println!("{spent} commands for {} grants", sections.len());
            let most = 5 * sections.len() + 2 * GRANTS * (ALONE + 1);
            assert!(spent <= u64::try_from(most).unwrap(), "{spent} of {most}");
        }
        released_everywhere(&fleet, 0).await;
    });
}
