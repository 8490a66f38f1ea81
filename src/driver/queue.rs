//! Who waits for what in this process: for each resource a line, first in, first out.
//!
//! Only the head of a line is on the wire, and only while nobody in this process holds the resource:
//! a holder's end is what wakes it, so its acquire goes out right behind the release. Other processes
//! get their chance too: after a row of grants in this one the head keeps off for a moment.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::cell::Cell;
use super::turns::{Ended, Turns};
use crate::clock::Clock;
use crate::quorum::bug;
use crate::quorum::hold::Hold;

/// All lines of one client.
#[derive(Debug)]
pub(crate) struct Queue {
    clock: Arc<Clock>,
    nodes: usize,
    // A std mutex: nothing is awaited under it, and nobody called.
    lines: Mutex<Lines>,
    /// How many lines there are. In one order with the end of a hold, which looks here: whoever writes
    /// down a hold sees its end, or the end sees the line.
    len: AtomicUsize,
    tickets: AtomicU64,
}

#[derive(Debug, Default)]
struct Lines {
    by_key: BTreeMap<Box<str>, Line>,
    ended: Ended,
}

/// Who waits for one resource, and who holds it; gone when nobody does either.
#[derive(Debug, Default)]
struct Line {
    /// By their numbers, which they got in the order in which they came.
    waiting: BTreeMap<u64, Arc<Ticket>>,
    /// The lock that this process holds.
    holder: Option<u64>,
    turns: Turns,
}

/// A waiter's place, in the lines of all its resources.
#[derive(Debug)]
struct Ticket {
    number: u64,
    keys: Arc<[Box<str>]>,
    /// It may be its turn, or there is news.
    changed: Notify,
    /// For each node the keys that may have changed there, one bit each.
    touched: Box<[AtomicU64]>,
}

impl Ticket {
    /// News of this key, or of all, from these nodes, one bit each.
    fn touch(&self, nodes: u32, key: Option<&str>) {
        let place = |key: &str| self.keys.binary_search_by(|one| (**one).cmp(key)).ok();
        // A single key is as good as all.
        let place = key.filter(|_| self.keys.len() > 1).and_then(place);
        let place = place.and_then(|place| u32::try_from(place).ok());
        let bit = place.and_then(|place| 1_u64.checked_shl(place));
        for (node, touched) in self.touched.iter().enumerate() {
            if nodes & (1 << node) != 0 {
                touched.fetch_or(bit.unwrap_or(u64::MAX), Ordering::AcqRel);
            }
        }
        self.changed.notify_one();
    }
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Others are before us.
    Queued,
    /// Nobody is before us but a holder in this process.
    Behind,
    /// Ours, after this gap.
    Ours { gap: Duration },
}

impl Queue {
    pub(crate) fn new(clock: Arc<Clock>, nodes: usize) -> Self {
        Self {
            clock,
            nodes,
            lines: Mutex::default(),
            len: AtomicUsize::new(0),
            tickets: AtomicU64::new(0),
        }
    }

    /// Gets in line for all of these keys at once: so of two sets that share a key one is before the
    /// other, in all lines.
    pub(crate) fn join(self: &Arc<Self>, keys: &Arc<[Box<str>]>) -> Place {
        let mut lines = self.lines();
        let ticket = Arc::new(Ticket {
            number: self
                .tickets
                .fetch_add(1, Ordering::Relaxed)
                .saturating_add(1),
            changed: Notify::new(),
            keys: Arc::clone(keys),
            touched: (0..self.nodes).map(|_node| AtomicU64::new(0)).collect(),
        });
        let in_all = if bug!(SetInOneLine) { 1 } else { keys.len() };
        for key in keys.iter().take(in_all) {
            let line = lines.line(key, &self.clock);
            line.waiting.insert(ticket.number, Arc::clone(&ticket));
        }
        self.len.store(lines.by_key.len(), Ordering::SeqCst);
        drop(lines);
        Place {
            queue: Arc::clone(self),
            ticket,
            queued: true,
        }
    }

    /// A lock is held from here on, until [`Queue::on_ended`].
    pub(crate) fn hold(&self, cell: &Cell) {
        let mut lines = self.lines();
        for key in cell.keys() {
            lines.line(key, &self.clock).holder = Some(cell.id());
        }
        self.len.store(lines.by_key.len(), Ordering::SeqCst);
        drop(lines);
        self.on_held(cell);
    }

    fn on_held(&self, cell: &Cell) {
        if cell.has_ended() || cell.peek(Hold::is_over) {
            // It did not last until it was written down.
            self.on_ended(cell, 0);
        }
    }

    /// An attempt or a hold of this process has ended, and what it had on these nodes, one bit each,
    /// is being removed. The nodes do not tell us of that: it is our own doing. (None are named when
    /// a hold is over, and its keys stay for as long as its guard or their ttl lasts.)
    pub(crate) fn on_ended(&self, cell: &Cell, nodes: u32) {
        if self.is_empty() {
            return;
        }
        let mut lines = self.lines();
        for key in cell.keys() {
            let Some(line) = lines.by_key.get_mut(key) else {
                continue;
            };
            if line.holder == Some(cell.id()) {
                line.holder = None;
            } else if nodes == 0 {
                continue;
            }
            if !bug!(HeadNotWoken) {
                line.tell(nodes, Some(key), cell.ticket());
            }
            lines.end_if_idle(key, &self.clock);
        }
        self.len.store(lines.by_key.len(), Ordering::SeqCst);
    }

