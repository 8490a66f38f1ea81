//! When a release of a held lock returns without an error, its key is on fewer than a quorum of
//! servers: the release of its last guard, or of its lease. Holds in every class of faults.

use std::collections::{BTreeMap, BTreeSet};

use super::{Invariant, Violation};
use crate::history::{History, LetGo, Op, What};

pub(crate) fn check(history: &History) -> Vec<Violation> {
    let (quorum, requests) = (history.plan.quorum(), history.requests_by_op());
    let mut let_go = BTreeSet::new();
    let mut lost = BTreeSet::new();
    // How many guards each lock of a client has.
    let mut guards: BTreeMap<Op, usize> = BTreeMap::new();
    let mut shared = BTreeSet::new();
    let mut violations = Vec::new();
    for event in &history.events {
        let cell = |op: &Op| requests.get(op).map_or(*op, |request| request.cell);
        match event.what {
            What::Acquired { op, .. } => *guards.entry(cell(&op)).or_default() += 1,
            // What is lost already is released behind, and says so at once.
            What::Lost { op, .. } if !let_go.contains(&op) => {
                lost.insert(op);
            }
            What::Looked {
                op, loss: Some(_), ..
            } => {
                lost.insert(op);
            }
            What::LetGo { op, how } => {
                let_go.insert(op);
                let others = guards.entry(cell(&op)).or_default();
                *others = others.saturating_sub(usize::from(how != LetGo::Leak));
                if *others > 0 {
                    shared.insert(op);
                }
            }
            What::Released { op, holders, .. }
            | What::Disowned {
                op,
                holders,
                confirmed: true,
            } if holders >= quorum && !lost.contains(&op) && !shared.contains(&op) => {
                let what = format!("#{op} says it is released, and is on {holders} servers");
                violations
                    .push(Violation::new(Invariant::ReleaseIsHonest, event.at, what).of(&[op]));
            }
            _ => {}
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use redlock_quorum::LossCause;

    use super::super::story::Story;
    use super::*;
    use crate::history::Origin;
    use crate::plan::Class;

    #[test]
    fn a_release_that_released_nothing_is_found() {
        let released = |story: Story, holders| {
            let what = What::Released {
                op: 0,
                already_gone: false,
                deleted: 0,
                holders,
            };
            story
                .lets_go(0, 500, LetGo::Release)
                .event(510, 0, what)
                .check(check)
        };
        let held = || Story::new(Class::Second).holds(0, 0, 988);
        assert_eq!(released(held(), 1), 0);
        assert_eq!(released(held(), 2), 1);
        assert_eq!(released(held().lost(0, 400, LossCause::Gone), 3), 0);
    }

    #[test]
    fn the_last_guard_must_release_and_the_others_need_not() {
        let released = |op| What::Released {
            op,
            already_gone: false,
            deleted: 0,
            holders: 3,
        };
        let outer = Origin::Nested {
            outer: 0,
            free: true,
        };
        let first = || {
            let story = Story::new(Class::First).holds(0, 0, 988);
            let story = story.shares(1, 10, 988, outer);
            let story = story.lets_go(0, 20, LetGo::Release);
            story.event(20, 0, released(0))
        };
        assert_eq!(first().check(check), 0);
        let last = first().lets_go(1, 30, LetGo::Release);
        assert_eq!(last.event(35, 1, released(1)).check(check), 1);
    }

    #[test]
    fn a_lease_that_is_not_released_is_found() {
        let disowned = |confirmed, holders| {
            let (op, how) = (0, LetGo::Detach);
            let disowned = What::Disowned {
                op,
                confirmed,
                holders,
            };
            Story::new(Class::First)
                .holds(0, 0, 988)
                .lets_go(0, 20, how)
                .lost(0, 20, LossCause::Detached)
                .event(30, 1, disowned)
                .check(check)
        };
        assert_eq!(disowned(true, 1), 0);
        assert_eq!(disowned(true, 2), 1);
        assert_eq!(disowned(false, 2), 0);
    }
}
