//! Fencing tokens are unique, grow with the grants of their resource, and are bought.
//!
//! While nobody but fenced requests asks for a resource, any two quorums share a server that
//! accepted both ballots, one after the other. So a grant that was asked for after another had
//! returned has the larger token, in every class of faults; and where certain holds do not overlap,
//! they are in the order of their tokens. A token was accepted as a ballot by a quorum.
//!
//! Servers that forget their fences may break the first where nobody guards against them; then it
//! still holds between grants that are further apart than the wall clocks of clients.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use redlock_quorum::testkit::memory::CommandKind;

use super::{Invariant, Violation};
use crate::dice::ms;
use crate::history::{History, Op};
use crate::holds::{Hold, Request};
use crate::plan::Class;
use crate::trust::Fenced;

pub(crate) fn check(history: &History) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut resources: BTreeMap<usize, Vec<Grant>> = BTreeMap::new();
    for (request, hold) in history.holds() {
        if !request.is_fresh() {
            continue;
        }
        if request.fenced != hold.fence.is_some() {
            let (op, fenced, fence) = (request.op, request.fenced, hold.fence);
            let what = format!("#{op}, fenced: {fenced}, has the token {fence:?}");
            violations.push(violation(hold.acquired, what, &[op]));
        }
        let fenced_by_all = |resource: &usize| history.plan.trust.fenced[*resource] == Fenced::All;
        for resource in request.resources().filter(fenced_by_all) {
            if let Some(grant) = Grant::new(request, hold) {
                resources.entry(resource).or_default().push(grant);
            }
        }
    }
    for grants in resources.values() {
        violations.extend(bought(history, grants));
        violations.extend(ordered(history, grants));
    }
    if !history.plan.trust.forgets {
        violations.extend(accepted(history));
    }
    violations
}

fn violation(at: Duration, what: String, ops: &[Op]) -> Violation {
    Violation::new(Invariant::TokensGrow, at, what).of(ops)
}

#[derive(Clone, Debug)]
struct Grant {
    op: Op,
    token: String,
    fence: u64,
    asked: Duration,
    returned: Duration,
}

impl Grant {
    fn new(request: &Request, hold: &Hold) -> Option<Self> {
        Some(Self {
            op: request.op,
            token: hold.token.clone(),
            fence: hold.fence?,
            asked: request.asked,
            returned: hold.acquired,
        })
    }
}

/// A quorum accepted the token as a ballot before the request returned.
fn bought(history: &History, grants: &[Grant]) -> Vec<Violation> {
    let (tokens, quorum) = (history.by_token(), history.plan.quorum());
    let mut violations = Vec::new();
    for grant in grants {
        let executions = tokens.get(grant.token.as_str());
        let servers: BTreeSet<usize> = executions
            .into_iter()
            .flatten()
            .filter(|(_, entry)| entry.kind == CommandKind::Acquire && entry.took_effect)
            .filter(|(_, entry)| entry.ballot == Some(grant.fence) && entry.at <= grant.returned)
            .map(|&(server, _)| server)
            .collect();
        if servers.len() < quorum {
            let (op, fence, count) = (grant.op, grant.fence, servers.len());
            let what = format!("#{op} has the token {fence}, which {count} servers accepted");
            violations.push(violation(grant.returned, what, &[op]));
        }
    }
    violations
}

fn ordered(history: &History, grants: &[Grant]) -> Vec<Violation> {
    let trust = &history.plan.trust;
    let exclusive = history.plan.class != Class::Second;
    let apart = if trust.forgets && !exclusive {
        // Less than a thousand attempts are made in a millisecond, each with one more.
        trust.skew + ms(1)
    } else {
        Duration::ZERO
    };
    let mut violations = Vec::new();
    // Several may return in one moment.
    let order = history.grants_in_order();
    let mut by_return: Vec<&Grant> = grants.iter().collect();
    by_return.sort_by_key(|grant| order[&grant.op]);
    for (place, later) in by_return.iter().enumerate() {
        let before = by_return[..place]
            .iter()
            .filter(|earlier| exclusive || earlier.returned + apart < later.asked);
        let largest = before.max_by_key(|earlier| earlier.fence);
        if let Some(earlier) = largest.filter(|earlier| earlier.fence >= later.fence) {
            let what = format!(
                "#{} has the token {}, and #{} before it had {}",
                later.op, later.fence, earlier.op, earlier.fence
            );
            violations.push(violation(later.returned, what, &[earlier.op, later.op]));
        }
    }
    if apart.is_zero() {
        let mut seen = BTreeMap::new();
        for grant in by_return {
            if let Some(other) = seen.insert(grant.fence, grant.op) {
                let what = format!("#{other} and #{} have one fencing token", grant.op);
                violations.push(violation(grant.returned, what, &[other, grant.op]));
            }
        }
    }
    violations
}