    /// A node tells that a key has changed; `None`: that all may have.
    pub(crate) fn on_touched(&self, node: usize, key: Option<&str>) {
        if self.is_empty() {
            return;
        }
        let bit = u32::try_from(node)
            .ok()
            .and_then(|node| 1_u32.checked_shl(node));
        let bit = bit.unwrap_or(0);
        let lines = self.lines();
        match key {
            Some(key) => {
                if let Some(line) = lines.by_key.get(key) {
                    line.tell(bit, Some(key), None);
                }
            }
            None => {
                let lines = lines.by_key.values();
                lines.for_each(|line| line.tell(bit, None, None));
            }
        }
    }

    /// Nobody waits, and nobody holds anything that others might wait for.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many resources there are that somebody waits for or holds.
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::SeqCst)
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lines {
    /// The line of this key, from now on if there was none.
    fn line(&mut self, key: &str, clock: &Clock) -> &mut Line {
        let ended = &mut self.ended;
        self.by_key.entry(key.into()).or_insert_with(|| Line {
            turns: ended.take(key, clock.now()),
            ..Line::default()
        })
    }

    fn end_if_idle(&mut self, key: &str, clock: &Clock) {
        if self.by_key.get(key).is_some_and(Line::is_idle)
            && !bug!(LineKept)
            && let Some((key, line)) = self.by_key.remove_entry(key)
        {
            self.ended.put(key, line.turns, clock.now());
        }
    }
}

impl Line {
    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.holder.is_none()
    }

    /// Whoever is next is called, in case it was the head that leaves.
    fn leave(&mut self, ticket: &Ticket) {
        self.waiting.remove(&ticket.number);
        if !bug!(NextNotCalled) {
            self.tell(0, None, None);
        }
    }

    fn head(&self) -> Option<&Arc<Ticket>> {
        let head = if bug!(LastInFirstOut) {
            self.waiting.last_key_value()
        } else {
            self.waiting.first_key_value()
        };
        head.map(|(_, ticket)| ticket)
    }

    /// News for the head, unless it is its own doing.
    fn tell(&self, nodes: u32, key: Option<&str>, by: Option<u64>) {
        if let Some(head) = self.head()
            && by != Some(head.number)
        {
            head.touch(nodes, key);
        }
    }
}

/// A waiter's place in the lines; dropping it leaves them.
#[derive(Debug)]
pub(crate) struct Place {
    queue: Arc<Queue>,
    ticket: Arc<Ticket>,
    queued: bool,
}

impl Place {
    /// Goes with the attempts that are made from this place.
    pub(crate) fn ticket(&self) -> u64 {
        self.ticket.number
    }

    pub(crate) fn turn(&self) -> Turn {
        let lines = self.queue.lines();
        let mut turn = Turn::Ours {
            gap: Duration::ZERO,
        };
        for key in self.ticket.keys.iter() {
            let Some(line) = lines.by_key.get(key) else {
                continue;
            };
            let is_head = |head: &Arc<Ticket>| Arc::ptr_eq(head, &self.ticket);
            if !line.head().is_some_and(is_head) {
                return Turn::Queued;
            }
            turn = match turn {
                Turn::Ours { gap } if line.holder.is_none() => Turn::Ours {
                    gap: gap.max(line.turns.gap()),
                },
                Turn::Ours { .. } | Turn::Behind | Turn::Queued => Turn::Behind,
            };
        }
        turn
    }

    /// Waits until the turn may have changed, or until there is news.
    pub(crate) async fn changed(&self) {
        self.ticket.changed.notified().await;
    }

    /// The nodes where keys may have changed since the last call, and which keys, one bit each.
    pub(crate) fn touched(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let nodes = self.ticket.touched.iter().enumerate();
        let touched = nodes.map(|(node, keys)| (node, keys.swap(0, Ordering::AcqRel)));
        touched.filter(|&(_, keys)| keys != 0)
    }

    /// An attempt from this place has failed: others were in the way. `gap`: what it kept off for.
    pub(crate) fn lost(&self, gap: Duration) {
        let mut lines = self.queue.lines();
        for key in self.ticket.keys.iter() {
            if let Some(line) = lines.by_key.get_mut(key) {
                line.turns.on_lost(!gap.is_zero());
            }
        }
    }

    /// An attempt from this place has won, in a round that took so long.
    pub(crate) fn won(mut self, cell: &Cell, gap: Duration, trip: Duration) {
        let now = self.queue.clock.now();
        let mut lines = self.queue.lines();
        for key in self.ticket.keys.iter() {
            if let Some(line) = lines.by_key.get_mut(key) {
                line.turns.on_won(!gap.is_zero(), trip, now);
                // At one moment: nobody gets between the waiter and the holder.
                line.holder = Some(cell.id());
                line.leave(&self.ticket);
            }
        }
        drop(lines);
        self.queued = false;
        self.queue.on_held(cell);
    }

    fn leave(&mut self) {
        if !std::mem::replace(&mut self.queued, false) {
            return;
        }
        let mut lines = self.queue.lines();
        for key in self.ticket.keys.iter() {
            if let Some(line) = lines.by_key.get_mut(key) {
                line.leave(&self.ticket);
                lines.end_if_idle(key, &self.queue.clock);
            }
        }
        self.queue.len.store(lines.by_key.len(), Ordering::SeqCst);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !bug!(PlaceKept) {
            self.leave();
        }
    }
}
