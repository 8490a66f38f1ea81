//! The marker: what a node remembers for its clients, as long as it remembers anything.

use std::fmt;
use std::time::Duration;

/// `run_id|first_seen`: the process that somebody found without a marker of its own, and when, in
/// milliseconds of the server's `TIME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Marker {
    /// Empty where the writer may not use `INFO`.
    run_id: Box<str>,
    first_seen: u64,
}

/// The process is as old as the fleet: it has nothing to forget.
const FOUNDED: u64 = 0;
/// Where the server does not tell the time: later than any time, so it never seems old.
const AGELESS: u64 = 9_999_999_999_999;

impl Marker {
    pub(super) fn founded(run_id: Option<&str>) -> Self {
        Self {
            run_id: run_id.unwrap_or_default().into(),
            first_seen: FOUNDED,
        }
    }

    pub(super) fn seen(run_id: Option<&str>, server_time: Option<u64>) -> Self {
        Self {
            run_id: run_id.unwrap_or_default().into(),
            first_seen: server_time.unwrap_or(AGELESS).max(1),
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let (run_id, first_seen) = text.rsplit_once('|')?;
        Some(Self {
            run_id: run_id.into(),
            first_seen: first_seen.parse().ok()?,
        })
    }

    /// Is it about this process? Who does not know the process takes it for granted.
    pub(super) fn names(&self, run_id: Option<&str>) -> bool {
        run_id.is_none_or(|run_id| run_id == &*self.run_id)
    }

    /// For how long the node must not vote yet, as the server's clock tells; never more than all of it.
    pub(super) fn remaining(&self, quarantine: Duration, server_time: Option<u64>) -> Duration {
        if self.first_seen == FOUNDED {
            return Duration::ZERO;
        }
        let age = server_time.map_or(0, |now| now.saturating_sub(self.first_seen));
        quarantine.saturating_sub(Duration::from_millis(age))
    }
}

/// A marker as the testkit writes it for servers that it has just started.
#[cfg(feature = "testkit")]
pub(crate) fn founded(run_id: &str) -> String {
    Marker::founded(Some(run_id)).to_string()
}

impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}|{}", self.run_id, self.first_seen)
    }
}

/// What a look at the marker's key has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sighting {
    /// The user may not touch the key.
    Denied,
    /// The server had another answer: it is loading, say.
    Unreadable,
    Missing,
    Found(Box<str>),
}

/// What a look has brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) sighting: Sighting,
    /// In milliseconds, read after the marker; `None` where the server does not tell.
    pub(crate) server_time: Option<u64>,
}
