//! What the client says through [`tracing`], in one place: these names are part of its interface.
//!
//! | event | level | fields | when |
//! |---|---|---|---|
//! | `node is up` | info | `node` | a connection has been introduced and takes commands |
//! | `node is not used` | warn | `node`, `reason`, `error` | the node gets no acquires from here on |
//! | `node may evict locks` | warn | `node` | at a connect: `maxmemory` is set and the policy is not `noeviction` |
//!
//! All have the target `redlock_quorum`. There is one event for each change of a node's state, none
//! for each command; what a call returns is not logged as well.

use crate::quorum::vote::Unsent;

const TARGET: &str = "redlock_quorum";

pub(crate) fn node_up(node: &str) {
    tracing::info!(target: TARGET, node, "node is up");
}

pub(crate) fn node_not_used(node: &str, reason: Unsent, error: Option<&str>) {
    tracing::warn!(target: TARGET, node, %reason, error, "node is not used");
}

pub(crate) fn node_evicts(node: &str) {
    tracing::warn!(target: TARGET, node, "node may evict locks");
}
