//! The nodes of a client: known by their addresses, and made ready to be started.

use std::collections::BTreeSet;
use std::sync::Arc;

use redis::{Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisError};

use super::Builder;
use crate::config::{Config, MOST_NODES};
use crate::error::BuildError;
use crate::node::Node;
#[cfg(feature = "testkit")]
use crate::node::memory::MemoryNode;
use crate::node::redis::RedisNode;
use crate::node::redis::marker::Marking;
use crate::quorum::trust::amnesia::{Guarding, RestartGuard, quarantine};

/// A node as it was given.
#[derive(Clone)]
pub(super) enum NodeSpec {
    Url(String),
    Client(Box<Client>),
    #[cfg(feature = "testkit")]
    Memory(crate::testkit::memory::MemoryLink),
}

impl Builder {
    /// The names of the persistent nodes; adds those that are not in the list.
    pub(super) fn mark_persistent(&mut self) -> Result<BTreeSet<String>, BuildError> {
        let mut known: BTreeSet<String> = self.nodes.iter().enumerate().filter_map(name).collect();
        let mut persistent = BTreeSet::new();
        for url in std::mem::take(&mut self.persistent) {
            if known.contains(&url) {
                persistent.insert(url);
                continue;
            }
            let place = self.nodes.len();
            let info = url.as_str().into_connection_info();
            let info = info.map_err(|error| invalid_url(place, &url, &error))?;
            let name = address(info.addr());
            if known.insert(name.clone()) {
                self.nodes.push(NodeSpec::Url(url));
            }
            persistent.insert(name);
        }
        Ok(persistent)
    }
}

/// Makes nodes of what was given.
pub(super) struct Make<'a> {
    pub(super) config: &'a Config,
    pub(super) count: usize,
    pub(super) restart_guard: RestartGuard,
    /// The names of the nodes that never lose data.
    pub(super) persistent: BTreeSet<String>,
}

/// Nodes, and what they are called.
type Named = (Vec<Box<dyn Node>>, Vec<Arc<str>>);

impl Make<'_> {
    pub(super) fn all(&self, specs: Vec<NodeSpec>) -> Result<Named, BuildError> {
        let (mut nodes, mut names) = Named::default();
        let mut seen = BTreeSet::new();
        for (place, spec) in specs.into_iter().enumerate() {
            let info = match spec {
                NodeSpec::Url(url) => url
                    .as_str()
                    .into_connection_info()
                    .map_err(|error| invalid_url(place, &url, &error))?,
                NodeSpec::Client(client) => client.get_connection_info().clone(),
                #[cfg(feature = "testkit")]
                NodeSpec::Memory(link) => {
                    let name = memory_name(place);
                    nodes.push(Box::new(MemoryNode::new(&link, self.guarding(&name))));
                    names.push(name.into());
                    continue;
                }
            };
            let name: Arc<str> = address(info.addr()).into();
            if !seen.insert(Arc::clone(&name)) {
                let node = name.to_string();
                return Err(BuildError::DuplicateAddress { node });
            }
            let node = self.redis(&name, &info);
            nodes.push(Box::new(node.map_err(|error| invalid(place, &error))?));
            names.push(name);
        }
        match nodes.len() {
            0 => Err(BuildError::NoNodes),
            count if count > MOST_NODES => Err(BuildError::TooManyNodes { count }),
            _ => Ok((nodes, names)),
        }
    }

    fn redis(&self, name: &Arc<str>, info: &ConnectionInfo) -> Result<RedisNode, RedisError> {
        if matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
            provide_crypto();
        }
        let Config {
            ttl,
            max_ttl,
            prefix,
            ..
        } = self.config;
        let finish_after = self.config.round_timeout(*ttl);
        let marking = Marking::new(self.guarding(name), prefix, self.count, *max_ttl);
        RedisNode::new(Arc::clone(name), info, finish_after, marking)
    }

    fn guarding(&self, name: &str) -> Guarding {
        Guarding {
            policy: self.restart_guard,
            quarantine: quarantine(self.config.max_ttl),
            persistent: self.persistent.contains(name),
        }
    }
}

/// Says of the commonest mistakes what to do.
fn invalid_url(place: usize, url: &str, error: &RedisError) -> BuildError {
    let reason = if !url.contains("://") {
        "it does not begin with redis://, rediss:// or unix://"
    } else if url.starts_with("rediss://") && !cfg!(feature = "tls-rustls") {
        "rediss:// needs the feature tls-rustls"
    } else {
        return invalid(place, error);
    };
    let reason = reason.into();
    BuildError::InvalidUrl { place, reason }
}

fn invalid(place: usize, error: &RedisError) -> BuildError {
    let reason = error.to_string();
    BuildError::InvalidUrl { place, reason }
}

/// What a node is called; `None` if its URL cannot be used.
#[cfg_attr(
    not(feature = "testkit"),
    expect(
        unused_variables,
        reason = "only memory nodes are named by their place"
    )
)]
fn name((place, spec): (usize, &NodeSpec)) -> Option<String> {
    match spec {
        NodeSpec::Url(url) => {
            let info = url.as_str().into_connection_info().ok()?;
            Some(address(info.addr()))
        }
        NodeSpec::Client(client) => Some(address(client.get_connection_info().addr())),
        #[cfg(feature = "testkit")]
        NodeSpec::Memory(_) => Some(memory_name(place)),
    }
}

#[cfg(feature = "testkit")]
fn memory_name(place: usize) -> String {
    format!("memory:{place}")
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

/// The address as it is shown and compared: no user, no password, no database. Hosts have no case,
/// the paths of sockets do.
fn address(addr: &ConnectionAddr) -> String {
    if matches!(addr, ConnectionAddr::Unix(_)) {
        addr.to_string()
    } else {
        addr.to_string().to_lowercase()
    }
}
