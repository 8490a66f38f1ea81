//! When a release of a held lock returns without an error, its key is on fewer than a quorum of
//! servers. Holds in every class of faults.

use std::collections::BTreeSet;

use super::{Invariant, Violation};
use crate::history::{History, What};

pub(crate) fn check(history: &History) -> Vec<Violation> {
    let quorum = history.plan.quorum();
    let mut let_go = BTreeSet::new();
    let mut lost = BTreeSet::new();
    let mut violations = Vec::new();
    for event in &history.events {
        match event.what {
            // What is lost already is released behind, and says so at once.
            What::Lost { op, .. } if !let_go.contains(&op) => {
                lost.insert(op);
            }
            What::Looked {
                op, loss: Some(_), ..
            } => {
                lost.insert(op);
            }
            What::LetGo { op, .. } => {
                let_go.insert(op);
            }
            What::Released { op, holders, .. } if holders >= quorum && !lost.contains(&op) => {
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
    use crate::history::LetGo;
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
}
