//! Moments, validity and the size of a quorum: the arithmetic of law 1.

use std::time::Duration;

/// A point in time on the client's own clock: nanoseconds since the clock was made.
///
/// It counts a machine's sleep, and never goes backwards. Only `clock.rs` makes one from a real
/// clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Moment(u64);

const NANOS_PER_MILLI: u64 = 1_000_000;

impl Moment {
    pub(crate) const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    pub(crate) fn after(self, by: Duration) -> Self {
        Self(self.0.saturating_add(nanos(by)))
    }

    pub(crate) fn before(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(by)))
    }

    /// How long after `earlier` this is; zero if it is not.
    pub(crate) const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The last whole multiple of `step` that is not after this.
    pub(crate) fn floor_to(self, step: Duration) -> Self {
        Self(
            self.0
                .saturating_sub(self.0.checked_rem(nanos(step)).unwrap_or(0)),
        )
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// More than half of `nodes`: any two quorums share a node.
pub(crate) fn quorum(nodes: usize) -> usize {
    if bug!(QuorumOfOne) {
        return 1;
    }
    if bug!(EvenHalf) {
        return nodes.div_ceil(2);
    }
    (nodes / 2).saturating_add(1)
}

/// What is taken off every ttl for clocks that run at different rates: one hundredth of it plus
/// 2 ms, in whole milliseconds, rounded up (2 ms cover the server's own millisecond granularity).
pub(crate) fn drift(ttl: Duration) -> Duration {
    if bug!(DriftIgnored) {
        return Duration::ZERO;
    }
    let hundredth = ttl
        .as_nanos()
        .div_ceil(u128::from(NANOS_PER_MILLI).saturating_mul(100));
    Duration::from_millis(
        u64::try_from(hundredth)
            .unwrap_or(u64::MAX)
            .saturating_add(2),
    )
}

/// How long a round waits for votes unless it is told otherwise: a tenth of the ttl, between 50 ms
/// and 1 s, at most half the ttl.
pub(crate) fn round_timeout(ttl: Duration) -> Duration {
    let part = |of: u32| ttl.checked_div(of).unwrap_or(ttl);
    part(10)
        .clamp(Duration::from_millis(50), Duration::from_secs(1))
        .min(part(2))
}

/// Until when a grant of `ttl` may be relied on, if its round began at `started_at` (law 1).
pub(crate) fn valid_until(started_at: Moment, ttl: Duration) -> Moment {
    started_at.after(ttl.saturating_sub(drift(ttl)))
}

/// When a hold that is valid until `valid_until` counts as lost (law 5): floored to the
/// millisecond, less one, because timers round up to the next one.
pub(crate) fn loss_at(valid_until: Moment) -> Moment {
    if bug!(LossLate) {
        return valid_until.after(Duration::from_millis(20));
    }
    valid_until
        .floor_to(Duration::from_millis(1))
        .before(Duration::from_millis(1))
}

/// Is enough of a grant left at `now` to hand it out? (Law 3: at least a tenth of the ttl.)
pub(crate) fn is_worth_having(valid_until: Moment, ttl: Duration, now: Moment) -> bool {
    let tenth = ttl.checked_div(10).unwrap_or_default();
    now < loss_at(valid_until) && valid_until.since(now) >= tenth
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn drift_is_a_hundredth_plus_two_milliseconds_rounded_up() {
        assert_eq!(drift(ms(10_000)), ms(102));
        assert_eq!(drift(ms(20)), ms(3));
        assert_eq!(drift(ms(101)), ms(4));
        assert_eq!(drift(ms(100)), ms(3));
    }

    #[test]
    fn a_quorum_is_more_than_half() {
        let sizes: Vec<_> = (1..=9).map(quorum).collect();
        assert_eq!(sizes, [1, 2, 2, 3, 3, 4, 4, 5, 5]);
    }

    #[test]
    fn law_1_the_lease_clock_starts_before_the_first_send() {
        let started = Moment::from_nanos(5_000_000_000);
        assert_eq!(valid_until(started, ms(1000)), started.after(ms(988)));
    }

    #[test]
    fn loss_comes_at_least_one_millisecond_before_validity_ends() {
        for nanos in [7_000_000_000, 7_000_000_001, 7_000_999_999] {
            let until = Moment::from_nanos(nanos);
            assert_eq!(loss_at(until), Moment::from_nanos(6_999_000_000));
        }
    }

    #[test]
    fn a_tenth_of_the_ttl_must_be_left() {
        let until = Moment::from_nanos(0).after(ms(988));
        let at = |left| Moment::from_nanos(0).after(ms(988)).before(left);
        assert!(is_worth_having(until, ms(1000), at(ms(100))));
        assert!(!is_worth_having(until, ms(1000), at(ms(99))));
        assert!(!is_worth_having(until, ms(10), at(ms(1))));
    }
}
