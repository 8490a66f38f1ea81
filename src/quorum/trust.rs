//! Which nodes may vote: decided from facts that a node's driver has read.
//!
//! One server has one vote ([`Identities`]), and a server that may have forgotten what it granted has
//! none until that is over ([`amnesia`]). What a server remembers, it remembers with its
//! [`marker`]; nodes that never had one are new, if all are ([`founding`]).

pub(crate) mod amnesia;
pub(crate) mod founding;
pub(crate) mod marker;
#[cfg(test)]
mod tests;

use std::sync::Arc;

/// The servers behind the addresses of a client: one server must not vote twice.
///
/// Whichever address was connected first speaks for a server; N does not change.
#[derive(Debug)]
pub(crate) struct Identities {
    run_ids: Vec<Option<Arc<str>>>,
}

impl Identities {
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            run_ids: vec![None; nodes],
        }
    }

    /// Notes that the server `run_id` answers at this node's address, in place of what was there
    /// before. If it already speaks through another node's address, says through which.
    pub(crate) fn admit(&mut self, node: usize, run_id: &str) -> Result<(), usize> {
        if let Some(own) = self.run_ids.get_mut(node) {
            *own = None;
        }
        if let Some(other) = self
            .run_ids
            .iter()
            .position(|known| known.as_deref() == Some(run_id))
        {
            return Err(other);
        }
        if let Some(own) = self.run_ids.get_mut(node) {
            *own = Some(run_id.into());
        }
        Ok(())
    }
}
