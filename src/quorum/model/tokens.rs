//! Fencing tokens: what must hold of them whatever clocks, keys and messages do, and what holds as
//! long as no key vanishes.

use super::super::vote::Vote;
use super::name;
use super::properties::Violation;
use super::rules::Rule;
use super::world::{Attempt, Stage, World};

impl World {
    /// The attempt's round has just been won: its token, against those of all others.
    pub(super) fn on_granted(&mut self, a: usize) -> Result<(), Violation> {
        if !self.plan.has_tokens() {
            return Ok(());
        }
        let round = self.attempts[a].hold.round();
        let granted = |node: &usize| round.vote(*node) == Some(Vote::Granted);
        let quorum: Vec<usize> = (0..self.plan.nodes).filter(granted).collect();
        let token = self.token(a, &quorum);
        self.note(|| format!("   {}'s fencing token is {token}", name(a)));
        for other in 0..self.plan.attempts {
            let known = &self.attempts[other];
            if other == a || known.token == 0 {
                continue;
            }
            if known.token == token {
                return Err(Violation::SameToken(other, a));
            }
            let shared = quorum
                .iter()
                .filter(|&node| known.granted_by & (1 << node) != 0);
            let mut orders = shared.map(|&node| self.nodes[node].before[a] & (1 << other) != 0);
            let was_first = known.token < token;
            if orders.any(|first| first != was_first) {
                return Err(Violation::TokenOrder(other, a));
            }
            // By the lease clock, the other was granted the lock before.
            if self.plan.vanishings == 0 && !was_first {
                return Err(Violation::TokenOrder(other, a));
            }
        }
        let attempt = &mut self.attempts[a];
        attempt.token = token;
        attempt.granted_by = quorum.iter().fold(0, |bits, node| bits | 1 << node);
        Ok(())
    }

    fn token(&self, a: usize, quorum: &[usize]) -> u8 {
        let attempt = &self.attempts[a];
        if self.plan.rule == Rule::CountersAreTokens {
            let counted = quorum.iter().map(|&node| attempt.counted[node]);
            return counted.max().expect("a quorum");
        }
        let token = attempt.hold.fencing_token().expect("a fenced lock");
        u8::try_from(token.as_u64()).expect("a small ballot")
    }

    /// The largest token that has been granted.
    pub(super) fn largest_token(&self) -> u8 {
        let tokens = self.attempts.iter().map(|attempt| attempt.token);
        tokens.max().unwrap_or(0)
    }

    /// Can anybody still be granted the lock?
    pub(super) fn is_open(&self) -> bool {
        let asks = |attempt: &Attempt| match attempt.stage {
            Stage::Unstarted => true,
            Stage::Live => attempt.hold.verdict().is_none() && !attempt.hold.is_releasing(),
            Stage::Over => false,
        };
        self.attempts.iter().any(asks)
    }

    /// After a tombstone, nothing sets the key again.
    pub(super) fn is_risen(&self, a: usize, node: usize) -> bool {
        let node = &self.nodes[node];
        let is_there = node.key.is_some_and(|(owner, _)| owner == a);
        is_there && node.tombstones & (1 << a) != 0
    }
}

/// The first ballots that the attempts may have, in every relation to each other that the plan
/// asks for. The smallest is 1: only differences matter.
pub(super) fn ballots(attempts: usize, largest: u8) -> Vec<Vec<u8>> {
    if largest == 0 {
        return vec![vec![0; attempts]];
    }
    let mut all = vec![Vec::new()];
    for _ in 0..attempts {
        let with_one_more = |some: Vec<u8>| {
            (1..=largest).map(move |next| some.iter().copied().chain([next]).collect())
        };
        all = all.into_iter().flat_map(with_one_more).collect();
    }
    all.retain(|ballots| ballots.contains(&1));
    all
}
