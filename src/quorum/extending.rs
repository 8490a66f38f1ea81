//! Extensions of a held lock, by hand or by renewal, and healing: at most one at a time.
//!
//! An extension is a round of its own, counted from its own start. Once it has found a quorum of
//! nodes with our key, nodes that lack it get it back; that is a debt and never counts. A lost lock
//! is never re-created: heals that are still unwritten when the lock ends are not written.

use std::sync::Arc;
use std::time::Duration;

use super::hold::{Command, Hold, Outbox, Phase};
use super::round::{Round, Verdict};
use super::validity::{self, Moment};
use super::vote::{Unsent, Vote};

#[cfg(test)]
mod outlook;

#[derive(Clone, Debug)]
pub(super) struct Extending {
    current: Option<Extension>,
    /// How long a renewal's round waits for votes: as is right for the ttl that the lock has.
    round_timeout: Duration,
    /// The number of the latest extension.
    number: u32,
    /// The number of the latest that a quorum confirmed, while its nodes may be healed.
    healing: Option<u32>,
    /// Somebody waits for the end of this one.
    by_hand: Option<u32>,
    /// One by hand that follows the present one, ahead of any renewal: the ttl and the time-out.
    next: Option<(Duration, Duration)>,
    ended: Option<Extended>,
    /// Where the latest confirmed extension may still be unwritten.
    late: Vec<(usize, Command)>,
}

#[derive(Clone, Debug)]
struct Extension {
    round: Round,
    round_timeout: Duration,
    decide_by: Moment,
}

/// How the latest extension by hand ended. Renewals may have followed it.
#[derive(Clone, Debug)]
pub(crate) struct Extended {
    pub(crate) number: u32,
    pub(crate) verdict: Verdict,
    pub(crate) quorum: usize,
    pub(crate) votes: Vec<(Option<Vote>, Option<Arc<str>>)>,
}

impl Extending {
    pub(super) const fn new(round_timeout: Duration) -> Self {
        Self {
            current: None,
            round_timeout,
            number: 0,
            healing: None,
            by_hand: None,
            next: None,
            ended: None,
            late: Vec::new(),
        }
    }

    pub(super) fn decide_by(&self) -> Option<Moment> {
        self.current.as_ref().map(|extension| extension.decide_by)
    }
}

impl Hold {
    pub(crate) const fn extended(&self) -> Option<&Extended> {
        self.extending.ended.as_ref()
    }

    pub(crate) const fn is_extending(&self) -> bool {
        self.extending.current.is_some()
    }

    /// Starts an extension by hand, or has it follow the one in flight, and returns its number;
    /// `None` if the lock lasts longer anyway. The caller has seen that the lock is held.
    pub(crate) fn extend(
        &mut self,
        ttl: Duration,
        now: Moment,
        round_timeout: Duration,
        outbox: &mut dyn Outbox,
    ) -> Option<u32> {
        let number = self.extending.number.wrapping_add(1);
        if self.is_extending() {
            self.extending.next = Some((ttl, round_timeout));
            return Some(number);
        }
        if validity::valid_until(now, ttl) <= self.valid_until {
            return None;
        }
        self.extending.by_hand = Some(number);
        Some(self.begin_extension(ttl, round_timeout, now, outbox))
    }

    /// Nobody wants the extension of this number any more; one that has begun goes on.
    pub(crate) fn forgo_extension(&mut self, number: u32) {
        if number == self.extending.number.wrapping_add(1) {
            self.extending.next = None;
        }
    }

    /// What was asked for by hand during the extension that has just ended: it goes before the next
    /// renewal, however soon that is due.
    fn extend_next(&mut self, votes: &Round, now: Moment, outbox: &mut dyn Outbox) {
        let Some((ttl, round_timeout)) = self.extending.next.take() else {
            return;
        };
        self.check_loss(now, outbox);
        if self.phase != Phase::Held {
            return;
        }
        if self.extend(ttl, now, round_timeout, outbox).is_none() {
            // The other one has made it last that long.
            self.extending.number = self.extending.number.wrapping_add(1);
            self.extending.ended = Some(Extended {
                number: self.extending.number,
                verdict: Verdict::Won,
                quorum: votes.quorum(),
                votes: votes.votes().collect(),
            });
        }
    }

    fn begin_extension(
        &mut self,
        ttl: Duration,
        round_timeout: Duration,
        now: Moment,
        outbox: &mut dyn Outbox,
    ) -> u32 {
        self.withdraw_late(outbox);
        let number = self.extending.number.wrapping_add(1);
        self.extending.number = number;
        self.extending.healing = None;
        let mut round = Round::new(self.ledger.len(), now, ttl);
        self.ledger.on_extension_begun(ttl);
        let extend = self.extension(ttl, number);
        let mut verdict = None;
        for node in 0..self.ledger.len() {
            match outbox.submit(node, extend) {
                Ok(()) => self.ledger.on_extension_sent(node),
                Err(reason) => {
                    let trouble = outbox.trouble(node);
                    let decided = round.on_vote(node, Vote::Unsent(reason), trouble, now);
                    verdict = verdict.or(decided);
                }
            }
        }
        self.extending.current = Some(Extension {
            round,
            round_timeout,
            decide_by: now.after(round_timeout),
        });
        self.on_extension_verdict(verdict, now, outbox);
        number
    }

