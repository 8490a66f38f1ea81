//! The only place that reads a clock.
//!
//! The wall clock is read for the first guess of a ballot, and for nothing else.
//!
//! `now` is tokio's clock plus what the machine has slept since the clock was made. So a suspended
//! laptop finds its locks expired, and tests that pause tokio's clock stay exact.
#![expect(clippy::disallowed_methods, reason = "this is the one place that may")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use crate::quorum::validity::Moment;

#[derive(Debug)]
pub(crate) struct Clock {
    origin: Instant,
    slept_before: u64,
    /// The longest sleep seen so far, in milliseconds: two clocks cannot be read at one moment, and
    /// what was counted once must not be taken back.
    slept: AtomicU64,
    /// What the wall clock shows at `origin`, in microseconds, where a test has said so: from then
    /// on it goes with this clock.
    wall_at_origin: Option<u64>,
}

impl Clock {
    /// Starts a clock at `ORIGIN`.
    #[cfg(any(test, feature = "testkit"))]
    pub(crate) fn start() -> Self {
        Self::with_wall(None)
    }

    /// Starts a clock at `ORIGIN`, when the wall clock shall show so many microseconds since 1970;
    /// `None`: what it does show.
    pub(crate) fn with_wall(wall_at_origin: Option<u64>) -> Self {
        Self {
            wall_at_origin,
            origin: Instant::now(),
            slept_before: suspended_nanos(),
            slept: AtomicU64::new(0),
        }
    }

    pub(crate) fn now(&self) -> Moment {
        let awake = Instant::now().saturating_duration_since(self.origin);
        ORIGIN.after(awake).after(self.slept())
    }

    /// Microseconds since 1970 by the wall clock.
    pub(crate) fn wall_micros(&self) -> u64 {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        match self.wall_at_origin {
            Some(start) => start.saturating_add(micros(self.now().since(ORIGIN))),
            None => SystemTime::now()
                .duration_since(SystemTime::UNIX_EPOCH)
                .map_or(0, micros),
        }
    }

    /// The instant at which tokio's clock will show `moment`, if the machine does not sleep until then.
    pub(crate) fn instant(&self, moment: Moment) -> Instant {
        let awake = moment.since(ORIGIN).saturating_sub(self.slept());
        self.origin.checked_add(awake).unwrap_or(self.origin)
    }

    fn slept(&self) -> Duration {
        // In whole milliseconds: less than one is the time between two readings.
        let now = suspended_nanos().saturating_sub(self.slept_before) / 1_000_000;
        let before = self.slept.load(Ordering::Relaxed);
        if now > before {
            self.slept.fetch_max(now, Ordering::Relaxed);
        }
        Duration::from_millis(now.max(before))
    }
}

/// The moment at which every clock starts: a day, so that subtraction never meets zero.
const ORIGIN: Moment = Moment::from_nanos(86_400_000_000_000);

/// For how long this machine has been suspended since it booted: never more than it was.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn suspended_nanos() -> u64 {
    use rustix::time::{ClockId, Timespec, clock_gettime};

    let nanos = |time: Timespec| {
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        seconds
            .saturating_mul(1_000_000_000)
            .saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0))
    };
    // The monotonic clock is read second: a pause between the two makes the result smaller.
    let boot = nanos(clock_gettime(ClockId::Boottime));
    boot.saturating_sub(nanos(clock_gettime(ClockId::Monotonic)))
}

/// Elsewhere the monotonic clock is taken at its word.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const fn suspended_nanos() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_paused_clock_is_exact() {
        let clock = Clock::start();
        let start = clock.now();
        tokio::time::advance(Duration::from_millis(1234)).await;
        assert_eq!(clock.now().since(start), Duration::from_millis(1234));
        assert_eq!(clock.instant(clock.now()), Instant::now());
    }

    #[tokio::test(start_paused = true)]
    async fn sleep_counts_and_is_taken_off_again_for_timers() {
        let clock = Clock::start();
        let (start, instant) = (clock.now(), Instant::now());
        let slept = Duration::from_secs(3600);
        clock
            .slept
            .store(u64::try_from(slept.as_millis()).unwrap(), Ordering::Relaxed);
        assert_eq!(clock.now().since(start), slept);
        assert_eq!(clock.instant(start.after(slept)), instant);
    }

    #[test]
    fn time_never_goes_backwards() {
        let clock = Clock::start();
        let mut last = clock.now();
        for _ in 0..100_000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
    }
}
