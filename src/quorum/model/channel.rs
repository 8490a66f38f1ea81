//! What lies between one attempt and one node: connections, and what is on its way.
//!
//! A connection delivers in order, or breaks. What was written to a broken connection may be
//! executed at any later time, before or after what newer connections bring, until the connection
//! is finished; what was not executed by then never is. Whether a command was written is decided
//! only when it matters: when it is withdrawn, or when its connection breaks.

use std::cell::Cell;
use std::fmt;
use std::hash::{Hash, Hasher};

use super::super::hold::{Command, Outbox, Reply};
use super::super::ledger::{Carrier, ConnectionId};
use super::super::vote::{Refusal, Unsent, Vote};
use super::TTL;
use super::properties::Violation;
use super::rules::{Rule, Withdraw};

const NOT_OURS: Vote = Vote::Held {
    ttl: None,
    fence: None,
};
const REFUSED: Vote = Vote::Refused(Refusal::ReadOnly);

/// At most so many commands of one attempt are out on one connection.
const ROOM: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Op {
    Acquire,
    Extend(u32),
    Heal,
    Release,
}

impl Op {
    pub(super) const fn command(self) -> Command {
        match self {
            Self::Acquire => Command::Acquire {
                ttl: TTL,
                ballot: None,
            },
            Self::Extend(number) => Command::Extend {
                ttl: TTL,
                number,
                ballot: None,
            },
            Self::Heal => Command::Heal {
                ttl: TTL,
                ballot: None,
            },
            Self::Release => Command::Release,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Extend(_) => "extension",
            Self::Heal => "heal",
            Self::Release => "release",
        }
    }
}

impl From<Command> for Op {
    fn from(command: Command) -> Self {
        match command {
            Command::Acquire { .. } => Self::Acquire,
            Command::Extend { number, .. } => Self::Extend(number),
            Command::Heal { .. } => Self::Heal,
            // The model's locks are plain.
            Command::Release | Command::Tombstone { .. } => Self::Release,
        }
    }
}

/// What a client will hear of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Granted,
    NotOurs,
    Refused,
    /// It was written, and its connection broke.
    Broken,
    Unwritten,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Granted => "granted",
            Self::NotOurs => "another key or none",
            Self::Refused => "refused",
            Self::Broken => "connection broken",
            Self::Unwritten => "never written",
        })
    }
}

impl Answer {
    pub(super) fn reply(self, connection: u8) -> Reply {
        let connection = ConnectionId(connection.into());
        let (vote, carrier) = match self {
            Self::Granted => (Vote::Granted, Carrier::Answered(connection)),
            Self::NotOurs => (NOT_OURS, Carrier::Answered(connection)),
            Self::Refused => (REFUSED, Carrier::Answered(connection)),
            Self::Broken => (Vote::Unknown, Carrier::Broken(connection)),
            Self::Unwritten => (Vote::Unsent(Unsent::NotConnected), Carrier::NotWritten),
        };
        Reply {
            vote,
            carrier,
            error: None,
        }
    }
}

/// First in, first out, without allocation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue<T>([Option<T>; ROOM]);

impl<T: Copy> Queue<T> {
    pub(super) const fn new() -> Self {
        Self([None; ROOM])
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = T> + '_ {
        self.0.iter().copied().flatten()
    }

    pub(super) fn front(&self) -> Option<T> {
        self.0[0]
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0[0].is_none()
    }

    pub(super) fn push(&mut self, item: T) {
        let free = self.0.iter_mut().find(|place| place.is_none());
        *free.expect("a command sent twice") = Some(item);
    }

    pub(super) fn push_front(&mut self, item: T) {
        self.0.rotate_right(1);
        assert!(self.0[0].replace(item).is_none(), "a command sent twice");
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        let front = self.0[0].take();
        self.0.rotate_left(1);
        front
    }

    fn remove(&mut self, unwanted: impl Fn(T) -> bool) -> bool {
        let before = *self;
        *self = Self::new();
        let mut found = false;
        for item in before.iter() {
            if unwanted(item) {
                found = true;
            } else {
                self.push(item);
            }
        }
        found
    }
}

/// A broken connection that is not finished.
#[derive(Clone, Debug)]
pub(super) struct Broken {
    pub(super) connection: u8,
    pub(super) requests: Queue<Op>,
}

#[derive(Clone, Debug)]
pub(super) struct Channel {
    pub(super) up: bool,
    /// The present connection, or the last one.
    pub(super) connection: u8,
    /// Connections up to this one are finished.
    pub(super) finished: u8,
    /// Is the attempt told this node's news?
    pub(super) told: bool,
    /// Not executed.
    pub(super) requests: Queue<Op>,
    /// Answered, and not delivered.
    pub(super) replies: Queue<(Op, Answer)>,
    pub(super) broken: Vec<Broken>,
    pub(super) breaks_left: u8,
}

