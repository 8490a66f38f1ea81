//! When is a held lock extended by itself?

use std::time::Duration;

use super::validity::{self, Moment};

/// How a held lock is kept alive while its guard lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Renewal {
    every: Every,
    max_hold: Option<Duration>,
    max_renewals: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Every {
    Third,
    Fixed(Duration),
    Never,
}

impl Renewal {
    /// Every third of the ttl: two renewals may fail before the lock does. The default.
    pub const fn every_third() -> Self {
        Self::of(Every::Third)
    }

    /// At this interval, which must be shorter than the ttl. At a third of the ttl or less, one may
    /// fail and the lock lasts all the same. Whatever the interval, a renewal comes before validity has
    /// less than a tenth of the ttl left: also after an extension by hand to a shorter ttl.
    pub const fn every(interval: Duration) -> Self {
        Self::of(Every::Fixed(interval))
    }

    /// Never: the lock is a fixed lease, unless it is extended by hand.
    pub const fn off() -> Self {
        Self::of(Every::Never)
    }

    /// The lock is lost ([`LossCause::MaxHold`](crate::LossCause::MaxHold)) so long after it was
    /// taken, extended or not: a valve against stuck work and leaked guards.
    pub const fn max_hold(mut self, limit: Duration) -> Self {
        self.max_hold = Some(limit);
        self
    }

    /// At most so many renewals: then the lock expires. One that is tried again counts once.
    pub const fn max_renewals(mut self, count: u32) -> Self {
        self.max_renewals = Some(count);
        self
    }

    const fn of(every: Every) -> Self {
        Self {
            every,
            max_hold: None,
            max_renewals: None,
        }
    }

    /// How long after the beginning of one extension the next is due, for a lock of this ttl.
    pub(crate) fn interval(&self, ttl: Duration) -> Option<Duration> {
        match self.every {
            Every::Third => ttl.checked_div(3),
            Every::Fixed(interval) => Some(interval),
            Every::Never => None,
        }
    }

    /// Can it keep a lock of this ttl alive?
    pub(crate) fn is_sound(&self, ttl: Duration) -> bool {
        let interval = self
            .interval(ttl)
            .is_none_or(|interval| !interval.is_zero() && interval < ttl);
        interval && self.max_hold.is_none_or(|limit| !limit.is_zero())
    }

    /// When a lock that was begun at `started_at` ends whatever is done.
    pub(crate) fn ends_at(&self, started_at: Moment) -> Option<Moment> {
        self.max_hold.map(|limit| started_at.after(limit))
    }
}

impl Default for Renewal {
    fn default() -> Self {
        Self::every_third()
    }
}

/// Renewals that are due within one tick go out together.
pub(crate) const TICK: Duration = Duration::from_millis(25);
pub(crate) const FIRST_RETRY: Duration = Duration::from_millis(10);

/// The renewals of one hold.
#[derive(Clone, Debug)]
pub(crate) struct Renewing {
    renewal: Renewal,
    /// The ttl that renewals ask for.
    ttl: Duration,
    due: Option<Moment>,
    /// How many have been sent; one that failed and is to be tried again does not count.
    renewed: u32,
    /// One of them is in flight.
    in_flight: bool,
    failures: u32,
    /// What is left of the randomness that the hold was given.
    jitter: u64,
}

impl Renewing {
    pub(crate) const fn new(renewal: Renewal, ttl: Duration, jitter: u64) -> Self {
        Self {
            renewal,
            ttl,
            due: None,
            renewed: 0,
            in_flight: false,
            failures: 0,
            jitter,
        }
    }

    pub(crate) const fn ttl(&self) -> Duration {
        self.ttl
    }

    pub(crate) const fn due(&self) -> Option<Moment> {
        self.due
    }

    pub(crate) fn ends_at(&self, started_at: Moment) -> Option<Moment> {
        self.renewal.ends_at(started_at)
    }

    /// The lock has been granted or extended for `ttl` by a round that began at `started_at`.
    pub(crate) fn on_confirmed(&mut self, started_at: Moment, ttl: Duration) {
        self.ttl = ttl;
        self.failures = 0;
        self.in_flight = false;
        let interval = self.renewal.interval(ttl).filter(|_| self.has_more());
        let tenth = ttl.checked_div(10).unwrap_or_default();
        let latest = validity::valid_until(started_at, ttl).before(tenth);
        self.due = interval.map(|interval| {
            let due = started_at.after(self.jittered(interval));
            due.min(latest).floor_to(tick(interval))
        });
    }

    /// May it be renewed once more?
    fn has_more(&self) -> bool {
        let most = self.renewal.max_renewals;
        most.is_none_or(|most| self.renewed < most)
    }

