//! What is owed is paid and forgotten: once all is settled, a client keeps nothing on its books but
//! the guards that were leaked, and a ttl later nothing; its end leaves no connection and no task,
//! and a client that is closed then owes nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::{Invariant, Violation};
use crate::history::{History, LetGo, Op, Phase, What};

pub(crate) fn check(history: &History) -> Vec<Violation> {
    let mut leaked: BTreeMap<usize, BTreeSet<Op>> = BTreeMap::new();
    for (request, hold) in history.holds() {
        if matches!(hold.let_go, Some((_, LetGo::Leak))) {
            let cells = leaked.entry(request.incarnation).or_default();
            cells.insert(request.cell);
        }
    }
    let mut violations = Vec::new();
    let mut phase = None;
    for event in &history.events {
        let mut found = |what: String| {
            violations.push(Violation::new(
                Invariant::DebtsAndMemoryBounded,
                event.at,
                what,
            ));
        };
        match event.what {
            What::Phase(now) => phase = Some(now),
            What::Unsettled {
                incarnation, count, ..
            } => {
                let may = match phase {
                    Some(Phase::Settled) => leaked.get(&incarnation).map_or(0, BTreeSet::len),
                    _ => 0,
                };
                if count > may {
                    found(format!(
                        "{count} locks of incarnation {incarnation} have not settled"
                    ));
                }
            }
            What::Closed { complete: false } if phase == Some(Phase::Expired) => {
                found("a client owes something when it is closed after all".into());
            }
            What::Connections { server, count } if count > 0 => {
                found(format!("{count} connections to server {server} are left"));
            }
            What::TasksLeft { count } if count > 0 => found(format!("{count} tasks are left")),
            _ => {}
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::super::story::Story;
    use super::*;
    use crate::plan::Class;

    #[test]
    fn what_does_not_settle_is_found() {
        let story = |phase, count| {
            let what = What::Unsettled {
                incarnation: 0,
                count,
                ended: false,
            };
            let held = Story::new(Class::Second).holds(0, 0, 988);
            let leaked = held.lets_go(0, 10, LetGo::Leak).phase(60_000, phase);
            leaked.event(60_000, 0, what).check(check)
        };
        assert_eq!(story(Phase::Settled, 1), 0, "the one that was leaked");
        assert_eq!(story(Phase::Settled, 2), 1);
        assert_eq!(story(Phase::Expired, 0), 0);
        assert_eq!(story(Phase::Expired, 1), 1);
    }

    #[test]
    fn what_outlives_its_client_is_found() {
        let story = |what| {
            let expired = Story::new(Class::First).phase(60_000, Phase::Expired);
            expired.event(60_001, None, what).check(check)
        };
        let connections = |count| What::Connections { server: 0, count };
        assert_eq!((story(connections(0)), story(connections(1))), (0, 1));
        let tasks = |count| What::TasksLeft { count };
        assert_eq!((story(tasks(0)), story(tasks(2))), (0, 1));
        let closed = |complete| What::Closed { complete };
        assert_eq!((story(closed(true)), story(closed(false))), (0, 1));
    }
}
