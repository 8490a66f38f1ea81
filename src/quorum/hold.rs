//! One lock's life: acquiring, held, releasing, settled; after its longest hold it lingers before it
//! is released.
//!
//! The inputs are `start`, `attach`, `on_reply`, `on_news`, `on_deadline` and `take` here, `extend` in
//! [`super::extending`], and `release`, `detach` and `disown` in [`super::ending`]; each takes the
//! present moment and an [`Outbox`]. After any of them [`Hold::next_deadline`] may have changed;
//! `on_deadline` called early, late or twice does what is due and nothing else.

use std::time::Duration;

use super::balloting::Balloting;
pub(crate) use super::command::{Command, Outbox, Reply, Report, Terms};
use super::extending::Extending;
use super::ledger::{Ledger, News};
pub(crate) use super::loss::LossCause;
use super::renewal::Renewing;
use super::round::{Round, Verdict};
use super::validity::{self, Moment};
use super::vote::Vote;

#[cfg(test)]
pub(super) mod outlook;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Acquiring,
    Held,
    /// Lost by `max_hold`: the key stays until the guard goes, or until it has expired.
    Lingering {
        until: Moment,
    },
    /// The removal has begun; until the given moment somebody may be waiting for its report.
    Releasing {
        report_by: Moment,
    },
}

/// How a hold begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// By a new key. If it fails, whatever may be there of it is removed.
    Acquire,
    /// By an extension of a key that somebody else may have set. If it fails, the key is left alone.
    Attach,
}

#[derive(Clone, Debug)]
pub(crate) struct Hold {
    pub(super) phase: Phase,
    pub(super) round: Round,
    pub(super) balloting: Balloting,
    /// When its acquisition is decided at the latest.
    pub(super) decide_by: Moment,
    pub(super) round_timeout: Duration,
    pub(super) ledger: Ledger,
    pub(super) valid_until: Moment,
    pub(super) extending: Extending,
    pub(super) renewing: Renewing,
    pub(super) opening: Opening,
    /// What is there is ours to remove: of a lock that is being attached, once it is handed out.
    pub(super) is_ours: bool,
    pub(super) lost: Option<LossCause>,
    pub(super) deleted: usize,
    pub(super) timed_out: bool,
}

impl Hold {
    pub(crate) fn new(nodes: usize, terms: &Terms) -> Self {
        let Terms {
            ttl,
            round_timeout,
            renewal,
            jitter,
            ballot,
        } = *terms;
        Self {
            phase: Phase::Acquiring,
            round: Round::new(nodes, Moment::default(), ttl),
            balloting: Balloting::new(ballot),
            decide_by: Moment::default(),
            round_timeout,
            ledger: Ledger::new(nodes, ttl),
            valid_until: Moment::default(),
            extending: Extending::new(round_timeout),
            renewing: Renewing::new(renewal, ttl, jitter),
            opening: Opening::Acquire,
            is_ours: true,
            lost: None,
            deleted: 0,
            timed_out: false,
        }
    }

    /// Begins the round at `now`, which must have been read just before (law 1).
    pub(crate) fn start(&mut self, now: Moment, outbox: &mut dyn Outbox) {
        self.decide_by = now.after(self.round_timeout);
        self.round.begin(now);
        self.ask(now, outbox);
    }

    /// Takes over a lock that was detached elsewhere: one extension round, in which any node may
    /// have the key.
    pub(crate) fn attach(&mut self, now: Moment, outbox: &mut dyn Outbox) {
        self.opening = Opening::Attach;
        self.is_ours = bug!(DroppedAttachReleases);
        self.ledger.assume_everywhere();
        self.start(now, outbox);
    }

    /// Makes the round older than it is: a deliberate mistake.
    #[cfg(feature = "testkit")]
    pub(crate) fn backdate(&mut self, started_at: Moment) {
        self.round.begin(started_at);
    }

    pub(crate) const fn verdict(&self) -> Option<Verdict> {
        self.round.verdict()
    }

    pub(crate) const fn round(&self) -> &Round {
        &self.round
    }

    pub(crate) const fn valid_until(&self) -> Moment {
        self.valid_until
    }

    /// The ttl that the nodes were last asked for, and gave.
    pub(crate) const fn ttl(&self) -> Duration {
        self.renewing.ttl()
    }

