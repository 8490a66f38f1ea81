//! How often in a row one client may have a resource before others get their chance.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::quorum::backoff;
use crate::quorum::validity::Moment;

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
        self.length()
    }

    fn length(&self) -> Duration {
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

/// The turns of lines that have just ended: whoever takes a resource again at once goes on with
/// them. They may be forgotten: two generations bound their memory.
#[derive(Debug, Default)]
pub(super) struct Ended {
    young: BTreeMap<Box<str>, (Turns, Moment)>,
    old: BTreeMap<Box<str>, (Turns, Moment)>,
}

/// So many are in one generation.
const GENERATION: usize = 512;

impl Ended {
    pub(super) fn put(&mut self, key: Box<str>, turns: Turns, now: Moment) {
        if turns.row == 0 {
            return;
        }
        if self.young.len() >= GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, (turns, now));
    }

    /// The turns of a line that begins. If it was away for a gap, others had their chance.
    pub(super) fn take(&mut self, key: &str, now: Moment) -> Turns {
        let (young, old) = (self.young.remove(key), self.old.remove(key));
        young
            .or(old)
            .filter(|(turns, ended)| now.since(*ended) < turns.length())
            .map_or_else(Turns::default, |(turns, _)| turns)
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

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(1_000_000_000).after(Duration::from_millis(millis))
    }

    fn after(grants: u32) -> Turns {
        let mut turns = Turns::default();
        for _ in 0..grants {
            turns.on_won(false, TRIP);
        }
        turns
    }

    #[test]
    fn a_row_goes_on_unless_the_line_was_away_for_a_gap() {
        let mut ended = Ended::default();
        ended.put("a".into(), after(ROW), at(0));
        assert_eq!(ended.take("b", at(0)).gap(), Duration::ZERO);
        assert_eq!(ended.take("a", at(5)).gap(), 2 * TRIP);
        assert_eq!(ended.take("a", at(5)).gap(), Duration::ZERO, "taken");
        ended.put("a".into(), after(ROW), at(100));
        assert_eq!(ended.take("a", at(106)).gap(), Duration::ZERO);
    }

    #[test]
    fn lines_that_have_ended_cost_bounded_memory() {
        let mut ended = Ended::default();
        for key in 0..10_000 {
            ended.put(key.to_string().into(), after(1), at(0));
            assert!(ended.young.len() <= GENERATION && ended.old.len() <= GENERATION);
        }
        ended.put("lost".into(), Turns::default(), at(0));
        assert!(!ended.young.contains_key("lost"), "nothing to go on with");
    }
}
