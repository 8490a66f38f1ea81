//! A section of `using` does nothing after its lock is lost. Holds in every class of faults.

use std::collections::BTreeMap;

use super::{Invariant, Violation};
use crate::history::{History, What};

pub(crate) fn check(history: &History) -> Vec<Violation> {
    let mut lost = BTreeMap::new();
    let mut violations = Vec::new();
    for event in &history.events {
        match event.what {
            What::Lost { op, .. } => {
                lost.entry(op).or_insert(event.at);
            }
            What::Worked { op } if lost.get(&op).is_some_and(|&at| at < event.at) => {
                let what = format!("the section of #{op} goes on after the loss");
                violations.push(
                    Violation::new(Invariant::SectionsEndWithTheLock, event.at, what).of(&[op]),
                );
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
    use crate::plan::Class;

    #[test]
    fn a_section_that_goes_on_is_found() {
        let worked = |at| {
            Story::new(Class::Second)
                .holds(0, 0, 988)
                .event(900, 0, What::Worked { op: 0 })
                .lost(0, 987, LossCause::Expired)
                .event(at, 0, What::Worked { op: 0 })
                .check(check)
        };
        assert_eq!(worked(987), 0);
        assert_eq!(worked(988), 1);
    }
}