impl Channel {
    pub(super) const fn new(breaks_left: u8) -> Self {
        Self {
            up: true,
            connection: 1,
            finished: 0,
            told: false,
            requests: Queue::new(),
            replies: Queue::new(),
            broken: Vec::new(),
            breaks_left,
        }
    }

    /// From here on this channel delivers everything in order.
    pub(super) const fn is_reliable(&self) -> bool {
        self.breaks_left == 0 && self.up && self.broken.is_empty()
    }

    /// Is a command out which may yet set the key? (An extension sets none.)
    pub(super) fn can_still_lock(&self) -> bool {
        let broken = self.broken.iter().flat_map(|broken| broken.requests.iter());
        self.requests
            .iter()
            .chain(broken)
            .any(|op| matches!(op, Op::Acquire | Op::Heal))
    }

    /// The acquire has been sent and its answer has not been delivered.
    fn acquire_is_out(&self) -> bool {
        self.requests.iter().any(|op| op == Op::Acquire)
            || self.replies.iter().any(|(op, _)| op == Op::Acquire)
    }
}

impl Hash for Channel {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u8(u8::from(self.up) | u8::from(self.told) << 1 | self.breaks_left << 2);
        hasher.write_u8(self.connection);
        hasher.write_u8(self.finished);
        for op in self.requests.iter() {
            hash_op(op, 16, hasher);
        }
        for (op, answer) in self.replies.iter() {
            hash_op(op, 32, hasher);
            hasher.write_u8(answer as u8);
        }
        for broken in &self.broken {
            hasher.write_u8(48);
            hasher.write_u8(broken.connection);
            for op in broken.requests.iter() {
                hash_op(op, 64, hasher);
            }
        }
    }
}

fn hash_op(op: Op, place: u8, hasher: &mut impl Hasher) {
    match op {
        Op::Acquire => hasher.write_u8(place),
        Op::Extend(number) => {
            hasher.write_u8(place + 1);
            hasher.write_u32(number);
        }
        Op::Heal => hasher.write_u8(place + 2),
        Op::Release => hasher.write_u8(place + 3),
    }
}

/// Where a hold's effects go: into its channels.
pub(super) struct Wire<'a> {
    pub(super) rule: Rule,
    pub(super) withdraw: Withdraw,
    pub(super) channels: &'a mut [Channel],
    /// The attempt had ended before this input.
    pub(super) ended: bool,
    /// The nodes, one bit each, whose commands turn out to be unwritten if they are withdrawn.
    pub(super) unwritten: u8,
    /// The nodes where that was asked.
    pub(super) asked: Cell<u8>,
    /// Releases that a weakened rule keeps back and takes for answered.
    pub(super) kept_back: u8,
    pub(super) violation: Option<Violation>,
}

impl Wire<'_> {
    fn is_found_unwritten(&self, node: usize) -> bool {
        self.asked.set(self.asked.get() | 1 << node);
        self.unwritten & (1 << node) != 0
    }
}

impl Outbox for Wire<'_> {
    fn submit(&mut self, node: usize, command: Command) -> Result<(), Unsent> {
        let channel = &mut self.channels[node];
        let op = Op::from(command);
        if self.ended && op != Op::Release {
            self.violation = Some(Violation::Recreated);
        }
        if !channel.up {
            return Err(Unsent::NotConnected);
        }
        let weakened = |rule| self.rule == rule && op == Op::Release;
        if weakened(Rule::PendingIsNotReleased) && channel.acquire_is_out() {
            self.kept_back |= 1 << node;
        } else if weakened(Rule::ReleaseOvertakes) {
            channel.requests.push_front(op);
        } else {
            channel.requests.push(op);
        }
        Ok(())
    }

    fn withdraw(&mut self, node: usize, command: Command) -> bool {
        let op = Op::from(command);
        if !self.channels[node].requests.iter().any(|other| other == op) {
            return false;
        }
        let unwritten = match self.withdraw {
            Withdraw::Never => false,
            Withdraw::Always => true,
            Withdraw::Either => self.is_found_unwritten(node),
        };
        unwritten && self.channels[node].requests.remove(|other| other == op)
    }

    /// Down, if its acquire is found unwritten: that waits for the first handshake then.
    fn is_up(&self, node: usize) -> bool {
        if !self.channels[node]
            .requests
            .iter()
            .any(|op| op == Op::Acquire)
        {
            return true;
        }
        match self.withdraw {
            Withdraw::Never => true,
            Withdraw::Always => false,
            Withdraw::Either => !self.is_found_unwritten(node),
        }
    }

    fn wake(&mut self) {}
}
