//! One independent master, as the driver sees it.

pub(crate) mod breaker;
pub(crate) mod gate;
pub(crate) mod glance;
#[cfg(feature = "testkit")]
pub(crate) mod memory;
pub(crate) mod reconnect;
pub(crate) mod redis;
#[cfg(test)]
#[cfg(feature = "testkit")]
mod tests;
pub(crate) mod vigil;

use std::fmt;
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use crate::clock::Clock;
use crate::quorum::hold::{Command, Reply};
use crate::quorum::ledger::{Carrier, ConnectionId, News};
use crate::quorum::trust::Identities;
use crate::quorum::validity::Moment;
use crate::quorum::vote::{Unsent, Vote};
use crate::quorum::waiting::InWay;
use crate::token::{Entropy, Token};

use self::glance::Glimpse;
use self::vigil::Founders;

/// An independent master.
///
/// What is submitted is written in the order of submission and answered exactly once; nobody can
/// cancel it. On one connection, replies come in the order of submission, but for releases and
/// extensions that a server refuses in one form and gets in another: they are overtaken. When a
/// connection ends, the link goes down first, so that nothing is submitted in between; then its
/// unanswered requests are failed in order, then the news is told; then, over a new connection,
/// requests are taken again.
pub(crate) trait Node: Send + Sync + fmt::Debug {
    /// Begins to connect. Called once, inside the runtime that shall drive the node.
    fn start(&self, context: Context);

    /// Hands over a request; never blocks. Acquires and extensions are refused while the node
    /// cannot be expected to answer, releases only without a connection.
    fn submit(&self, request: Request) -> Result<(), Unsent>;

    /// Asks what stands at a key, behind what was submitted before. Never blocks, and changes nothing;
    /// the answer does not come if the connection ends before it.
    fn look(&self, key: &str) -> Result<oneshot::Receiver<Glimpse>, Unsent>;

    /// How things stand now. What an observer was told may be older, never newer.
    fn standing(&self) -> Standing;

    /// The link alone, which is asked for by every attempt.
    fn link(&self) -> Link;

    /// Does the present connection tell when a key changes that an acquire has watched?
    fn tells(&self) -> bool;
}

/// What a node's driver is given by the client it belongs to.
pub(crate) struct Context {
    /// The node's place in the list.
    pub(crate) node: usize,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) clock: Arc<Clock>,
    /// For the jitter of reconnects.
    pub(crate) entropy: Arc<Entropy>,
    pub(crate) identities: Arc<Mutex<Identities>>,
    pub(crate) founders: Arc<Founders>,
}

/// How things stand between us and a node.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    pub(crate) link: Link,
    /// Nothing written to this connection or an earlier one can be executed any more.
    pub(crate) finished: Option<ConnectionId>,
    /// What went wrong last, in one line without secrets.
    pub(crate) error: Option<Arc<str>>,
}

/// Can a node be asked?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// The first handshake is under way: requests wait for it.
    Connecting,
    /// It takes everything.
    Up,
    /// It takes everything but acquires: it may have forgotten what it granted.
    Quarantined {
        /// Is it known how long that lasts? If not, it may be over at any moment.
        decided: bool,
    },
    /// It takes releases only.
    ReleasesOnly(Unsent),
    /// It takes nothing.
    Down(Unsent),
}

impl Link {
    /// Is there a connection that takes releases at least?
    pub(crate) const fn is_connected(self) -> bool {
        match self {
            Self::Up | Self::Quarantined { .. } | Self::ReleasesOnly(_) => true,
            Self::Connecting | Self::Down(_) => false,
        }
    }

    /// May a request with this command be submitted?
    pub(crate) const fn admits(self, command: Command) -> Result<(), Unsent> {
        match (self, command) {
            (Self::Quarantined { .. }, Command::Acquire { .. }) => Err(Unsent::Quarantined),
            (Self::Connecting | Self::Up | Self::Quarantined { .. }, _) => Ok(()),
            (Self::ReleasesOnly(_), command) if command.is_release() => Ok(()),
            (Self::ReleasesOnly(reason) | Self::Down(reason), _) => Err(reason),
        }
    }
}

/// Who is told what happens to a node's connections. Calls must not block.
pub(crate) trait Observer: Send + Sync {
    fn on_news(&self, news: News);
    /// The link has changed.
    fn on_link(&self);
    /// A key that was watched may have changed, and is watched no more; `None`: so may all keys.
    /// A change that this connection made itself is not told, and ends the watch all the same. It may
    /// come ahead of the reply to the acquire that watched.
    fn on_touched(&self, key: Option<&str>);
    /// Does the client hold or wait for any lock?
    fn is_busy(&self) -> bool;
}

