//! Validity is bought: at least a quorum of servers carried the command out between the moment from
//! which the validity counts and the moment at which the caller was told.
//!
//! The moment from which it counts is `valid_until - (ttl - drift)`: so a lease clock that starts
//! after the first execution shows here at once, and a quorum that is too small, too. Holds in every
//! class of faults.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::Duration;

use redlock_quorum::testkit::memory::CommandKind;

use super::{Invariant, Violation};
use crate::history::{Event, Execution, History, Op, Origin, What};
use crate::plan::drift;

pub(crate) fn check(history: &History) -> Vec<Violation> {
    let (requests, tokens) = (history.requests_by_op(), history.by_token());
    let quorum = history.plan.quorum();
    let mut paid: BTreeMap<Op, Duration> = BTreeMap::new();
    let mut asked: BTreeMap<Op, Vec<Duration>> = BTreeMap::new();
    let mut violations = Vec::new();
    for Event { at, what, .. } in &history.events {
        // An extension whose future was dropped counts if it succeeds, and shows later; so does one
        // by renewal, with the latest ttl that was asked for.
        let (op, ttl, until, kind) = match *what {
            What::Acquired {
                op, valid_until, ..
            } => {
                let asked = requests.get(&op).filter(|request| !request.is_fresh());
                let kind = if asked.is_some() {
                    CommandKind::Extend
                } else {
                    CommandKind::Acquire
                };
                (op, asked.map(|request| request.ttl), valid_until, kind)
            }
            What::Extended {
                op,
                ttl,
                valid_until,
            } => (op, Some(ttl), valid_until, CommandKind::Extend),
            What::Looked {
                op, valid_until, ..
            } => (op, None, valid_until, CommandKind::Extend),
            // A nested request that asks for more extends the lock.
            What::ExtendAbandoned { op, ttl }
            | What::Asked {
                op,
                ttl,
                origin: Origin::Nested { .. },
                ..
            } => {
                if let Some(request) = requests.get(&op) {
                    asked.entry(request.cell).or_default().push(ttl);
                }
                continue;
            }
            _ => continue,
        };
        let Some((request, hold)) = requests
            .get(&op)
            .and_then(|request| Some((request, request.hold.as_ref()?)))
        else {
            continue;
        };
        let cell = request.cell;
        // What does not last longer than before was free.
        let before = paid.get(&cell).copied();
        if before.is_some_and(|before| until <= before) {
            continue;
        }
        paid.insert(cell, until);
        let ttls = match kind {
            CommandKind::Acquire => vec![request.ttl],
            _ => {
                let renewal = request.renews.then_some(request.renewed_ttl);
                let asked = asked.entry(cell).or_default();
                asked.extend(ttl);
                asked.iter().copied().chain(renewal).collect()
            }
        };
        let executions = tokens
            .get(hold.token.as_str())
            .map_or(&[][..], Vec::as_slice);
        let servers = ttls
            .into_iter()
            .map(|ttl| (until + drift(ttl)).saturating_sub(ttl))
            .map(|counts_from| carried_out(executions, kind, counts_from..=*at))
            .max()
            .unwrap_or_default();
        if servers < quorum {
            let what = format!(
                "{kind:?} of #{op}, valid until {:.3}, was carried out by {servers} servers since its \
                 validity counts; a quorum is {quorum}",
                until.as_secs_f64()
            );
            violations.push(Violation::new(Invariant::BoughtByAQuorum, *at, what).of(&[op]));
        }
    }
    violations
}

/// By how many servers, within this time.
fn carried_out(
    executions: &[(usize, &Execution)],
    kind: CommandKind,
    within: RangeInclusive<Duration>,
) -> usize {
    let servers: BTreeSet<usize> = executions
        .iter()
        .filter(|(_, entry)| entry.kind == kind && entry.took_effect && within.contains(&entry.at))
        .map(|&(server, _)| server)
        .collect();
    servers.len()
}

#[cfg(test)]
mod tests {
    use super::super::story::{Story, TTL};
    use super::*;
    use crate::dice::ms;
    use crate::history::Patience;
    use crate::plan::Class;

    const ACQUIRE: CommandKind = CommandKind::Acquire;
    const EXTEND: CommandKind = CommandKind::Extend;

    #[test]
    fn validity_without_a_quorum_of_executions_is_found() {
        let bought = |at| {
            let story = Story::new(Class::Second).did(0, at, ACQUIRE, 0);
            story.did(1, at, ACQUIRE, 0).holds(0, 30, 988)
        };
        assert_eq!(bought(0).check(check), 0);
        assert_eq!(bought(30).check(check), 0);
        assert_eq!(bought(31).check(check), 1, "after the caller was told");
        let early = Story::new(Class::First)
            .did(0, 9, ACQUIRE, 0)
            .did(1, 11, ACQUIRE, 0)
            .holds(0, 20, 998);
        assert_eq!(
            early.check(check),
            1,
            "one came before the clock was started"
        );
    }

    #[test]
    fn an_extension_must_be_bought_too() {
        let story = |servers: usize, until: u64| {
            let mut story = Story::new(Class::First)
                .did(0, 0, ACQUIRE, 0)
                .did(1, 0, ACQUIRE, 0)
                .holds(0, 1, 988);
            for server in 0..servers {
                story = story.did(server, 500, EXTEND, 0);
            }
            let (ttl, valid_until) = (TTL, ms(until));
            let extended = What::Extended {
                op: 0,
                ttl,
                valid_until,
            };
            story.event(510, 0, extended).check(check)
        };
        assert_eq!(story(2, 1488), 0);
        assert_eq!(story(1, 1488), 1);
        assert_eq!(story(2, 1489), 1, "the clock was started too late");
        assert_eq!(story(0, 988), 0, "it lasts no longer than before");
    }

    #[test]
    fn a_dropped_extension_must_be_bought_when_it_shows() {
        let story = |servers: usize| {
            let (op, ttl, loss, valid_until) = (0, TTL, None, ms(1488));
            let mut story = Story::new(Class::First)
                .did(0, 0, ACQUIRE, 0)
                .did(1, 0, ACQUIRE, 0)
                .holds(0, 1, 988)
                .event(500, 0, What::ExtendAbandoned { op, ttl });
            for server in 0..servers {
                story = story.did(server, 510, EXTEND, 0);
            }
            let looked = What::Looked {
                op,
                loss,
                valid_until,
            };
            story.event(600, 0, looked).check(check)
        };
        assert_eq!(story(2), 0);
        assert_eq!(story(1), 1);
    }

    #[test]
    fn what_is_attached_or_lengthened_by_a_nested_request_must_be_bought() {
        let story = |origin, servers: usize| {
            let mut story = Story::new(Class::First)
                .did(0, 0, ACQUIRE, 0)
                .did(1, 0, ACQUIRE, 0)
                .holds(0, 1, 988);
            for server in 0..servers {
                story = story.did(server, 500, EXTEND, 0);
            }
            let shared = story.asks_for(1, 500, Patience::Once, origin);
            let acquired = What::Acquired {
                op: 1,
                token: "token-0".to_owned(),
                fence: None,
                valid_until: ms(1488),
                holders: 3,
            };
            shared.event(510, 1, acquired).check(check)
        };
        let (outer, from) = (0, 0);
        for origin in [
            Origin::Nested { outer, free: false },
            Origin::Attached { from },
        ] {
            assert_eq!(story(origin, 2), 0, "{origin:?}");
            assert_eq!(story(origin, 1), 1, "{origin:?}");
        }
    }
}
