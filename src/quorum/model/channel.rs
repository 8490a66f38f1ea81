//! What lies between one attempt and one node: connections, and what is on its way.
//!
//! A connection delivers in order, or breaks. What was written to a broken connection may be
//! executed at any later time, before or after what newer connections bring, until the connection
//! is finished; what was not executed by then never is. Whether a command was written is decided
//! only when it matters: when it is withdrawn, or when its connection breaks.

use std::cell::Cell;
use std::hash::{Hash, Hasher};

use super::super::hold::{Command, Outbox};
use super::super::vote::Unsent;
use super::op::{Answer, Op};
use super::properties::Violation;
use super::rules::{Rule, Withdraw};

/// At most so many commands of one attempt are out on one connection.
const ROOM: usize = 6;

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

    /// Is a command out which may yet set the key, where the node has accepted this ballot?
    pub(super) fn can_still_lock(&self, fence: u8) -> bool {
        let broken = self.broken.iter().flat_map(|broken| broken.requests.iter());
        self.requests
            .iter()
            .chain(broken)
            .any(|op| op.can_lock(fence))
    }

    /// The connection breaks: so many of its commands had been written and not executed.
    pub(super) fn cut(&mut self, written: usize) {
        self.up = false;
        let replies = std::mem::replace(&mut self.replies, Queue::new());
        let requests = std::mem::replace(&mut self.requests, Queue::new());
        for (op, answer) in replies.iter() {
            let was_written = answer != Answer::Unwritten;
            let answer = if was_written { Answer::Broken } else { answer };
            self.replies.push((op, answer));
        }
        let mut left = Queue::new();
        for (place, op) in requests.iter().enumerate() {
            if place < written {
                left.push(op);
                self.replies.push((op, Answer::Broken));
            } else {
                self.replies.push((op, Answer::Unwritten));
            }
        }
        self.broken.push(Broken {
            connection: self.connection,
            requests: left,
        });
    }

    /// The acquire has been sent and its answer has not been delivered.
    fn acquire_is_out(&self) -> bool {
        self.requests.iter().any(Op::is_acquire)
            || self.replies.iter().any(|(op, _)| op.is_acquire())
    }
}

impl Hash for Channel {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u8(u8::from(self.up) | u8::from(self.told) << 1 | self.breaks_left << 2);
        hasher.write_u8(self.connection);
        hasher.write_u8(self.finished);
        for op in self.requests.iter() {
            op.hash(16, hasher);
        }
        for (op, answer) in self.replies.iter() {
            op.hash(32, hasher);
            answer.hash(hasher);
        }
        for broken in &self.broken {
            hasher.write_u8(48);
            hasher.write_u8(broken.connection);
            for op in broken.requests.iter() {
                op.hash(64, hasher);
            }
        }
    }
}

/// Where a hold's effects go: into its channels.
pub(super) struct Wire<'a> {
    pub(super) rule: Rule,
    pub(super) withdraw: Withdraw,
    pub(super) channels: &'a mut [Channel],
    /// The nodes, one bit each, that must not be asked for new locks.
    pub(super) quarantined: u8,
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
        if self.ended && !op.is_release() {
            self.violation = Some(Violation::Recreated);
        }
        if !channel.up {
            return Err(Unsent::NotConnected);
        }
        if self.quarantined & (1 << node) != 0 && op.is_acquire() {
            return Err(Unsent::Quarantined);
        }
        let weakened = |rule| self.rule == rule && op.is_release();
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
        if !self.channels[node].requests.iter().any(Op::is_acquire) {
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
