//! The rules as they are: in no state of these worlds is anything violated.

use std::time::Duration;

use super::explore::{Budget, Order, explore};
use super::rules::{Plan, Withdraw};

/// Explores a world to the end.
pub(super) fn holds(plan: Plan) {
    let budget = Budget {
        time: Duration::from_secs(600),
        bytes: 4 << 30,
    };
    let outcome = explore(plan, Order::BreadthFirst, budget);
    println!("{outcome}");
    assert!(outcome.violation.is_none() && outcome.complete, "see above");
}

#[test]
fn in_order() {
    holds(Plan {
        ticks: 2,
        ..Plan::new("all commands arrive", 3, 2)
    });
}

#[test]
fn an_even_number_of_nodes() {
    holds(Plan::new("an even number of nodes", 4, 2));
}

#[test]
fn a_connection_breaks() {
    holds(Plan {
        breaks: 1,
        prompt: true,
        ..Plan::new("a connection breaks", 3, 2)
    });
}

#[test]
fn a_command_is_refused() {
    holds(Plan {
        refusals: 1,
        ..Plan::new("a command is refused", 3, 2)
    });
}

/// Exclusion is not promised then; everything else is.
#[test]
fn a_key_vanishes() {
    holds(Plan {
        vanishings: 1,
        ..Plan::new("a key vanishes", 3, 2)
    });
}

#[test]
fn extensions() {
    holds(Plan {
        ticks: 2,
        extensions: 1,
        withdraw: Withdraw::Always,
        ..Plan::new("extensions", 3, 2)
    });
}

/// What another was granted in between shows at the next extension, as long as no acquire is left
/// that may still set the key.
#[test]
fn an_extension_proves_continuity() {
    holds(Plan {
        ticks: 2,
        extensions: 1,
        extenders: 1,
        held: 2,
        vanishings: 1,
        withdraw: Withdraw::Always,
        continuity: true,
        ..Plan::new("an extension proves continuity", 3, 2)
    });
}

/// One attempt alone, where more can go wrong at the same time.
const fn alone(name: &'static str, nodes: usize) -> Plan {
    Plan {
        ticks: 2,
        extensions: 1,
        breaks: 2,
        ..Plan::new(name, nodes, 1)
    }
}

#[test]
fn alone_with_three_nodes() {
    holds(Plan {
        breaks: 1,
        refusals: 1,
        ..alone("alone with three nodes", 3)
    });
}

#[test]
fn alone_with_two_nodes() {
    holds(Plan {
        refusals: 1,
        ..alone("alone with two nodes", 2)
    });
}

#[test]
fn alone_with_one_node() {
    holds(Plan {
        extensions: 2,
        breaks: 3,
        refusals: 2,
        vanishings: 1,
        ..alone("alone with one node", 1)
    });
}

#[test]
fn alone_with_stubborn_nodes() {
    holds(Plan {
        stubborn: true,
        ..alone("alone with nodes that refuse every release", 2)
    });
}
