//! A worker takes a lock, is paused for too long, and writes when somebody else has taken over: the
//! database refuses it, because it has seen a larger fencing token.
//!
//! `cargo run --example fenced_write` finds its nodes as the quickstart does: those in
//! `REDLOCK_NODES`, or throw-away servers, or nodes in this process. The database is `SQLite`,
//! in memory.

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "it talks to a person, and blocks on purpose"
)]

#[path = "quickstart/cluster.rs"]
#[expect(dead_code, reason = "here no node is lost")]
mod cluster;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use redlock_quorum::{FencingToken, Guard, Redlock};
use rusqlite::{Connection, params};

use self::cluster::Cluster;

type Error = Box<dyn std::error::Error + Send + Sync>;

const RESOURCE: &str = "stock/bolts";
const TTL: Duration = Duration::from_secs(1);
/// Longer than the lock can last by any means.
const PAUSE: Duration = Duration::from_secs(3);

/// A table with one column more: the largest token that has been at each row.
#[derive(Clone)]
struct Database(Arc<Mutex<Connection>>);

impl Database {
    fn create() -> Result<Self, Error> {
        let connection = Connection::open_in_memory()?;
        connection.execute_batch(
            "CREATE TABLE stock (item TEXT PRIMARY KEY, pieces INTEGER NOT NULL, fence INTEGER NOT NULL);
             INSERT INTO stock VALUES ('bolts', 10, 0);",
        )?;
        Ok(Self(Arc::new(Mutex::new(connection))))
    }

    /// Raises the fence, and only then reads: whoever had the lock before cannot write from here on,
    /// so what is read stays true. `None`: a later holder has been here.
    fn enter(&self, token: FencingToken) -> Result<Option<i64>, Error> {
        let mut connection = self.lock();
        let transaction = connection.transaction()?;
        let raised = transaction.execute(
            "UPDATE stock SET fence = ?1 WHERE item = 'bolts' AND fence <= ?1",
            params![number(token)?],
        )?;
        let pieces =
            transaction.query_row("SELECT pieces FROM stock WHERE item = 'bolts'", [], |row| {
                row.get(0)
            })?;
        transaction.commit()?;
        Ok((raised == 1).then_some(pieces))
    }

    /// Writes, unless a later holder has been here. Returns whether it was written.
    fn write(&self, token: FencingToken, pieces: i64) -> Result<bool, Error> {
        let written = self.lock().execute(
            "UPDATE stock SET pieces = ?2, fence = ?1 WHERE item = 'bolts' AND fence <= ?1",
            params![number(token)?, pieces],
        )?;
        Ok(written == 1)
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A token is less than 2^53, and fits into any SQL database's integers.
fn number(token: FencingToken) -> Result<i64, Error> {
    Ok(i64::try_from(token.as_u64())?)
}

fn token(guard: &Guard) -> Result<FencingToken, Error> {
    guard
        .fencing_token()
        .ok_or_else(|| "a fenced lock has a token".into())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let cluster = Cluster::find().map_err(|error| error.to_string())?;
    println!("{}", cluster.describe());
    let client = || -> Result<Redlock, Error> {
        let builder = cluster.client().map_err(|error| error.to_string())?;
        Ok(builder
            .prefix("fenced-write:")
            .ttl(TTL)
            .fenced(true)
            .build()?)
    };
    let (slow, quick) = (client()?, client()?);
    let database = Database::create()?;

    println!("\n== the quick worker takes one bolt of ten");
    take_one("quick", &quick, &database).await?;

    println!("\n== the slow worker begins, and is paused");
    let (begun, has_begun) = mpsc::channel();
    let slow_worker = {
        let database = database.clone();
        thread::spawn(move || slow_worker(slow, &database, &begun))
    };
    has_begun.recv()?;

    println!("\n== the quick worker waits until that lock has expired, and takes over");
    take_one("quick", &quick, &database).await?;

    println!("\n== the slow worker goes on where it was");
    let joined = tokio::task::spawn_blocking(|| slow_worker.join()).await?;
    joined.map_err(|_panic| "the slow worker panicked")??;

    println!("\n== the quick worker finds its own work");
    take_one("quick", &quick, &database).await?;
    quick.close(Duration::from_secs(1)).await;
    Ok(())
}

async fn take_one(name: &str, redlock: &Redlock, database: &Database) -> Result<(), Error> {
    let guard = redlock.acquire(RESOURCE).await?;
    let token = token(&guard)?;
    let pieces = database.enter(token)?.ok_or("nobody came after us")?;
    println!("  {name}: token {token}, reads {pieces}");
    if !database.write(token, pieces - 1)? {
        return Err("nobody came after us".into());
    }
    println!("  {name}: writes {}, accepted", pieces - 1);
    guard.release().await?;
    Ok(())
}

/// A process of its own would be the same: all that it has stands still, renewals included.
fn slow_worker(
    redlock: Redlock,
    database: &Database,
    begun: &mpsc::Sender<()>,
) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let guard = redlock.acquire(RESOURCE).await?;
        let token = token(&guard)?;
        let pieces = database.enter(token)?.ok_or("nobody came after us")?;
        println!("  slow: token {token}, reads {pieces}, and is paused for {PAUSE:?}");
        begun.send(())?;
        thread::sleep(PAUSE);
        // It does not look whether it still has the lock: between any look and a write it could have
        // been paused just as well.
        let written = database.write(token, pieces - 1)?;
        if written {
            return Err("a lost update: this write should have been refused".into());
        }
        println!("  slow: writes {} with token {token}, refused", pieces - 1);
        if let Some(cause) = guard.loss() {
            println!("  slow: the lock says: {cause}");
        }
        drop(guard);
        redlock.close(Duration::from_secs(1)).await;
        Ok(())
    })
}
