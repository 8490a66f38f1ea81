//! Servers of every kind at hand, and small clients of one node.

use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::clock::Clock;
use crate::node::memory::{CutFate, MemoryLink, MemoryNode, MemoryServer};
use crate::node::redis::RedisNode;
use crate::node::redis::marker::Marking;
use crate::node::vigil::Founders;
use crate::node::{Caller, Context, Link, Node, Observer, Request};
use crate::quorum::ballot::Ballot;
use crate::quorum::hold::{Command, Reply};
use crate::quorum::ledger::News;
use crate::quorum::trust::Identities;
use crate::quorum::trust::amnesia::{Guarding, RestartGuard};
use crate::quorum::validity::Moment;
use crate::quorum::vote::{Unsent, Vote};
use crate::testkit::fleet::{Flavor, Options, Server};
use crate::token::{Entropy, Token};

pub(super) const KEY: &str = "locks:resource";
pub(super) const ANOTHER: &str = "locks:another";
pub(super) const TTL: Duration = Duration::from_secs(100);
/// How long something that will happen may take, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(15);
const MEMORY: Duration = Duration::from_secs(600);

/// An acquire, fenced if the number is not 0.
pub(super) fn acquire(ballot: u64) -> Command {
    let ballot = (ballot > 0).then(|| Ballot::new(ballot, MEMORY));
    Command::Acquire { ttl: TTL, ballot }
}

pub(super) fn tombstone(ballot: u64) -> Command {
    let ballot = Ballot::new(ballot, MEMORY);
    Command::Tombstone { ballot }
}

pub(super) const fn extend(ttl: Duration) -> Command {
    Command::Extend {
        ttl,
        number: 1,
        ballot: None,
    }
}

/// A server, as seen past its clients.
pub(super) enum Master {
    Memory(MemoryServer),
    Real(Server),
}

impl Master {
    pub(super) fn all() -> Vec<Self> {
        let mut all = vec![Self::Memory(MemoryServer::new(1))];
        for flavor in Flavor::available() {
            let server = Server::start(&flavor, Options::new()).unwrap();
            all.push(Self::Real(server));
        }
        assert!(all.len() > 1, "a real server is installed");
        all
    }

    pub(super) fn set(&self, value: &str, ttl: Option<Duration>) {
        match self {
            Self::Memory(server) => server.set(KEY, value, ttl),
            Self::Real(server) => {
                let ttl = ttl.map(|ttl| ttl.as_millis().to_string());
                let mut words = vec!["SET", KEY, value];
                words.extend(ttl.iter().flat_map(|ttl| ["PX", ttl]));
                server.command(&words).unwrap();
            }
        }
    }

    pub(super) fn delete(&self) {
        match self {
            Self::Memory(server) => server.delete(KEY),
            Self::Real(server) => drop(server.command(&["DEL", KEY]).unwrap()),
        }
    }

    pub(super) fn flush(&self) {
        match self {
            Self::Memory(server) => server.flush(),
            Self::Real(server) => drop(server.command(&["FLUSHALL"]).unwrap()),
        }
    }

    /// Some command that finds the key, or that it is over.
    pub(super) fn look(&self) -> bool {
        match self {
            Self::Memory(server) => server.get(KEY).is_some(),
            Self::Real(server) => server.command(&["EXISTS", KEY]).unwrap() == redis::Value::Int(1),
        }
    }
}

/// What a node's observer was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Told {
    Touched(Option<String>),
    /// With whether the node tells of changes now.
    Link(Link, bool),
}

struct Ear {
    told: mpsc::UnboundedSender<Told>,
    node: OnceLock<Weak<dyn Node>>,
}

impl Observer for Ear {
    fn on_news(&self, _: News) {}

    fn on_link(&self) {
        if let Some(node) = self.node.get().and_then(Weak::upgrade) {
            let link = Told::Link(node.link(), node.tells());
            self.told.send(link).ok();
        }
    }

    fn on_touched(&self, key: Option<&str>) {
        self.told.send(Told::Touched(key.map(String::from))).ok();
    }

    fn is_busy(&self) -> bool {
        false
    }
}

type Voted = Box<dyn FnOnce(Vote) + Send>;

/// One attempt, and what is done when its vote comes.
pub(super) struct Attempt {
    keys: [Box<str>; 1],
    token: Token,
    watches: bool,
    voted: Mutex<Option<Voted>>,
}

impl Caller for Attempt {
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
        true
    }

    fn on_reply(self: Arc<Self>, _: usize, _: Command, reply: Reply, _: Option<Moment>) {
        let voted = self.voted.lock().unwrap().take();
        voted.expect("one reply")(reply.vote);
    }
}

const fn guarding(policy: RestartGuard) -> Guarding {
    Guarding {
        policy,
        quarantine: TTL,
        persistent: false,
    }
}

/// A client of one node. Its number is also its token's.
pub(super) struct Client {
    pub(super) node: Arc<dyn Node>,
    number: u128,
    told: mpsc::UnboundedReceiver<Told>,
    /// Has a busy server been taken for silent?
    silent: bool,
    /// To a server in memory.
    link: Option<MemoryLink>,
}

