//! What must be true of every history, one property a file.

mod acquire_ends_by_deadline;
mod bought_by_a_quorum;
mod debts_and_memory_bounded;
mod fenced_release_is_final;
mod fresh_tokens;
mod heals_are_earned;
mod lease_is_fresh;
mod leases_travel;
mod line_is_first_in_first_out;
mod loss_not_late;
mod mutual_exclusion;
mod nested_is_free;
mod no_false_loss;
mod no_orphan_after_settling;
mod no_outage_without_faults;
mod no_waiter_left;
mod release_is_honest;
mod release_only_own;
mod sections_end_with_the_lock;
mod serves_after_healing;
mod the_overtaken_learn;
mod tokens_grow;
mod validity_covers_hold;
mod woken_in_time;

#[cfg(test)]
mod story;

use std::fmt;
use std::time::Duration;

use crate::history::{History, Op};

/// A property, with the checker that finds its violations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Invariant {
    AcquireEndsByDeadline,
    BoughtByAQuorum,
    DebtsAndMemoryBounded,
    FencedReleaseIsFinal,
    FreshTokens,
    HealsAreEarned,
    LeaseIsFresh,
    LeasesTravel,
    LineIsFirstInFirstOut,
    LossNotLate,
    MutualExclusion,
    NestedIsFree,
    NoFalseLoss,
    NoOrphanAfterSettling,
    NoOutageWithoutFaults,
    NoWaiterLeft,
    ReleaseIsHonest,
    ReleaseOnlyOwn,
    SectionsEndWithTheLock,
    ServesAfterHealing,
    TheOvertakenLearn,
    TokensGrow,
    ValidityCoversHold,
    WokenInTime,
}

/// A property that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) invariant: Invariant,
    pub(crate) at: Duration,
    /// The requests that have to do with it.
    pub(crate) ops: Vec<Op>,
    /// Tokens and keys that have to do with it.
    pub(crate) words: Vec<String>,
    pub(crate) what: String,
}

impl Violation {
    fn new(invariant: Invariant, at: Duration, what: impl Into<String>) -> Self {
        Self {
            invariant,
            at,
            ops: Vec::new(),
            words: Vec::new(),
            what: what.into(),
        }
    }

    fn of(mut self, ops: &[Op]) -> Self {
        self.ops.extend(ops);
        self
    }

    fn about(mut self, word: &str) -> Self {
        self.words.push(word.to_owned());
        self
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} at {:.3}: {}",
            self.invariant,
            self.at.as_secs_f64(),
            self.what
        )
    }
}

/// A checker: what it finds in a history.
type Checker = fn(&History) -> Vec<Violation>;

const CHECKERS: [Checker; 24] = [
    mutual_exclusion::check,
    validity_covers_hold::check,
    bought_by_a_quorum::check,
    lease_is_fresh::check,
    loss_not_late::check,
    no_false_loss::check,
    release_only_own::check,
    release_is_honest::check,
    fresh_tokens::check,
    acquire_ends_by_deadline::check,
    no_outage_without_faults::check,
    no_orphan_after_settling::check,
    serves_after_healing::check,
    tokens_grow::check,
    the_overtaken_learn::check,
    nested_is_free::check,
    leases_travel::check,
    sections_end_with_the_lock::check,
    fenced_release_is_final::check,
    heals_are_earned::check,
    line_is_first_in_first_out::check,
    woken_in_time::check,
    no_waiter_left::check,
    debts_and_memory_bounded::check,
];

/// Everything that is wrong with a history.
pub(crate) fn check(history: &History) -> Vec<Violation> {
    CHECKERS.iter().flat_map(|check| check(history)).collect()
}
