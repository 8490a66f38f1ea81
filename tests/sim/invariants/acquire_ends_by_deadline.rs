//! Every request for a lock ends in time: a single attempt within the time to connect (1 s) and one
//! round time-out, a waiting one within the time it may wait and the round that began last.
//! A nested request that asks for more time is an extension, and comes after the one that is under
//! way.
//!
//! The time for which the caller's process stood still is allowed
//! for, and timers round up.

use std::time::Duration;

use super::{Invariant, Violation};
use crate::dice::ms;
use crate::history::{History, Origin, Patience, What};

const CONNECT: Duration = ms(1000);
const GRAIN: Duration = ms(2);

pub(crate) fn check(history: &History) -> Vec<Violation> {
    let mut violations = Vec::new();
    for event in &history.events {
        if let What::Stuck { what } = &event.what {
            let what = format!("still waiting: {what}");
            violations.push(Violation::new(
                Invariant::AcquireEndsByDeadline,
                event.at,
                what,
            ));
        }
    }
    for request in history.requests() {
        let Some((ended, _)) = request.ended else {
            continue;
        };
        let allowed = match request.patience {
            Patience::Once => CONNECT + request.round_timeout,
            Patience::For(limit) => limit + request.round_timeout,
            Patience::Forever => continue,
        };
        // The rounds of the extensions: the one in flight, and its own.
        let extends = matches!(request.origin, Origin::Nested { free: false, .. });
        let allowed = allowed
            + if extends {
                request.round_timeout * 2
            } else {
                ms(0)
            };
        let took = ended.saturating_sub(request.asked);
        let stalled = history.stalled(request.incarnation, request.asked, ended);
        if took > allowed + stalled + GRAIN {
            let what = format!("#{} took {took:?}, {allowed:?} was allowed", request.op);
            let violation = Violation::new(Invariant::AcquireEndsByDeadline, ended, what);
            violations.push(violation.of(&[request.op]));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::super::story::Story;
    use super::*;
    use crate::history::Failure;
    use crate::plan::Class;

    #[test]
    fn a_request_that_lasts_too_long_is_found() {
        let story = |patience, at| {
            let asked = Story::new(Class::Second).asks(0, 0, patience);
            asked.fails(0, at, Failure::NoQuorum).check(check)
        };
        assert_eq!(story(Patience::Once, 1102), 0);
        assert_eq!(story(Patience::Once, 1103), 1);
        assert_eq!(story(Patience::For(ms(500)), 602), 0);
        assert_eq!(story(Patience::For(ms(500)), 603), 1);
        assert_eq!(story(Patience::Forever, 60_000), 0);
    }

    #[test]
    fn a_pause_is_allowed_for_and_a_caller_that_hangs_is_found() {
        let paused = Story::new(Class::First)
            .asks(0, 0, Patience::For(ms(500)))
            .paused(0, 400, 900)
            .fails(0, 900, Failure::NoQuorum);
        assert_eq!(paused.check(check), 0);
        let what = "a caller".to_owned();
        let stuck = Story::new(Class::First).event(0, None, What::Stuck { what });
        assert_eq!(stuck.check(check), 1);
    }
}
