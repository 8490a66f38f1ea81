//! A key is set again only where a quorum has proved that it still has it: within one round, which
//! came before the heal. Holds in every class of faults.

use std::collections::BTreeMap;
use std::time::Duration;

use redlock_quorum::testkit::memory::CommandKind;

use super::{Invariant, Violation};
use crate::history::{Execution, History};
use crate::plan::{LONGEST_TTL, round_timeout};
use crate::timeline::short;

pub(crate) fn check(history: &History) -> Vec<Violation> {
    let quorum = history.plan.quorum();
    let mut violations = Vec::new();
    for (token, mut executions) in history.by_token() {
        let is_heal = |entry: &Execution| entry.kind == CommandKind::Heal;
        if !executions.iter().any(|(_, entry)| is_heal(entry)) {
            continue;
        }
        executions.sort_by_key(|(_, entry)| (entry.at, is_heal(entry)));
        // When each server has confirmed the key.
        let mut confirmed: BTreeMap<usize, Duration> = BTreeMap::new();
        let mut is_proven = false;
        for (server, entry) in executions {
            if is_heal(entry) && !is_proven {
                let token = short(token);
                let what = format!("server {server}: {token} is healed before a quorum has it");
                violations
                    .push(Violation::new(Invariant::HealsAreEarned, entry.at, what).about(token));
            }
            if entry.kind == CommandKind::Extend && entry.took_effect {
                confirmed.insert(server, entry.at);
                // A message may be on its way for longer; then the round is over before it arrives.
                let since = entry.at.saturating_sub(round_timeout(LONGEST_TTL));
                is_proven |= confirmed.values().filter(|&&at| at >= since).count() >= quorum;
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

    const EXTEND: CommandKind = CommandKind::Extend;

    #[test]
    fn a_heal_without_proof_is_found() {
        let heal = |story: Story| story.did(2, 600, CommandKind::Heal, 0).check(check);
        let extended = || Story::new(Class::Second).did(0, 500, EXTEND, 0);
        assert_eq!(heal(extended()), 1);
        assert_eq!(heal(extended().did(0, 510, EXTEND, 0)), 1, "one server");
        assert_eq!(heal(extended().did(1, 510, EXTEND, 0)), 0);
        assert_eq!(heal(extended().did(1, 610, EXTEND, 0)), 1, "too late");
        let apart = Story::new(Class::First).did(0, 0, EXTEND, 0);
        let apart = apart.did(1, 1001, EXTEND, 0);
        let healed = apart.did(2, 1010, CommandKind::Heal, 0);
        assert_eq!(healed.check(check), 1, "two rounds");
    }
}
