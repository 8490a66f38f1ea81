//! The client.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;

use crate::builder::Builder;
use crate::config::Config;
use crate::driver::cell::Cell;
use crate::driver::engine::{Engine, Parts};
use crate::error::InvalidRequest;
use crate::owner::Owner;
use crate::quorum::hold::LossCause;
use crate::request::{Acquire, Wait};
use crate::request_all::AcquireAll;
use crate::resources::Resources;
use crate::wanted::Wanted;

/// A client of N independent Redis or Valkey masters.
///
/// Cheap to clone; clones share connections. It connects when its first request is polled, and is
/// driven by the runtime of that poll unless [`Builder::runtime`] names another. When that runtime
/// ends, requests end with [`AcquireError::Closed`](crate::AcquireError::Closed) and held locks are
/// left to their ttl.
#[derive(Clone)]
pub struct Redlock {
    inner: Arc<Inner>,
}

struct Inner {
    config: Config,
    /// What drives it, if the builder was told.
    runtime: Option<Handle>,
    engine: OnceLock<Arc<Engine>>,
    /// Taken when the engine starts.
    parts: Mutex<Option<Parts>>,
}

impl Redlock {
    /// Settings for a new client.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlock_quorum::BuildError> {
    /// use std::time::Duration;
    ///
    /// let redlock = redlock_quorum::Redlock::builder()
    ///     .nodes(["redis://127.0.0.1:6381", "redis://127.0.0.1:6382", "redis://127.0.0.1:6383"])
    ///     .ttl(Duration::from_secs(10))
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn new(config: Config, parts: Parts, runtime: Option<Handle>) -> Self {
        Self {
            inner: Arc::new(Inner {
                config,
                runtime,
                engine: OnceLock::new(),
                parts: Mutex::new(Some(parts)),
            }),
        }
    }

    /// A request for the lock on `resource`. It stands in line behind earlier requests of this client
    /// and its clones, is woken by whatever frees the lock, and gives up when it has waited for as
    /// long as the client's [`wait`](Builder::wait) says: see [`docs::waiting`](crate::docs::waiting).
    /// Nothing is sent before it is awaited. The lock is renewed until its guard goes, unless
    /// [`renewal`](Acquire::renewal) says otherwise.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(redlock: redlock_quorum::Redlock) -> Result<(), Box<dyn std::error::Error>> {
    /// let guard = redlock.acquire("invoices/2026-11").await?;
    /// // .. only one of us is here ..
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire(&self, resource: impl Into<String>) -> Acquire {
        Acquire::new(self.wanted([resource]))
    }

