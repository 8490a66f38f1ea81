//! What the client says through [`tracing`], in one place: these names are part of its interface.
//!
//! | event | level | fields | when |
//! |---|---|---|---|
//! | `node is up` | info | `node` | a connection has been introduced and takes commands |
//! | `node is not used` | warn | `node`, `reason`, `error` | the node gets no acquires from here on; `quarantined` is one of the reasons |
//! | `node hides its restarts` | warn | `node` | once: `INFO` is denied, so a restart with data goes unseen |
//! | `node hides its marker` | warn | `node` | once: the key `redlock-quorum:node` is denied, so the node is trusted whatever happens to it |
//! | `node hides its releases` | warn | `node` | once: `CLIENT TRACKING`, `CLIENT CACHING` or `GET` is denied or unknown, so neither releases nor a flush are told |
//! | `node is used with other settings` | warn | `node`, `ours`, `theirs` | once for each value: another client has another number of nodes or another `max_ttl` (in milliseconds) for this prefix |
//! | `node needs transactions` | warn | `node` | once: it knows or allows neither scripts nor commands that compare, so releases or extensions go by `WATCH` and `EXEC`, one at a time |
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

pub(crate) fn node_info_denied(node: &str) {
    tracing::warn!(target: TARGET, node, "node hides its restarts");
}

pub(crate) fn node_marker_denied(node: &str) {
    tracing::warn!(target: TARGET, node, "node hides its marker");
}

pub(crate) fn node_does_not_tell(node: &str) {
    tracing::warn!(target: TARGET, node, "node hides its releases");
}

pub(crate) fn node_settings_differ(node: &str, ours: &str, theirs: &str) {
    tracing::warn!(target: TARGET, node, ours, theirs, "node is used with other settings");
}

pub(crate) fn node_needs_transactions(node: &str) {
    tracing::warn!(target: TARGET, node, "node needs transactions");
}

pub(crate) fn node_evicts(node: &str) {
    tracing::warn!(target: TARGET, node, "node may evict locks");
}
