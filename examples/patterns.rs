//! Two uses of locks: a job that one of several machines does, and a transfer that needs two accounts.
//!
//! `cargo run --example patterns` finds its nodes as the quickstart does.

#![expect(
    clippy::print_stdout,
    reason = "it talks to a person, and is no part of the library"
)]

#[path = "quickstart/cluster.rs"]
#[expect(dead_code, reason = "here no node is lost")]
mod cluster;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redlock_quorum::{Redlock, UsingError};

use self::cluster::Cluster;

type Error = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let cluster = Cluster::find()?;
    println!("{}", cluster.describe());
    let machine =
        || -> Result<Redlock, Error> { Ok(cluster.client()?.prefix("patterns:").build()?) };
    let (a, b, c) = (machine()?, machine()?, machine()?);

    println!("\n== the clock strikes at three machines");
    tokio::try_join!(report("a", &a), report("b", &b), report("c", &c))?;

    println!("\n== two machines transfer to and fro, and a third adds up");
    let accounts = Accounts::default();
    tokio::try_join!(
        transfers(&a, &accounts, ["alice", "bob"]),
        transfers(&b, &accounts, ["bob", "alice"]),
        total(&c, &accounts),
    )?;
    total(&c, &accounts).await?;

    for client in [a, b, c] {
        client.close(Duration::from_secs(1)).await;
    }
    Ok(())
}

/// Whoever gets the lock writes the report; the others leave it at that.
///
/// Of several who `try_acquire` at one moment perhaps none gets a quorum. So each waits, for less time
/// than the report takes. Whoever comes when it is written would write it again: where that matters,
/// look under the lock whether it is there.
async fn report(name: &str, redlock: &Redlock) -> Result<(), Error> {
    let lock = redlock.acquire("report").wait(Duration::from_millis(300));
    let written = lock.using(async |_guard| {
        println!("  {name} writes the report");
        tokio::time::sleep(Duration::from_secs(1)).await;
    });
    match written.await {
        Ok(()) => println!("  {name} has written it"),
        Err(UsingError::Acquire(error)) if error.is_contended() => {
            println!("  {name} leaves it to somebody else");
        }
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// Balances, wherever they are kept: to read them and to write them are two steps.
#[derive(Default)]
struct Accounts(Mutex<BTreeMap<&'static str, i64>>);

impl Accounts {
    fn balance(&self, name: &str) -> i64 {
        let balances = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        balances.get(name).copied().unwrap_or(100)
    }

    fn set(&self, name: &'static str, balance: i64) {
        let mut balances = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        balances.insert(name, balance);
    }
}

/// Twenty transfers, each under one lock on both accounts. In which order they are named does not
/// matter: who goes to and who goes fro do not wait for each other for ever.
async fn transfers(
    redlock: &Redlock,
    accounts: &Accounts,
    [from, to]: [&'static str; 2],
) -> Result<(), Error> {
    for _ in 0..20 {
        let both = redlock.acquire_all([from, to]);
        both.using(async |_guard| {
            let (had, has) = (accounts.balance(from), accounts.balance(to));
            tokio::time::sleep(Duration::from_millis(1)).await;
            accounts.set(from, had - 1);
            tokio::time::sleep(Duration::from_millis(1)).await;
            accounts.set(to, has + 1);
        })
        .await?;
    }
    println!("  20 times 1 from {from} to {to}");
    Ok(())
}

async fn total(redlock: &Redlock, accounts: &Accounts) -> Result<(), Error> {
    let guard = redlock.acquire_all(["alice", "bob"]).await?;
    let (alice, bob) = (accounts.balance("alice"), accounts.balance("bob"));
    guard.release().await?;
    println!("  alice {alice}, bob {bob}, together {}", alice + bob);
    if alice + bob != 200 {
        return Err("money was lost".into());
    }
    Ok(())
}
