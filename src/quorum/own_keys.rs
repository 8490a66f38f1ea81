//! The keys that the client keeps on nodes for itself, beside those of locks.

/// They all begin with this, which no resource may.
pub(crate) const RESERVED: &str = "redlock-quorum:";

/// Where a node's marker stands, without a ttl: see [`super::trust::marker`].
pub(crate) const MARKER: &str = "redlock-quorum:node";

/// Where the settings stand that all clients of a prefix share.
pub(crate) fn config_key(prefix: &str) -> String {
    format!("redlock-quorum:config:{prefix}")
}

/// Where a node keeps the largest ballot that it has accepted for a lock's key.
pub(crate) fn fence_key(key: &str) -> String {
    format!("redlock-quorum:fence:{key}")
}
