//! The request for a lock.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::error::{AcquireError, UsingError};
use crate::guard::Guard;
use crate::held::Held;
use crate::quorum::renewal::Renewal;
use crate::wanted::Wanted;

/// For how long an acquisition tries. How it waits is told in [`docs::waiting`](crate::docs::waiting).
///
/// Its last attempt begins at the end of that time, whether it is first in line or not, and is not cut
/// short: so the answer may come up to one round time-out later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wait {
    /// One attempt, in no line. A client's first one waits up to 1 s for its nodes to be connected.
    Once,
    /// For so long from the first poll: connecting, standing in line and pauses included. If that is
    /// zero there is one attempt all the same, which does not wait for a connection.
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
/// Nothing is sent before its first poll. The lock that it brings is a [`Guard`]. To spawn it, or to
/// poll it by hand, take its future: `tokio::spawn(redlock.acquire("invoices").into_future())`.
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
pub struct Acquire(Wanted);

impl Acquire {
    pub(crate) const fn new(wanted: Wanted) -> Self {
        Self(wanted)
    }

    /// How long the nodes keep the lock unless it is extended, instead of the client's default: from
    /// 20 ms to the client's [`max_ttl`](crate::Builder::max_ttl), in whole milliseconds.
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.0.ttl = ttl;
        self
    }

    /// For how long to try, instead of the client's default: a `Duration`, or a [`Wait`].
    pub fn wait(mut self, wait: impl Into<Wait>) -> Self {
        self.0.wait = wait.into();
        self
    }

    /// How the lock is kept alive while its guard lives. Default: [`Renewal::every_third`].
    pub const fn renewal(mut self, renewal: Renewal) -> Self {
        self.0.renewal = renewal;
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
        self.0.fenced = true;
        self
    }

    /// Acquires the lock, runs `section` while it is held, and releases it.
    ///
    /// The loss of the lock is looked for before every poll of the section, and when it ends; a lost
    /// lock's section is dropped where it is suspended. The section goes on while an extension is slow. If it
    /// panics, the lock is released and the panic goes on. The output of a section that can fail is a
    /// `Result` inside the `Result`: its error is an output like any other, and the lock is released.
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
        self.0.using(Guard::share, section).await
    }
}

impl IntoFuture for Acquire {
    type Output = Result<Guard, AcquireError>;
    type IntoFuture = Acquiring;

    fn into_future(self) -> Acquiring {
        Acquiring::new(self.0, Guard::share)
    }
}

/// The future of an [`Acquire`], or of an [`AcquireAll`](crate::AcquireAll).
///
/// # Cancel safety
///
/// If dropped at any point, it leaves its line, and its attempt is given up: whatever a node granted,
/// or may yet grant, is released by the client, as long as its runtime lives.
#[must_use = "futures do nothing unless they are polled"]
pub struct Acquiring<G = Guard> {
    run: Pin<Box<dyn Future<Output = Result<G, AcquireError>> + Send>>,
}

impl<G: 'static> Acquiring<G> {
    /// `guard` makes a guard of what is acquired.
    pub(crate) fn new(wanted: Wanted, guard: fn(Arc<Held>) -> G) -> Self {
        Self {
            run: Box::pin(async move { wanted.run().await.map(guard) }),
        }
    }
}

impl<G> Future for Acquiring<G> {
    type Output = Result<G, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.run.as_mut().poll(context)
    }
}

impl<G> fmt::Debug for Acquiring<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquiring").finish_non_exhaustive()
    }
}
