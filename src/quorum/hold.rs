//! One lock's life: `Acquiring -> Held -> Releasing -> Settled`.
//!
//! The inputs are `start`, `on_reply`, `on_news`, `on_deadline`, `abandon`, `release` and `extend`;
//! each takes the present moment and an [`Outbox`]. After any of them [`Hold::next_deadline`] may
//! have changed; `on_deadline` called early, late or twice does what is due and nothing else.

use std::sync::Arc;
use std::time::Duration;

use super::ledger::{Carrier, Ledger, News};
use super::round::{Round, Verdict};
use super::validity::{self, Moment};
use super::vote::{Unsent, Vote};

/// What is asked of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Acquire {
        ttl: Duration,
    },
    /// The number tells one extension of a lock from the next.
    Extend {
        ttl: Duration,
        number: u32,
    },
    Release,
}

/// A node's answer to a command, exactly one for each that was submitted.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) vote: Vote,
    pub(crate) carrier: Carrier,
    pub(crate) error: Option<Arc<str>>,
}

/// Where a hold's effects go. Carried out at once, without calling back.
pub(crate) trait Outbox {
    /// Hands a command to a node, in order. A refusal means it was not and will not be written.
    fn submit(&mut self, node: usize, command: Command) -> Result<(), Unsent>;
    /// What went wrong at a node that has just refused a command, in one line, where it is known.
    fn trouble(&self, _node: usize) -> Option<Arc<str>> {
        None
    }
    /// Takes an acquire or an extension back if it is still unwritten; no reply follows then.
    fn withdraw(&mut self, node: usize, command: Command) -> bool;
    /// Something that callers wait for has changed.
    fn wake(&mut self);
}

/// Why a lock is not held any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossCause {
    /// Its validity ended before it was extended.
    Expired,
    /// Too few nodes still have the key: it was deleted, evicted, or forgotten.
    Gone,
    /// The guard was released.
    Released,
    /// The client was closed.
    Closed,
}

impl std::fmt::Display for LossCause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Expired => "validity ended",
            Self::Gone => "the key is gone from a quorum of nodes",
            Self::Released => "released",
            Self::Closed => "the client was closed",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Acquiring,
    Held,
    /// The removal has begun; until the given moment somebody may be waiting for its report.
    Releasing {
        report_by: Moment,
    },
}

#[derive(Debug)]
struct Extension {
    number: u32,
    round: Round,
    decide_by: Moment,
}

/// How the latest extension ended.
#[derive(Clone, Debug)]
pub(crate) struct Extended {
    pub(crate) number: u32,
    pub(crate) verdict: Verdict,
    pub(crate) quorum: usize,
    pub(crate) votes: Vec<(Option<Vote>, Option<Arc<str>>)>,
}

/// What became of a release, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Removal {
    /// Nodes that may still hold the key.
    pub(crate) remaining: usize,
    /// Nodes that deleted it.
    pub(crate) deleted: usize,
    /// Fewer than a quorum can still hold it.
    pub(crate) confirmed: bool,
    /// The time to wait for more is over.
    pub(crate) timed_out: bool,
}

#[derive(Debug)]
pub(crate) struct Hold {
    phase: Phase,
    round: Round,
    round_timeout: Duration,
    ledger: Ledger,
    valid_until: Moment,
    extension: Option<Extension>,
    extensions: u32,
    extended: Option<Extended>,
    lost: Option<LossCause>,
    deleted: usize,
    timed_out: bool,
}

impl Hold {
    pub(crate) fn new(nodes: usize, ttl: Duration, round_timeout: Duration) -> Self {
        Self {
            phase: Phase::Acquiring,
            round: Round::new(nodes, Moment::default(), ttl),
            round_timeout,
            ledger: Ledger::new(nodes, ttl),
            valid_until: Moment::default(),
            extension: None,
            extensions: 0,
            extended: None,
            lost: None,
            deleted: 0,
            timed_out: false,
        }
    }

