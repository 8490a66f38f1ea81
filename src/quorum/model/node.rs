//! A node: who has the key, and for how many more ticks; and the largest ballot accepted. What a
//! command does is the crate's own node-side rule, over a keyspace made for the occasion.

use super::super::keyspace::Keyspace;
use super::super::vote::Vote;
use super::op::{Answer, Op};
use super::rules::{Plan, Rule};
use super::{TTL, moment, tick};

const KEY: &str = "resource";
const FENCE: &str = "redlock-quorum:fence:resource";
const TOKENS: [&str; 4] = ["A", "B", "C", "D"];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Node {
    /// The attempt whose token is there, and the ticks it has left.
    pub(super) key: Option<(usize, u8)>,
    /// The largest ballot accepted, 0 if none.
    pub(super) fence: u8,
    /// The attempts, one bit each, whose tombstone has been carried out.
    pub(super) tombstones: u8,
    /// The attempts that were accepted here; and for each of them, those before it.
    pub(super) accepted: u8,
    pub(super) before: [u8; TOKENS.len()],
    /// It has forgotten what it granted: for so many ticks it is not asked for locks.
    pub(super) quarantine: u8,
}

impl Node {
    pub(super) fn execute(&mut self, plan: &Plan, attempt: usize, op: Op, now: u32) -> Answer {
        let was = *self;
        let now = moment(plan, now);
        let token = TOKENS[attempt];
        let mut keys = Keyspace::default();
        if let Some((owner, left)) = self.key {
            let ttl = tick(plan).saturating_mul(u32::from(left));
            keys.set(KEY, TOKENS[owner], Some(ttl), now);
        }
        let mut fence = self.fence;
        match (plan.rule, op) {
            (Rule::NaiveHeal, Op::Extend { .. }) if self.key.is_none() => {
                keys.set(KEY, token, Some(TTL), now);
            }
            (Rule::ReleaseIsBlind, Op::Release) => keys.delete(KEY),
            (Rule::EqualBallotIsAccepted, Op::Acquire { ballot })
                if ballot == fence && self.key.is_none() =>
            {
                fence -= 1;
            }
            _ => {}
        }
        if fence > 0 {
            keys.set(FENCE, &fence.to_string(), None, now);
        }
        let vote = keys.apply(op.command(), &[KEY], token, now);
        self.key = keys.get(KEY, now).map(|owner| {
            let owner = TOKENS.iter().position(|&token| token == owner);
            (owner.expect("one of ours"), 0)
        });
        if let (Some((_, left)), Some(ttl)) = (&mut self.key, keys.ttl(KEY, now)) {
            *left = u8::try_from(ttl.as_nanos() / tick(plan).as_nanos()).expect("few ticks");
        }
        let fence = keys.get(FENCE, now).and_then(|text| text.parse().ok());
        self.fence = fence.unwrap_or(0);
        if plan.rule == Rule::TombstoneIsForgotten && op.is_release() {
            self.fence = was.fence;
        }
        if plan.rule == Rule::CountersAreTokens && op.is_acquire() && vote == Vote::Granted {
            self.fence += 1;
        }
        self.remember(was, attempt, op, vote);
        Answer::to(op, vote)
    }

    /// What the properties ask of the past.
    fn remember(&mut self, was: Self, attempt: usize, op: Op, vote: Vote) {
        let own = 1 << attempt;
        if matches!(op, Op::Tombstone { .. }) {
            self.tombstones |= own;
        }
        let is_new = self.fence != was.fence || self.key.is_some() && was.key.is_none();
        if op.is_acquire() && vote == Vote::Granted && is_new {
            for before in &mut self.before {
                *before &= !own;
            }
            self.before[attempt] = self.accepted & !own;
            self.accepted |= own;
        }
    }

    /// The node comes back without data.
    pub(super) fn restart(&mut self, plan: &Plan) {
        let quarantine = if plan.rule == Rule::QuarantineOff {
            0
        } else {
            plan.ticks
        };
        *self = Self {
            quarantine,
            ..Self::default()
        };
    }

    pub(super) fn tick(&mut self) {
        self.quarantine = self.quarantine.saturating_sub(1);
        self.key = self
            .key
            .and_then(|(owner, left)| Some((owner, left.checked_sub(1)?)))
            .filter(|&(_, left)| left > 0);
    }
}