    /// A renewal has been sent.
    pub(crate) fn on_sent(&mut self) {
        self.renewed = self.renewed.saturating_add(1);
        self.in_flight = true;
        self.due = None;
    }

    /// An extension has ended without a quorum: again, soon and then less soon.
    pub(crate) fn on_failed(&mut self, now: Moment) {
        if self.renewal.interval(self.ttl).is_none() {
            return;
        }
        let longest = self
            .ttl
            .checked_div(10)
            .unwrap_or_default()
            .max(FIRST_RETRY);
        let doublings = 1_u32.checked_shl(self.failures).unwrap_or(u32::MAX);
        self.failures = self.failures.saturating_add(1);
        // Retries are part of the renewal that failed, and not counted as more of them.
        self.renewed = self
            .renewed
            .saturating_sub(u32::from(std::mem::take(&mut self.in_flight)));
        let pause = FIRST_RETRY.saturating_mul(doublings).min(longest);
        self.due = self.has_more().then(|| now.after(pause));
    }

    pub(crate) fn stop(&mut self) {
        self.due = None;
    }

    /// The interval give or take a tenth, so that locks taken together do not stay together.
    fn jittered(&mut self, interval: Duration) -> Duration {
        // One step of an xorshift generator: jitter needs no better one.
        self.jitter |= 1;
        self.jitter ^= self.jitter << 13_u32;
        self.jitter ^= self.jitter >> 7_u32;
        self.jitter ^= self.jitter << 17_u32;
        let nanos = interval.as_nanos();
        let span = nanos.checked_div(5).unwrap_or_default();
        let shift = u128::from(self.jitter).saturating_mul(span) >> 64_u32;
        let jittered = nanos.saturating_sub(span >> 1_u32).saturating_add(shift);
        Duration::from_nanos(u64::try_from(jittered).unwrap_or(u64::MAX))
    }
}

/// Short intervals need a finer tick.
fn tick(interval: Duration) -> Duration {
    TICK.min(interval.checked_div(4).unwrap_or(TICK))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(10);

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn renewals_come_every_third_give_or_take_a_tenth_on_a_tick() {
        let mut due = Vec::new();
        for seed in 0..2000_u64 {
            let seed = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let mut renewing = Renewing::new(Renewal::every_third(), TTL, seed);
            for _ in 0..3 {
                renewing.on_confirmed(at(60_000), TTL);
            }
            due.push(renewing.due().unwrap().since(at(60_000)).as_millis());
        }
        assert!(
            due.iter()
                .all(|ms| (2975..=3667).contains(ms) && ms % 25 == 0),
            "{due:?}"
        );
        let mean = due.iter().sum::<u128>() / 2000;
        assert!((3280..=3370).contains(&mean), "{mean}");
    }

    #[test]
    fn failures_are_retried_soon_and_then_less_soon() {
        let mut renewing = Renewing::new(Renewal::every_third(), TTL, 1);
        renewing.on_sent();
        let mut waits = Vec::new();
        for _ in 0..9 {
            renewing.on_failed(at(5000));
            waits.push(renewing.due().unwrap().since(at(5000)).as_millis());
            renewing.on_sent();
        }
        assert_eq!(waits, [10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
    }

    #[test]
    fn there_are_no_more_renewals_than_allowed() {
        let mut renewing = Renewing::new(Renewal::every_third().max_renewals(2), TTL, 1);
        for expected in [true, true, false] {
            renewing.on_confirmed(at(1000), TTL);
            assert_eq!(renewing.due().is_some(), expected);
            renewing.on_sent();
        }
        let mut off = Renewing::new(Renewal::off(), TTL, 1);
        off.on_confirmed(at(0), TTL);
        off.on_failed(at(0));
        assert_eq!(off.due(), None);
    }

    #[test]
    fn short_intervals_are_not_swallowed_by_the_tick() {
        let ttl = Duration::from_millis(20);
        let mut renewing = Renewing::new(Renewal::every_third(), ttl, 1);
        renewing.on_confirmed(at(1000), ttl);
        let due = renewing.due().unwrap().since(at(1000));
        assert!(
            due >= Duration::from_millis(4) && due <= Duration::from_millis(8),
            "{due:?}"
        );
    }

    #[test]
    fn only_sound_renewals_are_taken() {
        assert!(Renewal::every_third().is_sound(TTL) && Renewal::off().is_sound(TTL));
        assert!(!Renewal::every(TTL).is_sound(TTL));
        assert!(!Renewal::every(Duration::ZERO).is_sound(TTL));
        assert!(
            !Renewal::every_third()
                .max_hold(Duration::ZERO)
                .is_sound(TTL)
        );
    }
}
