//! A held lock on several resources.

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

/// One lock on several resources, held until it is released, dropped or lost: all of them together.
///
/// At each node it has the keys of all its resources or none. It has one token, one validity and
/// one loss. Everything else is as for a [`Guard`](crate::Guard).
#[must_use = "a lock is released when its guard is dropped"]
pub struct GuardSet {
    held: Arc<Held>,
}

impl GuardSet {
    /// One more guard of the same lock.
    pub(crate) const fn share(held: Arc<Held>) -> Self {
        Self { held }
    }

    /// What is locked: each resource once, in ascending order.
    #[must_use]
    pub fn resources(&self) -> impl ExactSizeIterator<Item = &str> {
        self.held.resources().iter()
    }

    /// The proof of ownership that stands on the nodes.
    #[must_use]
    pub fn token(&self) -> &Token {
        self.held.token()
    }

    /// What orders this lock among all fenced locks of `resource`, alone or in sets; `None` if it is
    /// not one of the set's, or the set was not [`fenced`](crate::AcquireAll::fenced). Give it to
    /// whatever the resource's lock protects, with every write.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(redlock: redlock_quorum::Redlock) -> Result<(), redlock_quorum::AcquireError> {
    /// let guard = redlock.acquire_all(["from", "to"]).fenced().await?;
    /// assert!(guard.fencing_token("from").is_some());
    /// assert_eq!(guard.fencing_token("other"), None);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn fencing_token(&self, resource: &str) -> Option<FencingToken> {
        let is_ours = self.resources().any(|ours| ours == resource);
        self.held.fencing_token().filter(|_| is_ours)
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
    /// # async fn example(guard: redlock_quorum::GuardSet) {
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
    /// # async fn example(guard: redlock_quorum::GuardSet) -> Result<(), redlock_quorum::ExtendError> {
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
    /// # async fn example(guard: redlock_quorum::GuardSet) -> Result<(), redlock_quorum::ReleaseError> {
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
    /// [attached](crate::Redlock::attach_all) there. Renewal stops and nothing is released: what is left of
    /// the lock is its ttl. [`lost`](Self::lost) reports [`LossCause::Detached`].
    ///
    /// # Errors
    ///
    /// The set, if its lock is lost, or is shared with a nested one.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn example(guard: redlock_quorum::GuardSet) -> Result<(), redlock_quorum::GuardSet> {
    /// let lease = guard.detach()?;
    /// # drop(lease);
    /// # Ok(())
    /// # }
    /// ```
    pub fn detach(self) -> Result<Lease, Self> {
        self.held.detach().map_err(Self::share)
    }
}

impl fmt::Debug for GuardSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardSet")
            .field("resources", self.held.resources())
            .field("loss", &self.loss())
            .finish_non_exhaustive()
    }
}
