//! Which states are the same: a state's fingerprint, 128 bits.
//!
//! Three things keep the number of states small, and none of them hides a behaviour:
//!
//! - **Nodes are interchangeable, and so are attempts.** Nothing in the core asks for a node's number
//!   or compares tokens other than for equality, and all nodes and all attempts begin alike but for
//!   the breaks and ballots they are given, which are part of their state. So a state and its image
//!   under a permutation of nodes or attempts have the same futures, up to that permutation. A
//!   fingerprint is computed from sorted parts: attempts by all that is theirs, then nodes by all
//!   that is theirs with the attempts in that order.
//! - **What no decision reads is left out** (`hold::outlook`), and moments count as distances.
//! - **Which connections break is settled at the start** ([`World::new`]); so it is known of the
//!   others that they deliver everything in order. Where an attempt has ended, a reply on such a
//!   connection can change nothing but this one node's entry in its ledger, which nobody else sees,
//!   and in the same way now as later: it is delivered at once ([`World::tidy`]).
//!
//! Two different states with one fingerprint would hide the second and what follows from it: with
//! 10^8 states the chance is about 10^-23.

use std::hash::{Hash, Hasher};

use super::world::{Attempt, MOST_NODES, World};

/// Two multiplications a word; good enough for fingerprints of states that nobody chose with malice.
struct Fingerprint {
    low: u64,
    high: u64,
}

impl Fingerprint {
    const fn new() -> Self {
        Self {
            low: 0x243f_6a88_85a3_08d3,
            high: 0x1319_8a2e_0370_7344,
        }
    }

    fn whole(&self) -> u128 {
        u128::from(self.high) << 64 | u128::from(self.low)
    }
}

fn fold(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    let halves = [product, product >> 64].map(|half| half & u128::from(u64::MAX));
    u64::try_from(halves[0] ^ halves[1]).expect("64 bits")
}

impl Hasher for Fingerprint {
    fn write_u64(&mut self, word: u64) {
        self.low = fold(self.low ^ word, 0x9e37_79b9_7f4a_7c15);
        self.high = fold(self.high.rotate_left(23) ^ word, 0xd1b5_4a32_d192_ed03);
    }

    fn write_u8(&mut self, word: u8) {
        self.write_u64(word.into());
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }

    fn write_u128(&mut self, word: u128) {
        self.write_u64(u64::try_from(word & u128::from(u64::MAX)).expect("64 bits"));
        self.write_u64(u64::try_from(word >> 64).expect("64 bits"));
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u8(byte));
    }

    fn finish(&self) -> u64 {
        self.low
    }
}

/// What an attempt is, seen without its number.
#[derive(Clone, Copy)]
struct View {
    attempt: usize,
    whole: u128,
    at: [u128; MOST_NODES],
}

impl World {
    pub(super) fn fingerprint(&self) -> u128 {
        let nodes = self.plan.nodes;
        let mut views: [View; MOST_NODES] = std::array::from_fn(|attempt| View {
            attempt,
            whole: 0,
            at: [0; MOST_NODES],
        });
        let views = &mut views[..self.plan.attempts];
        for (view, attempt) in views.iter_mut().zip(&self.attempts) {
            *view = self.view(view.attempt, attempt);
        }
        views.sort_unstable_by_key(|view| view.whole);
        let mut segments = [0; MOST_NODES];
        for (node, segment) in segments.iter_mut().enumerate().take(nodes) {
            let mut print = Fingerprint::new();
            for view in views.iter() {
                print.write_u128(view.at[node]);
            }
            if let Some((owner, left)) = self.nodes[node].key {
                let place = views.iter().position(|view| view.attempt == owner);
                print.write_u64(u64::try_from(place.expect("an attempt")).expect("few"));
                print.write_u8(left);
            }
            self.hash_memory(node, views, &mut print);
            *segment = print.whole();
        }
        segments[..nodes].sort_unstable();
        let mut print = Fingerprint::new();
        print.write_u8(self.refusals_left);
        print.write_u8(self.vanishings_left);
        print.write_u8(self.restarts_left);
        for view in views.iter() {
            print.write_u128(view.whole);
        }
        for &segment in &segments[..nodes] {
            print.write_u128(segment);
        }
        if self.plan.continuity && !self.plan.has_tokens() {
            for (one, other) in views
                .iter()
                .flat_map(|one| views.iter().map(move |other| (one, other)))
            {
                let held = self.attempts[one.attempt].held_at_start & (1 << other.attempt);
                print.write_u8(u8::from(held != 0));
            }
        }
        print.whole()
    }