/// What a server accepts only grows.
fn accepted(history: &History) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (server, log) in history.servers.iter().enumerate() {
        let mut largest: BTreeMap<&str, (u64, &str)> = BTreeMap::new();
        for entry in log.iter().filter(|entry| entry.took_effect) {
            let (Some(ballot), CommandKind::Acquire | CommandKind::Heal) =
                (entry.ballot, entry.kind)
            else {
                continue;
            };
            for key in &entry.keys {
                let before = largest.insert(key, (ballot, &entry.token));
                // Two attempts may bear one ballot, of which one is granted, and healed where the other was.
                let may_equal =
                    |token: &str| entry.kind == CommandKind::Heal || token == entry.token;
                let is_larger = |(fence, token): (u64, &str)| {
                    ballot > fence || (ballot == fence && may_equal(token))
                };
                if let Some(before) = before.filter(|&before| !is_larger(before)) {
                    let what = format!(
                        "server {server} accepted {ballot} for {} after {}",
                        key, before.0
                    );
                    violations.push(violation(entry.at, what, &[]).about(key));
                }
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::super::story::Story;
    use super::*;
    use crate::history::What;

    const ACQUIRE: CommandKind = CommandKind::Acquire;

    /// Accepted by two servers, and then granted.
    fn grant(story: Story, op: Op, asked: u64, at: u64, token: u64) -> Story {
        story
            .did_with(0, at, ACQUIRE, op, Some(token))
            .did_with(1, at, ACQUIRE, op, Some(token))
            .fenced(op, asked, at, at + 900, token)
    }

    fn two(class: Class, second_asked: u64, token: u64) -> Story {
        let first = grant(Story::new(class), 0, 0, 10, 500);
        grant(first, 1, second_asked, 2000, token)
    }

    #[test]
    fn a_token_that_does_not_grow_is_found() {
        assert_eq!(two(Class::First, 1500, 501).check(check), 0);
        assert!(two(Class::First, 1500, 499).check(check) > 0);
        assert!(two(Class::First, 1500, 500).check(check) > 0);
        assert!(
            two(Class::First, 5, 499).check(check) > 0,
            "holds do not overlap"
        );
    }

    #[test]
    fn in_the_second_class_what_overlaps_has_no_order() {
        let surviving = |asked, token| {
            let mut history = two(Class::Second, asked, token).history();
            history.plan.trust.forgets = false;
            history.servers = vec![Vec::new(); 3];
            ordered(&history, &grants(&history)).len()
        };
        assert_eq!(surviving(5, 499), 0);
        assert_eq!(surviving(11, 499), 1);
        assert_eq!(surviving(5, 500), 1, "but not the same token");
    }

    #[test]
    fn where_fences_are_forgotten_clocks_must_do() {
        let forgetful = |asked| {
            let mut history = two(Class::Second, asked, 400).history();
            history.plan.trust.skew = ms(100);
            check(&history).len()
        };
        assert_eq!(forgetful(111), 0);
        assert_eq!(forgetful(112), 1);
    }

    #[test]
    fn a_token_that_was_not_accepted_is_found() {
        let story = |ballots: [u64; 2]| {
            Story::new(Class::Second)
                .did_with(0, 5, ACQUIRE, 0, Some(ballots[0]))
                .did_with(1, 5, ACQUIRE, 0, Some(ballots[1]))
                .fenced(0, 0, 10, 900, 7)
                .check(check)
        };
        assert_eq!(story([7, 7]), 0);
        assert_eq!(story([7, 6]), 1);
        let mut plain = Story::new(Class::First).holds(0, 0, 988).history();
        assert_eq!(check(&plain).len(), 0);
        plain.requests = std::sync::OnceLock::new();
        if let What::Asked { fenced, .. } = &mut plain.events[0].what {
            *fenced = true;
        }
        assert_eq!(check(&plain).len(), 1, "it was to be fenced");
    }

    #[test]
    fn a_server_that_accepts_a_smaller_ballot_is_found() {
        let story = |kind, op, ballot| {
            Story::new(Class::First)
                .did_with(0, 5, ACQUIRE, 0, Some(7))
                .did_with(0, 6, kind, op, Some(ballot))
                .check(check)
        };
        assert_eq!(story(ACQUIRE, 1, 8), 0);
        assert_eq!(story(ACQUIRE, 0, 7), 0);
        assert_eq!(story(ACQUIRE, 1, 7), 1);
        assert_eq!(story(CommandKind::Heal, 1, 7), 0);
        assert_eq!(story(CommandKind::Heal, 1, 6), 1);
    }

    fn grants(history: &History) -> Vec<Grant> {
        let holds = history.holds();
        holds
            .filter_map(|(request, hold)| Grant::new(request, hold))
            .collect()
    }
}
