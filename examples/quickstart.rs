//! Takes a lock on five nodes, loses two of them, and does not notice.
//!
//! `cargo run --example quickstart` uses the nodes in `REDLOCK_NODES` (URLs, separated by commas)
//! if there are any; else it starts five throw-away servers; else, where no server is installed,
//! it makes five nodes in this process.

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "it talks to a person, and is no part of the library"
)]

#[path = "quickstart/cluster.rs"]
mod cluster;

use std::time::{Duration, Instant};

use redlock_quorum::{AcquireError, Guard, Redlock};

use self::cluster::Cluster;

type Error = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut cluster = Cluster::find()?;
    println!("{}", cluster.describe());
    // A prefix of our own: the nodes may be somebody's real ones.
    let ours = cluster
        .client()?
        .prefix("quickstart:")
        .ttl(Duration::from_secs(5))
        .build()?;
    let theirs = cluster
        .client()?
        .prefix("quickstart:")
        .ttl(Duration::from_secs(5))
        .build()?;

    heading("nobody has the lock");
    look(&ours).await;

    heading("one of us takes it");
    let guard = ours.acquire("invoices").await?;
    show(&guard).await;

    heading("the other one cannot, and sees why");
    refused(theirs.try_acquire("invoices").await)?;
    look(&theirs).await;

    heading("so it waits, and is woken when the first one releases it");
    let waiter = tokio::spawn(theirs.acquire("invoices").into_future());
    tokio::time::sleep(Duration::from_millis(200)).await;
    let released = Instant::now();
    guard.release().await?;
    let guard = waiter.await??;
    println!("  acquired {} after the release", ms(released.elapsed()));
    show_and_release(guard).await?;

    let nodes = cluster.len();
    let minority = (nodes - 1) / 2;
    heading(&format!(
        "{minority} of {nodes} nodes go away: a quorum is left, and the lock still works"
    ));
    for node in 0..minority {
        println!("  {}", cluster.lose(node)?);
    }
    let before = Instant::now();
    let guard = ours.acquire("invoices").await?;
    println!("  acquired in {}", ms(before.elapsed()));
    show(&guard).await;
    println!("  and it still excludes the other one:");
    refused(theirs.try_acquire("invoices").await)?;
    guard.release().await?;

    heading("one more goes away: no quorum is left, and nobody gets the lock");
    println!("  {}", cluster.lose(minority)?);
    refused(ours.acquire("invoices").wait(Duration::from_secs(1)).await)?;

    heading("they come back, and so does the lock");
    for node in 0..=minority {
        println!("  {}", cluster.bring_back(node)?);
    }
    show_and_release(
        ours.acquire("invoices")
            .wait(Duration::from_secs(10))
            .await?,
    )
    .await?;

    for client in [ours, theirs] {
        client.close(Duration::from_secs(2)).await;
    }
    Ok(())
}

fn heading(text: &str) {
    println!("\n== {text}");
}

fn ms(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1000.0)
}

/// Looks at the lock without touching it: who has it, and for how long yet.
async fn look(redlock: &Redlock) {
    for line in redlock.inspect("invoices").await.to_string().lines() {
        println!("  {line}");
    }
}

/// Shows the lock and its votes. The lock did not wait for the last of them; the picture does.
async fn show(guard: &Guard) {
    let left = guard
        .valid_until()
        .saturating_duration_since(Instant::now());
    println!("  {} is ours for {} ms", guard.resource(), left.as_millis());
    let all_votes = async {
        while guard.tally().pending() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let _late_is_fine = tokio::time::timeout(Duration::from_millis(100), all_votes).await;
    let tally = guard.tally();
    println!(
        "  {} of {} granted, {} are a quorum",
        tally.granted(),
        tally.nodes().len(),
        tally.quorum()
    );
    for line in tally.nodes() {
        println!("    {:<24} {line}", line.node());
    }
}

async fn show_and_release(guard: Guard) -> Result<(), Error> {
    show(&guard).await;
    guard.release().await?;
    Ok(())
}

/// Shows why an acquisition failed; it is an error if it did not.
fn refused(outcome: Result<Guard, AcquireError>) -> Result<(), Error> {
    let Err(error) = outcome else {
        return Err("this acquisition should have failed".into());
    };
    let kind = if error.is_contended() {
        "contended"
    } else {
        "outage"
    };
    println!("  {kind}: {error}");
    Ok(())
}
