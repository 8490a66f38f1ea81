//! One rule after the other weakened: the explorer must find its known counter-example. So each
//! property is shown to be able to fail.

use std::time::Duration;

use super::explore::{Budget, Order, explore};
use super::properties::{self, Violation};
use super::rules::{Plan, Rule, Withdraw};
use crate::quorum::round::Round;
use crate::quorum::vote::Vote;

mod ballots;

/// The shortest way to a violation, which is told.
fn found(plan: Plan) -> Violation {
    let budget = Budget {
        time: Duration::from_secs(600),
        bytes: 4 << 30,
    };
    let outcome = explore(plan, Order::BreadthFirst, budget);
    println!("{outcome}");
    outcome.violation.expect("a counter-example").0
}

fn is_orphan(violation: Violation) -> bool {
    matches!(violation, Violation::Leftover { .. })
}

fn is_overlap(violation: Violation) -> bool {
    matches!(violation, Violation::Overlap(..))
}

const fn weak(name: &'static str, rule: Rule) -> Plan {
    Plan {
        rule,
        ..Plan::new(name, 3, 2)
    }
}

#[test]
fn unknown_taken_for_refused_leaves_an_orphan() {
    assert!(is_orphan(found(Plan {
        breaks: 1,
        ..weak("unknown taken for refused", Rule::UnknownIsRefused)
    })));
}

#[test]
fn a_pending_vote_that_is_not_released_leaves_an_orphan() {
    let plan = weak("pending is not released", Rule::PendingIsNotReleased);
    assert!(is_orphan(found(plan)));
}

#[test]
fn a_straggler_that_is_not_outlived_leaves_an_orphan() {
    assert!(is_orphan(found(Plan {
        breaks: 1,
        ..weak("a straggler is forgotten", Rule::StragglerIsForgotten)
    })));
}

#[test]
fn a_debt_that_ends_one_ttl_after_sending_leaves_an_orphan() {
    let plan = weak("debts end with sending", Rule::DebtEndsWithSending);
    assert!(is_orphan(found(plan)));
}

#[test]
fn a_release_that_overtakes_its_acquire_leaves_an_orphan() {
    let plan = weak("a release overtakes", Rule::ReleaseOvertakes);
    assert!(is_orphan(found(plan)));
}

#[test]
fn a_blind_release_removes_anothers_key() {
    let plan = weak("a release is blind", Rule::ReleaseIsBlind);
    assert_eq!(found(plan), Violation::ForeignRelease);
}

#[test]
fn a_quorum_of_one_lets_two_in() {
    let plan = weak("a quorum of one", Rule::Quorum(1));
    assert!(is_overlap(found(plan)));
}

#[test]
fn half_of_an_even_number_lets_two_in() {
    assert!(is_overlap(found(Plan {
        nodes: 4,
        ..weak("half of four nodes", Rule::Quorum(2))
    })));
}

#[test]
fn validity_counted_from_the_reply_lets_two_in() {
    assert!(is_overlap(found(Plan {
        ticks: 2,
        ..weak("validity from the reply", Rule::ValidityFromReply)
    })));
}

#[test]
fn without_a_last_look_at_the_clock_an_expired_grant_is_handed_out() {
    let plan = weak("no last look", Rule::NoLastLook);
    assert_eq!(found(plan), Violation::HandedOutLate);
}

#[test]
fn a_naive_heal_leaves_an_orphan() {
    assert!(is_orphan(found(Plan {
        ticks: 2,
        extensions: 1,
        extenders: 1,
        withdraw: Withdraw::Always,
        ..weak("naive heal", Rule::NaiveHeal)
    })));
}

#[test]
fn a_naive_heal_hides_that_another_was_granted_the_lock() {
    let violation = found(Plan {
        ticks: 2,
        extensions: 1,
        extenders: 1,
        held: 2,
        frozen: true,
        vanishings: 1,
        withdraw: Withdraw::Always,
        continuity: true,
        cleanup: false,
        liveness: false,
        ..weak("naive heal", Rule::NaiveHeal)
    });
    assert!(matches!(violation, Violation::UnsoundExtension(_)));
}

/// No weakened rule: the known hole of plain locks. An acquire that arrives late makes up for a key
/// that has vanished, and the extension never shows that another held the lock. Ballots close it.
#[test]
fn a_late_acquire_hides_that_another_was_granted_the_lock() {
    let violation = found(Plan {
        ticks: 2,
        extensions: 1,
        extenders: 1,
        held: 2,
        frozen: true,
        vanishings: 1,
        withdraw: Withdraw::Never,
        continuity: true,
        liveness: false,
        ..Plan::new("plain locks, a late acquire", 3, 2)
    });
    assert!(matches!(violation, Violation::UnsoundExtension(_)));
}

#[test]
fn a_lost_lock_that_is_asked_for_again_is_noticed() {
    let plan = weak("a loss is retried", Rule::LossIsRetried);
    assert_eq!(found(plan), Violation::Recreated);
}

#[test]
fn news_that_is_not_told_is_noticed() {
    let violation = found(Plan {
        breaks: 1,
        ..weak("news is not told", Rule::NewsIsNotTold)
    });
    assert!(matches!(violation, Violation::Stuck(_)));
}

#[test]
fn a_wrong_or_late_verdict_is_noticed() {
    let now = super::moment(&Plan::new("", 3, 1), 0);
    let mut round = Round::new(3, now, super::TTL);
    assert!(properties::verdict_is_right(&round, false));
    round.on_vote(0, Vote::Granted, None, now);
    round.on_timeout(now);
    assert!(properties::verdict_is_right(&round, true));
    assert!(!properties::verdict_is_right(&round, false), "too early");
    round.on_vote(1, Vote::Granted, None, now);
    assert!(!properties::verdict_is_right(&round, true), "a quorum lost");
}