    /// What a node remembers beside the key, and what the properties remember of it.
    fn hash_memory(&self, node: usize, views: &[View], print: &mut Fingerprint) {
        let node = &self.nodes[node];
        if self.plan.restarts > 0 {
            print.write_u8(node.quarantine);
        }
        if !self.plan.has_tokens() {
            return;
        }
        let in_order = |bits: u8| {
            let bit = |view: &View| bits >> view.attempt & 1;
            views.iter().fold(0, |all, view| all << 1 | bit(view))
        };
        print.write_u8(node.fence);
        print.write_u8(in_order(node.tombstones));
        if self.is_open() {
            for view in views {
                print.write_u8(in_order(node.before[view.attempt]));
            }
        }
    }

    fn view(&self, number: usize, attempt: &Attempt) -> View {
        let (nodes, now) = (self.plan.nodes, self.now());
        let mut at = [0; MOST_NODES];
        let is_live = attempt.stage == super::world::Stage::Live;
        let has_tokens = self.plan.has_tokens();
        let is_open = has_tokens && self.is_open();
        for (node, at) in at.iter_mut().enumerate().take(nodes) {
            let mut print = Fingerprint::new();
            attempt.channels[node].hash(&mut print);
            if is_live {
                attempt.hold.hash_outlook_at(node, now, &mut print);
            }
            if has_tokens {
                print.write_u8(attempt.granted_by >> node & u8::from(is_open));
                if is_open {
                    print.write_u8(attempt.counted[node]);
                }
            }
            *at = print.whole();
        }
        // For the order of attempts: is the key of this one there?
        let mut sorted = at;
        for (node, part) in sorted.iter_mut().enumerate().take(nodes) {
            let key = self.nodes[node].key.filter(|&(owner, _)| owner == number);
            *part ^= key.map_or(0, |(_, left)| u128::from(left) + 1);
        }
        sorted[..nodes].sort_unstable();
        let mut print = Fingerprint::new();
        print.write_u8(attempt.stage as u8);
        print.write_u8(u8::from(attempt.taken) | attempt.extensions_left << 1);
        if attempt.stage != super::world::Stage::Over {
            attempt.hold.hash_outlook(now, &mut print);
        }
        if let Some(until) = attempt.believes_until {
            until.since(now).hash(&mut print);
        }
        if has_tokens {
            print.write_u8(attempt.token);
        }
        if self.plan.continuity {
            print.write_u8(u8::from(attempt.intruded) | u8::from(attempt.doubtful) << 1);
        }
        if self.plan.rule == super::rules::Rule::DebtEndsWithSending && is_live {
            let age = self.now.saturating_sub(attempt.started);
            print.write_u32(age.min(self.plan.ticks.into()));
        }
        for part in sorted {
            print.write_u128(part);
        }
        View {
            attempt: number,
            whole: print.whole(),
            at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::rules::Plan;
    use super::super::world::{Action, Event, World};

    #[test]
    fn permuted_states_are_one_and_others_are_not() {
        static PLAN: Plan = Plan::new("", 3, 2);
        let act = |events: &[Event]| {
            let mut world = World::new(&PLAN, &[], &[0, 0]);
            for &event in events {
                let unwritten = 0;
                world.act(Action { event, unwritten }).unwrap();
            }
            world.fingerprint()
        };
        let by = |a, n, other| {
            act(&[
                Event::Start(a),
                Event::Start(1 - a),
                Event::Execute(a, n),
                Event::Execute(1 - a, other),
                Event::Deliver(a, n),
            ])
        };
        for (a, n, other) in [(0, 1, 2), (0, 2, 0), (1, 0, 1), (1, 2, 1)] {
            assert_eq!(by(a, n, other), by(0, 0, 1));
        }
        assert_ne!(by(0, 0, 0), by(0, 0, 1), "the second is refused there");
        assert_ne!(act(&[Event::Start(0)]), act(&[]));
    }
}
