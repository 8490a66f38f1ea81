//! The request for a lock on several resources.

use std::future::IntoFuture;
use std::time::Duration;

use crate::error::{AcquireError, UsingError};
use crate::guard_set::GuardSet;
use crate::quorum::renewal::Renewal;
use crate::request::{Acquiring, Wait};
use crate::wanted::Wanted;

/// A request for one lock on several resources, to be awaited: all of them or none.
///
/// Nothing is sent before its first poll. The lock that it brings is a [`GuardSet`]. Order and
/// repetition of the resources do not matter, and requests for sets that overlap do not deadlock:
/// each attempt asks every node for all resources in one step, and each node grants all or none.
/// It excludes every other lock on any of the resources, alone or in a set. There may be 1 to 64
/// resources, and the nodes must allow scripts.
///
/// # Errors
///
/// Awaiting it fails with an [`AcquireError`], as for [`Acquire`](crate::Acquire): contended if
/// *any* of the resources is held by somebody else.
///
/// # Cancel safety
///
/// As for its future, [`Acquiring`].
///
/// # Examples
///
/// ```no_run
/// # async fn transfer() {}
/// # async fn example(redlock: redlock_quorum::Redlock) -> Result<(), Box<dyn std::error::Error>> {
/// let guard = redlock.acquire_all(["account/7", "account/3"]).await?;
/// assert!(guard.resources().eq(["account/3", "account/7"]));
/// transfer().await;
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a request does nothing unless it is awaited"]
#[derive(Debug)]
pub struct AcquireAll(Wanted);

impl AcquireAll {
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

    /// Makes the lock carry a [fencing token](GuardSet::fencing_token), which for each resource is
    /// larger than that of every fenced lock that was granted on it before, alone or in a set.
    ///
    /// For what is asked of nodes and clients, see [`Acquire::fenced`](crate::Acquire::fenced).
    pub const fn fenced(mut self) -> Self {
        self.0.fenced = true;
        self
    }

    /// Acquires the lock, runs `section` while it is held, and releases it: as
    /// [`Acquire::using`](crate::Acquire::using).
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
    /// # async fn transfer() -> u64 { 7 }
    /// # async fn example(redlock: redlock_quorum::Redlock) -> Result<(), Box<dyn std::error::Error>> {
    /// let accounts = redlock.acquire_all(["account/3", "account/7"]);
    /// let amount = accounts.using(async |_guard| transfer().await).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn using<T>(
        self,
        section: impl AsyncFnOnce(&GuardSet) -> T,
    ) -> Result<T, UsingError<T>> {
        self.0.using(GuardSet::share, section).await
    }
}

impl IntoFuture for AcquireAll {
    type Output = Result<GuardSet, AcquireError>;
    type IntoFuture = Acquiring<GuardSet>;

    fn into_future(self) -> Self::IntoFuture {
        Acquiring::new(self.0, GuardSet::share)
    }
}
