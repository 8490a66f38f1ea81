//! `floor-s`: the least that a quorum lock with the redis crate can do.
//!
//! One multiplexed connection for each node, one call for each command; it returns at the
//! quorum-th success and leaves the stragglers to a detached task. `TCP_NODELAY` is on, as on our
//! side. It has no time-outs, no validity, no clean-up after a lost round, no reconnect, no breaker
//! and no bound on what waits for a silent node: it is a measure, not a lock.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, IntoConnectionInfo, Value};

use crate::contender::{Contender, Failure};

const BUFFER: usize = 4096;
const TTL_MILLIS: u64 = 10_000;
/// The same text as the client's.
const RELEASE: &str = include_str!("../../src/node/redis/scripts/release.lua");

#[derive(Clone)]
pub(crate) struct Floor {
    nodes: Arc<[MultiplexedConnection]>,
    /// The hash of the script, as the servers named it.
    release: Arc<str>,
}

impl Floor {
    pub(crate) async fn connect(urls: &[String]) -> Result<Self, Failure> {
        let config = AsyncConnectionConfig::new()
            .set_pipeline_buffer_size(BUFFER)
            .set_response_timeout(None);
        let mut nodes = Vec::new();
        let mut release = String::new();
        for url in urls {
            let info = url.as_str().into_connection_info()?;
            let tcp = info.tcp_settings().clone().set_nodelay(true);
            let client = Client::open(info.set_tcp_settings(tcp))?;
            let mut node = client
                .get_multiplexed_async_connection_with_config(&config)
                .await?;
            release = redis::cmd("SCRIPT")
                .arg("LOAD")
                .arg(RELEASE)
                .query_async(&mut node)
                .await?;
            nodes.push(node);
        }
        Ok(Self {
            nodes: nodes.into(),
            release: release.into(),
        })
    }

    /// Sends one command to all nodes and waits for a quorum of good replies.
    async fn fan_out(&self, command: Cmd, good: fn(&Value) -> bool) -> Result<(), Failure> {
        let command = Arc::new(command);
        let mut replies: FuturesUnordered<_> = self
            .nodes
            .iter()
            .map(|node| {
                let (mut node, command) = (node.clone(), Arc::clone(&command));
                async move { node.send_packed_command(&command).await }
            })
            .collect();
        let mut missing = self.nodes.len() / 2 + 1;
        while missing > 0 {
            let reply = replies.next().await.ok_or("no quorum")??;
            missing -= usize::from(good(&reply));
        }
        if !replies.is_empty() {
            tokio::spawn(async move { while replies.next().await.is_some() {} });
        }
        Ok(())
    }
}

pub(crate) struct Held {
    resource: String,
    token: String,
}

impl Contender for Floor {
    type Held = Held;

    async fn acquire(&self, resource: &str) -> Result<Held, Failure> {
        let token = format!("{:032x}", rand::random::<u128>());
        let mut set = Cmd::with_capacity(6, 128);
        set.arg("SET")
            .arg(resource)
            .arg(&token)
            .arg("NX")
            .arg("PX")
            .arg(TTL_MILLIS);
        self.fan_out(set, |reply| *reply == Value::Okay).await?;
        Ok(Held {
            resource: resource.to_owned(),
            token,
        })
    }

    async fn release(&self, held: Held) -> Result<(), Failure> {
        let mut compare_and_delete = Cmd::with_capacity(5, 192);
        compare_and_delete
            .arg("EVALSHA")
            .arg(&*self.release)
            .arg(1)
            .arg(held.resource)
            .arg(held.token);
        self.fan_out(compare_and_delete, |reply| *reply == Value::Int(1))
            .await
    }
}
