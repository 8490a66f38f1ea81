//! The rounds of an acquisition: one, or with a ballot that turns out too small, two.
//!
//! A fenced attempt whose first ballot cannot win, while a larger one could, is *re-balloted*: a
//! second round with the same token, inside the same time-out, with a ballot above all it has heard
//! of. Votes for the first ballot do not count in it; keys that it won are upgraded.

use super::ballot::{Ballot, FencingToken};
use super::hold::{Command, Hold, Opening, Outbox};
use super::ledger::Carrier;
use super::round::Round;
use super::validity::Moment;
use super::vote::{Unsent, Vote};

#[cfg(test)]
mod outlook;

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
        let current = self.balloting.current?;
        if bug!(TokenFromFencesHeard) {
            let heard = Ballot::new(self.balloting.heard.saturating_add(1), current.memory());
            return Some(heard.token());
        }
        Some(current.token())
    }

    fn opening_command(&self) -> Command {
        let ttl = self.round.ttl();
        match self.opening {
            Opening::Acquire => Command::Acquire {
                ttl,
                ballot: self.balloting.current,
            },
            // Extensions of the hold itself have numbers from 1.
            Opening::Attach => self.extension(ttl, 0),
        }
    }

    /// Asks every node, by the present round, which has begun at `now`.
    pub(super) fn ask(&mut self, now: Moment, outbox: &mut dyn Outbox) {
        self.ledger.on_ballot(self.balloting.current);
        let opening = self.opening_command();
        let mut unsent = Vec::new();
        for node in 0..self.ledger.len() {
            match outbox.submit(node, opening) {
                Ok(()) => match self.opening {
                    Opening::Acquire => self.ledger.on_acquire_sent(node),
                    Opening::Attach => self.ledger.on_extension_sent(node),
                },
                Err(reason) => unsent.push((node, reason, outbox.trouble(node))),
            }
        }
        // All are told before the verdict counts: it takes back what it finds pending.
        let mut verdict = None;
        for (node, reason, trouble) in unsent {
            let vote = Vote::Unsent(reason);
            let decided = self.round.on_vote(node, vote, trouble, now);
            verdict = verdict.or(decided);
        }
        self.on_verdict(verdict, now, outbox);
    }

    /// The round is lost: runs the attempt once more, if a larger ballot could win and time is left.
    pub(super) fn ballot_again(&mut self, now: Moment, outbox: &mut dyn Outbox) -> bool {
        if now >= self.decide_by || !self.round.a_larger_ballot_could_win() {
            return false;
        }
        let Some(next) = self.balloting.next() else {
            return false;
        };
        self.withdraw_opening(now, outbox, |_, _| true);
        self.balloting.current = Some(next);
        self.round = Round::new(self.ledger.len(), now, self.round.ttl());
        self.ask(now, outbox);
        true
    }

    /// Takes back what is unwritten of the present round, from some of the nodes.
    pub(super) fn withdraw_opening(
        &mut self,
        now: Moment,
        outbox: &mut dyn Outbox,
        from: impl Fn(usize, &dyn Outbox) -> bool,
    ) {
        const DECIDED: Vote = Vote::Unsent(Unsent::Decided);
        let opening = self.opening_command();
        for node in 0..self.ledger.len() {
            let wanted = self.round.is_pending(node) && from(node, outbox);
            if wanted && outbox.withdraw(node, opening) {
                match self.opening {
                    Opening::Acquire => {
                        self.ledger
                            .on_acquire_reply(node, DECIDED, Carrier::NotWritten);
                    }
                    Opening::Attach => self.ledger.on_extension_withdrawn(node),
                }
                self.round.on_vote(node, DECIDED, None, now);
            }
        }
    }
}
