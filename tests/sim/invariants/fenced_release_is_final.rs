//! After a server has carried out the release of a fenced lock, nothing sets that lock's key there
//! again, however late it arrives. Not checked where servers forget their fences.

use std::collections::BTreeSet;

use redlock_quorum::Vote;
use redlock_quorum::testkit::memory::CommandKind;

use super::{Invariant, Violation};
use crate::history::History;
use crate::timeline::short;

pub(crate) fn check(history: &History) -> Vec<Violation> {
    if history.plan.trust.forgets {
        return Vec::new();
    }
    let mut violations = Vec::new();
    for (server, log) in history.servers.iter().enumerate() {
        let mut released = BTreeSet::new();
        for entry in log {
            let token = entry.token.as_str();
            match (entry.kind, entry.vote) {
                (CommandKind::Release, Vote::Granted | Vote::Held { .. }) => {
                    released.insert(token);
                }
                (CommandKind::Acquire | CommandKind::Heal, _)
                    if entry.took_effect && entry.ballot.is_some() && released.contains(token) =>
                {
                    let token = short(token);
                    let what = format!("server {server}: {token} is set after its release");
                    violations.push(
                        Violation::new(Invariant::FencedReleaseIsFinal, entry.at, what)
                            .about(token),
                    );
                }
                _ => {}
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
    fn a_fenced_lock_that_comes_back_is_found() {
        let story = |op, ballot| {
            Story::new(Class::First)
                .did_with(0, 0, CommandKind::Acquire, 0, ballot)
                .did_with(0, 5, CommandKind::Release, 0, None)
                .did_with(0, 9, CommandKind::Acquire, op, ballot)
                .check(check)
        };
        assert_eq!(story(0, Some(7)), 1);
        assert_eq!(story(1, Some(7)), 0);
        assert_eq!(story(0, None), 0, "a plain one is released again");
    }
}
