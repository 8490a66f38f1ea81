//! `Builder` -> `Config`: every setting is checked here, once.

mod environment;
mod nodes;

use std::fmt;
use std::time::Duration;

use redis::Client;
use tokio::runtime::Handle;

use self::nodes::{Make, NodeSpec};
use crate::client::Redlock;
use crate::config::Config;
use crate::driver::engine::Parts;
use crate::error::BuildError;
use crate::quorum::trust::amnesia::RestartGuard;
use crate::request::Wait;
use crate::token::Entropy;

pub(crate) const DEFAULT_TTL: Duration = Duration::from_secs(10);
pub(crate) const DEFAULT_MAX_TTL: Duration = Duration::from_secs(60);
pub(crate) const DEFAULT_WAIT: Duration = Duration::from_secs(10);

/// Settings of a [`Redlock`] client, and their defaults.
///
/// The list of nodes, `max_ttl` and `prefix` must be the same for every client of a fleet. All
/// defaults stand in [`defaults`](crate::defaults), with their reasons in
/// [`docs::operations`](crate::docs::operations).
#[must_use]
#[derive(Clone)]
pub struct Builder {
    nodes: Vec<NodeSpec>,
    ttl: Duration,
    max_ttl: Duration,
    wait: Wait,
    prefix: String,
    round_timeout: Option<Duration>,
    fenced: bool,
    runtime: Option<Handle>,
    restart_guard: RestartGuard,
    /// Nodes that never lose data, by URL.
    persistent: Vec<String>,
    wall_clock: Option<u64>,
    entropy: Option<u64>,
    /// What the environment held that could not be read; reported by `build`.
    problem: Option<BuildError>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            ttl: DEFAULT_TTL,
            max_ttl: DEFAULT_MAX_TTL,
            wait: Wait::For(DEFAULT_WAIT),
            prefix: String::new(),
            round_timeout: None,
            fenced: false,
            runtime: None,
            restart_guard: RestartGuard::Observed,
            persistent: Vec::new(),
            wall_clock: None,
            entropy: None,
            problem: None,
        }
    }
}

impl Builder {
    /// Adds independent masters by URL: `redis://`, `rediss://` (feature `tls-rustls`; rustls needs a
    /// crypto provider, see [`docs::operations`](crate::docs::operations)) or `unix://`, with user,
    /// password and database as they need.
    pub fn nodes<U: Into<String>>(mut self, urls: impl IntoIterator<Item = U>) -> Self {
        self.nodes
            .extend(urls.into_iter().map(|url| NodeSpec::Url(url.into())));
        self
    }

    /// Adds an independent master by a ready client, for settings that no URL can say.
    ///
    /// Its connection settings are used, with RESP3 and `TCP_NODELAY` switched on.
    pub fn node_client(mut self, client: Client) -> Self {
        self.nodes.push(NodeSpec::Client(Box::new(client)));
        self
    }

    /// How long the nodes keep a lock that nobody extends. Default 10 s; from 20 ms to `max_ttl`,
    /// in whole milliseconds.
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// The longest ttl that any client of these nodes may ask for. Default 60 s; at most 36,500 days.
    /// For so long, and a little longer, a node that may have lost its data does not vote: see
    /// [`RestartGuard`].
    pub const fn max_ttl(mut self, max_ttl: Duration) -> Self {
        self.max_ttl = max_ttl;
        self
    }

    /// How long [`Redlock::acquire`] tries: connecting, standing in line and pauses included. See
    /// [`Wait`]. Default 10 s.
    pub fn wait(mut self, wait: impl Into<Wait>) -> Self {
        self.wait = wait.into();
        self
    }

    /// What stands before every resource to make its key. Default: nothing.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// How long a round waits for votes at most; it is never more than half the ttl. Default: a
    /// tenth of the ttl, but at least 50 ms and at most 1 s.
    pub const fn round_timeout(mut self, timeout: Duration) -> Self {
        self.round_timeout = Some(timeout);
        self
    }

    /// Whether every lock of this client is [fenced](crate::Acquire::fenced). Default: no.
    pub const fn fenced(mut self, fenced: bool) -> Self {
        self.fenced = fenced;
        self
    }

    /// Whether nodes that may have forgotten locks are kept from voting. Default
    /// [`RestartGuard::Observed`].
    pub const fn restart_guard(mut self, guard: RestartGuard) -> Self {
        self.restart_guard = guard;
        self
    }

    /// Says of a node that it never loses what it has acknowledged (`appendonly yes`, `appendfsync
    /// always`, and a disk that keeps its word): it votes at once after a restart, too.
    ///
    /// The node is found in the list by its address, wherever it was given; if it is not there, it is
    /// added at the end.
    pub fn persistent_node(mut self, url: impl Into<String>) -> Self {
        self.persistent.push(url.into());
        self
    }

    /// The runtime that drives the client. Default: the one in which its first request is polled.
    pub fn runtime(mut self, handle: Handle) -> Self {
        self.runtime = Some(handle);
        self
    }

    /// Adds servers in memory, each by a link of its own.
    #[cfg(feature = "testkit")]
    pub fn memory_nodes(
        mut self,
        links: impl IntoIterator<Item = crate::testkit::memory::MemoryLink>,
    ) -> Self {
        self.nodes.extend(links.into_iter().map(NodeSpec::Memory));
        self
    }

    /// Tokens and jitter from this seed instead of the operating system's generator.
    #[cfg(feature = "testkit")]
    pub const fn seed(mut self, seed: u64) -> Self {
        self.entropy = Some(seed);
        self
    }

    /// What the client's wall clock shows when the client is first used; from then on it goes with
    /// tokio's clock. Ballots are chosen by it.
    #[cfg(feature = "testkit")]
    pub fn wall_clock(mut self, at_first: std::time::SystemTime) -> Self {
        let since = at_first.duration_since(std::time::SystemTime::UNIX_EPOCH);
        let micros = since.unwrap_or_default().as_micros();
        self.wall_clock = Some(u64::try_from(micros).unwrap_or(u64::MAX));
        self
    }

    /// Checks the settings. Nothing is sent, and no node needs to be up: the client connects when
    /// its first request is polled, and again whenever a node comes back.
    ///
    /// # Errors
    ///
    /// The first setting that cannot be used.
    pub fn build(mut self) -> Result<Redlock, BuildError> {
        let persistent = self.mark_persistent()?;
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        let config = Config {
            ttl: self.ttl,
            max_ttl: self.max_ttl,
            wait: self.wait,
            prefix: self.prefix,
            round_timeout: self.round_timeout,
            fenced: self.fenced,
        };
        config.check()?;
        let make = Make {
            config: &config,
            count: self.nodes.len(),
            restart_guard: self.restart_guard,
            persistent,
        };
        let (nodes, names) = make.all(self.nodes)?;
        let parts = Parts {
            nodes,
            names: names.into(),
            entropy: self.entropy.map_or(Entropy::Os, Entropy::seeded),
            wall_clock: self.wall_clock,
        };
        Ok(Redlock::new(config, parts, self.runtime))
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URLs may hold passwords.
        f.debug_struct("Builder")
            .field("nodes", &self.nodes.len())
            .field("ttl", &self.ttl)
            .field("max_ttl", &self.max_ttl)
            .field("wait", &self.wait)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
