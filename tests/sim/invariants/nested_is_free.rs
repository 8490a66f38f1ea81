//! An owner acquires what it holds at once, without asking any server, unless it asks for a longer
//! ttl or has lost the lock; and it gets the lock that it has: its token, and its fencing token.
//! Holds in every class of faults.

use super::{Invariant, Violation};
use crate::history::{Failure, History, Origin};
use crate::holds::End;

pub(crate) fn check(history: &History) -> Vec<Violation> {
    let requests = history.requests_by_op();
    let mut violations = Vec::new();
    for request in requests.values() {
        let Origin::Nested { outer, free } = request.origin else {
            continue;
        };
        let mut found = |what: String| {
            let at = request.ended.map_or(request.asked, |(at, _)| at);
            let ops = [outer, request.op];
            violations.push(Violation::new(Invariant::NestedIsFree, at, what).of(&ops));
        };
        let op = request.op;
        let stalled = |to| history.stalled(request.incarnation, request.asked, to);
        match request.ended {
            Some((at, _)) if free && at > request.asked + stalled(at) => {
                found(format!("#{op} is nested, and took time"));
            }
            Some((_, End::Failed(failure))) if free && failure != Failure::Lost => {
                found(format!("#{op} is nested, and failed: {failure:?}"));
            }
            _ => {}
        }
        let outer = requests.get(&outer).and_then(|outer| outer.hold.as_ref());
        if let (Some(hold), Some(outer)) = (&request.hold, outer)
            && (&hold.token, hold.fence) != (&outer.token, outer.fence)
        {
            found(format!("#{op} is nested, and has another lock"));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::super::story::Story;
    use super::*;
    use crate::history::Patience;
    use crate::plan::Class;

    const fn nested(free: bool) -> Origin {
        Origin::Nested { outer: 0, free }
    }

    fn story(free: bool) -> Story {
        let held = Story::new(Class::Second).holds(0, 0, 988);
        held.asks_for(1, 10, Patience::Once, nested(free))
    }

    #[test]
    fn a_nested_request_that_asks_somebody_is_found() {
        assert_eq!(story(true).fails(1, 10, Failure::Lost).check(check), 0);
        assert_eq!(story(true).fails(1, 11, Failure::Lost).check(check), 1);
        assert_eq!(story(true).fails(1, 10, Failure::Contended).check(check), 1);
        assert_eq!(story(false).fails(1, 11, Failure::NoQuorum).check(check), 0);
    }

    #[test]
    fn a_nested_request_with_another_lock_is_found() {
        assert_eq!(story(false).acquired(1, 15, 988, 3).check(check), 1);
        let shared = Story::new(Class::First).holds(0, 0, 988);
        assert_eq!(shared.shares(1, 10, 988, nested(true)).check(check), 0);
    }
}
