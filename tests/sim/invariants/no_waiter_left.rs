//! Once all is settled nobody stands in a line, and no line is kept but those of locks that were
//! leaked; a ttl later none.

use std::collections::BTreeMap;

use super::{Invariant, Violation};
use crate::history::{History, LetGo, Phase, What};

pub(crate) fn check(history: &History) -> Vec<Violation> {
    let mut leaked: BTreeMap<usize, usize> = BTreeMap::new();
    for (request, hold) in history.holds() {
        if matches!(hold.let_go, Some((_, LetGo::Leak))) {
            *leaked.entry(request.incarnation).or_default() += request.resources().count();
        }
    }
    let mut violations = Vec::new();
    let mut phase = None;
    for event in &history.events {
        match event.what {
            What::Phase(now) => phase = Some(now),
            What::Lines { incarnation, count } => {
                let may = match phase {
                    Some(Phase::Settled) => leaked.get(&incarnation).copied().unwrap_or_default(),
                    _ => 0,
                };
                if count > may {
                    let what = format!("incarnation {incarnation} keeps {count} lines");
                    violations.push(Violation::new(Invariant::NoWaiterLeft, event.at, what));
                }
            }
            _ => {}
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
    fn a_line_that_is_left_is_found() {
        let story = |phase, count| {
            let (op, incarnation) = (0, 0);
            Story::new(Class::Second)
                .asks(op, 0, Patience::Once)
                .set(op, &[1])
                .acquired(op, 0, 988, 3)
                .lets_go(op, 10, LetGo::Leak)
                .phase(500, phase)
                .event(500, 0, What::Lines { incarnation, count })
                .check(check)
        };
        assert_eq!(story(Phase::Settled, 2), 0, "of those that were leaked");
        assert_eq!(story(Phase::Settled, 3), 1);
        assert_eq!(story(Phase::Expired, 0), 0);
        assert_eq!(story(Phase::Expired, 1), 1);
    }
}
