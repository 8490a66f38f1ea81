//! No key is left behind: once faults are over and what was owed has been paid, the only keys on
//! any server are those of guards that were leaked or detached, and of clients whose process has ended; and a
//! ttl later there are none.
//!
//! Holds in every class of faults, except on servers whose clocks were set: what was given up after
//! its ttl may live longer there.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use redlock_quorum::testkit::memory::CommandKind;

use super::{Invariant, Violation};
use crate::history::{Execution, History, LetGo, Phase, What};
use crate::holds::Hold;
use crate::timeline::short;

pub(crate) fn check(history: &History) -> Vec<Violation> {
    let mut holds: BTreeMap<&str, Vec<(Duration, &Hold)>> = BTreeMap::new();
    for (request, hold) in history.holds() {
        let ttl = request.ttl.max(hold.longest_ttl);
        let of_token = holds.entry(hold.token.as_str()).or_default();
        of_token.push((ttl, hold));
    }
    let owners: BTreeMap<&str, BTreeSet<usize>> = history
        .by_token()
        .into_iter()
        .map(|(token, entries)| {
            let owners = entries.iter().map(|(_, entry)| entry.incarnation);
            (token, owners.collect())
        })
        .collect();
    let ended: BTreeSet<usize> = ended(history);
    let mut set_back = BTreeSet::new();
    let mut phase = Phase::Healed;
    let mut violations = Vec::new();
    for event in &history.events {
        match &event.what {
            What::Phase(now) => phase = *now,
            What::SetBack { server } => {
                set_back.insert(*server);
            }
            What::Left { server, key, token } => {
                let owner = owners.get(token.as_str());
                let is_gone = owner.is_some_and(|owners| !owners.is_disjoint(&ended));
                let set_at = last_set(history, *server, token);
                let mut holds = holds.get(token.as_str()).into_iter().flatten();
                let may_stay =
                    holds.any(|&(ttl, hold)| may_stay(hold, ttl, event.at, set_at)) || is_gone;
                if set_back.contains(server) || (phase == Phase::Settled && may_stay) {
                    continue;
                }
                let token = short(token);
                let what = format!("{key} {token} is left on server {server}, {phase:?}");
                violations.push(
                    Violation::new(Invariant::NoOrphanAfterSettling, event.at, what).about(token),
                );
            }
            _ => {}
        }
    }
    violations
}

/// Nobody looks after its keys: it was leaked, or detached and not given up. One that was given up by
/// way of its lease may come back, since only its first client knew its stragglers: a plain one at any
/// time, a fenced one at a node that could not be reached for a ttl after it was given up.
fn may_stay(hold: &Hold, ttl: Duration, now: Duration, set_at: Option<Duration>) -> bool {
    match hold.let_go {
        Some((_, LetGo::Leak)) => true,
        Some((_, LetGo::Detach)) => {
            let Some(given_up) = hold.given_up.filter(|&at| at <= now) else {
                return true;
            };
            let debt_ends = given_up + ttl;
            hold.fence.is_none() || set_at.is_some_and(|set_at| set_at >= debt_ends)
        }
        _ => false,
    }
}

/// When a server last set the key of this token.
fn last_set(history: &History, server: usize, token: &str) -> Option<Duration> {
    let log = history.servers.get(server)?;
    let sets = |entry: &&Execution| {
        let creates = matches!(entry.kind, CommandKind::Acquire | CommandKind::Heal);
        creates && entry.took_effect && entry.token == token
    };
    log.iter().rfind(sets).map(|entry| entry.at)
}

/// The incarnations whose process had ended.
fn ended(history: &History) -> BTreeSet<usize> {
    let unsettled = history.events.iter().map(|event| &event.what);
    unsettled
        .filter_map(|what| match what {
            What::Unsettled {
                incarnation, ended, ..
            } => ended.then_some(*incarnation),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::story::Story;
    use super::*;
    use crate::plan::{Class, Plan};

    fn left(story: Story, phase: Phase) -> usize {
        left_since(5, story, phase)
    }

    fn left_since(set_at: u64, story: Story, phase: Phase) -> usize {
        let what = What::Left {
            server: 1,
            key: Plan::key(0),
            token: "token-0".into(),
        };
        story
            .did(1, set_at, CommandKind::Acquire, 0)
            .phase(60_000, phase)
            .event(60_000, None, what)
            .check(check)
    }

    #[test]
    fn a_key_that_nobody_holds_is_found() {
        let story = || Story::new(Class::First);
        assert_eq!(left(story(), Phase::Settled), 1);
        let released = story().holds(0, 5, 988).lets_go(0, 10, LetGo::Drop);
        assert_eq!(left(released, Phase::Settled), 1);
        let set_back = || story().event(5, None, What::SetBack { server: 1 });
        assert_eq!(left(set_back(), Phase::Settled), 0);
    }

    #[test]
    fn what_was_leaked_may_stay_for_a_ttl() {
        let leaked = || {
            let story = Story::new(Class::First).holds(0, 5, 988);
            story.lets_go(0, 10, LetGo::Leak)
        };
        assert_eq!(left(leaked(), Phase::Settled), 0);
        assert_eq!(left(leaked(), Phase::Expired), 1);
        let (incarnation, count, ended) = (0, 0, true);
        let gone = || {
            let what = What::Unsettled {
                incarnation,
                count,
                ended,
            };
            Story::new(Class::First).event(60_000, 0, what)
        };
        assert_eq!(left(gone(), Phase::Settled), 0);
        assert_eq!(left(gone(), Phase::Expired), 1);
    }

    #[test]
    fn what_was_detached_may_stay_until_it_is_given_up() {
        let detached = |fence: Option<u64>| {
            let mut story = Story::new(Class::First);
            story = match fence {
                Some(fence) => story.fenced(0, 0, 5, 988, fence),
                None => story.holds(0, 5, 988),
            };
            story.lets_go(0, 10, LetGo::Detach)
        };
        assert_eq!(left(detached(None), Phase::Settled), 0);
        assert_eq!(left(detached(None), Phase::Expired), 1);
        let given_up = |fence| detached(fence).event(50, 1, What::Disown { op: 0 });
        assert_eq!(left(given_up(Some(7)), Phase::Settled), 1);
        assert_eq!(left(given_up(None), Phase::Settled), 0, "it may come back");
        let late = |set_at| left_since(set_at, given_up(Some(7)), Phase::Settled);
        assert_eq!(late(1_049), 1, "what was owed was paid before");
        assert_eq!(late(1_050), 0, "it was owed for a ttl, and is not any more");
    }
}
