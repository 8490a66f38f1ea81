//! A node: who has the key, and for how many more ticks. What a command does is the crate's own
//! node-side rule, over a keyspace made for the occasion.

use super::super::keyspace::Keyspace;
use super::super::vote::Vote;
use super::channel::{Answer, Op};
use super::rules::{Plan, Rule};
use super::{moment, tick};

const KEY: &str = "resource";
const TOKENS: [&str; 4] = ["A", "B", "C", "D"];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Node {
    /// The attempt whose token is there, and the ticks it has left.
    pub(super) key: Option<(usize, u8)>,
}

impl Node {
    pub(super) fn execute(&mut self, plan: &Plan, attempt: usize, op: Op, now: u32) -> Answer {
        let token = TOKENS[attempt];
        let mut keys = Keyspace::default();
        if let Some((owner, left)) = self.key {
            let ttl = tick(plan).saturating_mul(u32::from(left));
            keys.set(KEY, TOKENS[owner], Some(ttl), moment(plan, now));
        }
        match (plan.rule, op) {
            (Rule::NaiveHeal, Op::Extend(_)) if self.key.is_none() => {
                keys.apply(Op::Acquire.command(), &[KEY], token, moment(plan, now));
            }
            (Rule::ReleaseIsBlind, Op::Release) => keys.delete(KEY),
            _ => {}
        }
        let vote = keys.apply(op.command(), &[KEY], token, moment(plan, now));
        self.key = keys.get(KEY, moment(plan, now)).map(|owner| {
            let owner = TOKENS.iter().position(|&token| token == owner);
            (owner.expect("one of ours"), 0)
        });
        if let (Some((_, left)), Some(ttl)) = (&mut self.key, keys.ttl(KEY, moment(plan, now))) {
            *left = u8::try_from(ttl.as_nanos() / tick(plan).as_nanos()).expect("few ticks");
        }
        if vote == Vote::Granted {
            Answer::Granted
        } else {
            Answer::NotOurs
        }
    }

    pub(super) fn tick(&mut self) {
        self.key = self
            .key
            .and_then(|(owner, left)| Some((owner, left.checked_sub(1)?)))
            .filter(|&(_, left)| left > 0);
    }
}
