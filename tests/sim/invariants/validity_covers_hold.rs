//! While a lock is valid, its key is on a quorum of servers: when the request returns, and still
//! shortly before the validity ends, unless it was let go.
//!
//! Not checked with faults of the second class, nor where servers forget: these take keys away.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Invariant, Violation};
use crate::history::{History, Op, What};
use crate::plan::Class;

pub(crate) fn check(history: &History) -> Vec<Violation> {
    if history.plan.class == Class::Second || history.plan.trust.forgets {
        return Vec::new();
    }
    let quorum = history.plan.quorum();
    let ends: BTreeMap<Op, Duration> = history
        .holds()
        .map(|(request, hold)| (request.op, hold.certain_end()))
        .collect();
    let mut violations = Vec::new();
    for event in &history.events {
        let (What::Acquired { op, holders, .. } | What::Holders { op, holders }) = event.what
        else {
            continue;
        };
        let is_over = ends.get(&op).is_none_or(|&end| event.at >= end);
        if holders < quorum && !is_over {
            let what = format!("the key of #{op} is on {holders} servers, a quorum is {quorum}");
            violations
                .push(Violation::new(Invariant::ValidityCoversHold, event.at, what).of(&[op]));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use redlock_quorum::LossCause;

    use super::super::story::Story;
    use super::*;
    use crate::history::Patience;

    #[test]
    fn a_hold_without_a_quorum_of_keys_is_found() {
        let story = |class, first, last| {
            Story::new(class)
                .asks(0, 0, Patience::Once)
                .acquired(0, 1, 988, first)
                .event(
                    985,
                    0,
                    What::Holders {
                        op: 0,
                        holders: last,
                    },
                )
                .check(check)
        };
        assert_eq!(story(Class::First, 2, 2), 0);
        assert_eq!(story(Class::First, 1, 2), 1);
        assert_eq!(story(Class::First, 3, 1), 1);
        assert_eq!(story(Class::Second, 0, 0), 0);
        let (op, holders) = (0, 0);
        let closed = Story::new(Class::First)
            .holds(0, 1, 988)
            .lost(0, 500, LossCause::Closed)
            .event(985, 0, What::Holders { op, holders });
        assert_eq!(closed.check(check), 0);
    }
}
