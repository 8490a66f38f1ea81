//! The rounds of an acquisition: one, or with a ballot that turns out too small, two.
//!
//! A fenced attempt whose first ballot cannot win, while a larger one could, is *re-balloted*: a
//! second round with the same token, inside the same time-out, with a ballot above all it has heard
//! of. Votes for the first ballot do not count in it; keys that it won are upgraded.

use super::ballot::{Ballot, FencingToken};
use super::hold::{Command, Hold, Outbox};
use super::ledger::Carrier;
use super::round::Round;
use super::validity::Moment;
use super::vote::{Unsent, Vote};

#[derive(Clone, Copy, Debug)]
pub(super) struct Balloting {
    /// The ballot of the present round; `None`: the attempt is not fenced.
    pub(super) current: Option<Ballot>,
    /// The largest that a node has told of.
    heard: u64,
    again: bool,
}

impl Balloting {
    pub(super) const fn new(first: Option<Ballot>) -> Self {
        Self {
            current: first,
            heard: 0,
            again: false,
        }
    }

    pub(super) fn hear(&mut self, vote: Vote) {
        self.heard = self.heard.max(vote.fence().unwrap_or(0));
    }

    /// The ballot of a second round, if there may be one.
    fn next(&mut self) -> Option<Ballot> {
        let next = self.current?.above(self.heard);
        (!std::mem::replace(&mut self.again, true)).then_some(next)
    }
}

impl Hold {
    /// What orders this lock among those of its resource, once it is granted.
    pub(crate) fn fencing_token(&self) -> Option<FencingToken> {
        self.balloting.current.map(Ballot::token)
    }

    const fn acquire(&self) -> Command {
        Command::Acquire {
            ttl: self.round.ttl(),
            ballot: self.balloting.current,
        }
    }

    /// Asks every node, by a round that begins at `now`, which was read just before (law 1).
    pub(super) fn begin_round(&mut self, now: Moment, outbox: &mut dyn Outbox) {
        self.round = Round::new(self.ledger.len(), now, self.round.ttl());
        self.ledger.on_ballot(self.balloting.current);
        let acquire = self.acquire();
        let mut unsent = Vec::new();
        for node in 0..self.ledger.len() {
            match outbox.submit(node, acquire) {
                Ok(()) => self.ledger.on_acquire_sent(node),
                Err(reason) => unsent.push((node, reason, outbox.trouble(node))),
            }
        }
        for (node, reason, trouble) in unsent {
            let vote = Vote::Unsent(reason);
            let verdict = self.round.on_vote(node, vote, trouble, now);
            self.on_verdict(verdict, now, outbox);
        }
    }

    /// The round is lost: runs the attempt once more, if a larger ballot could win and time is left.
    pub(super) fn ballot_again(&mut self, now: Moment, outbox: &mut dyn Outbox) -> bool {
        if now >= self.decide_by || !self.round.a_larger_ballot_could_win() {
            return false;
        }
        let Some(next) = self.balloting.next() else {
            return false;
        };
        self.withdraw_acquire(now, outbox);
        self.balloting.current = Some(next);
        self.begin_round(now, outbox);
        true
    }

    /// Takes back what is unwritten of the present round.
    pub(super) fn withdraw_acquire(&mut self, now: Moment, outbox: &mut dyn Outbox) {
        const DECIDED: Vote = Vote::Unsent(Unsent::Decided);
        let acquire = self.acquire();
        for node in 0..self.ledger.len() {
            if self.round.is_pending(node) && outbox.withdraw(node, acquire) {
                self.ledger
                    .on_acquire_reply(node, DECIDED, Carrier::NotWritten);
                self.round.on_vote(node, DECIDED, None, now);
            }
        }
    }
}
