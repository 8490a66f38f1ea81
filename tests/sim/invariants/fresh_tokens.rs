//! A token belongs to one attempt: it comes from one client, for one key, no node is asked for it
//! twice (with one ballot), and no two locks bear it. Only with a lease does it go to other clients.

use std::collections::{BTreeMap, BTreeSet};

use redlock_quorum::testkit::memory::CommandKind;

use super::{Invariant, Violation};
use crate::history::{History, LetGo};
use crate::timeline::short;

pub(crate) fn check(history: &History) -> Vec<Violation> {
    let mut violations = Vec::new();
    let travelled: BTreeSet<&str> = history
        .holds()
        .filter(|(_, hold)| matches!(hold.let_go, Some((_, LetGo::Detach))))
        .map(|(_, hold)| hold.token.as_str())
        .collect();
    let mut owners: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    for (server, log) in history.servers.iter().enumerate() {
        let mut asked = BTreeSet::new();
        for entry in log {
            let (token, key) = (entry.token.as_str(), entry.key.as_str());
            let twice = entry.kind == CommandKind::Acquire && !asked.insert((token, entry.ballot));
            let &mut (first, locks) = owners.entry(token).or_insert((entry.incarnation, key));
            let is_stolen = first != entry.incarnation && !travelled.contains(token);
            if twice || locks != key || is_stolen {
                let token = short(&entry.token);
                let what = format!("server {server}: the token {token} has been used before");
                violations
                    .push(Violation::new(Invariant::FreshTokens, entry.at, what).about(token));
            }
        }
    }
    let mut held = BTreeMap::new();
    for (request, hold) in history.holds() {
        let (op, root) = (request.op, request.root);
        let roots = *held.entry(hold.token.as_str()).or_insert(root);
        if roots != root {
            let what = format!("#{roots} and #{op} bear one token");
            violations
                .push(Violation::new(Invariant::FreshTokens, hold.acquired, what).of(&[roots, op]));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::super::story::Story;
    use super::*;
    use crate::history::Origin;
    use crate::plan::Class;

    #[test]
    fn a_token_that_is_used_twice_is_found() {
        let story = || Story::new(Class::Second).did(0, 0, CommandKind::Acquire, 0);
        let spread = story()
            .did(1, 5, CommandKind::Acquire, 0)
            .did(0, 9, CommandKind::Release, 0);
        assert_eq!(spread.check(check), 0);
        assert_eq!(story().did(0, 5, CommandKind::Acquire, 0).check(check), 1);
        let mut shared = story().did(0, 5, CommandKind::Release, 0).history();
        shared.servers[0][1].incarnation = 1;
        assert_eq!(check(&shared).len(), 1);
    }

    #[test]
    fn a_token_that_travels_without_a_lease_is_found() {
        let story = |how| {
            let held = Story::new(Class::First)
                .holds(0, 1, 988)
                .lets_go(0, 100, how)
                .shares(1, 200, 1188, Origin::Attached { from: 0 })
                .did(0, 0, CommandKind::Acquire, 0);
            let mut history = held.did(0, 190, CommandKind::Extend, 0).history();
            history.servers[0][1].incarnation = 1;
            check(&history).len()
        };
        assert_eq!(story(LetGo::Detach), 0);
        assert_eq!(story(LetGo::Release), 1);
        let ballots = |second| {
            Story::new(Class::First)
                .did_with(0, 0, CommandKind::Acquire, 0, Some(5))
                .did_with(0, 5, CommandKind::Acquire, 0, Some(second))
                .check(check)
        };
        assert_eq!((ballots(6), ballots(5)), (0, 1));
    }
}
