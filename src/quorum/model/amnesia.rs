//! Nodes that restart without data: quarantined, they do no harm.

use super::rules::{Plan, Withdraw};
use super::sound::holds;

/// Two attempts; the first holds the lock when the node restarts, or held it.
pub(super) const fn restarting(name: &'static str, held: usize) -> Plan {
    Plan {
        ticks: 2,
        held,
        keepers: 2,
        restarts: 1,
        prompt: true,
        withdraw: Withdraw::Always,
        liveness: false,
        ..Plan::new(name, 3, 2)
    }
}

#[test]
fn a_restarted_node_lets_nobody_in() {
    holds(Plan {
        extenders: 0,
        ..restarting("a node restarts without data", 2)
    });
}

#[test]
fn a_restarted_node_is_healed() {
    holds(Plan {
        extensions: 1,
        extenders: 1,
        keepers: 0,
        frozen: true,
        liveness: true,
        ..restarting("a node restarts without data and is healed", 3)
    });
}

#[test]
fn nothing_is_left_on_restarted_nodes() {
    holds(Plan {
        ticks: 2,
        extensions: 1,
        restarts: 1,
        ..Plan::new("alone with nodes of which one restarts", 3, 1)
    });
}
