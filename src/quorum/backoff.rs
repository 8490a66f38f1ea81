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
        let bound = FIRST
            .max(least)
            .saturating_mul(1_u32.checked_shl(self.failures).unwrap_or(u32::MAX))
            .min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        uniform(bound, random)
    }
}

/// Uniform between zero and `bound`, if `random` is over all of `u64`.
pub(super) fn uniform(bound: Duration, random: u64) -> Duration {
    let span = u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX);
    // The high half of a 64 x 64 bit product: uniform over 0..span, without a division's bias.
    let scaled = u128::from(random).saturating_mul(u128::from(span)) >> 64_u32;
    Duration::from_nanos(u64::try_from(scaled).unwrap_or(span))
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
