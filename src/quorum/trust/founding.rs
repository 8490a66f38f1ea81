//! The first use of a fleet: when nothing can have been forgotten yet.

use super::amnesia::LOOK;
use crate::quorum::validity::Moment;

/// What one client has seen of all its nodes, for as long as it lives.
///
/// A node without a marker is new, or has lost its data: one node alone does not tell. But if *no*
/// node has one, at one time, nobody has used this fleet before. Whoever sees that founds it.
#[derive(Debug)]
pub(crate) struct Founding {
    /// For each node: when it was asked for the marker that it did not have, over the connection
    /// that lives.
    missing: Vec<Option<Moment>>,
    /// The nodes that are to be founded now, each once.
    chosen: Vec<bool>,
    /// A marker has been seen, or the fleet has been founded: never again.
    over: bool,
}

impl Founding {
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            missing: vec![None; nodes],
            chosen: vec![false; nodes],
            over: false,
        }
    }

    /// A node has no marker. Returns whether this makes all of them, within a second: now the fleet
    /// is to be founded.
    pub(super) fn on_missing(&mut self, node: usize, asked_at: Moment, now: Moment) -> bool {
        if let Some(missing) = self.missing.get_mut(node) {
            *missing = Some(asked_at);
        }
        let is_new = |asked: &Option<Moment>| asked.is_some_and(|at| now.since(at) <= LOOK);
        if self.over || !self.missing.iter().all(is_new) {
            return false;
        }
        self.over = true;
        self.chosen.fill(true);
        true
    }

    /// Some node has a marker: this fleet is not new.
    pub(super) const fn on_marker(&mut self) {
        self.over = true;
    }

    /// The connection to a node has ended: what it said is worth nothing any more.
    pub(super) fn on_away(&mut self, node: usize) {
        if let Some(missing) = self.missing.get_mut(node) {
            *missing = None;
        }
        if let Some(chosen) = self.chosen.get_mut(node) {
            *chosen = false;
        }
    }

    /// Shall this node be founded now? Says so once.
    pub(crate) fn take(&mut self, node: usize) -> bool {
        self.chosen.get_mut(node).is_some_and(std::mem::take)
    }
}
