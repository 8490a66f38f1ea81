//! How often in a row one client may have a resource before others get their chance.

use std::time::Duration;

use crate::quorum::backoff;

/// So many grants in a row within one process, and then a gap.
pub(crate) const ROW: u32 = 4;
/// Every gap that nobody used doubles the row, up to this.
pub(crate) const LONGEST_ROW: u32 = 32;
/// A gap lasts two round trips, within these bounds: a round may have been slow for other reasons.
const GAP: (Duration, Duration) = (Duration::from_millis(1), backoff::LONGEST);

/// The grants of one resource to one process, one after another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turns {
    row: u32,
    longest: u32,
    trip: Duration,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            row: 0,
            longest: ROW,
            trip: Duration::ZERO,
        }
    }
}

impl Turns {
    pub(super) fn gap(&self) -> Duration {
        if self.row < self.longest {
            return Duration::ZERO;
        }
        self.trip.saturating_mul(2).clamp(GAP.0, GAP.1)
    }

    pub(super) fn on_won(&mut self, after_gap: bool, trip: Duration) {
        self.trip = trip;
        if after_gap {
            self.row = 1;
            self.longest = self.longest.saturating_mul(2).min(LONGEST_ROW);
        } else {
            self.row = self.row.saturating_add(1);
        }
    }

    pub(super) fn on_lost(&mut self, after_gap: bool) {
        self.row = 0;
        if after_gap {
            self.longest = ROW;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIP: Duration = Duration::from_millis(3);

    /// Wins until there is a gap; how often?
    fn row(turns: &mut Turns) -> u32 {
        let mut row = 0;
        while turns.gap().is_zero() {
            turns.on_won(false, TRIP);
            row += 1;
        }
        row
    }

    #[test]
    fn a_gap_that_nobody_used_doubles_the_row_and_one_that_was_used_shortens_it() {
        let mut turns = Turns::default();
        let mut rows = Vec::new();
        for _ in 0..5 {
            rows.push(row(&mut turns));
            turns.on_won(true, TRIP);
        }
        // The grant after a gap is the first of its row.
        assert_eq!(rows, [4, 7, 15, 31, 31]);
        row(&mut turns);
        turns.on_lost(true);
        assert_eq!(row(&mut turns), 4);
        turns.on_lost(false);
        assert_eq!(row(&mut turns), 4, "others were there without a gap");
    }

    #[test]
    fn a_gap_lasts_two_round_trips_within_bounds() {
        let gap = |trip| {
            let mut turns = Turns::default();
            (0..ROW).for_each(|_| turns.on_won(false, trip));
            turns.gap()
        };
        assert_eq!(gap(TRIP), TRIP * 2);
        assert_eq!(gap(Duration::from_micros(80)), Duration::from_millis(1));
        assert_eq!(gap(Duration::from_secs(1)), Duration::from_millis(250));
    }
}