    /// Is it past the longest time that it may be held?
    pub(crate) const fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Lingering { .. })
    }

    pub(crate) fn needs_news(&self, node: usize) -> bool {
        self.ledger.needs_news(node)
    }

    pub(crate) fn needs_any_news(&self) -> bool {
        (0..self.ledger.len()).any(|node| self.ledger.needs_news(node))
    }

    /// When `on_deadline` has something to do, unless another input comes first.
    pub(crate) fn next_deadline(&self) -> Option<Moment> {
        let own = match self.phase {
            Phase::Acquiring => Some(self.decide_by),
            Phase::Held => {
                let next = self.extending.decide_by().or_else(|| self.renewing.due());
                Some(next.map_or_else(|| self.loss_at(), |at| at.min(self.loss_at())))
            }
            Phase::Lingering { until } => Some(until),
            Phase::Releasing { report_by } => {
                (!self.timed_out && !self.is_settled()).then_some(report_by)
            }
        };
        [own, self.ledger.next_deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    pub(crate) fn on_reply(
        &mut self,
        node: usize,
        command: Command,
        reply: Reply,
        now: Moment,
        outbox: &mut dyn Outbox,
    ) {
        let Reply {
            vote,
            carrier,
            error,
        } = reply;
        let reported = self.has_report();
        match command {
            Command::Acquire { ballot, .. } => {
                self.ledger.on_acquire_reply(node, vote, carrier);
                self.balloting.hear(vote);
                // A vote for an earlier ballot does not count.
                if ballot == self.balloting.current || bug!(FirstBallotCounts) {
                    let is_late = self
                        .verdict()
                        .is_some_and(|verdict| verdict != Verdict::Won);
                    let verdict = self.round.on_vote(node, vote, error, now);
                    self.on_verdict(verdict, now, outbox);
                    if is_late {
                        // Whoever waits hears more about when to try again.
                        outbox.wake();
                    }
                }
            }
            Command::Extend { number: 0, .. } => {
                self.ledger.on_extension_reply(node, vote, carrier);
                let counts = vote.is_contention() && bug!(AttachWithoutProof);
                let vote = if counts { Vote::Granted } else { vote };
                let verdict = self.round.on_vote(node, vote, error, now);
                self.on_verdict(verdict, now, outbox);
            }
            Command::Extend { number, .. } => {
                self.ledger.on_extension_reply(node, vote, carrier);
                self.on_extension_vote(node, number, vote, error, now, outbox);
            }
            Command::Heal { .. } => self.ledger.on_acquire_reply(node, vote, carrier),
            Command::Release | Command::Tombstone { .. } => {
                if vote == Vote::Granted {
                    self.deleted = self.deleted.saturating_add(1);
                }
                self.ledger
                    .on_release_reply(node, vote, carrier, now, outbox);
            }
        }
        self.check_loss(now, outbox);
        // Whatever the command was: an acquire's late answer may be what confirms a removal.
        if self.is_releasing() && !reported && self.has_report() {
            outbox.wake();
        }
    }

    pub(crate) fn on_news(
        &mut self,
        node: usize,
        news: News,
        now: Moment,
        outbox: &mut dyn Outbox,
    ) {
        self.ledger.on_news(node, news, now, outbox);
        if self.is_releasing() {
            outbox.wake();
        }
    }

    pub(crate) fn on_deadline(&mut self, now: Moment, outbox: &mut dyn Outbox) {
        match self.phase {
            Phase::Acquiring if now >= self.decide_by => {
                let verdict = self.round.on_timeout(now);
                self.on_verdict(verdict, now, outbox);
            }
            Phase::Lingering { until } if now >= until => {
                self.end(LossCause::MaxHold, now, outbox);
            }
            Phase::Releasing { report_by } if now >= report_by && !self.timed_out => {
                self.timed_out = true;
                outbox.wake();
            }
            Phase::Acquiring | Phase::Held | Phase::Lingering { .. } | Phase::Releasing { .. } => {}
        }
        self.check_loss(now, outbox);
        self.on_extension_deadline(now, outbox);
        let reported = self.has_report();
        self.ledger.on_deadline(now, outbox);
        if self.is_releasing() && !reported && self.has_report() {
            outbox.wake();
        }
    }

    /// The caller takes the verdict: the last look at the clock (law 3). A grant that has become
    /// too old is given up and never handed out.
    pub(crate) fn take(&mut self, now: Moment, outbox: &mut dyn Outbox) -> Option<Verdict> {
        let verdict = self.verdict()?;
        let useful = self.loss(now).is_none()
            && validity::is_worth_having(self.round.valid_until(), self.round.ttl(), now);
        if verdict == Verdict::Won && !useful && !bug!(NoLastLook) {
            self.end(LossCause::Expired, now, outbox);
            return Some(Verdict::TooLate);
        }
        self.is_ours |= verdict == Verdict::Won;
        Some(verdict)
    }

    pub(super) fn on_verdict(
        &mut self,
        verdict: Option<Verdict>,
        now: Moment,
        outbox: &mut dyn Outbox,
    ) {
        let Some(verdict) = verdict else { return };
        if self.phase != Phase::Acquiring {
            return;
        }
        if verdict == Verdict::Contended && self.ballot_again(now, outbox) {
            return;
        }
        if verdict == Verdict::Won {
            self.phase = Phase::Held;
            let counts_from = if bug!(LeaseClockAfterReply) {
                now
            } else {
                self.round.started_at()
            };
            self.prolong(counts_from, self.round.ttl());
            // A node that is up gets the key a little later: the more nodes have it, the more may be
            // lost. Nothing waits in a queue for a node that is not.
            self.withdraw_opening(now, outbox, |node, outbox| !outbox.is_up(node));
        } else {
            if bug!(NoCleanup) {
                self.ledger.forget();
            }
            self.end(LossCause::Released, now, outbox);
        }
        outbox.wake();
    }
}
