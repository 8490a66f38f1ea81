//! When a node is connected again, and how long connecting may take.

use std::time::Duration;

use crate::quorum::backoff::{doubled, uniform};

/// A connection, with its handshake, must stand within this time; then older ones must be finished
/// within the same time again.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// The pause before connecting again: uniform between the first and a bound that doubles up to
/// the second.
pub(crate) const RECONNECT: (Duration, Duration) =
    (Duration::from_millis(50), Duration::from_secs(1));

/// The pause after so many failures in a row. `random` is uniform over all of `u64`.
pub(crate) fn pause(failures: u32, random: u64) -> Duration {
    let (shortest, longest) = RECONNECT;
    let span = doubled(shortest, failures, longest).saturating_sub(shortest);
    shortest.saturating_add(uniform(span, random))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_between_the_shortest_and_a_bound_that_doubles() {
        const ALMOST_ONE: u64 = u64::MAX;
        assert_eq!(pause(1, 0), RECONNECT.0);
        assert_eq!(pause(1, 1 << 63), Duration::from_millis(75));
        for (failures, bound) in [(1, 100), (2, 200), (4, 800), (5, 1000), (99, 1000)] {
            let longest = pause(failures, ALMOST_ONE);
            let bound = Duration::from_millis(bound);
            assert!(longest < bound && longest > bound * 99 / 100, "{longest:?}");
        }
    }
}
