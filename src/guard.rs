//! A held lock.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::client::Redlock;
use crate::driver::cell::Cell;
use crate::error::{ExtendError, ReleaseError, Unacquired};
use crate::lease::Lease;
use crate::lost::Lost;
use crate::quorum::ballot::FencingToken;
use crate::quorum::bug;
use crate::quorum::hold::{Hold, LossCause, Removal};
use crate::quorum::round::Verdict;
use crate::quorum::validity::Moment;
use crate::quorum::vote::Tally;
use crate::token::Token;

/// A lock that is held until it is released, dropped or lost.
///
/// It is renewed as its request said: by default every third of the ttl. A guard that is leaked
/// (`std::mem::forget`) is renewed for ever, unless [`Renewal::max_hold`](crate::Renewal::max_hold)
/// bounds it.
///
/// Dropping it releases the lock without waiting, on any thread. A drop on the last line of `main`
/// may not reach the nodes before the runtime ends: [`release`](Self::release) it there, or
/// [`close`](Redlock::close) the client.
///
/// Guards that one [`Owner`](crate::Owner) has nested share one lock: it goes with the last of them.
#[must_use = "a lock is released when its guard is dropped"]
pub struct Guard {
    held: Arc<Held>,
}

/// A lock that is held, by one guard or by nested ones: it is released with the last of them.
pub(crate) struct Held {
    cell: Arc<Cell>,
    resource: String,
    redlock: Redlock,
}

impl Held {
    pub(crate) fn loss(&self) -> Option<LossCause> {
        self.cell.read(|hold, now| hold.loss(now))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.cell.release(LossCause::Released);
    }
}

impl Guard {
    pub(crate) fn new(cell: Arc<Cell>, resource: String, redlock: Redlock) -> Self {
        Self::share(Arc::new(Held {
            cell,
            resource,
            redlock,
        }))
    }

    /// One more guard of the same lock.
    pub(crate) const fn share(held: Arc<Held>) -> Self {
        Self { held }
    }

    pub(crate) const fn held(&self) -> &Arc<Held> {
        &self.held
    }

    fn cell(&self) -> &Arc<Cell> {
        &self.held.cell
    }

    /// What is locked.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.held.resource
    }

    /// The proof of ownership that stands on the nodes.
    #[must_use]
    pub fn token(&self) -> &Token {
        self.cell().token()
    }

    /// What orders this lock among all fenced locks of its resource; `None` if it was not
    /// [`fenced`](crate::Acquire::fenced). Give it to whatever the lock protects, with every write.
    #[must_use]
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.cell().peek(Hold::fencing_token)
    }

    /// The votes by which the lock was won, with those that came since.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.cell().tally()
    }

    /// Until when the lock may be relied on: the ttl, counted from before the first send, less
    /// drift. The guard reports its loss a little earlier, see [`lost`](Self::lost).
    ///
    /// If the machine sleeps, an earlier answer is too late by that time: ask again.
    #[must_use]
    pub fn valid_until(&self) -> Instant {
        self.instant(self.cell().peek(Hold::valid_until))
    }

    /// Is the lock lost by now, and why? Reads the clock.
    #[must_use]
    pub fn loss(&self) -> Option<LossCause> {
        self.held.loss()
    }

    /// The ttl that extensions ask for.
    pub(crate) fn ttl(&self) -> Duration {
        self.cell().peek(Hold::ttl)
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
        Lost::of(Arc::clone(self.cell()))
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
        let config = self.held.redlock.config();
        config.check_ttl(ttl)?;
        let _one_at_a_time = self.cell().extending.lock().await;
        // One that was begun by a call that has been dropped comes first.
        self.cell()
            .wait(|cell| cell.peek(|hold| (!hold.is_extending()).then_some(())))
            .await;
        let round_timeout = config.round_timeout(ttl);
        let (began, begun) = self.cell().feed(|hold, now, outbox| {
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
        let ended = self.cell().wait(|cell| {
            cell.read(|hold, now| {
                let ended = hold.extended().filter(|ended| ended.number == number)?;
                Some((hold.loss(now), ended.clone(), now))
            })
        });
        match ended.await {
            (Some(cause), ..) => Err(ExtendError::Lost(cause)),
            (None, ended, now) if ended.verdict != Verdict::Won => {
                let tally = Tally::new(self.cell().engine().names(), ended.votes, ended.quorum);
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
        match Arc::try_unwrap(self.held) {
            Ok(held) => released(&held.cell).await,
            // The lock goes with the last guard.
            Err(shared) => {
                if bug!(ReleaseAtFirstDrop) {
                    shared.cell.release(LossCause::Released);
                }
                Ok(Released {
                    already_gone: shared.loss().is_some(),
                    deleted: 0,
                })
            }
        }
    }

    /// Turns the lock into a [`Lease`], which can be sent to another process and
    /// [attached](Redlock::attach) there. Renewal stops and nothing is released: what is left of
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
        let held = Arc::try_unwrap(self.held).map_err(Self::share)?;
        let ttl = held.cell.feed(|hold, now, outbox| hold.detach(now, outbox));
        match ttl {
            Some(ttl) => Ok(Lease::new(
                &held.cell,
                &held.resource,
                held.redlock.config(),
                ttl,
            )),
            None => Err(Self::share(Arc::new(held))),
        }
    }

    fn instant(&self, moment: Moment) -> Instant {
        self.cell().engine().clock().instant(moment).into_std()
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("resource", &self.held.resource)
            .field("loss", &self.loss())
            .finish_non_exhaustive()
    }
}

/// Releases the lock of a cell and waits for as long as [`Guard::release`] says.
pub(crate) async fn released(cell: &Arc<Cell>) -> Result<Released, ReleaseError> {
    let loss = cell.feed(|hold, now, outbox| {
        let loss = hold.loss(now);
        hold.release(LossCause::Released, now, outbox);
        loss
    });
    // After the longest hold the nodes have the key all the same.
    if loss.is_some_and(|cause| cause != LossCause::MaxHold) {
        return Ok(Released {
            already_gone: true,
            deleted: 0,
        });
    }
    removed(cell, loss).await
}

/// Waits until the removal that has begun is confirmed, or is not in time.
pub(crate) async fn removed(
    cell: &Arc<Cell>,
    loss: Option<LossCause>,
) -> Result<Released, ReleaseError> {
    let removal = cell.wait(|cell| {
        let removal = cell.peek(Hold::removal);
        (removal.confirmed || removal.timed_out).then_some(removal)
    });
    let Removal {
        confirmed, deleted, ..
    } = removal.await;
    if confirmed {
        let already_gone = deleted == 0 || loss.is_some();
        return Ok(Released {
            already_gone,
            deleted,
        });
    }
    let names = cell.engine().names();
    let holders: Vec<usize> = cell.peek(|hold| hold.possible_holders().collect());
    let nodes = holders
        .into_iter()
        .filter_map(|node| names.get(node))
        .map(ToString::to_string);
    Err(ReleaseError::Unconfirmed {
        nodes: nodes.collect(),
    })
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