    /// A request that makes one attempt and stands in no line: [`acquire`](Self::acquire) with
    /// [`Wait::Once`]. It lasts a round time-out at most, and while a new client connects up to 1 s
    /// more.
    ///
    /// Of several who try at the same moment perhaps nobody gets it, since each may win a part of the
    /// nodes. Where one of them should, give each a short [`wait`](Acquire::wait) instead.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(redlock: redlock_quorum::Redlock) -> Result<(), Box<dyn std::error::Error>> {
    /// match redlock.try_acquire("invoices").await {
    ///     Ok(guard) => { guard.release().await?; }
    ///     Err(error) if error.is_contended() => println!("somebody else is at it"),
    ///     Err(error) => return Err(error.into()),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_acquire(&self, resource: impl Into<String>) -> Acquire {
        self.acquire(resource).wait(Wait::Once)
    }

    /// A request for one lock on several resources, all or nothing; otherwise as
    /// [`acquire`](Self::acquire). It stands in the lines of all of them, and goes when it is the
    /// first in each. For one attempt, give it [`Wait::Once`].
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(redlock: redlock_quorum::Redlock) -> Result<(), Box<dyn std::error::Error>> {
    /// let guard = redlock.acquire_all(["account/3", "account/7"]).await?;
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire_all<R: Into<String>>(
        &self,
        resources: impl IntoIterator<Item = R>,
    ) -> AcquireAll {
        AcquireAll::new(self.wanted(resources))
    }

    /// A new logical thread of work, which can acquire again what it holds already: without one, a
    /// second request for a held resource waits for the first guard like anybody else's.
    #[must_use]
    pub fn owner(&self) -> Owner {
        Owner::new(self.clone())
    }

    /// Waits until a quorum of nodes votes, at most for `limit`, and tells whether one does: for a
    /// service that wants to know at its start, or is asked whether it is ready.
    ///
    /// Nothing needs it. If no request was polled yet, it is what makes the client connect. Nodes in
    /// quarantine do not vote. After [`close`](Self::close), and where no runtime drives the client,
    /// the answer is no. Which nodes are missing, and why, is told by [`inspect`](Self::inspect) and
    /// by events ([`telemetry`](crate::telemetry)).
    ///
    /// # Cancel safety
    ///
    /// It can be dropped at any time. The client goes on connecting.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(redlock: redlock_quorum::Redlock) {
    /// if !redlock.ready(std::time::Duration::from_secs(5)).await {
    ///     eprintln!("too few nodes: {}", redlock.inspect("invoices").await);
    /// }
    /// # }
    /// ```
    pub async fn ready(&self, limit: Duration) -> bool {
        let Ok(engine) = self.engine() else {
            return false;
        };
        engine.connected(engine.clock().now().after(limit)).await
    }

    /// Ends the client and all its clones: the last line of `main`. Also the way to be sure that the
    /// releases of dropped guards have reached the nodes.
    ///
    /// New and waiting acquisitions end with [`AcquireError::Closed`](crate::AcquireError::Closed);
    /// held locks are released and report [`LossCause::Closed`]. Returns when nothing is owed to a
    /// node that is connected, at most after `limit`; what is owed to others is listed.
    ///
    /// # Cancel safety
    ///
    /// If dropped after its first poll, the client is closed all the same, and what is owed is paid as
    /// long as the runtime lives. If it was never polled, nothing is closed.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(redlock: redlock_quorum::Redlock) {
    /// let drained = redlock.close(std::time::Duration::from_secs(2)).await;
    /// for (node, releases) in drained.owed() {
    ///     eprintln!("{releases} releases did not reach {node}; the ttl ends those locks");
    /// }
    /// # }
    /// ```
    pub async fn close(self, limit: Duration) -> Drained {
        let Ok(engine) = self.engine() else {
            return Drained { owed: Vec::new() };
        };
        for cell in engine.close() {
            cell.release(LossCause::Closed);
        }
        let limit = engine.sleep_until(engine.clock().now().after(limit));
        let paid = engine.wait(|| {
            let connected = |node| engine.link(node).is_connected();
            let living = engine.living();
            for cell in &living {
                // An attempt that began while the client was being closed.
                cell.release(LossCause::Closed);
            }
            let settled = living
                .iter()
                .all(|cell| !cell.peek(|hold| hold.owed().any(connected)));
            settled.then_some(())
        });
        tokio::select! {
            biased;
            () = paid => {}
            () = limit => {}
        }
        Drained::new(&engine, &engine.living())
    }

    /// How many attempts, holds and debts have not settled.
    #[cfg(feature = "testkit")]
    #[doc(hidden)]
    #[must_use]
    pub fn unsettled(&self) -> usize {
        let engine = self.inner.engine.get();
        engine.map_or(0, |engine| engine.unsettled())
    }

    /// How many resources there are that this client waits for or holds.
    #[cfg(feature = "testkit")]
    #[doc(hidden)]
    #[must_use]
    pub fn lines(&self) -> usize {
        let engine = self.inner.engine.get();
        engine.map_or(0, |engine| engine.queue().len())
    }

    /// A request for these resources, with the client's settings.
    pub(crate) fn wanted<R: Into<String>>(&self, resources: impl IntoIterator<Item = R>) -> Wanted {
        let resources = resources.into_iter().map(Into::into);
        let resources = Resources::all::<String>(&self.config().prefix, resources);
        Wanted::new(self.clone(), resources)
    }

    pub(crate) fn config(&self) -> &Config {
        &self.inner.config
    }

    /// The engine, started if this is its first use.
    pub(crate) fn engine(&self) -> Result<Arc<Engine>, InvalidRequest> {
        if let Some(engine) = self.inner.engine.get() {
            return Ok(Arc::clone(engine));
        }
        let runtime = match &self.inner.runtime {
            Some(runtime) => runtime.clone(),
            None => Handle::try_current().map_err(|_no_runtime| InvalidRequest::NoRuntime)?,
        };
        let engine = self.inner.engine.get_or_init(|| {
            let parts = self.inner.parts.lock();
            let parts = parts.unwrap_or_else(PoisonError::into_inner).take();
            Engine::start(parts.unwrap_or_default(), runtime)
        });
        Ok(Arc::clone(engine))
    }
}

impl fmt::Debug for Redlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redlock")
            .field("config", &self.inner.config)
            .field("engine", &self.inner.engine.get())
            .finish_non_exhaustive()
    }
}

/// What a closed client still owed to its nodes.
#[derive(Clone, Debug)]
pub struct Drained {
    owed: Vec<(String, usize)>,
}

impl Drained {
    fn new(engine: &Engine, living: &[Arc<Cell>]) -> Self {
        let mut counts = vec![0_usize; engine.names().len()];
        for cell in living {
            cell.peek(|hold| {
                for node in hold.owed() {
                    if let Some(count) = counts.get_mut(node) {
                        *count = count.saturating_add(1);
                    }
                }
            });
        }
        let owed = engine
            .names()
            .iter()
            .zip(counts)
            .filter(|&(_, count)| count > 0);
        Self {
            owed: owed
                .map(|(name, count)| (name.to_string(), count))
                .collect(),
        }
    }

    /// Is nothing owed to any node?
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.owed.is_empty()
    }

    /// The nodes to which releases are owed, and how many.
    #[must_use]
    pub fn owed(&self) -> impl ExactSizeIterator<Item = (&str, usize)> {
        self.owed
            .iter()
            .map(|(node, count)| (node.as_str(), *count))
    }
}
