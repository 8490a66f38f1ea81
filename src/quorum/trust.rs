//! Which nodes may vote: decided from facts that a node's driver has read.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_server_speaks_through_one_address() {
        let mut identities = Identities::new(3);
        assert_eq!(identities.admit(1, "a"), Ok(()));
        assert_eq!(identities.admit(0, "a"), Err(1));
        assert_eq!(
            identities.admit(1, "a"),
            Ok(()),
            "a reconnect is no duplicate"
        );
        assert_eq!(identities.admit(2, "b"), Ok(()));
        assert_eq!(
            identities.admit(1, "c"),
            Ok(()),
            "another server answers there now"
        );
        assert_eq!(identities.admit(0, "a"), Ok(()));
    }
}
