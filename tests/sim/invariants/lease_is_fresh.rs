//! A hold lasts for as long as its ttl promises: the round that won it began at most a round
//! time-out before its request returned, and its validity counts from there. At least a tenth of
//! the ttl is left when it is handed out. `max_hold` makes both shorter.
//!
//! Nested requests share what there is. The time for which the caller's process stood still is allowed for.

use std::time::Duration;

use super::{Invariant, Violation};
use crate::dice::ms;
use crate::history::{History, Origin};
use crate::plan::drift;

pub(crate) fn check(history: &History) -> Vec<Violation> {
    let mut violations = Vec::new();
    let requests = history.requests_by_op();
    for event in &history.events {
        let crate::history::What::Acquired {
            op, valid_until, ..
        } = event.what
        else {
            continue;
        };
        let Some(request) = requests.get(&op) else {
            continue;
        };
        if matches!(request.origin, Origin::Nested { .. }) {
            continue;
        }
        let stalled = history.stalled(request.incarnation, request.asked, event.at);
        let longest = request.round_timeout + stalled + ms(2);
        let promised = request.ttl.saturating_sub(drift(request.ttl));
        let promised = request
            .max_hold
            .map_or(promised, |limit| limit.min(promised));
        let least = (event.at + promised).saturating_sub(longest);
        let tenth = match request.max_hold {
            None => request.ttl / 10,
            Some(_) => Duration::ZERO,
        };
        if valid_until < least || valid_until < event.at + tenth {
            let what = format!(
                "#{op} is valid until {:.3}, at least {:.3} was promised",
                valid_until.as_secs_f64(),
                least.as_secs_f64()
            );
            violations.push(Violation::new(Invariant::LeaseIsFresh, event.at, what).of(&[op]));
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

    #[test]
    fn a_short_lease_is_found() {
        let story = |at, until| {
            Story::new(Class::First)
                .asks(0, 0, Patience::For(ms(5000)))
                .acquired(0, at, until, 2)
        };
        assert_eq!(story(2000, 2988).check(check), 0);
        assert_eq!(story(2000, 2888).check(check), 0, "a round takes its time");
        assert_eq!(story(2000, 2885).check(check), 1);
        assert_eq!(story(500, 988).check(check), 1, "counted from the request");
    }

    #[test]
    fn a_pause_is_no_fault_unless_the_caller_gets_what_is_worthless() {
        let story = |until| {
            Story::new(Class::First)
                .asks(0, 0, Patience::Once)
                .paused(0, 10, 510)
                .acquired(0, 510, until, 2)
        };
        assert_eq!(story(988).check(check), 0);
        assert_eq!(story(600).check(check), 1, "less than a tenth is left");
    }
}
