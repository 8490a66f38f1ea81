//! Those who wait for one resource in one client are granted it in the order in which they asked.
//!
//! A set of resources stands in all its lines at once, so of two requests that share a resource the
//! later one waits for the earlier one, whatever else they are for. Single attempts stand in no line,
//! and the last attempt of a request whose time is over may be granted before those who wait. Who was
//! dropped or failed has left. Holds in every class of faults.

use std::collections::BTreeMap;

use super::{Invariant, Violation};
use crate::history::{History, Patience};
use crate::holds::{End, Request};

pub(crate) fn check(history: &History) -> Vec<Violation> {
    // By the number of the request, which is the order in which they asked.
    let mut lines: BTreeMap<(usize, usize), Vec<&Request>> = BTreeMap::new();
    let requests = history.requests();
    for request in requests.iter().filter(|request| request.queues()) {
        if matches!(request.ended, Some((_, End::Acquired))) {
            for resource in request.resources() {
                let line = lines.entry((request.incarnation, resource));
                line.or_default().push(request);
            }
        }
    }
    let granted = history.grants_in_order();
    let mut violations = Vec::new();
    for ((_, resource), line) in &lines {
        let mut latest: Option<&Request> = None;
        for &request in line {
            let is_after = |other: &Request| granted[&other.op] > granted[&request.op];
            let overtaken = latest.filter(|&before| is_after(before));
            if let Some(before) = overtaken.filter(|_| !is_last_attempt(request)) {
                let (early, late) = (before.op, request.op);
                let what =
                    format!("#{late} was granted r{resource} before #{early}, who was before it");
                let at = request.ended.map_or(request.asked, |(at, _)| at);
                let violation = Violation::new(Invariant::LineIsFirstInFirstOut, at, what);
                violations.push(violation.of(&[early, late]));
            } else if overtaken.is_none() {
                latest = Some(request);
            }
        }
    }
    violations
}

fn is_last_attempt(request: &Request) -> bool {
    match (request.patience, request.ended) {
        (Patience::For(limit), Some((at, _))) => at >= request.asked + limit,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::story::Story;
    use super::*;
    use crate::dice::ms;
    use crate::history::{Failure, What};
    use crate::plan::Class;

    const WAITS: Patience = Patience::For(ms(500));

    /// Two ask, and are granted at these times; of one client.
    fn two(patience: Patience, first: u64, second: u64) -> Story {
        let asked = Story::new(Class::Second)
            .asks(0, 0, WAITS)
            .asks(1, 0, patience);
        let mut grants = [(0, first), (1, second)];
        grants.sort_by_key(|&(_, at)| at);
        let [(early, at), (late, then)] = grants;
        let granted = asked.acquired(early, at, at + 10, 3);
        granted.acquired(late, then, then + 10, 3)
    }

    fn found(story: Story, of_one_client: bool) -> usize {
        let mut history = story.history();
        for event in &mut history.events {
            if let What::Asked { incarnation, .. } = &mut event.what
                && of_one_client
            {
                *incarnation = 0;
            }
        }
        check(&history).len()
    }

    #[test]
    fn who_is_granted_out_of_turn_is_found() {
        assert_eq!(found(two(WAITS, 100, 200), true), 0);
        assert_eq!(found(two(WAITS, 200, 100), true), 1);
        assert_eq!(found(two(WAITS, 200, 100), false), 0, "two clients");
        assert_eq!(found(two(Patience::Once, 200, 100), true), 0, "no line");
        assert_eq!(found(two(Patience::Forever, 200, 100), true), 1);
        let impatient = Patience::For(ms(100));
        assert_eq!(found(two(impatient, 200, 100), true), 0, "a last attempt");
        assert_eq!(found(two(impatient, 200, 99), true), 1);
    }

    #[test]
    fn who_has_left_is_not_overtaken() {
        let left = Story::new(Class::First)
            .asks(0, 0, WAITS)
            .asks(1, 0, WAITS)
            .acquired(1, 100, 110, 3)
            .fails(0, 600, Failure::Contended);
        assert_eq!(found(left, true), 0);
    }

    #[test]
    fn a_set_stands_in_every_line() {
        let story = |others: &[usize]| {
            let asked = Story::new(Class::First).asks(0, 0, WAITS).set(0, others);
            let mut history = asked
                .asks(1, 0, WAITS)
                .acquired(1, 100, 110, 3)
                .acquired(0, 200, 210, 3)
                .history();
            for event in &mut history.events {
                if let What::Asked {
                    op,
                    resource,
                    incarnation,
                    ..
                } = &mut event.what
                {
                    (*resource, *incarnation) = (1 - *op, 0);
                }
            }
            check(&history).len()
        };
        assert_eq!(story(&[0]), 1);
        assert_eq!(story(&[2]), 0);
    }
}
