//! One lock attempt on its way through the world.

mod post;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use self::post::Post;
use super::claims::Claims;
use super::engine::Engine;
use crate::node::{Caller, Link};
use crate::quorum::bug;
use crate::quorum::hold::{Command, Hold, LossCause, Outbox, Reply, Terms};
use crate::quorum::ledger::News;
use crate::quorum::tally::Tally;
use crate::quorum::validity::Moment;
use crate::quorum::vote::Unsent;
use crate::quorum::waiting::InWay;
use crate::token::Token;

/// What the nodes know an attempt by.
pub(crate) struct Mark {
    /// One key, or those of a set, sorted.
    pub(crate) keys: Arc<[Box<str>]>,
    pub(crate) token: Token,
    /// Its acquires watch what they find: see [`Caller::watches`].
    pub(crate) watches: bool,
    /// The place in the queue from which it is made, if from one.
    pub(crate) ticket: Option<u64>,
}

impl Mark {
    pub(crate) fn new(keys: &Arc<[Box<str>]>, token: Token) -> Self {
        Self {
            keys: Arc::clone(keys),
            token,
            watches: false,
            ticket: None,
        }
    }
}

pub(crate) struct Cell {
    id: u64,
    engine: Arc<Engine>,
    mark: Mark,
    // A std mutex: the core never blocks, and nothing is awaited under it.
    state: Mutex<State>,
    /// Of a set: the keys that were in the way, by node, where that is known.
    in_way: Mutex<BTreeMap<usize, Vec<InWay>>>,
    claims: Claims,
    changed: Notify,
    /// One explicit extension at a time.
    pub(crate) extending: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct State {
    hold: Hold,
    /// Where the watchdog has this cell.
    armed: Option<Moment>,
    /// The nodes whose news this cell is told, one bit each.
    told: u32,
    settled: bool,
    /// The engine knows of it.
    begun: bool,
    /// The lines of its resources were told that it is over.
    over: bool,
    /// The latest moment that anybody was shown: nothing is decided before it.
    latest: Moment,
}

impl State {
    fn show(&mut self, now: Moment) -> Moment {
        self.latest = self.latest.max(now);
        self.latest
    }
}

impl Cell {
    /// Makes a hold and feeds it its first input.
    pub(crate) fn start(
        engine: &Arc<Engine>,
        mark: Mark,
        terms: &Terms,
        begin: impl FnOnce(&mut Hold, Moment, &mut dyn Outbox),
    ) -> Arc<Self> {
        let hold = Hold::new(engine.nodes().len(), terms);
        let cell = Arc::new(Self {
            id: engine.next_id(),
            engine: Arc::clone(engine),
            mark,
            state: Mutex::new(State {
                hold,
                armed: None,
                told: 0,
                settled: false,
                begun: false,
                over: false,
                latest: Moment::default(),
            }),
            in_way: Mutex::default(),
            claims: Claims::new(terms.ballot),
            changed: Notify::new(),
            extending: tokio::sync::Mutex::default(),
        });
        cell.feed(begin);
        cell
    }

    pub(crate) const fn id(&self) -> u64 {
        self.id
    }

    pub(crate) const fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    pub(crate) fn token(&self) -> &Token {
        &self.mark.token
    }

    pub(crate) fn keys(&self) -> &[Box<str>] {
        &self.mark.keys
    }

    pub(crate) const fn ticket(&self) -> Option<u64> {
        self.mark.ticket
    }

    /// Of a set: the keys that were in the way at this node, where that is known.
    pub(crate) fn in_way(&self, node: usize) -> Vec<InWay> {
        let in_way = self.in_way.lock().unwrap_or_else(PoisonError::into_inner);
        in_way.get(&node).cloned().unwrap_or_default()
    }

    /// Has its removal begun?
    pub(crate) fn has_ended(&self) -> bool {
        self.claims.has_ended()
    }

    /// Looks at what does not depend on the time.
    pub(crate) fn peek<R>(&self, look: impl FnOnce(&Hold) -> R) -> R {
        look(&self.state().hold)
    }

    /// Looks at the hold without feeding it.
    pub(crate) fn read<R>(&self, look: impl FnOnce(&Hold, Moment) -> R) -> R {
        // The clock is read under the lock: what was decided before is never after "now".
        let mut state = self.state();
        let now = state.show(self.engine.clock().now());
        look(&state.hold, now)
    }

    /// Feeds the hold one input and carries out what follows from it.
    pub(crate) fn feed<R>(
        self: &Arc<Self>,
        input: impl FnOnce(&mut Hold, Moment, &mut dyn Outbox) -> R,
    ) -> R {
        self.feed_and(None, input, |_| {})
    }

    /// `at`: when the clock was looked at for this input, if it was.
    fn feed_and<R>(
        self: &Arc<Self>,
        at: Option<Moment>,
        input: impl FnOnce(&mut Hold, Moment, &mut dyn Outbox) -> R,
        prepare: impl FnOnce(&mut State),
    ) -> R {
        let mut post = Post::of(self);
        let mut state = self.state();
        prepare(&mut state);
        let now = at.unwrap_or_else(|| self.engine.clock().now());
        let now = state.show(now);
        let result = input(&mut state.hold, now, &mut post);
        let news = self.listen(&mut state);
        let ends = state.hold.is_releasing() && self.claims.end();
        let over = state.hold.is_over() && !std::mem::replace(&mut state.over, true);
        let left = ends.then(|| bits(state.hold.possible_holders()));
        let left = left.or_else(|| over.then_some(0));
        self.enlist(&mut state);
        self.arm(&mut state);
        drop(state);
        if let Some(nodes) = left {
            self.engine.queue().on_ended(self, nodes);
        }
        if post.wakes() {
            self.changed.notify_waiters();
        }
        self.engine.on_progress();
        for (node, news) in news {
            self.on_news(node, news);
        }
        result
    }

