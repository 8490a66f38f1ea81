//! How long a contender pauses between two attempts: full jitter.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(8);
/// No pause between two attempts is longer than this.
pub(crate) const LONGEST: Duration = Duration::from_millis(250);

/// Exponential backoff with full jitter: each pause is uniform between zero and a bound that
/// doubles up to [`LONGEST`], so that contenders who collided once spread out.
#[derive(Debug, Clone, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The pause after one more failure. `random` is uniform over all of `u64`.
    pub(crate) fn next(&mut self, random: u64) -> Duration {
        self.next_above(Duration::ZERO, random)
    }

    /// The same, with a bound of `least` at least, if that is not too long.
    pub(crate) fn next_above(&mut self, least: Duration, random: u64) -> Duration {
        let bound = doubled(FIRST.max(least), self.failures, LONGEST);
        self.failures = self.failures.saturating_add(1);
        uniform(bound, random)
    }
}

/// `first`, doubled so many times, up to `longest`.
pub(crate) fn doubled(first: Duration, times: u32, longest: Duration) -> Duration {
    first
        .saturating_mul(1_u32.checked_shl(times).unwrap_or(u32::MAX))
        .min(longest)
}

/// Uniform between zero and `bound`, if `random` is over all of `u64`.
pub(crate) fn uniform(bound: Duration, random: u64) -> Duration {
    let span = u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(scale(random, span))
}

/// Brings `random`, uniform over all of `u64`, into `0..bound`: the high half of a 64 x 64 bit product
/// has no division's bias.
pub(crate) fn scale(random: u64, bound: u64) -> u64 {
    let scaled = u128::from(random).saturating_mul(u128::from(bound)) >> 64_u32;
    u64::try_from(scaled).unwrap_or(bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_doubles_up_to_its_limit() {
        let mut backoff = Backoff::default();
        let longest: Vec<u128> = (0..40)
            .map(|_| backoff.next(u64::MAX).as_millis())
            .collect();
        assert_eq!(longest[..7], [7, 15, 31, 63, 127, 249, 249]);
        assert_eq!(longest[39], 249);
    }

    #[test]
    fn jitter_reaches_from_zero_to_the_bound() {
        assert_eq!(Backoff::default().next(0), Duration::ZERO);
        assert_eq!(Backoff::default().next(1 << 63), FIRST / 2);
    }
}
