//! A held lock.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{ExtendError, ReleaseError};
use crate::held::{Held, Released};
use crate::lease::Lease;
use crate::lost::Lost;
use crate::quorum::ballot::FencingToken;
use crate::quorum::hold::LossCause;
use crate::quorum::tally::Tally;
use crate::token::Token;

/// A lock that is held until it is released, dropped or lost.
///
/// It is renewed as its request said: by default every third of the ttl. A guard that is leaked
/// (`std::mem::forget`) is renewed for ever, unless [`Renewal::max_hold`](crate::Renewal::max_hold)
/// bounds it.
///
/// Dropping it releases the lock without waiting, on any thread. A drop on the last line of `main`
/// may not reach the nodes before the runtime ends: [`release`](Self::release) it there, or
/// [`close`](crate::Redlock::close) the client.
///
/// Guards that one [`Owner`](crate::Owner) has nested share one lock: it goes with the last of them.
#[must_use = "a lock is released when its guard is dropped"]
pub struct Guard {
    held: Arc<Held>,
}

impl Guard {
    /// One more guard of the same lock.
    pub(crate) const fn share(held: Arc<Held>) -> Self {
        Self { held }
    }

    /// What is locked.
    #[must_use]
    pub fn resource(&self) -> &str {
        self.held.resources().first()
    }

    /// The proof of ownership that stands on the nodes.
    #[must_use]
    pub fn token(&self) -> &Token {
        self.held.token()
    }

    /// What orders this lock among all fenced locks of its resource; `None` if it was not
    /// [`fenced`](crate::Acquire::fenced). Give it to whatever the lock protects, with every write.
    #[must_use]
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.held.fencing_token()
    }

    /// The votes by which the lock was won, with those that came since.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.held.tally()
    }

    /// Until when the lock may be relied on: the ttl, counted from before the first send, less
    /// drift. The guard reports its loss a little earlier, see [`lost`](Self::lost).
    ///
    /// If the machine sleeps, an earlier answer is too late by that time: ask again.
    #[must_use]
    pub fn valid_until(&self) -> Instant {
        self.held.valid_until()
    }

    /// Is the lock lost by now, and why? Reads the clock.
    #[must_use]
    pub fn loss(&self) -> Option<LossCause> {
        self.held.loss()
    }

    /// Waits until the lock is lost. The future is `'static`: it can watch from another task.
    ///
    /// Its timer is set between one and two milliseconds before [`valid_until`](Self::valid_until),
    /// because timers may be a millisecond late, and waits for no reply and no other task. It fires
    /// earlier if an extension finds so few nodes with the key that the lock cannot be extended;
    /// and at once when the guard is released or dropped, or the client closed. Loss is final.
    ///
    /// # Cancel safety
    ///
    /// Dropping and polling it again loses nothing.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn work() {}
    /// # async fn example(guard: redlock_quorum::Guard) {
    /// tokio::select! {
    ///     () = work() => {}
    ///     cause = guard.lost() => eprintln!("stop: {cause}"),
    /// }
    /// # }
    /// ```
    pub fn lost(&self) -> Lost {
        self.held.lost()
    }

    /// Makes the lock last for `ttl` from now on, if that is longer than it lasts anyway. Returns
    /// the new [`valid_until`](Self::valid_until), or the present one if nothing needed to be sent.
    ///
    /// # Errors
    ///
    /// [`ExtendError::NoQuorum`] if fewer than a quorum of nodes confirmed it within the round
    /// time-out: the lock stands as it was. [`ExtendError::Lost`] if the lock is lost, which no
    /// extension undoes. [`ExtendError::InvalidRequest`] if the ttl is out of range.
    ///
    /// # Cancel safety
    ///
    /// If dropped, the extension that is under way goes on, and counts if it succeeds in time. One
    /// that was still waiting for an earlier one to end is not sent.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn example(guard: redlock_quorum::Guard) -> Result<(), redlock_quorum::ExtendError> {
    /// let until = guard.extend(Duration::from_secs(30)).await?;
    /// assert_eq!(until, guard.valid_until());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn extend(&self, ttl: Duration) -> Result<Instant, ExtendError> {
        self.held.extend(ttl).await
    }

    /// Releases the lock on all nodes. Returns when fewer than a quorum of nodes can still hold
    /// it; the rest is settled behind.
    ///
    /// Releasing what is lost already is no error: the report says so.
    ///
    /// # Errors
    ///
    /// [`ReleaseError::Unconfirmed`] if that could not be confirmed within the round time-out.
    /// The client goes on trying; at the latest the ttl ends the lock.
    ///
    /// # Cancel safety
    ///
    /// If dropped at any point, the lock is released all the same.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(guard: redlock_quorum::Guard) -> Result<(), redlock_quorum::ReleaseError> {
    /// let released = guard.release().await?;
    /// if released.already_gone {
    ///     eprintln!("the lock had been lost before");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn release(self) -> Result<Released, ReleaseError> {
        self.held.release().await
    }

    /// Turns the lock into a [`Lease`], which can be sent to another process and
    /// [attached](crate::Redlock::attach) there. Renewal stops and nothing is released: what is left of
    /// the lock is its ttl. [`lost`](Self::lost) reports [`LossCause::Detached`].
    ///
    /// # Errors
    ///
    /// The guard, if its lock is lost, or is shared with a nested guard.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn example(guard: redlock_quorum::Guard) -> Result<(), redlock_quorum::Guard> {
    /// let lease = guard.detach()?;
    /// # drop(lease);
    /// # Ok(())
    /// # }
    /// ```
    pub fn detach(self) -> Result<Lease, Self> {
        self.held.detach().map_err(Self::share)
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("resource", &self.resource())
            .field("loss", &self.loss())
            .finish_non_exhaustive()
    }
}
