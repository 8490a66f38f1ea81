//! A lock that is held when a majority of N independent Redis or Valkey masters has granted it, and
//! that tells its holder in time when it can no longer be relied on: a client for the Redlock
//! algorithm.
//!
//! One node is the same code with N = 1.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use redlock_quorum::Redlock;
//!
//! # async fn write_invoices() {}
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let redlock = Redlock::builder()
//!         .nodes(["redis://a:6379", "redis://b:6379", "redis://c:6379"])
//!         .build()?;
//!     let guard = redlock.acquire("invoices").ttl(Duration::from_secs(30)).await?;
//!     tokio::select! {
//!         () = write_invoices() => { guard.release().await?; }
//!         cause = guard.lost() => eprintln!("stopped: {cause}"),
//!     }
//!     redlock.close(Duration::from_secs(1)).await;
//!     Ok(())
//! }
//! ```
//!
//! # Guarantees
//!
//! They hold under the assumptions of the [safety model](docs::safety): nodes do not lose
//! acknowledged writes before their ttl is over, and clocks run at nearly the same rate.
//!
//! - **Exclusion.** Until [`Guard::valid_until`] no other client that plays by the rules of Redlock
//!   is granted the same resource.
//! - **Honest validity.** It is counted from before the first command was sent, less drift, on a
//!   clock that also counts the sleep of the machine (on Linux).
//! - **Renewal.** While the guard lives, the lock is extended every third of its ttl, and nodes that
//!   lack the key get it back. A renewal that finds no quorum is tried again until validity ends.
//!   [`Renewal`] sets another pace, bounds on it, or none.
//! - **Loss on time.** [`Guard::lost`] needs no reply from anywhere. It resolves before validity
//!   ends, as far as the process and the machine get to run.
//! - **A minority costs nothing.** A round is decided by the vote that determines it. A dead or frozen
//!   minority is not waited for.
//! - **Waiters are woken.** Within a client they are served first in, first out. Across clients a
//!   release, an expiry or whatever else frees a lock brings the next attempt: see
//!   [waiting](docs::waiting).
//! - **All or nothing.** [`Redlock::acquire_all`] locks several resources at once, in any order and
//!   without deadlock.
//! - **Nothing is left behind.** What was granted, or may have been, is released: also if a future is
//!   dropped at any point, a reply is lost, or a command arrives late. The client goes on until it is
//!   done, as long as its runtime lives.
//! - **Every vote is told.** Each outcome carries its [`Tally`]: what each node said, and why.
//!
//! # What this is not
//!
//! - **No mutual exclusion for a process that is paused.** Whoever is suspended after looking at the
//!   clock may wake up after its lock has ended. Only the resource itself can refuse a late writer,
//!   by a fencing token: see [`Acquire::fenced`] and [fencing](docs::fencing).
//! - **No protection against all nodes losing their data at one time**, unless
//!   [`RestartGuard::Strict`] is used. One after another they may: a node that may have forgotten
//!   locks does not vote until those are over. A flush is noticed at once by clients whom the nodes
//!   may tell, else within about a second.
//! - **Not proof against eviction, deletion by hand or a node's clock that jumps.** Nodes need
//!   `maxmemory-policy noeviction`.
//! - **Not for Redis Cluster, Sentinel or a managed failover group as one node.** A node is an
//!   independent master without automatic failover.
//!
//! # In tests
//!
//! With the feature `testkit` a program can be tested against servers in memory, whose network can
//! be made to fail, on tokio's paused clock; against throw-away server processes; and through a
//! proxy that injects faults.
//!
#![cfg_attr(feature = "testkit", doc = "See [`testkit`].")]
//!
//! ```
//! # #[cfg(feature = "testkit")]
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use redlock_quorum::Redlock;
//! use redlock_quorum::testkit::memory::MemoryServer;
//!
//! let servers = [1, 2, 3].map(MemoryServer::new);
//! let redlock = Redlock::builder()
//!     .memory_nodes(servers.iter().map(MemoryServer::link))
//!     .seed(7)
//!     .build()?;
//! servers[0].crash();
//! let guard = redlock.acquire("invoices").await?;
//! assert_eq!(servers[1].get("invoices").as_deref(), Some(guard.token().as_str()));
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "testkit"))]
//! # fn main() {}
//! ```
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `tls-rustls` | no | `rediss://` URLs, by rustls with the roots of `webpki-roots` |
//! | `serde` | no | leases and fencing tokens that can be serialised: [`Lease`], [`FencingToken`] |
//! | `testkit` | no | the tools for tests: memory servers, throw-away servers, a fault-injecting proxy, seeds |
//!
//! No feature changes what the others, or none, do. [`redis`] is the one public dependency, and is
//! re-exported.
//!
//! # Further reading
//!
//! - [`docs::safety`]: what is assumed, what follows, and the six laws with their tests.
//! - [`docs::fencing`]: how a resource refuses a stale writer.
//! - [`docs::waiting`]: who gets the lock next, and what waiting costs.
//! - [`docs::failure_modes`]: what happens when something breaks.
//! - [`docs::operations`]: what nodes need, every default with its reason, what a tally tells.
//! - [`docs::architecture`]: how the code is built.
//! - [`docs::verification`]: what is checked, by what, and what is not.
//! - [`docs::benchmarks`]: what a lock costs.
//! - [`telemetry`]: what the client says through [`tracing`].
#![cfg_attr(docsrs, feature(doc_cfg))]

mod builder;
mod client;
mod clock;
mod config;
mod contest;
pub mod defaults;
pub mod docs;
mod driver;
mod error;
mod guard;
mod guard_set;
mod handover;
mod held;
mod inspect;
mod lease;
mod lost;
mod node;
mod owner;
mod quorum;
mod request;
mod request_all;
mod resources;
pub mod telemetry;
#[cfg(feature = "testkit")]
pub mod testkit;
mod token;
mod unacquired;
mod wanted;

pub use redis;

pub use self::builder::Builder;
pub use self::client::{Drained, Redlock};
pub use self::error::{
    AcquireError, AttachError, BuildError, ExtendError, InvalidRequest, ReleaseError, UsingError,
};
pub use self::guard::Guard;
pub use self::guard_set::GuardSet;
pub use self::held::Released;
pub use self::inspect::{Holder, Inspection, NodeInspection, Sight};
pub use self::lease::Lease;
pub use self::lost::Lost;
pub use self::owner::Owner;
pub use self::quorum::ballot::FencingToken;
pub use self::quorum::loss::LossCause;
pub use self::quorum::renewal::Renewal;
pub use self::quorum::tally::{NodeError, NodeVote, Tally};
pub use self::quorum::trust::amnesia::RestartGuard;
pub use self::quorum::vote::{Refusal, Unsent, Vote};
pub use self::request::{Acquire, Acquiring, Wait};
pub use self::request_all::AcquireAll;
pub use self::token::Token;
pub use self::unacquired::Unacquired;

/// The code in the README is compiled with the documentation's tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
