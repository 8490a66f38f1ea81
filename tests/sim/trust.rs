//! How far servers and clocks can be trusted in a seed, and what their clients do about it.

use std::time::{Duration, SystemTime};

use redlock_quorum::RestartGuard;

use crate::dice::{Dice, ms};
use crate::plan::{Class, LONGEST_TTL};

#[derive(Clone, Debug)]
pub(crate) struct Trust {
    /// What all clients make of servers that may have forgotten.
    pub(crate) guard: RestartGuard,
    /// The longest ttl that clients ask for: short where servers are guarded against, since they
    /// wait for so long.
    pub(crate) max_ttl: Duration,
    /// The servers have been used before the first client comes.
    pub(crate) founded: bool,
    /// Servers may lose what they have acknowledged, locks and fences.
    pub(crate) forgets: bool,
    /// By how much the wall clocks of two clients may differ.
    pub(crate) skew: Duration,
    /// Who fences each resource.
    pub(crate) fenced: Vec<Fenced>,
}

/// Which requests for a resource are fenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fenced {
    No,
    All,
    /// As each caller likes: then tokens promise nothing.
    Some,
}

/// The wall clocks of clients may be so far apart where fences survive: it must not matter.
const HOURS: Duration = Duration::from_secs(6 * 3600);

/// What the wall clocks show when a seed begins: in January 2027.
const EPOCH: Duration = Duration::from_secs(1_800_000_000);

impl Trust {
    pub(crate) fn new(dice: &mut Dice, class: Class, resources: usize) -> Self {
        let guard = dice.weighed(&[
            (6, RestartGuard::Off),
            (3, RestartGuard::Observed),
            (1, RestartGuard::Strict),
        ]);
        let is_guarded = guard != RestartGuard::Off;
        let max_ttl = if is_guarded {
            ms(dice.pick(&[1000, 3000, 6000, 6000]))
        } else {
            LONGEST_TTL
        };
        let forgets = match class {
            Class::Calm => false,
            Class::Minority | Class::First => is_guarded && dice.chance(80),
            Class::Second => dice.chance(60),
        };
        let bound = if forgets { max_ttl / 4 } else { HOURS };
        Self {
            guard,
            max_ttl,
            founded: !is_guarded || dice.chance(75),
            forgets,
            skew: if dice.chance(70) {
                bound
            } else {
                Duration::ZERO
            },
            fenced: (0..resources)
                .map(|_| dice.weighed(&[(6, Fenced::No), (5, Fenced::All), (1, Fenced::Some)]))
                .collect(),
        }
    }

    /// What a client's wall clock shows, so long after the beginning.
    pub(crate) fn wall_clock(&self, dice: &mut Dice, after: Duration) -> SystemTime {
        let longest = u64::try_from(self.skew.as_millis()).expect("some hours");
        let skew = dice.time(0, longest);
        SystemTime::UNIX_EPOCH + EPOCH + after + skew
    }

    /// For how long a server that may have forgotten does not vote.
    pub(crate) fn quarantine(&self) -> Duration {
        match self.guard {
            RestartGuard::Off => Duration::ZERO,
            _ => self.max_ttl + self.max_ttl / 100 + ms(1000),
        }
    }
}
