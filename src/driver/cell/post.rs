//! A hold's effects, carried out.

use std::sync::Arc;

use super::Cell;
use crate::node::{Link, Request};
use crate::quorum::hold::{Command, Outbox};
use crate::quorum::vote::Unsent;

/// Carries out a hold's effects while its mutex is held: nothing here calls back into the cell.
pub(super) struct Post<'a> {
    cell: &'a Arc<Cell>,
    wake: bool,
}

impl<'a> Post<'a> {
    pub(super) const fn of(cell: &'a Arc<Cell>) -> Self {
        Self { cell, wake: false }
    }

    /// Has something changed that callers wait for?
    pub(super) const fn wakes(&self) -> bool {
        self.wake
    }
}

impl Outbox for Post<'_> {
    fn submit(&mut self, node: usize, command: Command) -> Result<(), Unsent> {
        self.cell.claims.open(command);
        if let Command::Acquire {
            ballot: Some(ballot),
            ..
        } = command
        {
            let mut hints = self.cell.engine.hints();
            hints.note_all(&self.cell.mark.keys, ballot.tombstone());
        }
        let caller = Arc::clone(self.cell);
        self.cell
            .engine
            .submit(node, Request::new(caller, node, command))
    }

    fn trouble(&self, node: usize) -> Option<Arc<str>> {
        self.cell.engine.standing(node).error
    }

    fn is_up(&self, node: usize) -> bool {
        self.cell.engine.link(node) == Link::Up
    }

    fn withdraw(&mut self, node: usize, command: Command) -> bool {
        self.cell.claims.withdraw(node, command)
    }

    fn wake(&mut self) {
        self.wake = true;
    }
}
