//! The request for a lock.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::client::Redlock;
use crate::driver::attempt::Attempt;
use crate::driver::cell::Mark;
use crate::driver::engine::Engine;
use crate::error::{AcquireError, ExtendError, InvalidRequest, UsingError};
use crate::guard::Guard;
use crate::node::redis::connection::CONNECT_TIMEOUT;
use crate::owner::{Slots, held};
use crate::quorum::backoff::Backoff;
use crate::quorum::ballot;
use crate::quorum::bug;
use crate::quorum::hold::Hold;
use crate::quorum::renewal::Renewal;
use crate::quorum::round::Verdict;
use crate::quorum::validity::Moment;

/// For how long an acquisition tries.
///
/// Its last attempt begins at the end of that time, and is not cut short: so the answer may come up to
/// one round time-out later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wait {
    /// One attempt. A client's first one waits up to 1 s for its nodes to be connected.
    Once,
    /// Attempts until so long after the first poll, connecting and pauses included.
    For(Duration),
    /// Until it is acquired.
    Forever,
}

impl From<Duration> for Wait {
    fn from(duration: Duration) -> Self {
        Self::For(duration)
    }
}

/// A request for a lock, to be awaited.
///
/// Nothing is sent before its first poll. The lock that it brings is a [`Guard`].
///
/// # Errors
///
/// Awaiting it fails with an [`AcquireError`], which tells contention from an outage, and carries
/// what each node said.
///
/// # Cancel safety
///
/// As for its future, [`Acquiring`].
///
/// # Examples
///
/// ```no_run
/// # use std::time::Duration;
/// # async fn example(redlock: redlock_quorum::Redlock) -> Result<(), Box<dyn std::error::Error>> {
/// match redlock.acquire("invoices").wait(Duration::from_millis(500)).await {
///     Ok(guard) => { guard.release().await?; }
///     Err(error) if error.is_contended() => println!("somebody else is at it"),
///     Err(error) => return Err(error.into()),
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "a request does nothing unless it is awaited"]
#[derive(Debug)]
pub struct Acquire {
    redlock: Redlock,
    resource: String,
    ttl: Duration,
    wait: Wait,
    renewal: Renewal,
    owner: Option<Arc<Slots>>,
    fenced: bool,
}

impl Acquire {
    pub(crate) fn new(redlock: Redlock, resource: String) -> Self {
        let (ttl, wait) = (redlock.config().ttl, redlock.config().wait);
        let fenced = redlock.config().fenced;
        Self {
            redlock,
            resource,
            ttl,
            wait,
            renewal: Renewal::default(),
            owner: None,
            fenced,
        }
    }

    pub(crate) fn owned_by(mut self, owner: Arc<Slots>) -> Self {
        self.owner = Some(owner);
        self
    }

    /// How long the nodes keep the lock unless it is extended, instead of the client's default.
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// For how long to try, instead of the client's default.
    pub fn wait(mut self, wait: impl Into<Wait>) -> Self {
        self.wait = wait.into();
        self
    }

    /// How the lock is kept alive while its guard lives. Default: [`Renewal::every_third`].
    pub const fn renewal(mut self, renewal: Renewal) -> Self {
        self.renewal = renewal;
        self
    }

