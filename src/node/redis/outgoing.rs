//! Requests between their submission and their answer.

use std::collections::VecDeque;

use super::ladder::{Form, Ladder};
use super::watching::Watching;
use crate::node::Request;
use crate::quorum::hold::Command;

/// A request on the wire, in the form in which it was written.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) request: Request,
    pub(super) form: Form,
    pub(super) watching: Watching,
    /// So many replies belong to it, as it was written last.
    pub(super) replies: usize,
}

impl Sent {
    /// One that is about to be written.
    pub(super) const fn new(request: Request, form: Form, watching: Watching) -> Self {
        Self {
            request,
            form,
            watching,
            replies: 0,
        }
    }
}

/// What is to be written next.
#[derive(Default)]
pub(super) struct Outgoing {
    pub(super) new: Vec<Request>,
    /// Written before, and to be written once more: in another form, or in the second half of its own.
    pub(super) again: VecDeque<Sent>,
    /// The server is inside `MULTI` and has nothing to do there.
    pub(super) leave: bool,
}

impl Outgoing {
    /// Is the server inside `MULTI`, and waits for what comes next?
    pub(super) fn is_inside(&self) -> bool {
        let change = |sent: &Sent| matches!(sent.form, Form::Change(_));
        self.leave || self.again.front().is_some_and(change)
    }

    pub(super) fn acquires(&self) -> bool {
        let is_acquire = |request: &Request| matches!(request.command(), Command::Acquire { .. });
        self.new.iter().any(is_acquire)
    }

    /// How many of `again` and of `new` go into the next write: all, or a transaction by itself.
    pub(super) fn next(&self, ladder: &Ladder) -> (usize, usize) {
        if !ladder.has_transactions() {
            return (self.again.len(), self.new.len());
        }
        let again = first(self.again.iter().map(|sent| sent.form));
        if again > 0 {
            return (again, 0);
        }
        (
            0,
            first(self.new.iter().map(|request| ladder.form(request))),
        )
    }
}

/// How many come before the first transaction; if none do, that one.
fn first(forms: impl ExactSizeIterator<Item = Form>) -> usize {
    let all = forms.len();
    let before = forms.take_while(|form| !form.is_transaction()).count();
    before.max(1).min(all)
}
