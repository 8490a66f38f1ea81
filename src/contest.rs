//! Trying for a lock until it is acquired, or the time to wait is over.

use std::sync::Arc;
use std::time::Duration;

use crate::driver::attempt::Attempt;
use crate::driver::cell::{Cell, Mark};
use crate::driver::engine::Engine;
use crate::driver::queue::{Place, Turn};
use crate::error::{AcquireError, InvalidRequest};
use crate::node::reconnect::CONNECT_TIMEOUT;
use crate::quorum::ballot;
use crate::quorum::bug;
use crate::quorum::hold::Hold;
use crate::quorum::round::Verdict;
use crate::quorum::validity::Moment;
use crate::quorum::waiting::{self, InWay, Waiting};
use crate::request::Wait;
use crate::unacquired::Unacquired;
use crate::wanted::Wanted;

/// A request that has been checked.
pub(crate) struct Contest<'a> {
    pub(crate) engine: &'a Arc<Engine>,
    pub(crate) wanted: &'a Wanted,
    /// When it was first polled.
    pub(crate) began: Moment,
}

/// How an attempt ended that did not win.
struct Lost {
    attempt: Attempt,
    verdict: Verdict,
}

impl Lost {
    /// Of a set: the keys that were in the way at a node, where that is known.
    fn in_way(&self) -> impl Fn(usize) -> Vec<InWay> {
        |node| self.attempt.in_way(node)
    }
}

