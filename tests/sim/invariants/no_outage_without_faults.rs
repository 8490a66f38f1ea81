//! A minority of faulty servers is no outage: as long as a majority of servers and the links to
//! them work, a request fails only because somebody else is in the way.
//!
//! Checked where fewer than half of the servers may misbehave, after the first second, in which
//! connections are made.

use super::{Invariant, Violation};
use crate::dice::ms;
use crate::history::{Failure, History};
use crate::holds::End;
use crate::plan::Class;

pub(crate) fn check(history: &History) -> Vec<Violation> {
    match history.plan.class {
        Class::Calm | Class::Minority => {}
        Class::First | Class::Second => return Vec::new(),
    }
    let mut violations = Vec::new();
    for request in history.requests() {
        if let Some((at, End::Failed(failure @ (Failure::NoQuorum | Failure::TooLate)))) =
            request.ended
            && !is_too_short(&request)
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

/// Whoever waits for less than a handshake and a round trip may be told anything.
fn is_too_short(request: &crate::holds::Request) -> bool {
    matches!(request.patience, crate::history::Patience::For(limit) if limit < ms(200))
}

#[cfg(test)]
mod tests {
    use super::super::story::Story;
    use super::*;
    use crate::history::Patience;

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
    }
}
