//! A lease is the lock: whoever attaches it has its token and its fencing token; and where nothing
//! is wrong with servers and links, it is not gone before the validity that its holder was told ends.

use super::{Invariant, Violation};
use crate::history::{Failure, History, Origin};
use crate::holds::End;
use crate::plan::Class;

pub(crate) fn check(history: &History) -> Vec<Violation> {
    let requests = history.requests_by_op();
    let mut violations = Vec::new();
    for request in requests.values() {
        let Origin::Attached { from } = request.origin else {
            continue;
        };
        let Some(detached) = requests.get(&from).and_then(|from| from.hold.as_ref()) else {
            continue;
        };
        let op = request.op;
        let mut found = |at, what: String| {
            violations.push(Violation::new(Invariant::LeasesTravel, at, what).of(&[from, op]));
        };
        match (&request.hold, request.ended) {
            (Some(hold), _) if (&hold.token, hold.fence) != (&detached.token, detached.fence) => {
                found(hold.acquired, format!("#{op} is not the lock of #{from}"));
            }
            (None, Some((at, End::Failed(Failure::Gone))))
                if history.plan.class == Class::Calm && at < detached.certain_end() =>
            {
                let until = detached.certain_end().as_secs_f64();
                found(
                    at,
                    format!("#{from} is gone, but was valid until {until:.3}"),
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
    use crate::history::{LetGo, Patience};

    const ATTACHED: Origin = Origin::Attached { from: 0 };

    fn detached(class: Class) -> Story {
        Story::new(class)
            .holds(0, 0, 988)
            .lets_go(0, 100, LetGo::Detach)
            .lost(0, 100, LossCause::Detached)
    }

    #[test]
    fn a_lease_that_is_gone_too_early_is_found() {
        let gone = |class, at| {
            let asked = detached(class).asks_for(1, 200, Patience::Once, ATTACHED);
            asked.fails(1, at, Failure::Gone).check(check)
        };
        assert_eq!(gone(Class::Calm, 987), 1);
        assert_eq!(gone(Class::Calm, 988), 0);
        assert_eq!(gone(Class::First, 987), 0);
    }

    #[test]
    fn a_lease_that_becomes_another_lock_is_found() {
        let shared = detached(Class::First).shares(1, 200, 1188, ATTACHED);
        assert_eq!(shared.check(check), 0);
        let asked = detached(Class::First).asks_for(1, 200, Patience::Once, ATTACHED);
        assert_eq!(asked.acquired(1, 210, 1188, 3).check(check), 1);
    }
}
