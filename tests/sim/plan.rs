//! What a seed decides before it begins.

use std::time::Duration;

use crate::crowd::Crowd;
use crate::dice::{Dice, ms};
use crate::trust::Trust;

/// What may go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Nothing: only contention, latency and callers who change their minds.
    Calm,
    /// Fewer than half of the servers and the links to them misbehave in any way of the first class.
    Minority,
    /// Crashes, pauses, delays, losses, cuts, restarts with data, or under guard without; clocks
    /// within the bound.
    First,
    /// Also flushes, vanishing keys, clock jumps, and restarts without data where nobody guards
    /// against them: these may break exclusion.
    Second,
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) class: Class,
    pub(crate) servers: usize,
    pub(crate) clients: usize,
    pub(crate) workers: usize,
    pub(crate) resources: usize,
    /// How long the ttls of most requests are.
    pub(crate) ttl: Duration,
    /// The longest latency of a message, one way, when nothing is wrong.
    pub(crate) latency: u64,
    /// The mean pause between two faults.
    pub(crate) fault_gap: u64,
    /// How long faults last at most.
    pub(crate) fault_length: u64,
    /// The mean pause of a caller between two requests.
    pub(crate) think: u64,
    /// By how much each server's clock runs fast, in parts per million.
    pub(crate) rates: Vec<i32>,
    /// Servers whose clients may not use `CLIENT KILL`.
    pub(crate) denies_kill: Vec<bool>,
    /// Servers that misbehave, where only a minority may.
    pub(crate) victims: usize,
    /// The callers drop whatever they do at the moment of healing.
    pub(crate) abrupt_end: bool,
    pub(crate) trust: Trust,
    /// Many want the same at the same time.
    pub(crate) crowd: Option<Crowd>,
}

/// The longest ttl that anybody asks for.
pub(crate) const LONGEST_TTL: Duration = ms(10_000);
/// The longest that anybody waits for a lock, except for ever.
pub(crate) const LONGEST_WAIT: u64 = 1500;
/// By so much do the clocks of servers differ from the true one at most: a hundredth.
const DRIFT_BOUND: i32 = 10_000;

impl Plan {
    pub(crate) fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed ^ 0x5eed);
        let class = dice.weighed(&[
            (1, Class::Calm),
            (2, Class::Minority),
            (6, Class::First),
            (3, Class::Second),
        ]);
        let crowd = Crowd::draw(seed);
        let class = match crowd {
            Some((_, Some(class))) => class,
            _ => class,
        };
        let servers = dice.weighed(&[(1, 1), (2, 2), (6, 3), (3, 4), (4, 5), (1, 6), (1, 7)]);
        let clients = dice.weighed(&[(5, 2), (4, 3), (3, 4), (1, 5), (1, 6), (1, 7), (1, 8)]);
        let workers = if clients > 3 {
            1
        } else {
            dice.weighed(&[(2, 1), (1, 2)])
        };
        let drifting = dice.chance(60);
        let rates = (0..servers)
            .map(|_| {
                let rate = dice.weighed(&[(1, 0), (2, 1), (1, 2)]);
                match (drifting, rate) {
                    (false, _) => 0,
                    (true, 0) => -DRIFT_BOUND,
                    (true, 1) => DRIFT_BOUND,
                    (true, _) => i32::try_from(dice.below(20_001)).unwrap() - DRIFT_BOUND,
                }
            })
            .collect();
        let some_deny = dice.chance(40);
        let fault_gap = dice.pick(&[300, 1000, 3000]);
        let resources = dice.weighed(&[(3, 1), (3, 2), (1, 3), (1, 4)]);
        let trust = Trust::new(&mut dice.fork(), class, resources);
        let ttl = ms(dice.weighed(&[
            (1, 100),
            (2, 300),
            (3, 1000),
            (3, 3000),
            (3, 6000),
            (2, 10_000),
        ]));
        Self {
            seed,
            class,
            servers,
            clients,
            workers,
            resources,
            ttl: ttl.min(trust.max_ttl),
            latency: match class {
                Class::Calm | Class::Minority => dice.weighed(&[(1, 0), (2, 2), (2, 10)]),
                Class::First | Class::Second => {
                    dice.weighed(&[(1, 0), (3, 2), (3, 10), (2, 40), (1, 100)])
                }
            },
            fault_gap,
            fault_length: dice.pick(&[200, 1000, 4000, 15_000]).min(6 * fault_gap),
            think: (clients * workers) as u64 * dice.pick(&[150, 300, 450]),
            rates,
            denies_kill: (0..servers).map(|_| some_deny && dice.chance(60)).collect(),
            victims: servers.saturating_sub(1) / 2,
            abrupt_end: dice.chance(50),
            trust,
            crowd: crowd.map(|(dice, _)| Crowd::new(dice, servers, clients)),
        }
    }

    pub(crate) fn quorum(&self) -> usize {
        self.servers / 2 + 1
    }

    pub(crate) fn key(resource: usize) -> String {
        format!("r{resource}")
    }
}

/// What a correct client takes off a ttl: one hundredth and 2 ms, in whole milliseconds, rounded up.
pub(crate) fn drift(ttl: Duration) -> Duration {
    ms(u64::try_from(ttl.as_millis().div_ceil(100)).unwrap() + 2)
}

/// How long a correct client waits for the votes of a round.
pub(crate) fn round_timeout(ttl: Duration) -> Duration {
    (ttl / 10).clamp(ms(50), ms(1000)).min(ttl / 2)
}