    pub(super) const fn extension(&self, ttl: Duration, number: u32) -> Command {
        Command::Extend {
            ttl,
            number,
            ballot: self.balloting.current,
        }
    }

    pub(super) fn on_extension_vote(
        &mut self,
        node: usize,
        number: u32,
        vote: Vote,
        error: Option<Arc<str>>,
        now: Moment,
        outbox: &mut dyn Outbox,
    ) {
        if number != self.extending.number {
            return;
        }
        let current = self.extending.current.as_mut();
        let verdict = current.and_then(|extension| extension.round.on_vote(node, vote, error, now));
        if bug!(HealBeforeProof) && matches!(vote, Vote::Held { .. }) {
            self.heal(node, outbox);
        }
        self.on_extension_verdict(verdict, now, outbox);
        self.heal_late(node, vote, now, outbox);
    }

    /// Decides an extension whose time is up, and begins a renewal that is due.
    pub(super) fn on_extension_deadline(&mut self, now: Moment, outbox: &mut dyn Outbox) {
        let overdue = self
            .extending
            .current
            .as_mut()
            .filter(|extension| now >= extension.decide_by);
        let verdict = overdue.and_then(|extension| extension.round.on_timeout(now));
        self.on_extension_verdict(verdict, now, outbox);
        let due = self.renewing.due().is_some_and(|due| due <= now);
        if due && self.phase == Phase::Held && !self.is_extending() {
            self.renewing.on_sent();
            let (ttl, round_timeout) = (self.renewing.ttl(), self.extending.round_timeout);
            self.begin_extension(ttl, round_timeout, now, outbox);
        }
    }

    /// The lock ends. Whatever an extension still brings, it comes too late; the releases queue
    /// behind it.
    pub(super) fn abandon_extension(&mut self, now: Moment, outbox: &mut dyn Outbox) {
        let current = self.extending.current.as_mut();
        let verdict = current.and_then(|extension| extension.round.on_timeout(now));
        self.on_extension_verdict(verdict, now, outbox);
        self.withdraw_late(outbox);
        self.extending.healing = None;
    }

    /// Takes back what is still unwritten of an extension that was confirmed without it.
    fn withdraw_late(&mut self, outbox: &mut dyn Outbox) {
        for (node, command) in std::mem::take(&mut self.extending.late) {
            if outbox.withdraw(node, command) {
                self.ledger.on_extension_withdrawn(node);
            }
        }
    }

    fn on_extension_verdict(
        &mut self,
        verdict: Option<Verdict>,
        now: Moment,
        outbox: &mut dyn Outbox,
    ) {
        let Some(verdict) = verdict else { return };
        let Some(current) = self.extending.current.take() else {
            return;
        };
        let mut round = current.round;
        let (number, ttl) = (self.extending.number, round.ttl());
        let confirmed = matches!(verdict, Verdict::Won | Verdict::TooLate);
        if self.phase == Phase::Held && self.loss(now).is_none() {
            if confirmed {
                let counts_from = if bug!(ExtensionClockAfterReply) {
                    now
                } else {
                    round.started_at()
                };
                self.prolong(counts_from, ttl);
                self.extending.round_timeout = current.round_timeout;
                self.extending.healing = Some(number);
                for node in 0..self.ledger.len() {
                    if matches!(round.vote(node), Some(Vote::Held { .. })) {
                        self.heal(node, outbox);
                    }
                }
            } else {
                self.renewing.on_failed(now);
            }
        }
        let command = self.extension(ttl, number);
        for node in 0..self.ledger.len() {
            if !round.is_pending(node) {
                continue;
            }
            if confirmed && outbox.is_up(node) {
                // It is extended a little later, as long as the lock is held.
                self.extending.late.push((node, command));
            } else if outbox.withdraw(node, command) {
                round.on_vote(node, Vote::Unsent(Unsent::Decided), None, now);
                self.ledger.on_extension_withdrawn(node);
            }
        }
        if self.extending.by_hand == Some(number) {
            self.extending.ended = Some(Extended {
                number,
                // However late: what a quorum confirmed before the loss counts.
                verdict: if confirmed { Verdict::Won } else { verdict },
                quorum: round.quorum(),
                votes: round.votes().collect(),
            });
        }
        self.extend_next(&round, now, outbox);
        outbox.wake();
    }

    /// A vote that came after the verdict: the quorum stands, and this node lacks the key.
    fn heal_late(&mut self, node: usize, vote: Vote, now: Moment, outbox: &mut dyn Outbox) {
        let is_held = self.phase == Phase::Held && self.loss(now).is_none();
        let stands = is_held && self.extending.healing == Some(self.extending.number);
        if stands && !self.is_extending() && matches!(vote, Vote::Held { .. }) {
            self.heal(node, outbox);
        }
    }

    fn heal(&mut self, node: usize, outbox: &mut dyn Outbox) {
        let command = Command::Heal {
            ttl: self.renewing.ttl(),
            ballot: self.balloting.current,
        };
        if self.ledger.lacks(node) && outbox.submit(node, command).is_ok() {
            self.ledger.on_acquire_sent(node);
        }
    }
}
