//! After healing every resource can be acquired, and released without an error.

use std::collections::BTreeSet;

use super::{Invariant, Violation};
use crate::history::{History, Phase, What};
use crate::holds::End;

pub(crate) fn check(history: &History) -> Vec<Violation> {
    let Some(serving) = history.phase(Phase::Serving) else {
        return Vec::new();
    };
    let mut violations = Vec::new();
    let mut served = BTreeSet::new();
    let released: BTreeSet<_> = history
        .events
        .iter()
        .filter_map(|event| match event.what {
            What::Released { op, .. } => Some(op),
            _ => None,
        })
        .collect();
    for request in history.requests() {
        if request.asked < serving {
            continue;
        }
        served.insert(request.resource);
        let is_acquired = matches!(request.ended, Some((_, End::Acquired)));
        if !is_acquired || !released.contains(&request.op) {
            let (op, resource) = (request.op, request.resource);
            let how = request.ended.map(|(_, how)| how);
            let what = format!("#{op} could not acquire and release r{resource}: {how:?}");
            let at = request.ended.map_or(request.asked, |(at, _)| at);
            violations.push(Violation::new(Invariant::ServesAfterHealing, at, what).of(&[op]));
        }
    }
    if served.len() < history.plan.resources {
        let what = "not every resource was asked for".to_owned();
        violations.push(Violation::new(Invariant::ServesAfterHealing, serving, what));
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::super::story::Story;
    use super::*;
    use crate::history::{Failure, LetGo, Patience};
    use crate::plan::Class;

    fn serve(story: impl FnOnce(Story) -> Story) -> usize {
        let serving = Story::new(Class::Second).phase(60_000, Phase::Serving);
        let mut history = story(serving).history();
        history.plan.resources = 1;
        check(&history).len()
    }

    #[test]
    fn a_resource_that_cannot_be_acquired_is_found() {
        assert_eq!(serve(|story| story), 1, "nobody asked");
        let failed = |story: Story| {
            let asked = story.asks(0, 60_001, Patience::Once);
            asked.fails(0, 60_002, Failure::Contended)
        };
        assert_eq!(serve(failed), 1);
        let held = |story: Story| story.holds(0, 60_001, 60_989);
        assert_eq!(serve(held), 1, "it was never released");
        let released = What::Released {
            op: 0,
            already_gone: false,
            deleted: 3,
            holders: 0,
        };
        let done = |story: Story| {
            let let_go = held(story).lets_go(0, 60_010, LetGo::Release);
            let_go.event(60_020, 0, released)
        };
        assert_eq!(serve(done), 0);
    }
}
