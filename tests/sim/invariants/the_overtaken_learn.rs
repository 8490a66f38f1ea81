//! Whoever was overtaken, whatever broke exclusion, learns it at its next extension: once a fenced
//! lock has been granted after another, no quorum extends the other any more. Holds in every class
//! of faults, but where servers forget their fences.

use std::collections::{BTreeMap, BTreeSet};

use redlock_quorum::testkit::memory::CommandKind;

use super::{Invariant, Violation};
use crate::history::History;
use crate::holds::{Hold, Request};
use crate::trust::Fenced;

pub(crate) fn check(history: &History) -> Vec<Violation> {
    let trust = &history.plan.trust;
    if trust.forgets {
        return Vec::new();
    }
    let mut grants: BTreeMap<usize, Vec<(&Request, &Hold)>> = BTreeMap::new();
    for (request, hold) in history.holds() {
        if request.is_fresh() && trust.fenced[request.resource] == Fenced::All {
            let grants = grants.entry(request.resource).or_default();
            grants.push((request, hold));
        }
    }
    let (tokens, quorum) = (history.by_token(), history.plan.quorum());
    let mut violations = Vec::new();
    for grants in grants.values_mut() {
        grants.sort_by_key(|(_, hold)| hold.acquired);
        for pair in grants.windows(2) {
            let [(first, overtaken), (second, by)] = pair else {
                continue;
            };
            let entries = tokens.get(overtaken.token.as_str()).into_iter().flatten();
            let extended: BTreeSet<usize> = entries
                .filter(|(_, entry)| entry.kind == CommandKind::Extend && entry.took_effect)
                .filter(|(_, entry)| entry.at > by.acquired)
                .map(|&(server, _)| server)
                .collect();
            if extended.len() >= quorum && overtaken.fence < by.fence {
                let ops = [first.op, second.op];
                let what = format!(
                    "#{} was extended after #{} had overtaken it",
                    ops[0], ops[1]
                );
                let violation = Violation::new(Invariant::TheOvertakenLearn, by.acquired, what);
                violations.push(violation.of(&ops));
            }
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
    fn an_extension_of_what_was_overtaken_is_found() {
        let story = |servers: usize, forgets, at| {
            let mut story = Story::new(Class::Second)
                .fenced(0, 0, 5, 988, 7)
                .fenced(1, 100, 110, 1088, 8);
            for server in 0..servers {
                story = story.did(server, at, CommandKind::Extend, 0);
            }
            let mut history = story.history();
            history.plan.trust.forgets = forgets;
            check(&history).len()
        };
        assert_eq!(story(2, false, 111), 1);
        assert_eq!(story(2, false, 110), 0);
        assert_eq!(story(1, false, 111), 0);
        assert_eq!(story(2, true, 111), 0);
    }
}