    /// Begins the round at `now`, which must have been read just before (law 1).
    pub(crate) fn start(&mut self, now: Moment, outbox: &mut dyn Outbox) {
        let ttl = self.round.ttl();
        self.round.begin(now);
        let mut unsent = Vec::new();
        for node in 0..self.ledger.len() {
            match outbox.submit(node, Command::Acquire { ttl }) {
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

    pub(crate) const fn verdict(&self) -> Option<Verdict> {
        self.round.verdict()
    }

    pub(crate) const fn round(&self) -> &Round {
        &self.round
    }

    pub(crate) const fn valid_until(&self) -> Moment {
        self.valid_until
    }

    pub(crate) fn loss_at(&self) -> Moment {
        validity::loss_at(self.valid_until)
    }

    /// Is the lock lost at `now`, and why? The clock has the last word (law 5).
    pub(crate) fn loss(&self, now: Moment) -> Option<LossCause> {
        self.lost
            .or_else(|| (now >= self.loss_at()).then_some(LossCause::Expired))
    }

    /// Has its removal begun? Nothing ends that.
    pub(crate) const fn is_releasing(&self) -> bool {
        matches!(self.phase, Phase::Releasing { .. })
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.is_releasing() && self.ledger.is_settled()
    }

    pub(crate) fn owed(&self) -> impl Iterator<Item = usize> + '_ {
        self.ledger.owed()
    }

    pub(crate) fn needs_news(&self, node: usize) -> bool {
        self.ledger.needs_news(node)
    }

    pub(crate) fn needs_any_news(&self) -> bool {
        (0..self.ledger.len()).any(|node| self.ledger.needs_news(node))
    }

    pub(crate) fn removal(&self) -> Removal {
        let remaining = self.ledger.possible_holders();
        Removal {
            remaining,
            deleted: self.deleted,
            confirmed: remaining < self.round.quorum(),
            timed_out: self.timed_out,
        }
    }

    pub(crate) const fn extended(&self) -> Option<&Extended> {
        self.extended.as_ref()
    }

    pub(crate) const fn is_extending(&self) -> bool {
        self.extension.is_some()
    }

    /// When `on_deadline` has something to do, unless another input comes first.
    pub(crate) fn next_deadline(&self) -> Option<Moment> {
        let own = match self.phase {
            Phase::Acquiring => Some(self.decide_by()),
            Phase::Held => {
                let extension = self.extension.as_ref().map(|extension| extension.decide_by);
                Some(extension.map_or_else(|| self.loss_at(), |at| at.min(self.loss_at())))
            }
            Phase::Releasing { report_by } => {
                (!self.timed_out && !self.is_settled()).then_some(report_by)
            }
        };
        [own, self.ledger.next_deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    fn decide_by(&self) -> Moment {
        self.round.started_at().after(self.round_timeout)
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
        let confirmed = self.removal().confirmed;
        match command {
            Command::Acquire { .. } => {
                self.ledger.on_acquire_reply(node, vote, carrier);
                let verdict = self.round.on_vote(node, vote, error, now);
                self.on_verdict(verdict, now, outbox);
            }
            Command::Extend { number, .. } => {
                self.ledger.on_extension_reply(node, vote, carrier);
                let current = self
                    .extension
                    .as_mut()
                    .filter(|extension| extension.number == number);
                let verdict =
                    current.and_then(|extension| extension.round.on_vote(node, vote, error, now));
                self.on_extension_verdict(verdict, now, outbox);
            }
            Command::Release => {
                if vote == Vote::Granted {
                    self.deleted = self.deleted.saturating_add(1);
                }
                self.ledger
                    .on_release_reply(node, vote, carrier, now, outbox);
            }
        }
        self.check_loss(now, outbox);
        // Whatever the command was: an acquire's late answer may be what confirms a removal.
        if self.is_releasing() && !confirmed && self.removal().confirmed {
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
            Phase::Acquiring if now >= self.decide_by() => {
                let verdict = self.round.on_timeout(now);
                self.on_verdict(verdict, now, outbox);
            }
            Phase::Releasing { report_by } if now >= report_by && !self.timed_out => {
                self.timed_out = true;
                outbox.wake();
            }
            Phase::Acquiring | Phase::Held | Phase::Releasing { .. } => {}
        }
        let overdue = self
            .extension
            .as_mut()
            .filter(|extension| now >= extension.decide_by);
        let verdict = overdue.and_then(|extension| extension.round.on_timeout(now));
        self.on_extension_verdict(verdict, now, outbox);
        self.check_loss(now, outbox);
        self.ledger.on_deadline(now, outbox);
    }

    /// The caller takes the verdict: the last look at the clock (law 3). A grant that has become
    /// too old is given up and never handed out.
    pub(crate) fn take(&mut self, now: Moment, outbox: &mut dyn Outbox) -> Option<Verdict> {
        let verdict = self.verdict()?;
        let useful = self.loss(now).is_none()
            && validity::is_worth_having(self.valid_until, self.round.ttl(), now);
        if verdict == Verdict::Won && !useful {
            self.end(LossCause::Expired, now, outbox);
            return Some(Verdict::TooLate);
        }
        Some(verdict)
    }

    /// The request or the guard was dropped, or released.
    pub(crate) fn release(&mut self, cause: LossCause, now: Moment, outbox: &mut dyn Outbox) {
        self.check_loss(now, outbox);
        self.end(cause, now, outbox);
    }

    /// Starts an extension and returns its number; `None` if the lock lasts longer anyway. The
    /// caller has seen that the lock is held and that no other extension is in flight.
    pub(crate) fn extend(
        &mut self,
        ttl: Duration,
        now: Moment,
        round_timeout: Duration,
        outbox: &mut dyn Outbox,
    ) -> Option<u32> {
        if validity::valid_until(now, ttl) <= self.valid_until {
            return None;
        }
        self.extensions = self.extensions.wrapping_add(1);
        let number = self.extensions;
        let command = Command::Extend { ttl, number };
        let mut round = Round::new(self.ledger.len(), now, ttl);
        self.ledger.on_extension_sent(ttl);
        let mut verdict = None;
        for node in 0..self.ledger.len() {
            if let Err(reason) = outbox.submit(node, command) {
                let trouble = outbox.trouble(node);
                let decided = round.on_vote(node, Vote::Unsent(reason), trouble, now);
                verdict = verdict.or(decided);
            }
        }
        self.extension = Some(Extension {
            number,
            round,
            decide_by: now.after(round_timeout),
        });
        self.on_extension_verdict(verdict, now, outbox);
        Some(number)
    }

    fn on_verdict(&mut self, verdict: Option<Verdict>, now: Moment, outbox: &mut dyn Outbox) {
        let Some(verdict) = verdict else { return };
        if self.phase != Phase::Acquiring {
            return;
        }
        if verdict == Verdict::Won {
            self.phase = Phase::Held;
            self.valid_until = self.round.valid_until();
            self.withdraw_acquire(now, outbox);
        } else {
            self.end(LossCause::Released, now, outbox);
        }
        outbox.wake();
    }

    fn on_extension_verdict(
        &mut self,
        verdict: Option<Verdict>,
        now: Moment,
        outbox: &mut dyn Outbox,
    ) {
        let Some(verdict) = verdict else { return };
        let Some(mut extension) = self.extension.take() else {
            return;
        };
        let confirmed = matches!(verdict, Verdict::Won | Verdict::TooLate);
        if confirmed && self.phase == Phase::Held && self.loss(now).is_none() {
            self.valid_until = self.valid_until.max(extension.round.valid_until());
        }
        let command = Command::Extend {
            ttl: extension.round.ttl(),
            number: extension.number,
        };
        for node in 0..self.ledger.len() {
            if extension.round.is_pending(node) && outbox.withdraw(node, command) {
                extension
                    .round
                    .on_vote(node, Vote::Unsent(Unsent::Decided), None, now);
            }
        }
        self.extended = Some(Extended {
            number: extension.number,
            // However late: what a quorum confirmed before the loss counts.
            verdict: if confirmed { Verdict::Won } else { verdict },
            quorum: extension.round.quorum(),
            votes: extension.round.votes().collect(),
        });
        outbox.wake();
    }

    /// Law 5: the hold ends at `loss_at`, or when no quorum of nodes can have the key any more.
    fn check_loss(&mut self, now: Moment, outbox: &mut dyn Outbox) {
        if self.phase != Phase::Held {
            return;
        }
        if let Some(cause) = self.loss(now) {
            self.end(cause, now, outbox);
        } else if self.ledger.possible_holders() < self.round.quorum() {
            self.end(LossCause::Gone, now, outbox);
        }
    }

    /// Nothing of this lock is wanted any more: take back what is unwritten, release the rest.
    fn end(&mut self, cause: LossCause, now: Moment, outbox: &mut dyn Outbox) {
        if self.is_releasing() {
            return;
        }
        self.lost = Some(cause);
        self.phase = Phase::Releasing {
            report_by: now.after(self.round_timeout),
        };
        self.withdraw_acquire(now, outbox);
        if let Some(extension) = &mut self.extension {
            // Whatever it still brings, it comes too late; the releases queue behind it.
            let verdict = extension.round.on_timeout(now);
            self.on_extension_verdict(verdict, now, outbox);
        }
        self.ledger.remove(outbox);
        outbox.wake();
    }

    fn withdraw_acquire(&mut self, now: Moment, outbox: &mut dyn Outbox) {
        let command = Command::Acquire {
            ttl: self.round.ttl(),
        };
        for node in 0..self.ledger.len() {
            if self.round.is_pending(node) && outbox.withdraw(node, command) {
                self.ledger.on_acquire_reply(
                    node,
                    Vote::Unsent(Unsent::Decided),
                    Carrier::NotWritten,
                );
                self.round
                    .on_vote(node, Vote::Unsent(Unsent::Decided), None, now);
            }
        }
    }
}