impl Contest<'_> {
    pub(crate) async fn run(&self) -> Result<Arc<Cell>, AcquireError> {
        if self.wanted.wait != Wait::Once {
            return self.contend().await;
        }
        self.engine.ready(self.began.after(CONNECT_TIMEOUT)).await;
        match self.attempt(false, None).await? {
            Ok(attempt) => {
                let cell = attempt.keep();
                self.engine.queue().hold(&cell);
                Ok(cell)
            }
            Err(lost) => Err(self.failure(&lost)),
        }
    }

    async fn contend(&self) -> Result<Arc<Cell>, AcquireError> {
        // First: who asks first is first, also while nothing is connected.
        let place = self.engine.queue().join(self.wanted.resources.keys());
        let connected = self.began.after(CONNECT_TIMEOUT);
        self.engine.ready(self.in_time(connected)).await;
        let mut waiting = Waiting::new(self.engine.nodes().len());
        // The first round is bare; whoever waits lets the nodes tell.
        let mut watches = false;
        loop {
            let (gap, waited) = self.turn(&place, &mut waiting).await?;
            watches |= waited;
            // What has been told so far, the attempt will find out.
            place.touched().for_each(drop);
            // The last attempt begins at the deadline, if it comes to that.
            let is_last = self.is_over();
            let lost = match self.attempt(watches, Some(place.ticket())).await? {
                Ok(attempt) => {
                    let cell = attempt.keep();
                    let started_at = cell.peek(|hold| hold.round().started_at());
                    place.won(&cell, gap, self.now().since(started_at));
                    return Ok(cell);
                }
                Err(lost) => lost,
            };
            if is_last || self.is_over() {
                return Err(self.failure(&lost));
            }
            if lost.verdict == Verdict::Contended {
                place.lost(gap);
            }
            let random = || self.engine.entropy().jitter();
            let now = self.now();
            let pause = lost
                .attempt
                .peek(|hold| waiting.on_lost(hold.round(), lost.in_way(), now, random));
            if place.turn() == Turn::Behind {
                // Its turn comes with the end of that lock.
            } else if watches {
                self.listen(&place, &lost, &mut waiting).await;
            } else {
                self.pause(self.in_time(now.after(pause))).await;
            }
            watches = true;
        }
    }

    /// Waits for our turn, at most until the deadline. Returns the gap that was kept, and whether
    /// it is not our turn and yet time for an attempt.
    async fn turn(
        &self,
        place: &Place,
        waiting: &mut Waiting,
    ) -> Result<(Duration, bool), AcquireError> {
        let poll_at = self.after(waiting::poll_pause(self.engine.entropy().jitter()));
        loop {
            if self.engine.has_ended() {
                return Err(AcquireError::Closed);
            }
            let until = match place.turn() {
                Turn::Ours { gap } => {
                    if !gap.is_zero() {
                        self.pause(self.in_time(self.after(gap))).await;
                    }
                    return Ok((gap, false));
                }
                // Its holder may be wrong about it.
                Turn::Behind => {
                    let now = self.now();
                    for (node, keys) in place.touched() {
                        waiting.on_touched(node, keys, now);
                    }
                    let news = waiting.due_by_news();
                    Some(self.in_time(news.map_or(poll_at, |at| at.min(poll_at))))
                }
                Turn::Queued => self.deadline().filter(|_| !bug!(QueuedForGood)),
            };
            if until.is_some_and(|until| self.now() >= until) {
                return Ok((Duration::ZERO, true));
            }
            self.news(place, until).await;
        }
    }

    /// Waits for news, or for the time of an attempt without, at most until the deadline.
    async fn listen(&self, place: &Place, lost: &Lost, waiting: &mut Waiting) {
        loop {
            let now = self.now();
            let random = || self.engine.entropy().jitter();
            let pending = lost.attempt.peek(|hold| {
                waiting.hear(hold.round(), lost.in_way(), now, random);
                hold.round().pending()
            });
            for (node, keys) in place.touched() {
                waiting.on_touched(node, keys, now);
            }
            let until = self.in_time(waiting.due(|node| self.engine.tells(node)));
            if now >= until || self.engine.has_ended() {
                return;
            }
            let another = |hold: &Hold| (hold.round().pending() < pending).then_some(());
            tokio::select! {
                biased;
                () = self.news(place, Some(until)) => {}
                () = lost.attempt.wait(another) => {}
            }
        }
    }

    /// One round. `Ok(Err(_))`: it was lost.
    async fn attempt(
        &self,
        watches: bool,
        ticket: Option<u64>,
    ) -> Result<Result<Attempt, Lost>, AcquireError> {
        let engine = self.engine;
        if engine.has_ended() {
            return Err(AcquireError::Closed);
        }
        let Wanted {
            redlock,
            resources,
            ttl,
            renewal,
            fenced,
            ..
        } = self.wanted;
        let config = redlock.config();
        let ballot = fenced.then(|| {
            let (wall, memory) = (engine.clock().wall_micros(), ballot::memory(config.max_ttl));
            engine.hints().choose(resources.keys(), wall, memory)
        });
        let terms = config.terms(*ttl, *renewal, ballot, engine);
        let token = engine
            .entropy()
            .token()
            .ok_or(InvalidRequest::NoRandomness)?;
        #[cfg(feature = "testkit")]
        let token = if bug!(TokenReused) {
            crate::token::Token::from_bits(1)
        } else {
            token
        };
        let mark = Mark {
            watches,
            ticket,
            ..Mark::new(resources.keys(), token)
        };
        let attempt = Attempt::start(engine, mark, &terms, Hold::start);
        #[cfg(feature = "testkit")]
        if bug!(LeaseClockOncePerWait) {
            attempt.backdate(self.began);
        }
        match attempt.verdict().await {
            Some(Verdict::Won) => Ok(Ok(attempt)),
            Some(verdict) => Ok(Err(Lost { attempt, verdict })),
            None => Err(AcquireError::Closed),
        }
    }

    fn failure(&self, lost: &Lost) -> AcquireError {
        let waited = self.now().since(self.began);
        let how = Unacquired::new(&self.wanted.resources, lost.attempt.tally(), waited);
        match lost.verdict {
            Verdict::Contended => AcquireError::Contended(how),
            Verdict::NoQuorum => AcquireError::NoQuorum(how),
            Verdict::Won | Verdict::TooLate => AcquireError::TooLate(how),
        }
    }

    fn now(&self) -> Moment {
        self.engine.clock().now()
    }

    fn after(&self, pause: Duration) -> Moment {
        self.now().after(pause)
    }

    /// When the last attempt begins.
    fn deadline(&self) -> Option<Moment> {
        match self.wanted.wait {
            Wait::Once => Some(self.began),
            Wait::For(limit) if !bug!(DeadlineIgnored) => Some(self.began.after(limit)),
            Wait::For(_) | Wait::Forever => None,
        }
    }

    fn in_time(&self, moment: Moment) -> Moment {
        self.deadline()
            .map_or(moment, |deadline| moment.min(deadline))
    }

    fn is_over(&self) -> bool {
        self.deadline()
            .is_some_and(|deadline| self.now() >= deadline)
    }

    /// Waits until the place has news, the moment has come, or the client has ended.
    async fn news(&self, place: &Place, until: Option<Moment>) {
        let quiet = async {
            match until {
                Some(until) => self.pause(until).await,
                None => self.ended().await,
            }
        };
        tokio::select! {
            biased;
            () = place.changed() => {}
            () = quiet => {}
        }
    }

    /// Waits until the moment has come or the client has ended.
    async fn pause(&self, until: Moment) {
        tokio::select! {
            biased;
            () = self.engine.sleep_until(until) => {}
            () = self.ended() => {}
        }
    }

    async fn ended(&self) {
        let ended = || self.engine.has_ended().then_some(());
        self.engine.wait(ended).await;
    }
}
