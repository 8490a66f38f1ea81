//! A held lock.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::client::Redlock;
use crate::driver::cell::Cell;
use crate::error::{ExtendError, ReleaseError, Unacquired};
use crate::quorum::ballot::FencingToken;
use crate::quorum::hold::{Hold, LossCause};
use crate::quorum::round::Verdict;
use crate::quorum::validity::Moment;
use crate::quorum::vote::Tally;
use crate::token::Token;

/// A lock that is held until it is released, dropped or lost.
///
/// Dropping it releases the lock without waiting, on any thread. A drop on the last line of `main`
/// may not reach the nodes before the runtime ends: [`release`](Self::release) it there, or
/// [`close`](Redlock::close) the client.
#[must_use = "a lock is released when its guard is dropped"]
pub struct Guard {
    cell: Arc<Cell>,
    resource: String,
    redlock: Redlock,
}

impl Guard {
    pub(crate) const fn new(cell: Arc<Cell>, resource: String, redlock: Redlock) -> Self {
        Self {
            cell,
            resource,
            redlock,
        }
    }

    /// What is locked.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// The proof of ownership that stands on the nodes.
    #[must_use]
    pub fn token(&self) -> &Token {
        self.cell.token()
    }

    /// What orders this lock among all fenced locks of its resource; `None` if it was not
    /// [`fenced`](crate::Acquire::fenced). Give it to whatever the lock protects, with every write.
    #[must_use]
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.cell.peek(Hold::fencing_token)
    }

    /// The votes by which the lock was won, with those that came since.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.cell.tally()
    }

    /// Until when the lock may be relied on: the ttl, counted from before the first send, less
    /// drift. The guard reports its loss a little earlier, see [`lost`](Self::lost).
    ///
    /// If the machine sleeps, an earlier answer is too late by that time: ask again.
    #[must_use]
    pub fn valid_until(&self) -> Instant {
        self.instant(self.cell.peek(Hold::valid_until))
    }

    /// Is the lock lost by now, and why? Reads the clock.
    #[must_use]
    pub fn loss(&self) -> Option<LossCause> {
        self.cell.read(|hold, now| hold.loss(now))
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
        Lost {
            cell: Arc::clone(&self.cell),
            watch: None,
        }
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
        let config = self.redlock.config();
        config.check_ttl(ttl)?;
        let _one_at_a_time = self.cell.extending.lock().await;
        // One that was begun by a call that has been dropped comes first.
        self.cell
            .wait(|cell| cell.peek(|hold| (!hold.is_extending()).then_some(())))
            .await;
        let round_timeout = config.round_timeout(ttl);
        let (began, begun) = self.cell.feed(|hold, now, outbox| {
            let begun = match hold.loss(now) {
                Some(cause) => Err(cause),
                None => Ok(hold.extend(ttl, now, round_timeout, outbox)),
            };
            (now, begun)
        });
        let number = match begun {
            Err(cause) => return Err(ExtendError::Lost(cause)),
            Ok(None) => return Ok(self.valid_until()),
            Ok(Some(number)) => number,
        };
        let ended = self.cell.wait(|cell| {
            cell.read(|hold, now| {
                let ended = hold.extended().filter(|ended| ended.number == number)?;
                Some((hold.loss(now), ended.clone(), now))
            })
        });
        match ended.await {
            (Some(cause), ..) => Err(ExtendError::Lost(cause)),
            (None, ended, now) if ended.verdict != Verdict::Won => {
                let tally = Tally::new(self.cell.engine().names(), ended.votes, ended.quorum);
                Err(ExtendError::NoQuorum(Unacquired::new(
                    tally,
                    now.since(began),
                )))
            }
            (None, ..) => Ok(self.valid_until()),
        }
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
        let cell = &self.cell;
        let gone = cell.feed(|hold, now, outbox| {
            let gone = hold.loss(now).is_some();
            hold.release(LossCause::Released, now, outbox);
            gone
        });
        if gone {
            return Ok(Released {
                already_gone: true,
                deleted: 0,
            });
        }
        let removal = cell.wait(|cell| {
            let removal = cell.peek(Hold::removal);
            (removal.confirmed || removal.timed_out).then_some(removal)
        });
        let removal = removal.await;
        if removal.confirmed {
            return Ok(Released {
                already_gone: removal.deleted == 0,
                deleted: removal.deleted,
            });
        }
        let names = cell.engine().names();
        let owed: Vec<usize> = cell.peek(|hold| hold.owed().collect());
        let nodes = owed
            .into_iter()
            .filter_map(|node| names.get(node))
            .map(ToString::to_string)
            .collect();
        Err(ReleaseError::Unconfirmed { nodes })
    }

    fn instant(&self, moment: Moment) -> Instant {
        self.cell.engine().clock().instant(moment).into_std()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.cell.release(LossCause::Released);
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("resource", &self.resource)
            .field("loss", &self.loss())
            .finish_non_exhaustive()
    }
}

/// What a release found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Released {
    /// The lock had been lost, or no node that had answered by then had its key any more.
    pub already_gone: bool,
    /// How many nodes had deleted the key when the release returned; others may follow.
    pub deleted: usize,
}

/// Resolves when a lock is lost, and tells why. See [`Guard::lost`].
///
/// # Cancel safety
///
/// Dropping it loses nothing: loss is final, and every other `Lost` of the guard tells it too. It
/// keeps nothing locked: the guard alone does.
#[must_use = "futures do nothing unless they are polled"]
pub struct Lost {
    cell: Arc<Cell>,
    watch: Option<Pin<Box<dyn Future<Output = LossCause> + Send + Sync>>>,
}

impl Future for Lost {
    type Output = LossCause;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<LossCause> {
        let this = &mut *self;
        if let Some(cause) = this.cell.read(|hold, now| hold.loss(now)) {
            this.watch = None;
            return Poll::Ready(cause);
        }
        let cell = &this.cell;
        this.watch
            .get_or_insert_with(|| Box::pin(watch(Arc::clone(cell))))
            .as_mut()
            .poll(context)
    }
}

/// Waits for the loss by a timer of its own: no other task has to run for it to be on time.
async fn watch(cell: Arc<Cell>) -> LossCause {
    loop {
        let loss_at = cell.peek(Hold::loss_at);
        tokio::select! {
            biased;
            cause = cell.wait(|cell| cell.read(|hold, now| hold.loss(now))) => return cause,
            // It is lost now, or an extension has moved the moment.
            () = cell.engine().sleep_until(loss_at) => {}
        }
    }
}

impl Clone for Lost {
    fn clone(&self) -> Self {
        Self {
            cell: Arc::clone(&self.cell),
            watch: None,
        }
    }
}

impl fmt::Debug for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lost").finish_non_exhaustive()
    }
}
