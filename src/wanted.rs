//! What a request asks for, and how it gets it.

use std::sync::Arc;
use std::time::Duration;

use crate::client::Redlock;
use crate::driver::attempt::Attempt;
use crate::driver::cell::Mark;
use crate::driver::engine::Engine;
use crate::error::{AcquireError, ExtendError, InvalidRequest, UsingError};
use crate::held::Held;
use crate::node::redis::connection::CONNECT_TIMEOUT;
use crate::owner::Slots;
use crate::quorum::backoff::Backoff;
use crate::quorum::ballot;
use crate::quorum::bug;
use crate::quorum::hold::Hold;
use crate::quorum::renewal::Renewal;
use crate::quorum::round::Verdict;
use crate::quorum::validity::Moment;
use crate::request::Wait;
use crate::resources::Resources;

/// What a request asks for: one resource, or several at once.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) redlock: Redlock,
    pub(crate) resources: Resources,
    pub(crate) ttl: Duration,
    pub(crate) wait: Wait,
    pub(crate) renewal: Renewal,
    pub(crate) owner: Option<Arc<Slots>>,
    pub(crate) fenced: bool,
}

impl Wanted {
    pub(crate) fn new(redlock: Redlock, resources: Resources) -> Self {
        let config = redlock.config();
        let (ttl, wait, fenced) = (config.ttl, config.wait, config.fenced);
        Self {
            redlock,
            resources,
            ttl,
            wait,
            renewal: Renewal::default(),
            owner: None,
            fenced,
        }
    }

    /// Runs `section` while it is held, with a guard that `guard` makes.
    pub(crate) async fn using<G, T>(
        self,
        guard: fn(Arc<Held>) -> G,
        section: impl AsyncFnOnce(&G) -> T,
    ) -> Result<T, UsingError<T>> {
        let held = self.run().await.map_err(UsingError::Acquire)?;
        let outcome = {
            let (guard, lost) = (guard(Arc::clone(&held)), held.lost());
            tokio::select! {
                biased;
                cause = lost => Err(UsingError::Lost(cause)),
                output = section(&guard) => Ok(output),
            }
        };
        let output = outcome?;
        match held.release().await {
            Ok(_released) => Ok(output),
            Err(source) => Err(UsingError::Release { output, source }),
        }
    }

    /// Acquires it, or nests it in what its owner holds.
    pub(crate) async fn run(self) -> Result<Arc<Held>, AcquireError> {
        let config = self.redlock.config();
        config.check_resources(&self.resources)?;
        config.check_ttl(self.ttl)?;
        if !self.renewal.is_sound(self.ttl) {
            return Err(InvalidRequest::UnsoundRenewal.into());
        }
        let engine = self.redlock.engine()?;
        let began = engine.clock().now();
        let Some(owner) = &self.owner else {
            return self.contend(&engine, began).await;
        };
        let slot = owner.slot(self.resources.keys());
        let mut slot = slot.lock().await;
        if let Some(held) = slot.upgrade() {
            return self.nest(held).await;
        }
        let held = self.contend(&engine, began).await?;
        *slot = Arc::downgrade(&held);
        Ok(held)
    }

    /// The owner holds it already.
    async fn nest(&self, held: Arc<Held>) -> Result<Arc<Held>, AcquireError> {
        if let Some(cause) = held.loss() {
            return Err(AcquireError::Lost(cause));
        }
        if self.fenced && held.fencing_token().is_none() {
            return Err(InvalidRequest::FencedInPlain.into());
        }
        if self.ttl <= held.ttl() {
            return Ok(held);
        }
        match held.extend(self.ttl).await {
            Ok(_until) => Ok(held),
            Err(ExtendError::Lost(cause)) => Err(AcquireError::Lost(cause)),
            Err(ExtendError::NoQuorum(how)) => Err(AcquireError::NoQuorum(how)),
            Err(ExtendError::InvalidRequest(problem)) => Err(problem.into()),
        }
    }

    /// Tries until it is acquired or the time is over.
    async fn contend(
        &self,
        engine: &Arc<Engine>,
        began: Moment,
    ) -> Result<Arc<Held>, AcquireError> {
        let deadline = match self.wait {
            Wait::Once => Some(began),
            Wait::For(limit) => Some(began.after(limit)),
            Wait::Forever => None,
        };
        let deadline = deadline.filter(|_| !bug!(DeadlineIgnored));
        let connected = began.after(CONNECT_TIMEOUT);
        engine
            .ready(match self.wait {
                Wait::For(limit) => connected.min(began.after(limit)),
                Wait::Once | Wait::Forever => connected,
            })
            .await;
        let mut backoff = Backoff::default();
        loop {
            if engine.is_closed() || engine.is_abandoned() {
                return Err(AcquireError::Closed);
            }
            let config = self.redlock.config();
            let ballot = self.fenced.then(|| {
                let (wall, memory) = (engine.clock().wall_micros(), ballot::memory(config.max_ttl));
                let keys = self.resources.keys();
                engine.hints().choose(keys, wall, memory)
            });
            let terms = config.terms(self.ttl, self.renewal, ballot, engine);
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
            let mark = Mark::new(self.resources.keys(), token);
            let attempt = Attempt::start(engine, mark, &terms, Hold::start);
            #[cfg(feature = "testkit")]
            if bug!(LeaseClockOncePerWait) {
                attempt.backdate(began);
            }
            let Some(verdict) = attempt.verdict().await else {
                return Err(AcquireError::Closed);
            };
            if verdict == Verdict::Won {
                let (resources, redlock) = (self.resources.clone(), self.redlock.clone());
                return Ok(Held::new(attempt.keep(), resources, redlock));
            }
            let now = engine.clock().now();
            if deadline.is_some_and(|deadline| now >= deadline) {
                return Err(failure(&attempt, verdict, now.since(began)));
            }
            drop(attempt);
            let resume = now.after(backoff.next(engine.entropy().jitter()));
            // The last attempt begins at the deadline, if it comes to that.
            pause(
                engine,
                deadline.map_or(resume, |deadline| resume.min(deadline)),
            )
            .await;
        }
    }
}

fn failure(attempt: &Attempt, verdict: Verdict, waited: Duration) -> AcquireError {
    let how = attempt.tally(waited);
    match verdict {
        Verdict::Contended => AcquireError::Contended(how),
        Verdict::NoQuorum => AcquireError::NoQuorum(how),
        Verdict::Won | Verdict::TooLate => AcquireError::TooLate(how),
    }
}

/// Waits until the moment has come or the client is closed.
async fn pause(engine: &Engine, until: Moment) {
    tokio::select! {
        biased;
        () = engine.sleep_until(until) => {}
        () = engine.wait(|| engine.is_closed().then_some(())) => {}
    }
}
