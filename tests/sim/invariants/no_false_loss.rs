//! A lock is never lost for want of keys while its keys are there: without faults of the second
//! class, and where no server forgets, no hold ends as `Gone`.

use redlock_quorum::LossCause;

use super::{Invariant, Violation};
use crate::history::{History, What};
use crate::plan::Class;

pub(crate) fn check(history: &History) -> Vec<Violation> {
    if history.plan.class == Class::Second || history.plan.trust.forgets {
        return Vec::new();
    }
    let mut violations = Vec::new();
    for event in &history.events {
        if let What::Lost {
            op,
            cause: LossCause::Gone,
        } = event.what
        {
            let what = format!("#{op} is gone, and nothing took it away");
            violations.push(Violation::new(Invariant::NoFalseLoss, event.at, what).of(&[op]));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::super::story::Story;
    use super::*;

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
}
