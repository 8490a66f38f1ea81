//! `Builder` -> `Config`: every setting is checked here, once.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::{Client, ConnectionAddr, IntoConnectionInfo};
use tokio::runtime::Handle;

use crate::client::Redlock;
use crate::config::Config;
use crate::error::BuildError;
use crate::node::Node;
#[cfg(feature = "testkit")]
use crate::node::memory::MemoryNode;
use crate::node::redis::RedisNode;
use crate::node::redis::marker::Marking;
use crate::quorum::trust::amnesia::{Guarding, RestartGuard, quarantine};
use crate::request::Wait;
use crate::token::Entropy;

pub(crate) const DEFAULT_TTL: Duration = Duration::from_secs(10);
pub(crate) const DEFAULT_MAX_TTL: Duration = Duration::from_secs(60);
pub(crate) const DEFAULT_WAIT: Duration = Duration::from_secs(10);
pub(crate) const SHORTEST_TTL: Duration = Duration::from_millis(20);
pub(crate) const MOST_NODES: usize = 31;
pub(crate) const LONGEST_RESOURCE: usize = 512;
pub(crate) const MOST_RESOURCES: usize = 64;
/// Keys of our own stand under this.
pub(crate) const RESERVED: &str = "redlock-quorum:";

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

#[derive(Clone)]
enum NodeSpec {
    Url(String),
    Client(Box<Client>),
    #[cfg(feature = "testkit")]
    Memory(crate::testkit::memory::MemoryLink),
}

/// Nodes that have not been started, with their names.
pub(crate) struct Nodes {
    pub(crate) nodes: Vec<Box<dyn Node>>,
    pub(crate) names: Arc<[Arc<str>]>,
    pub(crate) entropy: Entropy,
    pub(crate) wall_clock: Option<u64>,
    pub(crate) runtime: Option<Handle>,
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
    /// Settings from the environment; what is not set keeps its default.
    ///
    /// `REDLOCK_NODES` (URLs, separated by commas), `REDLOCK_TTL`, `REDLOCK_MAX_TTL`,
    /// `REDLOCK_WAIT`, `REDLOCK_ROUND_TIMEOUT` (durations such as `250ms` or `10s`),
    /// `REDLOCK_PREFIX`, `REDLOCK_FENCED` (`true` or `false`) and `REDLOCK_RESTART_GUARD`
    /// (`observed`, `strict` or `off`). What cannot be read is reported by [`build`](Self::build).
    pub fn from_env() -> Self {
        Self::from_vars(|name| std::env::var(name).ok())
    }

    fn from_vars(var: impl Fn(&'static str) -> Option<String>) -> Self {
        let mut builder = Self::default();
        if let Some(nodes) = var("REDLOCK_NODES") {
            builder = builder.nodes(
                nodes
                    .split(',')
                    .map(str::trim)
                    .filter(|url| !url.is_empty()),
            );
        }
        if let Some(prefix) = var("REDLOCK_PREFIX") {
            builder = builder.prefix(prefix);
        }
        let mut problem = None;
        let mut duration = |name: &'static str| {
            let text = var(name)?;
            humantime::parse_duration(text.trim())
                .map_err(|error| {
                    let problem_now = BuildError::InvalidSetting {
                        setting: name,
                        problem: format!("cannot be read: {error}"),
                    };
                    problem.get_or_insert(problem_now);
                })
                .ok()
        };
        if let Some(ttl) = duration("REDLOCK_TTL") {
            builder = builder.ttl(ttl);
        }
        if let Some(max_ttl) = duration("REDLOCK_MAX_TTL") {
            builder = builder.max_ttl(max_ttl);
        }
        if let Some(wait) = duration("REDLOCK_WAIT") {
            builder = builder.wait(wait);
        }
        if let Some(timeout) = duration("REDLOCK_ROUND_TIMEOUT") {
            builder = builder.round_timeout(timeout);
        }
        match var("REDLOCK_FENCED").as_deref().map(str::trim) {
            None => {}
            Some("true" | "1") => builder = builder.fenced(true),
            Some("false" | "0" | "") => builder = builder.fenced(false),
            Some(_) => {
                problem.get_or_insert_with(|| BuildError::InvalidSetting {
                    setting: "REDLOCK_FENCED",
                    problem: "is neither true nor false".into(),
                });
            }
        }
        builder = builder.guarded_by(var("REDLOCK_RESTART_GUARD"), &mut problem);
        builder.problem = problem;
        builder
    }

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
        let finish_after = config.round_timeout(config.ttl);
        let mut nodes: Vec<Box<dyn Node>> = Vec::new();
        let mut names: Vec<Arc<str>> = Vec::new();
        let mut seen = BTreeSet::new();
        let count = self.nodes.len();
        let guarding = |name: &str| Guarding {
            policy: self.restart_guard,
            quarantine: quarantine(config.max_ttl),
            persistent: persistent.contains(name),
        };
        for (place, spec) in self.nodes.into_iter().enumerate() {
            let invalid = |error: redis::RedisError| BuildError::InvalidUrl {
                place,
                reason: error.to_string(),
            };
            let info = match spec {
                NodeSpec::Url(url) => url.into_connection_info().map_err(invalid)?,
                NodeSpec::Client(client) => client.get_connection_info().clone(),
                #[cfg(feature = "testkit")]
                NodeSpec::Memory(link) => {
                    let name = format!("memory:{place}");
                    nodes.push(Box::new(MemoryNode::new(&link, guarding(&name))));
                    names.push(name.into());
                    continue;
                }
            };
            if matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
                provide_crypto();
            }
            let name: Arc<str> = address(info.addr()).into();
            if !seen.insert(Arc::clone(&name)) {
                let node = name.to_string();
                return Err(BuildError::DuplicateAddress { node });
            }
            let marking = Marking::new(guarding(&name), &config.prefix, count, config.max_ttl);
            let node =
                RedisNode::new(Arc::clone(&name), &info, finish_after, marking).map_err(invalid)?;
            nodes.push(Box::new(node));
            names.push(name);
        }
        match nodes.len() {
            0 => return Err(BuildError::NoNodes),
            count if count > MOST_NODES => return Err(BuildError::TooManyNodes { count }),
            _ => {}
        }
        let entropy = self.entropy.map_or(Entropy::Os, Entropy::seeded);
        Ok(Redlock::new(
            config,
            Nodes {
                nodes,
                names: names.into(),
                entropy,
                wall_clock: self.wall_clock,
                runtime: self.runtime,
            },
        ))
    }
}

/// rustls panics at its first connection unless the process has chosen a crypto provider. One that
/// has been chosen is left alone.
#[cfg(feature = "tls-rustls")]
fn provide_crypto() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // An error means that somebody else was first, which is as good.
        drop(rustls::crypto::ring::default_provider().install_default());
    }
}

#[cfg(not(feature = "tls-rustls"))]
const fn provide_crypto() {}

/// The address as it is shown and compared: no user, no password, no database.
fn address(addr: &ConnectionAddr) -> String {
    addr.to_string().to_lowercase()
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

mod guarding;
#[cfg(test)]
mod tests;
