//! Certain holds of one resource never overlap.
//!
//! A hold is certain from the return of its request until its caller lets go, hears of the loss, or
//! its validity ends, whichever comes first. A hold that was detached goes on with its lease, until
//! the lock is given up there. Guards of one lock, nested or attached, share it. Faults of the second
//! class may break this; then it is not checked. A set of resources is a hold of each.

use super::{Invariant, Violation};
use crate::history::History;
use crate::holds::{Hold, Request};
use crate::plan::Class;

pub(crate) fn check(history: &History) -> Vec<Violation> {
    if history.plan.class == Class::Second {
        return Vec::new();
    }
    let mut holds: Vec<(usize, &Request, &Hold)> = history
        .holds()
        .flat_map(|(request, hold)| request.resources().map(move |one| (one, request, hold)))
        .collect();
    holds.sort_by_key(|&(resource, _, hold)| (resource, hold.acquired));
    let mut violations = Vec::new();
    for (place, &(resource, first, held)) in holds.iter().enumerate() {
        let later = holds[place + 1..].iter();
        for &(_, second, other) in later.take_while(|(another, _, other)| {
            *another == resource && other.acquired < held.certain_end()
        }) {
            let until = held.certain_end().min(other.certain_end());
            if other.acquired >= until || first.root == second.root {
                continue;
            }
            let what = format!(
                "#{} and #{} both hold r{} until {:.3}",
                first.op,
                second.op,
                resource,
                until.as_secs_f64()
            );
            violations.push(
                Violation::new(Invariant::MutualExclusion, other.acquired, what)
                    .of(&[first.op, second.op])
                    .about(&crate::plan::Plan::key(resource)),
            );
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use redlock_quorum::LossCause;

    use super::super::story::Story;
    use super::*;
    use crate::history::{LetGo, Origin, Patience, What};

    #[test]
    fn two_holders_at_one_time_are_found() {
        let story = |class| Story::new(class).holds(0, 0, 988).holds(1, 987, 1975);
        assert_eq!(story(Class::First).check(check), 1);
        assert_eq!(
            story(Class::Second).check(check),
            0,
            "they may overlap there"
        );
        let third = story(Class::Calm).holds(2, 1000, 1988);
        assert_eq!(third.check(check), 2, "each pair");
        let leaked = Story::new(Class::First)
            .holds(0, 0, 988)
            .lets_go(0, 10, LetGo::Leak)
            .holds(1, 20, 1008);
        assert_eq!(leaked.check(check), 1, "a leaked guard still holds");
    }

    #[test]
    fn a_set_is_a_hold_of_each_of_its_resources() {
        let story = |others: &[usize]| {
            let mut history = Story::new(Class::First)
                .holds(0, 0, 988)
                .asks(1, 10, Patience::Once)
                .set(1, others)
                .acquired(1, 20, 1008, 3)
                .history();
            if let What::Asked { resource, .. } = &mut history.events[2].what {
                *resource = 2;
            }
            check(&history).len()
        };
        assert_eq!(story(&[1, 0]), 1);
        assert_eq!(story(&[1, 3]), 0);
    }

    #[test]
    fn one_after_the_other_is_right() {
        let story = Story::new(Class::First)
            .holds(0, 0, 988)
            .lets_go(0, 100, LetGo::Release)
            .holds(1, 100, 1088)
            .lost(1, 500, LossCause::Closed)
            .holds(2, 500, 1488)
            .holds(3, 1488, 2000);
        assert_eq!(story.check(check), 0);
    }

    #[test]
    fn a_lease_goes_on_until_it_is_given_up() {
        let detached = || {
            Story::new(Class::First)
                .holds(0, 0, 988)
                .lets_go(0, 100, LetGo::Detach)
                .lost(0, 100, LossCause::Detached)
        };
        assert_eq!(detached().holds(1, 500, 1488).check(check), 1);
        let disowned = detached().event(400, 2, What::Disown { op: 0 });
        assert_eq!(disowned.holds(1, 500, 1488).check(check), 0);
        let attached = || detached().shares(1, 200, 1188, Origin::Attached { from: 0 });
        assert_eq!(attached().check(check), 0, "it is the same lock");
        assert_eq!(attached().holds(2, 500, 1488).check(check), 2);
        let released = attached().lets_go(1, 400, LetGo::Release);
        assert_eq!(released.holds(2, 500, 1488).check(check), 0);
    }

    #[test]
    fn an_inner_guard_does_not_end_the_outer_one() {
        let inner = Origin::Nested {
            outer: 0,
            free: true,
        };
        let story = |let_go| {
            Story::new(Class::First)
                .holds(0, 0, 988)
                .shares(1, 100, 988, inner)
                .lets_go(let_go, 200, LetGo::Release)
                .holds(2, 500, 1488)
                .check(check)
        };
        assert_eq!((story(1), story(0)), (1, 1));
    }
}
