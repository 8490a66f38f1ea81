//! The rules of fenced locks and restarted nodes, weakened.

use super::super::amnesia::restarting;
use super::super::rules::{Plan, Rule, Withdraw};
use super::*;
use crate::quorum::sabotage::Bug;

/// Two fenced attempts; the clock stands.
const fn fenced(name: &'static str, rule: Rule) -> Plan {
    Plan {
        rule,
        ballots: 2,
        frozen: true,
        liveness: false,
        ..Plan::new(name, 3, 2)
    }
}

fn is_disorder(violation: Violation) -> bool {
    matches!(
        violation,
        Violation::SameToken(..) | Violation::TokenOrder(..)
    )
}

/// The largest of the counters of a quorum: what nodes that count their grants come to.
#[test]
fn counters_give_one_token_twice() {
    let violation = found(Plan {
        vanishings: 1,
        ballots: 0,
        ..fenced("counters are tokens", Rule::CountersAreTokens)
    });
    assert!(matches!(violation, Violation::SameToken(..)));
}

#[test]
fn an_equal_ballot_that_is_accepted_gives_one_token_twice() {
    let plan = fenced("an equal ballot is accepted", Rule::EqualBallotIsAccepted);
    assert!(matches!(found(plan), Violation::SameToken(..)));
}

#[test]
fn a_node_that_accepts_any_ballot_puts_tokens_out_of_order() {
    let plan = fenced("any ballot is accepted", Rule::Core(Bug::AnyBallotAccepted));
    assert!(is_disorder(found(plan)));
}

#[test]
fn a_token_made_of_what_was_heard_puts_tokens_out_of_order() {
    let rule = Rule::Core(Bug::TokenFromFencesHeard);
    assert!(is_disorder(found(fenced("tokens from fences heard", rule))));
}

#[test]
fn votes_for_a_first_ballot_that_count_for_the_second_put_tokens_out_of_order() {
    assert!(is_disorder(found(Plan {
        vanishings: 1,
        withdraw: Withdraw::Always,
        ..fenced(
            "votes count for another ballot",
            Rule::Core(Bug::FirstBallotCounts)
        )
    })));
}

#[test]
fn without_a_tombstone_a_straggler_leaves_an_orphan() {
    assert!(is_orphan(found(Plan {
        attempts: 1,
        breaks: 1,
        ..fenced("no tombstone", Rule::Core(Bug::NoTombstone))
    })));
}

#[test]
fn a_tombstone_that_is_forgotten_lets_a_straggler_set_the_key_again() {
    let violation = found(Plan {
        attempts: 1,
        breaks: 1,
        cleanup: false,
        ..fenced("tombstones are forgotten", Rule::TombstoneIsForgotten)
    });
    assert!(matches!(violation, Violation::Risen { .. }));
}

/// Without the lease clock, tokens are still in the order in which the nodes accepted them, but not
/// in that of the grants.
#[test]
fn a_late_grant_that_counts_puts_tokens_out_of_order() {
    assert!(is_disorder(found(Plan {
        frozen: false,
        withdraw: Withdraw::Always,
        ..fenced("late grants count", Rule::LateGrantCounts)
    })));
}

#[test]
fn a_fenced_extension_that_sets_a_missing_key_leaves_an_orphan() {
    assert!(is_orphan(found(Plan {
        ticks: 2,
        extensions: 1,
        attempts: 1,
        frozen: false,
        ..fenced("a fenced extension sets the key", Rule::NaiveHeal)
    })));
}

/// The first attempt holds the lock, and extends it; a key vanishes.
const fn extending(name: &'static str, rule: Rule) -> Plan {
    Plan {
        ticks: 2,
        extensions: 1,
        extenders: 1,
        held: 2,
        keepers: 1,
        vanishings: 1,
        withdraw: Withdraw::Always,
        continuity: true,
        cleanup: false,
        ..fenced(name, rule)
    }
}

#[test]
fn a_fenced_extension_that_sets_a_missing_key_hides_that_another_was_granted_the_lock() {
    let plan = extending("a fenced extension sets the key", Rule::NaiveHeal);
    assert!(matches!(found(plan), Violation::UnsoundExtension(_)));
}

#[test]
fn a_heal_before_proof_hides_that_another_was_granted_the_lock() {
    let violation = found(Plan {
        extensions: 2,
        ballots: 0,
        ..extending("a heal before proof", Rule::Core(Bug::HealBeforeProof))
    });
    assert!(matches!(violation, Violation::UnsoundExtension(_)));
}

#[test]
fn a_restarted_node_that_votes_at_once_lets_two_in() {
    assert!(is_overlap(found(Plan {
        rule: Rule::QuarantineOff,
        extenders: 0,
        ..restarting("no quarantine", 2)
    })));
}
