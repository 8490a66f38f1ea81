//! Requests for one and the same lock: nested ones, and those for its lease.

use std::collections::BTreeMap;
use std::time::Duration;

use redlock_quorum::LossCause;

use crate::history::{LetGo, Op, What};
use crate::holds::{Hold, Request};

/// The requests of each lock that has more than one, by the first.
#[derive(Debug, Default)]
pub(crate) struct Families(BTreeMap<Op, Vec<Op>>);

impl Families {
    pub(crate) fn join(&mut self, root: Op, op: Op) {
        self.0.entry(root).or_insert_with(|| vec![root]).push(op);
    }

    /// What happens to one guard of a lock concerns the others.
    pub(crate) fn tell(
        &self,
        requests: &mut BTreeMap<Op, Request>,
        op: Op,
        at: Duration,
        what: &What,
    ) {
        let Some(request) = requests.get(&op) else {
            return;
        };
        let (root, cell) = (request.root, request.cell);
        let Some(family) = self.0.get(&root) else {
            return;
        };
        let (extends, gives_up) = (extends(what), gives_up(what));
        let mut inherited = (Duration::ZERO, Duration::ZERO);
        for &other in family.iter().filter(|&&other| other != op) {
            let Some(other) = requests.get_mut(&other) else {
                continue;
            };
            let is_same_cell = other.cell == cell;
            let Some(hold) = &mut other.hold else {
                continue;
            };
            if extends && is_same_cell {
                // Its caller was not told.
                let told = hold.valid_until;
                hold.see(at, what);
                hold.valid_until = told;
                let (until, ttl) = inherited;
                inherited = (until.max(hold.at_most_until), ttl.max(hold.longest_ttl));
            }
            if gives_up && !is_same_cell {
                hold.end_lease(at);
            }
        }
        let own = requests.get_mut(&op).and_then(|own| own.hold.as_mut());
        if let (Some(hold), What::Acquired { .. }) = (own, what) {
            hold.at_most_until = hold.at_most_until.max(inherited.0);
            hold.longest_ttl = hold.longest_ttl.max(inherited.1);
        }
    }
}

fn extends(what: &What) -> bool {
    matches!(
        what,
        What::Acquired { .. }
            | What::Extend { .. }
            | What::Extended { .. }
            | What::ExtendAbandoned { .. }
            | What::Looked { .. }
    )
}

/// The lock is not wanted any more, by those who attached it or have its lease.
fn gives_up(what: &What) -> bool {
    match what {
        What::LetGo { how, .. } => !matches!(how, LetGo::Leak | LetGo::Detach),
        What::Lost { cause, .. } => *cause != LossCause::Detached,
        What::Disown { .. } => true,
        _ => false,
    }
}

impl Hold {
    /// The lease into which it was detached is over.
    fn end_lease(&mut self, at: Duration) {
        if matches!(self.let_go, Some((_, LetGo::Detach))) {
            self.given_up = self.given_up.or(Some(at));
        }
    }
}
