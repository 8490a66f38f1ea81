//! Settings about nodes that may have forgotten what they granted.

use std::collections::BTreeSet;

use redis::IntoConnectionInfo;

use super::{Builder, NodeSpec, address};
use crate::error::BuildError;
use crate::quorum::trust::amnesia::RestartGuard;

impl Builder {
    /// Whether nodes that may have forgotten locks are kept from voting. Default
    /// [`RestartGuard::Observed`].
    pub const fn restart_guard(mut self, guard: RestartGuard) -> Self {
        self.restart_guard = guard;
        self
    }

    /// Says of a node that it never loses what it has acknowledged (`appendonly yes`, `appendfsync
    /// always`, and a disk that keeps its word): it votes at once after a restart, too.
    ///
    /// The node is found in the list by its address, wherever it was given; if it is not there, it is
    /// added at the end.
    pub fn persistent_node(mut self, url: impl Into<String>) -> Self {
        self.persistent.push(url.into());
        self
    }

    /// The guard as the environment names it.
    pub(super) fn guarded_by(
        self,
        named: Option<String>,
        problem: &mut Option<BuildError>,
    ) -> Self {
        let Some(named) = named else { return self };
        match named.trim().to_lowercase().as_str() {
            "observed" => self.restart_guard(RestartGuard::Observed),
            "strict" => self.restart_guard(RestartGuard::Strict),
            "off" => self.restart_guard(RestartGuard::Off),
            _ => {
                problem.get_or_insert_with(|| BuildError::InvalidSetting {
                    setting: "REDLOCK_RESTART_GUARD",
                    problem: "is none of observed, strict and off".into(),
                });
                self
            }
        }
    }

    /// The names of the persistent nodes; adds those that are not in the list.
    pub(super) fn mark_persistent(&mut self) -> Result<BTreeSet<String>, BuildError> {
        let mut known: BTreeSet<String> = self.nodes.iter().enumerate().filter_map(name).collect();
        let mut persistent = BTreeSet::new();
        for url in std::mem::take(&mut self.persistent) {
            if known.contains(&url) {
                persistent.insert(url);
                continue;
            }
            let place = self.nodes.len();
            let info = url.as_str().into_connection_info();
            let info = info.map_err(|error| BuildError::InvalidUrl {
                place,
                reason: error.to_string(),
            })?;
            let name = address(info.addr());
            if known.insert(name.clone()) {
                self.nodes.push(NodeSpec::Url(url));
            }
            persistent.insert(name);
        }
        Ok(persistent)
    }
}

/// What a node is called; `None` if its URL cannot be used.
#[cfg_attr(
    not(feature = "testkit"),
    expect(
        unused_variables,
        reason = "only memory nodes are named by their place"
    )
)]
fn name((place, spec): (usize, &NodeSpec)) -> Option<String> {
    match spec {
        NodeSpec::Url(url) => {
            let info = url.as_str().into_connection_info().ok()?;
            Some(address(info.addr()))
        }
        NodeSpec::Client(client) => Some(address(client.get_connection_info().addr())),
        #[cfg(feature = "testkit")]
        NodeSpec::Memory(_) => Some(format!("memory:{place}")),
    }
}
