//! When does a silent connection count as dead?

use std::time::Duration;

use crate::quorum::validity::Moment;

/// Without any reply for this long while commands are out, a node gets no new acquires.
pub(crate) const OPENS_AFTER: Duration = Duration::from_millis(250);
/// Without any reply for this long, its connection is replaced.
pub(crate) const REPLACES_AFTER: Duration = Duration::from_secs(2);

/// A timer so late says more about this process than about the node.
const STALL: Duration = Duration::from_millis(100);

/// Watches one connection. The commands that are out are its probes: replies come in order, so
/// the first one of any kind shows that the node lives.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    silent_since: Option<Moment>,
    open: bool,
}

/// What is due at a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Nothing,
    Open,
    Replace,
}

impl Breaker {
    /// A command was written.
    pub(crate) const fn on_written(&mut self, now: Moment) {
        if self.silent_since.is_none() {
            self.silent_since = Some(now);
        }
    }

    /// A reply came; are commands still out? Returns whether the breaker was open.
    pub(crate) const fn on_reply(&mut self, still_out: bool, now: Moment) -> bool {
        self.silent_since = if still_out { Some(now) } else { None };
        std::mem::replace(&mut self.open, false)
    }

    pub(crate) const fn is_open(&self) -> bool {
        self.open
    }

    /// What is due at `now`, asked by a timer that was set for `timer`.
    ///
    /// A timer that is much too late shows that this process stood still: replies may have come
    /// that nobody has read, so the silence is measured anew.
    pub(crate) fn poll(&mut self, timer: Moment, now: Moment) -> Due {
        let Some(since) = self.silent_since else {
            return Due::Nothing;
        };
        if now.since(timer) >= STALL {
            self.silent_since = Some(now);
            return Due::Nothing;
        }
        let silence = now.since(since);
        if silence >= REPLACES_AFTER {
            Due::Replace
        } else if silence >= OPENS_AFTER && !self.open {
            self.open = true;
            Due::Open
        } else {
            Due::Nothing
        }
    }

    /// When `poll` has something to say, unless a reply comes first.
    pub(crate) fn next_deadline(&self) -> Option<Moment> {
        let wait = if self.open {
            REPLACES_AFTER
        } else {
            OPENS_AFTER
        };
        self.silent_since.map(|since| since.after(wait))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn it_opens_after_silence_and_gives_up_later() {
        let mut breaker = Breaker::default();
        assert_eq!(
            (breaker.poll(at(9_000), at(9_000)), breaker.next_deadline()),
            (Due::Nothing, None)
        );
        breaker.on_written(at(10_000));
        breaker.on_written(at(10_200));
        assert_eq!(
            (
                breaker.poll(at(10_249), at(10_249)),
                breaker.next_deadline()
            ),
            (Due::Nothing, Some(at(10_250)))
        );
        assert_eq!(
            (
                breaker.poll(at(10_250), at(10_250)),
                breaker.next_deadline()
            ),
            (Due::Open, Some(at(12_000)))
        );
        assert_eq!(breaker.poll(at(11_999), at(11_999)), Due::Nothing);
        assert_eq!(breaker.poll(at(12_000), at(12_000)), Due::Replace);
    }

    #[test]
    fn the_first_reply_closes_it() {
        let mut breaker = Breaker::default();
        breaker.on_written(at(0));
        assert_eq!(breaker.poll(at(250), at(250)), Due::Open);
        assert!(breaker.on_reply(true, at(300)));
        assert_eq!(
            breaker.next_deadline(),
            Some(at(550)),
            "what is still out counts from here"
        );
        assert!(!breaker.on_reply(false, at(301)));
        assert_eq!(
            breaker.next_deadline(),
            None,
            "an idle connection is not silent"
        );
    }

    #[test]
    fn a_process_that_stood_still_does_not_blame_the_node() {
        let mut breaker = Breaker::default();
        breaker.on_written(at(0));
        assert_eq!(breaker.poll(at(250), at(3000)), Due::Nothing);
        assert_eq!(breaker.next_deadline(), Some(at(3250)));
        assert_eq!(breaker.poll(at(3250), at(3260)), Due::Open);
    }
}
