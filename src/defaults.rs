//! Every default and every limit, as constants.
//!
//! The reasons stand in [`docs::operations`](crate::docs::operations), in a table that a test
//! compares with these values. What has a setter on [`Builder`](crate::Builder) or
//! [`Acquire`](crate::Acquire) is a default; everything else is fixed.

use std::time::Duration;

use crate::driver::{engine, turns, watchdog};
use crate::node::{breaker, gate, reconnect};
use crate::quorum::trust::amnesia;
use crate::quorum::{backoff, ballot, ledger, renewal, validity, waiting};
use crate::{builder, config};

/// How long the nodes keep a lock that nobody extends: [`Builder::ttl`](crate::Builder::ttl).
pub const TTL: Duration = builder::DEFAULT_TTL;

/// The longest ttl that may be asked for: [`Builder::max_ttl`](crate::Builder::max_ttl).
pub const MAX_TTL: Duration = builder::DEFAULT_MAX_TTL;

/// The shortest ttl that may be asked for.
pub const SHORTEST_TTL: Duration = config::SHORTEST_TTL;

/// For how long an acquisition tries: [`Builder::wait`](crate::Builder::wait).
pub const WAIT: Duration = builder::DEFAULT_WAIT;

/// How long a connection and its introduction may take, and how long a first attempt waits for it.
pub const CONNECT_TIMEOUT: Duration = reconnect::CONNECT_TIMEOUT;

/// The shortest pause before a node is connected again.
pub const SHORTEST_RECONNECT: Duration = reconnect::RECONNECT.0;

/// The longest pause before a node is connected again.
pub const LONGEST_RECONNECT: Duration = reconnect::RECONNECT.1;

/// The bound up to which random pauses grow: after contenders have split the votes, and where too few
/// nodes tell of releases.
pub const LONGEST_BACKOFF: Duration = backoff::LONGEST;

/// After this time, give or take a quarter, a waiter tries again without any news.
pub const POLL_FLOOR: Duration = waiting::POLL_FLOOR;

/// How many times in a row one client is granted a resource before it keeps off for a moment, so that
/// other clients get their turn.
pub const ROW: u32 = turns::ROW;

/// Each such moment that nobody used doubles the row, up to this; and beyond, where a row takes less
/// time than twenty such moments.
pub const LONGEST_ROW: u32 = turns::LONGEST_ROW;

/// Without any reply for this long while commands are out, a node gets releases only.
pub const BREAKER_OPENS_AFTER: Duration = breaker::OPENS_AFTER;

/// Without any reply for this long while commands are out, a connection is replaced.
pub const CONNECTION_REPLACED_AFTER: Duration = breaker::REPLACES_AFTER;

/// The pause before a release that a node refused is sent again.
pub const RELEASE_RETRY: Duration = ledger::RETRY;

/// How long after the beginning of one renewal the next is due, give or take a tenth, for a lock of
/// this ttl: [`Acquire::renewal`](crate::Acquire::renewal).
#[must_use]
pub fn renewal_interval(ttl: Duration) -> Duration {
    let renewal = renewal::Renewal::default();
    renewal.interval(ttl).unwrap_or(Duration::MAX)
}

/// Renewals that are due within one tick go out together. Short intervals have shorter ticks.
pub const RENEWAL_TICK: Duration = renewal::TICK;

/// The pause before a renewal without a quorum is tried again; it doubles up to a tenth of the ttl.
pub const RENEWAL_RETRY: Duration = renewal::FIRST_RETRY;

/// How often a node's marker is read while there are locks, and after how long a missing one is
/// looked for again.
pub const MARKER_LOOK: Duration = amnesia::LOOK;

/// How often the clock is looked at while there are locks.
pub const CLOCK_LOOK: Duration = watchdog::LOOK;

/// How long a node remembers the largest ballot of a fenced resource after its last use; four times
/// [`Builder::max_ttl`](crate::Builder::max_ttl) if that is longer.
pub const SHORTEST_FENCE_TTL: Duration = ballot::SHORTEST_MEMORY;

/// How many commands may wait for one node's answer; beyond it only releases are sent there.
pub const MAX_UNANSWERED: usize = gate::MAX_UNANSWERED;

/// How many locks may owe a release to a node that cannot be reached; beyond it no acquires are sent
/// there.
pub const MAX_DEBTS: usize = engine::MAX_DEBTS;

/// How many nodes a client may have.
pub const MAX_NODES: usize = config::MOST_NODES;

/// How many bytes a resource may have, and how many a prefix.
pub const MAX_RESOURCE_BYTES: usize = config::LONGEST_RESOURCE;

/// How many resources one lock may have: [`AcquireAll`](crate::AcquireAll).
pub const MAX_RESOURCES: usize = config::MOST_RESOURCES;

/// For how long a node that may have lost its data does not vote: `max_ttl` and a hundredth of it,
/// and 1 s more. See [`RestartGuard`](crate::RestartGuard).
#[must_use]
pub fn quarantine(max_ttl: Duration) -> Duration {
    amnesia::quarantine(max_ttl)
}

/// How long a round for this ttl waits for votes, unless
/// [`Builder::round_timeout`](crate::Builder::round_timeout) says otherwise: a tenth of the ttl,
/// but at least 50 ms and at most 1 s, and never more than half the ttl.
#[must_use]
pub fn round_timeout(ttl: Duration) -> Duration {
    validity::round_timeout(ttl)
}
