//! What has been written, and what was taken back before it was: whoever comes first wins.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::quorum::ballot::Ballot;
use crate::quorum::hold::Command;

/// The claims of one attempt, and of the hold that it becomes.
#[derive(Debug)]
pub(super) struct Claims {
    acquire: Nodes,
    /// The acquires of a second round, with another ballot than the first.
    again: Nodes,
    first: Option<Ballot>,
    /// The extension of this number; there is one at a time.
    extension: Mutex<(u32, Nodes)>,
    /// The removal has begun: nothing may set the key any more. In one order with the lines of the
    /// queue, see there.
    ended: AtomicBool,
}

impl Claims {
    pub(super) fn new(first: Option<Ballot>) -> Self {
        Self {
            acquire: Nodes::default(),
            again: Nodes::default(),
            first,
            extension: Mutex::default(),
            ended: AtomicBool::new(false),
        }
    }

    /// Just before the write: may it still be written?
    pub(super) fn claim(&self, node: usize, command: Command) -> bool {
        match command {
            Command::Acquire { ballot, .. } => self.acquire(ballot).claim(node),
            Command::Extend { number, .. } => {
                let current = self.extension();
                current.0 == number && current.1.claim(node)
            }
            Command::Heal { .. } => !self.has_ended(),
            Command::Release | Command::Tombstone { .. } => true,
        }
    }

    /// Takes it back. `false`: it has been written.
    pub(super) fn withdraw(&self, node: usize, command: Command) -> bool {
        match command {
            Command::Acquire { ballot, .. } => self.acquire(ballot).withdraw(node),
            Command::Extend { number, .. } => {
                let current = self.extension();
                current.0 == number && current.1.withdraw(node)
            }
            // A heal asks when it is written; a release is always wanted.
            Command::Heal { .. } | Command::Release | Command::Tombstone { .. } => false,
        }
    }

    /// A command is about to be submitted.
    pub(super) fn open(&self, command: Command) {
        if let Command::Extend { number, .. } = command {
            let mut current = self.extension();
            if current.0 != number {
                *current = (number, Nodes::default());
            }
        }
    }

    /// The removal has begun. `true`: just now.
    pub(super) fn end(&self) -> bool {
        !self.ended.swap(true, Ordering::SeqCst)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    fn acquire(&self, ballot: Option<Ballot>) -> &Nodes {
        if ballot == self.first {
            &self.acquire
        } else {
            &self.again
        }
    }

    fn extension(&self) -> MutexGuard<'_, (u32, Nodes)> {
        self.extension
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// For each node: has the command been written, or taken back?
#[derive(Debug, Default)]
struct Nodes(AtomicU64);

impl Nodes {
    /// `false`: it was taken back.
    fn claim(&self, node: usize) -> bool {
        let before = self.0.fetch_or(1 << node, Ordering::AcqRel);
        before & (1 << (node + 32)) == 0
    }

    /// `false`: it has been written.
    fn withdraw(&self, node: usize) -> bool {
        let before = self.0.fetch_or(1 << (node + 32), Ordering::AcqRel);
        before & (1 << node) == 0
    }
}
