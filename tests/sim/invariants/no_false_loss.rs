//! A lock is never lost for want of keys while its keys are there: without faults of the second
//! class, and where no server forgets, no hold ends as `Gone`. Nor is a guard lost as released or
//! detached that its holder did not let go, in any class.

use std::collections::BTreeSet;

use redlock_quorum::LossCause;

use super::{Invariant, Violation};
use crate::history::{History, What};
use crate::plan::Class;

pub(crate) fn check(history: &History) -> Vec<Violation> {
    let may_go = history.plan.class == Class::Second || history.plan.trust.forgets;
    let mut let_go = BTreeSet::new();
    let mut violations = Vec::new();
    for event in &history.events {
        let mut found = |op, what: String| {
            violations.push(Violation::new(Invariant::NoFalseLoss, event.at, what).of(&[op]));
        };
        match event.what {
            What::LetGo { op, .. } => {
                let_go.insert(op);
            }
            What::Lost {
                op,
                cause: LossCause::Gone,
            } if !may_go => found(op, format!("#{op} is gone, and nothing took it away")),
            What::Lost {
                op,
                cause: cause @ (LossCause::Released | LossCause::Detached),
            } if !let_go.contains(&op) => {
                found(op, format!("#{op} is lost ({cause}), and nobody let go"));
            }
            _ => {}
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::super::story::Story;
    use super::*;
    use crate::history::LetGo;

    #[test]
    fn a_loss_without_a_reason_is_found() {
        let story = |class, cause| {
            Story::new(class)
                .holds(0, 0, 988)
                .lost(0, 500, cause)
                .check(check)
        };
        assert_eq!(story(Class::First, LossCause::Gone), 1);
        assert_eq!(story(Class::Second, LossCause::Gone), 0);
        assert_eq!(story(Class::First, LossCause::Closed), 0);
    }

    #[test]
    fn a_guard_that_is_let_go_by_somebody_else_is_found() {
        let story = |by| {
            let held = Story::new(Class::Second).holds(0, 0, 988);
            let let_go = held.lets_go(by, 500, LetGo::Release);
            let_go.lost(0, 500, LossCause::Released).check(check)
        };
        assert_eq!(story(0), 0);
        assert_eq!(story(1), 1);
    }
}