impl Client {
    /// One that is connected.
    pub(super) async fn connected(number: u128, master: &Master) -> Self {
        let mut client = Self::start(number, master, RestartGuard::Off, "");
        client.hears(&Told::Link(Link::Up, true)).await;
        client
    }

    /// `user`: who it is at a real server, with an `@`.
    pub(super) fn start(number: u128, master: &Master, policy: RestartGuard, user: &str) -> Self {
        match master {
            Master::Memory(server) => {
                let link = server.link();
                let node = MemoryNode::new(&link, guarding(policy));
                Self::of(number, Arc::new(node), Some(link))
            }
            Master::Real(server) => {
                let url = server.url().replacen("//", &format!("//{user}"), 1);
                Self::at(number, &url, policy)
            }
        }
    }

    /// One of a real server that is reached at this address.
    pub(super) fn at(number: u128, url: &str, policy: RestartGuard) -> Self {
        let info = redis::IntoConnectionInfo::into_connection_info(url).unwrap();
        let marking = Marking::new(guarding(policy), "", 1, TTL);
        let node = RedisNode::new(url.into(), &info, TTL, marking).unwrap();
        Self::of(number, Arc::new(node), None)
    }

    fn of(number: u128, node: Arc<dyn Node>, link: Option<MemoryLink>) -> Self {
        let (sender, told) = mpsc::unbounded_channel();
        let ear = Ear {
            told: sender,
            node: OnceLock::from(Arc::downgrade(&node)),
        };
        node.start(Context {
            node: 0,
            observer: Arc::new(ear),
            clock: Arc::new(Clock::start()),
            entropy: Arc::new(Entropy::seeded(7)),
            identities: Arc::new(Mutex::new(Identities::new(1))),
            founders: Arc::new(Founders::new(1)),
        });
        Self {
            node,
            number,
            told,
            silent: false,
            link,
        }
    }

    pub(super) async fn asks(&self, command: Command) -> Vote {
        self.vote(KEY, command, false).await
    }

    pub(super) async fn watches(&self, command: Command) -> Vote {
        self.vote(KEY, command, true).await
    }

    async fn vote(&self, key: &str, command: Command, watches: bool) -> Vote {
        self.tries(key, command, watches).await.unwrap()
    }

    /// The vote, unless the request is not even taken.
    pub(super) async fn tries(
        &self,
        key: &str,
        command: Command,
        watches: bool,
    ) -> Result<Vote, Unsent> {
        let (sender, vote) = oneshot::channel();
        let voted = move |vote| sender.send(vote).unwrap();
        self.submit(key, command, watches, voted)?;
        Ok(tokio::time::timeout(PATIENCE, vote).await.unwrap().unwrap())
    }

    pub(super) fn submit(
        &self,
        key: &str,
        command: Command,
        watches: bool,
        voted: impl FnOnce(Vote) + Send + 'static,
    ) -> Result<(), Unsent> {
        let attempt = Arc::new(Attempt {
            keys: [key.into()],
            token: Token::from_bits(self.number),
            watches,
            voted: Mutex::new(Some(Box::new(voted))),
        });
        self.node.submit(Request::new(attempt, 0, command))
    }

    /// What it is told next must be this.
    pub(super) async fn hears(&mut self, expected: &Told) {
        let next = async {
            loop {
                let told = self.told.recv().await;
                if !told.as_ref().is_some_and(|told| self.is_no_news(told)) {
                    return told;
                }
            }
        };
        let told = tokio::time::timeout(PATIENCE, next).await;
        assert_eq!(told.unwrap().as_ref(), Some(expected));
    }

    /// On a busy machine the breaker may open, and close with the next reply.
    fn is_no_news(&mut self, told: &Told) -> bool {
        match told {
            Told::Link(Link::ReleasesOnly(Unsent::BreakerOpen), _) => {
                self.silent = true;
                true
            }
            Told::Link(Link::Up, _) => std::mem::take(&mut self.silent),
            Told::Link(..) => {
                self.silent = false;
                false
            }
            Told::Touched(_) => false,
        }
    }

    pub(super) async fn hears_of_the_key(&mut self) {
        self.hears(&Told::Touched(Some(KEY.into()))).await;
    }

    /// Nothing more was told: it would have come ahead of a reply that was asked for later.
    pub(super) async fn hears_nothing(&mut self) {
        self.vote(ANOTHER, Command::Release, false).await;
        while let Ok(told) = self.told.try_recv() {
            assert!(self.is_no_news(&told), "{told:?}");
        }
    }

    /// Its connection ends, and not by its own doing.
    pub(super) fn cut_off(&self, master: &Master) {
        match (master, &self.link) {
            (Master::Real(server), _) => {
                let kill = ["CLIENT", "KILL", "TYPE", "normal"];
                server.command(&kill).unwrap();
            }
            (Master::Memory(_), Some(link)) => link.cut(CutFate::Executed),
            (Master::Memory(_), None) => unreachable!(),
        }
    }
}
