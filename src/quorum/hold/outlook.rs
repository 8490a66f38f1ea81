//! For the model: what decides about a hold's future, as seen from a moment, and nothing else.
//!
//! Left out is what only reports read: the cause of a loss, how many keys a release deleted, whether
//! its time to report is over, the votes of rounds that are decided, how the last extension ended.
//! Renewals are left out too: the model's locks are extended by hand.
//! Moments count as "how long from now", and all that have passed are alike: the core asks no more
//! of a moment than whether it has come.

use std::hash::{Hash, Hasher};

use super::super::vote::Vote;
use super::{Hold, Moment, Phase, Round};

impl Hold {
    /// The part that belongs to no single node.
    pub(in super::super) fn hash_outlook(&self, now: Moment, hasher: &mut impl Hasher) {
        let is_asking = self.phase == Phase::Acquiring;
        self.balloting.hash_outlook(is_asking, hasher);
        match self.phase {
            Phase::Acquiring => {
                hasher.write_u8(1);
                self.round.valid_until().since(now).hash(hasher);
                self.decide_by.since(now).hash(hasher);
            }
            Phase::Held => {
                hasher.write_u8(2);
                self.valid_until.since(now).hash(hasher);
                self.extending.hash_outlook(now, hasher);
            }
            Phase::Lingering { until } => {
                hasher.write_u8(3);
                until.since(now).hash(hasher);
            }
            Phase::Releasing { .. } => hasher.write_u8(4),
        }
    }

    /// The part of one node.
    pub(in super::super) fn hash_outlook_at(
        &self,
        node: usize,
        now: Moment,
        hasher: &mut impl Hasher,
    ) {
        match self.phase {
            Phase::Acquiring => hasher.write_u8(class(&self.round, node)),
            Phase::Held => self.extending.hash_outlook_at(node, hasher),
            Phase::Lingering { .. } | Phase::Releasing { .. } => {}
        }
        self.ledger.hash_outlook_at(node, now, hasher);
    }
}

/// All that a round's decision asks of a node's vote.
pub(in super::super) fn class(round: &Round, node: usize) -> u8 {
    match round.vote(node) {
        Some(Vote::Granted) => 1,
        Some(Vote::Stale { .. }) => 5,
        Some(vote) if vote.is_contention() => 2,
        Some(_) => 3,
        None => 4,
    }
}
