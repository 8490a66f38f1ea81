//! How a lock ends, by its holder's will or without it, and what becomes of its keys: law 4.

use std::time::Duration;

use super::hold::{Hold, LossCause, Opening, Outbox, Phase, Report};
use super::validity::Moment;

impl Hold {
    /// The request or the guard was dropped, or released.
    pub(crate) fn release(&mut self, cause: LossCause, now: Moment, outbox: &mut dyn Outbox) {
        self.check_loss(now, outbox);
        self.end(cause, now, outbox);
    }

    /// Lets go of a held lock without releasing it, and returns the ttl that it has; `None` if it
    /// is not held.
    pub(crate) fn detach(&mut self, now: Moment, outbox: &mut dyn Outbox) -> Option<Duration> {
        self.check_loss(now, outbox);
        if self.phase != Phase::Held {
            return None;
        }
        if !bug!(DetachReleases) {
            self.ledger.forget();
        }
        self.end(LossCause::Detached, now, outbox);
        Some(self.renewing.ttl())
    }

    /// Releases a lock that was detached elsewhere.
    pub(crate) fn disown(&mut self, now: Moment, outbox: &mut dyn Outbox) {
        self.opening = Opening::Attach;
        self.valid_until = now;
        self.ledger.on_ballot(self.balloting.current);
        self.ledger.assume_everywhere();
        self.end(LossCause::Released, now, outbox);
    }

    /// Nothing of this lock is wanted any more: take back what is unwritten, release the rest.
    pub(super) fn end(&mut self, cause: LossCause, now: Moment, outbox: &mut dyn Outbox) {
        if self.is_releasing() {
            return;
        }
        if !self.is_ours {
            self.ledger.forget();
        }
        self.lost = self.lost.or(Some(cause));
        self.phase = Phase::Releasing {
            report_by: now.after(self.round_timeout),
        };
        self.withdraw_opening(now, outbox, |_, _| true);
        self.renewing.stop();
        self.abandon_extension(now, outbox);
        self.ledger.remove(outbox);
        #[cfg(feature = "testkit")]
        if bug!(DebtsEndEarly) {
            self.ledger.end_early(now);
        }
        outbox.wake();
    }

    /// Has its removal begun? Nothing ends that.
    pub(crate) const fn is_releasing(&self) -> bool {
        matches!(self.phase, Phase::Releasing { .. })
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.is_releasing() && self.ledger.is_settled()
    }

    /// The nodes that may hold the key, now or later.
    pub(crate) fn possible_holders(&self) -> impl Iterator<Item = usize> + '_ {
        self.ledger.possible_holders()
    }

    /// The nodes where a removal has begun and has not settled.
    pub(crate) fn owed(&self) -> impl Iterator<Item = usize> + '_ {
        self.ledger.owed()
    }

    /// What became of the removal, as far as it is known.
    pub(crate) fn report(&self) -> Report {
        Report {
            deleted: self.deleted,
            confirmed: self.possible_holders().count() < self.round.quorum(),
            timed_out: self.timed_out || self.is_settled(),
        }
    }

    /// Need nobody wait any longer to hear what became of the removal?
    pub(super) fn has_report(&self) -> bool {
        let report = self.report();
        report.confirmed || report.timed_out
    }
}