/// Who a request belongs to.
pub(crate) trait Caller: Send + Sync {
    /// The keys of its lock: one, or those of a set, sorted.
    fn keys(&self) -> &[Box<str>];
    fn token(&self) -> &Token;
    /// Shall its acquires, where they find somebody else's key, watch it and tell its ttl?
    fn watches(&self) -> bool;
    /// May the command still be written? If so it counts as written from here on.
    fn claim(&self, node: usize, command: Command) -> bool;
    /// Is it still to be done? If what it would set is being removed, it may come too late.
    fn is_wanted(&self, _command: Command) -> bool {
        true
    }
    /// `at`: by when a server's reply had come. One look at the clock serves all that came together.
    fn on_reply(self: Arc<Self>, node: usize, command: Command, reply: Reply, at: Option<Moment>);

    /// Just before a reply: these of its keys are in the way at this node.
    fn on_blocked(&self, _node: usize, _in_way: Vec<InWay>) {}
}

/// One command for one node, with the way back.
pub(crate) struct Request {
    command: Command,
    node: usize,
    caller: Option<Arc<dyn Caller>>,
    written_to: Option<ConnectionId>,
}

impl Request {
    pub(crate) fn new(caller: Arc<dyn Caller>, node: usize, command: Command) -> Self {
        Self {
            command,
            node,
            caller: Some(caller),
            written_to: None,
        }
    }

    pub(crate) const fn command(&self) -> Command {
        self.command
    }

    pub(crate) fn keys(&self) -> &[Box<str>] {
        self.caller.as_ref().map_or(&[], |caller| caller.keys())
    }

    /// Is its lock one of several keys at once?
    pub(crate) fn is_for_set(&self) -> bool {
        self.keys().len() > 1
    }

    /// The key of its lock; the first, if it is for a set.
    pub(crate) fn key(&self) -> &str {
        self.keys().first().map_or("", |key| key)
    }

    pub(crate) fn token(&self) -> &str {
        self.caller
            .as_ref()
            .map_or("", |caller| caller.token().as_str())
    }

    pub(crate) fn watches(&self) -> bool {
        let is_acquire = matches!(self.command, Command::Acquire { .. });
        is_acquire && self.caller.as_ref().is_some_and(|caller| caller.watches())
    }

    /// Asks, just before the write, whether it shall still be written. If not, the request is over
    /// and owes no reply.
    pub(crate) fn claim(mut self, connection: ConnectionId) -> Option<Self> {
        let wanted = self
            .caller
            .as_ref()
            .is_some_and(|caller| caller.claim(self.node, self.command));
        if !wanted {
            if matches!(self.command, Command::Heal { .. }) {
                // Nobody took it back: it is over because its lock is.
                self.reply_unanswered(Unsent::Decided, None);
            }
            self.caller = None;
            return None;
        }
        self.written_to = Some(connection);
        Some(self)
    }

    /// Refuses it at submission: the submitter is told by the return value, not by a reply.
    pub(crate) fn refuse(mut self, reason: Unsent) -> Unsent {
        self.caller = None;
        reason
    }

    /// Just before the answer: these of the keys are in the way; none where it is not known.
    pub(crate) fn blocked(&self, in_way: Vec<InWay>) {
        if let Some(caller) = self.caller.as_ref().filter(|_| !in_way.is_empty()) {
            caller.on_blocked(self.node, in_way);
        }
    }

    /// Asks whether it shall be written once more, in another form: its release may have been
    /// carried out meanwhile.
    pub(crate) fn is_wanted(&self) -> bool {
        let caller = self.caller.as_ref();
        caller.is_some_and(|caller| caller.is_wanted(self.command))
    }

    /// The server's answer, which had come by `at`.
    pub(crate) fn answer(mut self, vote: Vote, error: Option<Arc<str>>, at: Moment) {
        let carrier = self
            .written_to
            .map_or(Carrier::NotWritten, Carrier::Answered);
        let reply = Reply {
            vote,
            carrier,
            error,
        };
        self.reply(reply, Some(at));
    }

    /// There will be no answer: the connection ended, or never began.
    pub(crate) fn fail(mut self, reason: Unsent, error: Option<Arc<str>>) {
        self.reply_unanswered(reason, error);
    }

    fn reply_unanswered(&mut self, reason: Unsent, error: Option<Arc<str>>) {
        let (vote, carrier) = match self.written_to {
            Some(connection) => (Vote::Unknown, Carrier::Broken(connection)),
            None => (Vote::Unsent(reason), Carrier::NotWritten),
        };
        let reply = Reply {
            vote,
            carrier,
            error,
        };
        self.reply(reply, None);
    }

    fn reply(&mut self, reply: Reply, at: Option<Moment>) {
        if let Some(caller) = self.caller.take() {
            caller.on_reply(self.node, self.command, reply, at);
        }
    }
}

/// A request that its driver lost, because the runtime ended, say, is answered all the same.
impl Drop for Request {
    fn drop(&mut self) {
        self.reply_unanswered(Unsent::Closed, None);
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("node", &self.node)
            .field("command", &self.command)
            .finish()
    }
}
