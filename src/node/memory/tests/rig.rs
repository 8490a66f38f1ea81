//! A small client that writes down what it sees.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::clock::Clock;
use crate::node::memory::{MemoryLink, MemoryNode};
use crate::node::vigil::Founders;
use crate::node::{Caller, Context, Link, Node, Observer, Request};
use crate::quorum::hold::{Command, Reply};
use crate::quorum::ledger::News;
use crate::quorum::trust::Identities;
use crate::quorum::trust::amnesia::{Guarding, RestartGuard};
use crate::quorum::validity::Moment;
use crate::quorum::vote::Unsent;
use crate::token::{Entropy, Token};

pub(super) const TTL: Duration = Duration::from_secs(5);
pub(super) const ACQUIRE: Command = Command::Acquire {
    ttl: TTL,
    ballot: None,
};
pub(super) const EXTEND: Command = Command::Extend {
    ttl: TTL,
    number: 1,
    ballot: None,
};

/// A restarted server votes at once: these tests look at connections.
const UNGUARDED: Guarding = Guarding {
    policy: RestartGuard::Off,
    quarantine: TTL,
    persistent: false,
};

pub(super) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(super) async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

/// What has happened, one line each, with the virtual time.
#[derive(Clone)]
pub(super) struct Trace(Arc<(Clock, Moment, Mutex<Vec<String>>)>);

impl Trace {
    fn new() -> Self {
        let clock = Clock::start();
        let start = clock.now();
        Self(Arc::new((clock, start, Mutex::default())))
    }

    fn push(&self, what: &str) {
        let (clock, start, lines) = &*self.0;
        lines
            .lock()
            .unwrap()
            .push(format!("{} {what}", clock.now().since(*start).as_millis()));
    }

    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.2.lock().unwrap())
    }
}

struct Watch {
    node: usize,
    trace: Trace,
}

impl Observer for Watch {
    fn on_news(&self, news: News) {
        self.trace.push(&format!("{}: {news:?}", self.node));
    }

    fn on_link(&self) {
        self.trace.push(&format!("{}: link", self.node));
    }

    fn on_touched(&self, key: Option<&str>) {
        self.trace
            .push(&format!("{}: touched {}", self.node, key.unwrap_or("all")));
    }

    fn is_busy(&self) -> bool {
        false
    }
}

pub(super) struct Probe {
    name: String,
    keys: [Box<str>; 1],
    token: Token,
    trace: Trace,
    watches: bool,
    pub(super) withdrawn: AtomicBool,
}

impl Caller for Probe {
    fn keys(&self) -> &[Box<str>] {
        &self.keys
    }

    fn token(&self) -> &Token {
        &self.token
    }

    fn watches(&self) -> bool {
        self.watches
    }

    fn claim(&self, _: usize, _: Command) -> bool {
        !self.withdrawn.load(Ordering::Relaxed)
    }

    fn on_reply(self: Arc<Self>, node: usize, _: Command, reply: Reply, _: Option<Moment>) {
        self.trace.push(&format!(
            "{node}: {} {}, {:?}",
            self.name, reply.vote, reply.carrier
        ));
    }
}

/// One client of some servers.
pub(super) struct Client {
    pub(super) nodes: Vec<MemoryNode>,
    pub(super) trace: Trace,
}

impl Client {
    pub(super) fn start(links: &[&MemoryLink]) -> Self {
        let trace = Trace::new();
        let clock = Arc::new(Clock::start());
        let entropy = Arc::new(Entropy::seeded(7));
        let identities = Arc::new(Mutex::new(Identities::new(links.len())));
        let founders = Arc::new(Founders::new(links.len()));
        let nodes: Vec<MemoryNode> = links
            .iter()
            .map(|link| MemoryNode::new(link, UNGUARDED))
            .collect();
        for (node, memory) in nodes.iter().enumerate() {
            memory.start(Context {
                node,
                observer: Arc::new(Watch {
                    node,
                    trace: trace.clone(),
                }),
                clock: Arc::clone(&clock),
                entropy: Arc::clone(&entropy),
                identities: Arc::clone(&identities),
                founders: Arc::clone(&founders),
            });
        }
        Self { nodes, trace }
    }

    pub(super) fn probe(&self, name: &str, bits: u128) -> Arc<Probe> {
        self.probe_with(name, bits, false)
    }

    fn probe_with(&self, name: &str, bits: u128, watches: bool) -> Arc<Probe> {
        let withdrawn = AtomicBool::new(false);
        Arc::new(Probe {
            name: name.into(),
            keys: ["k".into()],
            token: Token::from_bits(bits),
            trace: self.trace.clone(),
            watches,
            withdrawn,
        })
    }

    pub(super) fn submit(
        &self,
        node: usize,
        name: &str,
        bits: u128,
        command: Command,
    ) -> Result<(), Unsent> {
        self.nodes[node].submit(Request::new(self.probe(name, bits), node, command))
    }

    /// The same for an attempt that watches what is in its way.
    pub(super) fn watch(
        &self,
        node: usize,
        name: &str,
        bits: u128,
        command: Command,
    ) -> Result<(), Unsent> {
        let probe = self.probe_with(name, bits, true);
        self.nodes[node].submit(Request::new(probe, node, command))
    }

    pub(super) fn link(&self) -> Link {
        self.nodes[0].standing().link
    }

    /// One that is connected.
    pub(super) async fn connected(link: &MemoryLink) -> Self {
        let client = Self::start(&[link]);
        pass(ms(10)).await;
        assert_eq!(client.link(), Link::Up);
        client.trace.take();
        client
    }
}
