//! Five nodes from wherever they can be had, and how each kind is lost and comes back.

use std::net::ToSocketAddrs;

use redlock_quorum::redis::{Client, ConnectionAddr, IntoConnectionInfo};
use redlock_quorum::testkit::fleet::{Flavor, Fleet, Options};
use redlock_quorum::testkit::memory::{MemoryServer, Restart};
use redlock_quorum::testkit::proxy::Proxy;
use redlock_quorum::{Builder, Redlock, RestartGuard};

use super::Error;

const NODES: usize = 5;

pub(crate) enum Cluster {
    /// Servers that somebody else runs, each behind a proxy of ours: we cut connections, nothing more.
    Given(Vec<(Client, Proxy)>),
    /// Servers that we started, and may kill.
    Started(Fleet, Flavor),
    /// Servers that are not even processes.
    InProcess(Vec<MemoryServer>),
}

impl Cluster {
    pub(crate) fn find() -> Result<Self, Error> {
        if let Ok(nodes) = std::env::var("REDLOCK_NODES") {
            let urls = nodes
                .split(',')
                .map(str::trim)
                .filter(|url| !url.is_empty());
            return Ok(Self::Given(
                urls.map(behind_proxy).collect::<Result<_, _>>()?,
            ));
        }
        match Flavor::first() {
            Ok(flavor) => {
                // They keep their data, so that a lock outlives the restart of its nodes.
                let fleet = Fleet::with(&flavor, NODES, &Options::new().durable())?;
                Ok(Self::Started(fleet, flavor))
            }
            Err(_none) => {
                let seeds = 0..u64::try_from(NODES)?;
                Ok(Self::InProcess(seeds.map(MemoryServer::new).collect()))
            }
        }
    }

    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Given(nodes) => format!(
                "{} nodes from REDLOCK_NODES, each through a proxy of ours on 127.0.0.1, whose ports are shown (only our own connections will be cut)",
                nodes.len()
            ),
            Self::Started(fleet, flavor) => {
                format!(
                    "{} throw-away servers, {}: {}",
                    fleet.len(),
                    flavor.program().display(),
                    fleet.urls().join(" ")
                )
            }
            Self::InProcess(nodes) => format!(
                "{} nodes in this process: no redis-server or valkey-server was found, and REDLOCK_NODES is not set",
                nodes.len()
            ),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Given(nodes) => nodes.len(),
            Self::Started(fleet, _) => fleet.len(),
            Self::InProcess(nodes) => nodes.len(),
        }
    }

    pub(crate) fn client(&self) -> Result<Builder, Error> {
        Ok(match self {
            Self::Given(nodes) => nodes
                .iter()
                .fold(Redlock::builder(), |builder, (client, _)| {
                    builder.node_client(client.clone())
                }),
            // They keep their data, and may vote again as soon as they are back.
            Self::Started(fleet, _) => fleet
                .urls()
                .into_iter()
                .fold(Redlock::builder(), Builder::persistent_node),
            Self::InProcess(nodes) => Redlock::builder()
                .memory_nodes(nodes.iter().map(MemoryServer::link))
                .restart_guard(RestartGuard::Off),
        })
    }

    pub(crate) fn lose(&mut self, node: usize) -> Result<String, Error> {
        match self {
            Self::Given(nodes) => {
                if let Some((_, proxy)) = nodes.get(node) {
                    proxy.refuse();
                    proxy.cut();
                }
                Ok(format!("node {node}: our connections are cut"))
            }
            Self::Started(fleet, _) => {
                let server = &mut fleet[node];
                server.kill()?;
                Ok(format!("node {node}: {} is killed", server.url()))
            }
            Self::InProcess(nodes) => {
                if let Some(server) = nodes.get(node) {
                    server.crash();
                }
                Ok(format!("node {node}: crashed"))
            }
        }
    }

    pub(crate) fn bring_back(&mut self, node: usize) -> Result<String, Error> {
        match self {
            Self::Given(nodes) => {
                if let Some((_, proxy)) = nodes.get(node) {
                    proxy.resume()?;
                }
            }
            Self::Started(fleet, _) => fleet[node].restart()?,
            Self::InProcess(nodes) => {
                if let Some(server) = nodes.get(node) {
                    server.restart(Restart::KeepData);
                }
            }
        }
        Ok(format!("node {node}: back"))
    }
}

/// A client that reaches the server of this URL through a proxy of our own.
fn behind_proxy(url: &str) -> Result<(Client, Proxy), Error> {
    let info = url.into_connection_info().map_err(|error| {
        format!("a URL in REDLOCK_NODES cannot be used, redis://host:port is expected: {error}")
    })?;
    let ConnectionAddr::Tcp(host, port) = info.addr() else {
        return Err("the quickstart reaches the nodes in REDLOCK_NODES by redis:// only".into());
    };
    let target = (host.as_str(), *port)
        .to_socket_addrs()?
        .next()
        .ok_or("a node's name has no address")?;
    let proxy = Proxy::start(target)?;
    let addr = ConnectionAddr::Tcp(proxy.addr().ip().to_string(), proxy.addr().port());
    Ok((Client::open(info.set_addr(addr))?, proxy))
}