    /// Makes the lock carry a [fencing token](Guard::fencing_token), which is larger than that of
    /// every fenced lock that was granted on this resource before.
    ///
    /// The nodes must allow scripts. All clients of a resource should be fenced: one that is not
    /// is excluded as ever, but stands outside the order. See
    /// [`docs::fencing`](crate::docs::fencing).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn write(_token: u64) {}
    /// # async fn example(redlock: redlock_quorum::Redlock) -> Result<(), redlock_quorum::AcquireError> {
    /// let guard = redlock.acquire("invoices").fenced().await?;
    /// if let Some(token) = guard.fencing_token() {
    ///     // The database refuses this if it has seen a larger one.
    ///     write(token.as_u64()).await;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub const fn fenced(mut self) -> Self {
        self.fenced = true;
        self
    }

    /// Acquires the lock, runs `section` while it is held, and releases it.
    ///
    /// The loss of the lock is looked for before every poll of the section; a lost lock's section
    /// is dropped where it is suspended. The section goes on while an extension is slow. If it
    /// panics, the lock is released and the panic goes on.
    ///
    /// # Errors
    ///
    /// [`UsingError::Acquire`] if the lock was not acquired: the section did not begin.
    /// [`UsingError::Lost`] if the lock was lost before the section ended. [`UsingError::Release`]
    /// if the section ended and the release was not confirmed: it carries the section's output.
    ///
    /// # Cancel safety
    ///
    /// If dropped, the section is dropped where it is suspended and the lock is released.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn next_number() -> u64 { 7 }
    /// # async fn example(redlock: redlock_quorum::Redlock) -> Result<(), Box<dyn std::error::Error>> {
    /// let number = redlock.acquire("invoices").using(async |_guard| next_number().await).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn using<T>(
        self,
        section: impl AsyncFnOnce(&Guard) -> T,
    ) -> Result<T, UsingError<T>> {
        let guard = self.await.map_err(UsingError::Acquire)?;
        let outcome = {
            let lost = guard.lost();
            tokio::select! {
                biased;
                cause = lost, if !bug!(SectionOutlivesLoss) => Err(UsingError::Lost(cause)),
                output = section(&guard) => Ok(output),
            }
        };
        let output = outcome?;
        match guard.release().await {
            Ok(_released) => Ok(output),
            Err(source) => Err(UsingError::Release { output, source }),
        }
    }

    async fn run(self) -> Result<Guard, AcquireError> {
        let config = self.redlock.config();
        let key = config.key(&self.resource)?;
        config.check_ttl(self.ttl)?;
        if !self.renewal.is_sound(self.ttl) {
            return Err(InvalidRequest::UnsoundRenewal.into());
        }
        let engine = self.redlock.engine()?;
        let began = engine.clock().now();
        let Some(owner) = &self.owner else {
            return self.contend(&engine, &key, began).await;
        };
        let slot = owner.slot(&key);
        let mut slot = slot.lock().await;
        if let Some(guard) = held(&slot).filter(|_| !bug!(NestedAsksAgain)) {
            return self.nest(guard).await;
        }
        let guard = self.contend(&engine, &key, began).await?;
        *slot = Arc::downgrade(guard.held());
        Ok(guard)
    }

    /// The owner holds it already.
    async fn nest(&self, guard: Guard) -> Result<Guard, AcquireError> {
        if let Some(cause) = guard.loss() {
            return Err(AcquireError::Lost(cause));
        }
        if self.fenced && guard.fencing_token().is_none() {
            return Err(InvalidRequest::FencedInPlain.into());
        }
        if self.ttl <= guard.ttl() {
            return Ok(guard);
        }
        match guard.extend(self.ttl).await {
            Ok(_until) => Ok(guard),
            Err(ExtendError::Lost(cause)) => Err(AcquireError::Lost(cause)),
            Err(ExtendError::NoQuorum(how)) => Err(AcquireError::NoQuorum(how)),
            Err(ExtendError::InvalidRequest(problem)) => Err(problem.into()),
        }
    }

    /// Tries until it is acquired or the time is over.
    async fn contend(
        &self,
        engine: &Arc<Engine>,
        key: &str,
        began: Moment,
    ) -> Result<Guard, AcquireError> {
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
                engine.hints().choose(key, wall, memory)
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
            let attempt = Attempt::start(engine, Mark::one(key, token), &terms, Hold::start);
            #[cfg(feature = "testkit")]
            if bug!(LeaseClockOncePerWait) {
                attempt.backdate(began);
            }
            let Some(verdict) = attempt.verdict().await else {
                return Err(AcquireError::Closed);
            };
            if verdict == Verdict::Won {
                let resource = self.resource.clone();
                return Ok(Guard::new(attempt.keep(), resource, self.redlock.clone()));
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

impl IntoFuture for Acquire {
    type Output = Result<Guard, AcquireError>;
    type IntoFuture = Acquiring;

    fn into_future(self) -> Acquiring {
        Acquiring {
            run: Box::pin(self.run()),
        }
    }
}

/// The future of an [`Acquire`].
///
/// # Cancel safety
///
/// If dropped at any point, the attempt is given up: whatever a node granted, or may yet grant, is
/// released by the client, as long as its runtime lives.
#[must_use = "futures do nothing unless they are polled"]
pub struct Acquiring {
    run: Pin<Box<dyn Future<Output = Result<Guard, AcquireError>> + Send>>,
}

impl Future for Acquiring {
    type Output = Result<Guard, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.run.as_mut().poll(context)
    }
}

impl fmt::Debug for Acquiring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquiring").finish_non_exhaustive()
    }
}
