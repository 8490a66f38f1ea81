//! A release removes its own token only, and not while its holder may rely on the lock.
//!
//! What stands under a key is the token of the last acquire that took effect there; it may be gone,
//! but it can be no other. Holds in every class of faults.

use std::collections::BTreeMap;

use redlock_quorum::testkit::memory::CommandKind;

use super::{Invariant, Violation};
use crate::history::{History, Op};
use crate::holds::Hold;
use crate::timeline::short;

pub(crate) fn check(history: &History) -> Vec<Violation> {
    let mut by_token: BTreeMap<&str, Vec<(Op, &Hold)>> = BTreeMap::new();
    for (request, hold) in history.holds() {
        let holds = by_token.entry(hold.token.as_str()).or_default();
        holds.push((request.op, hold));
    }
    let mut violations = Vec::new();
    for (server, log) in history.servers.iter().enumerate() {
        let mut stands: BTreeMap<&str, &str> = BTreeMap::new();
        for entry in log.iter().filter(|entry| entry.took_effect) {
            match entry.kind {
                CommandKind::Acquire | CommandKind::Heal => {
                    let token = entry.token.as_str();
                    stands.extend(entry.keys.iter().map(|key| (key.as_str(), token)));
                    continue;
                }
                CommandKind::Release => {}
                _ => continue,
            }
            let token = entry.token.as_str();
            let removed = match entry.keys.as_slice() {
                [key] => stands.remove(key.as_str()),
                // Of a set its own keys are removed, and another may have taken the rest by now.
                keys => {
                    let of_the_set = |key: &str| keys.iter().any(|one| one == key);
                    stands.retain(|key, owner| *owner != token || !of_the_set(key));
                    None
                }
            };
            if let Some(other) = removed.filter(|&removed| removed != token) {
                let (token, other) = (short(token), short(other));
                let what = format!("server {server}: the release of {token} removed {other}");
                violations.push(
                    Violation::new(Invariant::ReleaseOnlyOwn, entry.at, what)
                        .about(token)
                        .about(other),
                );
            }
            let is_held = |hold: &Hold| entry.at > hold.acquired && entry.at < hold.certain_end();
            let mut holds = by_token.get(token).into_iter().flatten();
            if let Some((op, _)) = holds.find(|(_, hold)| is_held(hold)) {
                let what = format!("server {server}: #{op} was released while it was held");
                violations.push(
                    Violation::new(Invariant::ReleaseOnlyOwn, entry.at, what)
                        .of(&[*op])
                        .about(short(token)),
                );
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::super::story::Story;
    use super::*;
    use crate::history::{LetGo, Origin};
    use crate::plan::Class;

    const ACQUIRE: CommandKind = CommandKind::Acquire;
    const RELEASE: CommandKind = CommandKind::Release;

    #[test]
    fn a_release_of_another_token_is_found() {
        let story = |releasing| {
            Story::new(Class::Second)
                .did(0, 0, ACQUIRE, 0)
                .did(0, 10, ACQUIRE, 1)
                .did(0, 20, RELEASE, releasing)
                .check(check)
        };
        assert_eq!(story(1), 0);
        assert_eq!(story(0), 1);
        let nothing = Story::new(Class::First).did(0, 0, RELEASE, 0);
        assert_eq!(nothing.check(check), 0, "what was there is not known");
    }

    #[test]
    fn a_release_of_a_held_lock_is_found() {
        let story = |at| {
            Story::new(Class::First)
                .did(0, 0, ACQUIRE, 0)
                .did(0, at, RELEASE, 0)
                .holds(0, 1, 988)
                .lets_go(0, 500, LetGo::Drop)
                .check(check)
        };
        assert_eq!(story(500), 0);
        assert_eq!(story(499), 1);
    }

    #[test]
    fn a_release_that_one_of_several_guards_sends_is_found() {
        let (outer, free) = (0, true);
        let story = |both| {
            let story = Story::new(Class::First)
                .did(0, 0, ACQUIRE, 0)
                .did(0, 300, RELEASE, 0)
                .holds(0, 1, 988)
                .shares(1, 10, 988, Origin::Nested { outer, free })
                .lets_go(1, 200, LetGo::Release);
            let story = if both {
                story.lets_go(0, 250, LetGo::Drop)
            } else {
                story
            };
            story.check(check)
        };
        assert_eq!((story(true), story(false)), (0, 1));
    }
}
