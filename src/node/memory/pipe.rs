//! What travels between a client and a server, and how long it takes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::quorum::backoff::uniform;
use crate::quorum::hold::Command;
use crate::quorum::majority::Seen;
use crate::quorum::trust::amnesia::Ask;
use crate::quorum::trust::marker::Look;
use crate::quorum::validity::Moment;
use crate::quorum::vote::Vote;
use crate::quorum::waiting::InWay;
use crate::token::Entropy;

/// How long messages are on their way in one direction: a fixed part, and a random part that is
/// drawn anew for each. On one connection they never overtake each other.
///
/// Tokio's timers have a granularity of one millisecond: parts of one are rounded up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    fixed: Duration,
    jitter: Duration,
}

impl Latency {
    /// Always the same.
    #[must_use]
    pub const fn fixed(fixed: Duration) -> Self {
        Self {
            fixed,
            jitter: Duration::ZERO,
        }
    }

    /// Up to so much more, uniformly.
    #[must_use]
    pub const fn with_jitter(self, jitter: Duration) -> Self {
        Self { jitter, ..self }
    }

    pub(super) fn draw(self, entropy: &Entropy) -> Duration {
        if self.jitter.is_zero() {
            return self.fixed;
        }
        self.fixed
            .saturating_add(uniform(self.jitter, entropy.jitter()))
    }
}

/// From a client to a server.
#[derive(Debug)]
pub(super) enum Request {
    /// The server's kernel answers this one, the process all others.
    Connect,
    /// Who are you, and who am I to you?
    Introduce,
    KillClient(u64),
    Marker(Ask),
    /// What stands at this key?
    Glance(Box<str>),
    Command {
        command: Command,
        /// Of the lock: one, or those of a set.
        keys: Box<[Box<str>]>,
        token: Box<str>,
        watches: bool,
    },
    Close,
}

/// From a server to a client.
#[derive(Debug)]
pub(super) enum Reply {
    Accepted,
    ConnectionRefused,
    Identity(Identity),
    /// The client is not there any more, or never was.
    Killed,
    KillDenied,
    Marker(Look),
    Seen(Seen),
    /// And which keys of a set are in the way, one bit each.
    Vote(Vote, Option<Arc<str>>, Vec<InWay>),
    /// Not a reply: a watched key has changed, or all may have.
    Touched(Option<Box<str>>),
    Reset,
}

/// What a server says about itself and the connection.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    /// `None` where the client may not know.
    pub(super) run_id: Option<Arc<str>>,
    pub(super) look: Look,
    pub(super) client_id: u64,
    pub(super) is_replica: bool,
    pub(super) is_cluster: bool,
    /// This connection is told when a key changes that it watches.
    pub(super) tells: bool,
}

/// When a message arrives, and which comes first of those that arrive together.
pub(super) type Arrival = (Moment, u64);

/// One direction of a connection: nothing is lost in the middle, nothing overtakes.
#[derive(Debug)]
pub(super) struct Pipe<T> {
    messages: VecDeque<(Arrival, T)>,
    latest: Moment,
}

impl<T> Pipe<T> {
    pub(super) const fn new() -> Self {
        Self {
            messages: VecDeque::new(),
            latest: Moment::from_nanos(0),
        }
    }

    pub(super) fn push(&mut self, message: T, arrives: Moment, number: u64) {
        self.latest = self.latest.max(arrives);
        self.messages.push_back(((self.latest, number), message));
    }

    pub(super) fn next_arrival(&self) -> Option<Arrival> {
        self.messages.front().map(|&(arrival, _)| arrival)
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        self.messages.pop_front().map(|(_, message)| message)
    }

    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(super) fn truncate(&mut self, len: usize) {
        self.messages.truncate(len);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.messages.iter().map(|(_, message)| message)
    }
}
