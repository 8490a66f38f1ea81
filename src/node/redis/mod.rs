//! A Redis or Valkey server, reached over one multiplexed connection at a time.

mod commands;
pub(crate) mod connection;
mod exchange;
mod fenced;
mod glancing;
mod handshake;
mod ladder;
pub(crate) mod marker;
mod outgoing;
mod pushes;
mod scripts;
mod serve;
mod sets;
#[cfg(test)]
mod stub;
mod transaction;
mod watching;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::{Client, ConnectionInfo, ProtocolVersion, RedisResult};
use tokio::sync::{mpsc, oneshot};

use self::connection::{Driver, Said};
use self::marker::Marking;
use super::gate::Gate;
use super::glance::{Glance, Glances, Glimpse};
use super::vigil::Vigil;
use super::{Context, Link, Node, Request, Standing};
use crate::quorum::vote::Unsent;

pub(crate) struct RedisNode {
    name: Arc<str>,
    gate: Arc<Gate>,
    queue: mpsc::UnboundedSender<Request>,
    glances: Glances,
    /// What the driver needs; taken when it starts.
    idle: Mutex<Option<Idle>>,
}

struct Idle {
    client: Client,
    queue: mpsc::UnboundedReceiver<Request>,
    glances: mpsc::UnboundedReceiver<Glance>,
    finish_after: Duration,
    marking: Marking,
}

impl RedisNode {
    /// A node that is not connected yet. `finish_after` is the round time-out of its client.
    pub(crate) fn new(
        name: Arc<str>,
        info: &ConnectionInfo,
        finish_after: Duration,
        marking: Marking,
    ) -> RedisResult<Self> {
        let redis = info
            .redis_settings()
            .clone()
            .set_protocol(ProtocolVersion::RESP3);
        let tcp = info.tcp_settings().clone();
        // A lock's commands are small and waited for: they must not wait for more to come.
        let tcp = tcp.set_nodelay(true);
        let client = Client::open(info.clone().set_redis_settings(redis).set_tcp_settings(tcp))?;
        let (sender, receiver) = mpsc::unbounded_channel();
        let (glances, asked) = mpsc::unbounded_channel();
        let idle = Idle {
            client,
            queue: receiver,
            glances: asked,
            finish_after,
            marking,
        };
        Ok(Self {
            name,
            gate: Arc::new(Gate::new()),
            queue: sender,
            glances,
            idle: Mutex::new(Some(idle)),
        })
    }
}

impl Node for RedisNode {
    fn start(&self, context: Context) {
        let idle = self
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(Idle {
            client,
            queue,
            glances,
            finish_after,
            marking,
        }) = idle
        else {
            return;
        };
        let driver = Driver {
            name: Arc::clone(&self.name),
            client,
            queue,
            glances,
            gate: Arc::clone(&self.gate),
            vigil: Vigil::new(marking.guarding, &context),
            marking,
            context,
            finish_after,
            next_id: 0,
            unfinished: Vec::new(),
            said: Said::default(),
        };
        tokio::spawn(driver.run());
    }

    fn submit(&self, request: Request) -> Result<(), Unsent> {
        self.gate.pass(request, &self.queue)
    }

    fn look(&self, key: &str) -> Result<oneshot::Receiver<Glimpse>, Unsent> {
        self.gate.look(key, &self.glances)
    }

    fn standing(&self) -> Standing {
        self.gate.standing()
    }

    fn link(&self) -> Link {
        self.gate.link()
    }

    fn tells(&self) -> bool {
        self.gate.tells()
    }
}

impl fmt::Debug for RedisNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisNode")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
