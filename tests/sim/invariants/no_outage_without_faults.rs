//! A minority of faulty servers is no outage: as long as a majority of servers and the links to
//! them work, a request fails only because somebody else is in the way.
//!
//! Checked where fewer than half of the servers may misbehave, after the first second, in which
//! connections are made; and after the first quarantine, if the servers are new. What extends a lock,
//! nested or attached, needs the servers that have it: it is checked where nothing is wrong.

use std::time::Duration;

use super::{Invariant, Violation};
use crate::dice::ms;
use crate::history::{Failure, History, Patience};
use crate::holds::{End, Request};
use crate::plan::Class;

pub(crate) fn check(history: &History) -> Vec<Violation> {
    match history.plan.class {
        Class::Calm | Class::Minority => {}
        Class::First | Class::Second => return Vec::new(),
    }
    let trust = &history.plan.trust;
    let since = if trust.founded {
        Duration::ZERO
    } else {
        // A second to connect, one for the second look, and one to see that it is over.
        trust.quarantine() + ms(3000)
    };
    let mut violations = Vec::new();
    for request in history.requests() {
        if let Some((at, End::Failed(failure @ (Failure::NoQuorum | Failure::TooLate)))) =
            request.ended
            && !is_too_short(request)
            && request.asked >= since
            && (request.is_fresh() || history.plan.class == Class::Calm)
        {
            let what = format!(
                "#{} failed with {failure:?}, and a majority works",
                request.op
            );
            let violation = Violation::new(Invariant::NoOutageWithoutFaults, at, what);
            violations.push(violation.of(&[request.op]));
        }
    }
    violations
}

/// Whoever waits for less than a handshake and a round trip may be told anything, and who may hold
/// for less than a round takes may win it too late.
fn is_too_short(request: &Request) -> bool {
    let too_short = |limit| limit < request.round_timeout;
    matches!(request.patience, Patience::For(limit) if limit < ms(200))
        || request.max_hold.is_some_and(too_short)
}

#[cfg(test)]
mod tests {
    use super::super::story::Story;
    use super::*;
    use crate::history::{Origin, What};

    #[test]
    fn an_outage_without_a_reason_is_found() {
        let story = |class, failure| {
            let asked = Story::new(class).asks(0, 0, Patience::For(ms(500)));
            asked.fails(0, 500, failure).check(check)
        };
        assert_eq!(story(Class::Minority, Failure::NoQuorum), 1);
        assert_eq!(story(Class::Calm, Failure::TooLate), 1);
        assert_eq!(story(Class::Calm, Failure::Contended), 0);
        assert_eq!(story(Class::First, Failure::NoQuorum), 0);
        for (limit, found) in [(99, 0), (100, 1)] {
            let asked = Story::new(Class::Minority).asks(0, 0, Patience::For(ms(500)));
            let mut history = asked.fails(0, 500, Failure::TooLate).history();
            if let What::Asked { max_hold, .. } = &mut history.events[0].what {
                *max_hold = Some(ms(limit));
            }
            assert_eq!(check(&history).len(), found);
        }
    }

    #[test]
    fn a_lock_may_be_on_faulty_servers() {
        let story = |class| {
            let asked = Story::new(class).holds(0, 0, 988);
            let origin = Origin::Attached { from: 0 };
            let asked = asked.asks_for(1, 500, Patience::Once, origin);
            asked.fails(1, 600, Failure::NoQuorum).check(check)
        };
        assert_eq!((story(Class::Calm), story(Class::Minority)), (1, 0));
    }

    #[test]
    fn new_servers_are_waited_for_once() {
        let story = |founded, asked| {
            let asks = Story::new(Class::Calm).asks(0, asked, Patience::Once);
            let mut history = asks.fails(0, asked, Failure::NoQuorum).history();
            history.plan.trust.founded = founded;
            history.plan.trust.guard = redlock_quorum::RestartGuard::Strict;
            check(&history).len()
        };
        // max_ttl is 10 s.
        assert_eq!(story(false, 14_099), 0);
        assert_eq!(story(false, 14_100), 1);
        assert_eq!(story(true, 0), 1);
    }
}
