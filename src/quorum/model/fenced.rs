//! Fenced locks: in no state of these worlds is anything violated. First ballots are in every
//! relation to each other: equal, the smaller or the larger first, with room for another between.

use super::rules::{Plan, Withdraw};
use super::sound::holds;

/// Two attempts.
pub(super) const fn fenced(name: &'static str, ballots: u8) -> Plan {
    Plan {
        ballots,
        liveness: false,
        ..Plan::new(name, 3, 2)
    }
}

/// One attempt, where more can go wrong at the same time.
const fn alone(name: &'static str, nodes: usize) -> Plan {
    Plan {
        ticks: 2,
        extensions: 1,
        ballots: 1,
        ..Plan::new(name, nodes, 1)
    }
}

#[test]
fn fenced_attempts_in_any_order() {
    holds(Plan {
        frozen: true,
        liveness: true,
        ..fenced("fenced, the clock stands", 3)
    });
}

/// Tokens are in the order of the grants, by the lease clock.
#[test]
fn fenced_locks_expire() {
    holds(Plan {
        keepers: 2,
        withdraw: Withdraw::Always,
        ..fenced("fenced, nobody releases what it holds", 2)
    });
}

/// Then nothing is promised of exclusion, and everything of tokens.
#[test]
fn a_fenced_key_vanishes() {
    holds(Plan {
        frozen: true,
        vanishings: 1,
        withdraw: Withdraw::Always,
        ..fenced("fenced, a key vanishes", 2)
    });
}

/// The hole of plain locks (`bugs`) is closed: the same world, with ballots.
#[test]
fn an_extension_with_a_ballot_proves_continuity_whatever_comes_late() {
    holds(Plan {
        ticks: 2,
        extensions: 1,
        extenders: 1,
        held: 2,
        keepers: 1,
        frozen: true,
        vanishings: 1,
        withdraw: Withdraw::Never,
        continuity: true,
        ..fenced("fenced, a late acquire and an extension", 2)
    });
}

#[test]
fn tombstones_outlast_stragglers() {
    holds(Plan {
        breaks: 1,
        ..alone("fenced, alone with three nodes", 3)
    });
    holds(Plan {
        breaks: 2,
        ..alone("fenced, alone with two nodes", 2)
    });
}