    /// Waits until `look` finds something. Looks first, and again after every change.
    pub(crate) async fn wait<R>(
        self: &Arc<Self>,
        mut look: impl FnMut(&Arc<Self>) -> Option<R>,
    ) -> R {
        let mut changed = std::pin::pin!(self.changed.notified());
        loop {
            changed.as_mut().enable();
            if let Some(found) = look(self) {
                return found;
            }
            changed.as_mut().await;
            changed.set(self.changed.notified());
        }
    }

    /// Ends the attempt or the hold and sees to it that nothing is left. Never blocks.
    pub(crate) fn release(self: &Arc<Self>, cause: LossCause) {
        if self.peek(Hold::is_releasing) {
            return;
        }
        self.feed(|hold, now, outbox| hold.release(cause, now, outbox));
    }

    pub(crate) fn on_news(self: &Arc<Self>, node: usize, news: News) {
        self.feed(|hold, now, outbox| hold.on_news(node, news, now, outbox));
    }

    pub(crate) fn on_timer(self: &Arc<Self>, at: Moment) {
        self.feed_and(None, Hold::on_deadline, |state| {
            if state.armed == Some(at) {
                state.armed = None;
            }
        });
    }

    pub(crate) fn tally(&self) -> Tally {
        let state = self.state();
        let round = state.hold.round();
        Tally::new(self.engine.names(), round.votes(), round.quorum())
    }

    /// Signs up for the news of the nodes that the ledger waits for, and off from the others.
    /// Returns what these nodes would have told already.
    fn listen(self: &Arc<Self>, state: &mut State) -> Vec<(usize, News)> {
        let mut missed = Vec::new();
        if !state.hold.needs_any_news() && state.told == 0 {
            return missed;
        }
        for node in 0..self.engine.nodes().len() {
            let (needs, told) = (state.hold.needs_news(node), state.told & (1 << node) != 0);
            if needs && !told {
                state.told |= 1 << node;
                self.engine.tell(node, self);
                let standing = self.engine.standing(node);
                missed.extend(
                    standing
                        .finished
                        .map(|through| (node, News::Finished(through))),
                );
                if standing.link.is_connected() {
                    missed.push((node, News::Up));
                } else if standing.link == Link::Down(Unsent::Closed) {
                    missed.push((node, News::Gone));
                }
            } else if told && !needs {
                state.told &= !(1 << node);
                self.engine.tell_no_more(node, self.id);
            }
        }
        missed
    }

    /// Sees to it that the engine knows of this cell from its first input until it has settled. Under
    /// the mutex: nobody finds a cell whose hold has not begun.
    fn enlist(self: &Arc<Self>, state: &mut State) {
        let begun = std::mem::replace(&mut state.begun, true);
        let settled = std::mem::replace(&mut state.settled, state.hold.is_settled());
        if !begun && !state.settled {
            self.engine.on_begun(self);
        } else if begun && !settled && state.settled && !bug!(SettledKept) {
            self.engine.on_settled(self.id);
        }
    }

    /// Sees to it that the watchdog wakes this cell in time.
    fn arm(self: &Arc<Self>, state: &mut State) {
        let next = state.hold.next_deadline();
        match (state.armed, next) {
            (Some(at), None) => {
                state.armed = None;
                self.engine.watchdog().disarm(at, self.id);
            }
            (before, Some(next)) if before.is_none_or(|at| next < at) => {
                state.armed = Some(next);
                self.engine.watchdog().arm(before, next, self);
            }
            (None | Some(_), _) => {}
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One bit for each of these nodes.
fn bits(nodes: impl Iterator<Item = usize>) -> u32 {
    nodes.fold(0, |bits, node| bits | 1 << node)
}

impl Caller for Cell {
    fn keys(&self) -> &[Box<str>] {
        &self.mark.keys
    }

    fn token(&self) -> &Token {
        &self.mark.token
    }

    fn watches(&self) -> bool {
        self.mark.watches
    }

    fn claim(&self, node: usize, command: Command) -> bool {
        let is_heal = matches!(command, Command::Heal { .. });
        (!is_heal || self.is_wanted(command)) && self.claims.claim(node, command)
    }

    fn is_wanted(&self, command: Command) -> bool {
        match command {
            // Under the mutex, as what ends it: its release is not written yet, or this is told.
            Command::Acquire { .. } => !self.peek(Hold::is_releasing),
            // By the clock: after a standstill this may run before the watchdog.
            Command::Heal { .. } => self.read(|hold, now| hold.loss(now).is_none()),
            Command::Extend { .. } | Command::Release | Command::Tombstone { .. } => true,
        }
    }

    fn on_blocked(&self, node: usize, in_way: Vec<InWay>) {
        let mut all = self.in_way.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(node, in_way);
    }

    fn on_reply(self: Arc<Self>, node: usize, command: Command, reply: Reply, at: Option<Moment>) {
        if let Some(fence) = reply.vote.fence() {
            self.engine.hints().note_all(&self.mark.keys, fence);
        }
        self.feed_and(
            at,
            |hold, now, outbox| hold.on_reply(node, command, reply, now, outbox),
            |_| {},
        );
    }
}

impl fmt::Debug for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cell")
            .field("id", &self.id)
            .field("keys", &self.mark.keys)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "testkit"))]
mod tests;
