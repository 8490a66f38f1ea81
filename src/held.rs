//! A lock that is held, whatever its guards are.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::client::Redlock;
use crate::driver::cell::Cell;
use crate::error::{ExtendError, ReleaseError};
use crate::lease::Lease;
use crate::lost::Lost;
use crate::quorum::ballot::FencingToken;
use crate::quorum::bug;
use crate::quorum::hold::{Hold, LossCause, Report};
use crate::quorum::round::Verdict;
use crate::quorum::tally::Tally;
use crate::resources::Resources;
use crate::token::Token;
use crate::unacquired::Unacquired;

/// A lock that is held, by one guard or by nested ones: it is released with the last of them.
///
/// The guards tell in their own words what these methods do.
pub(crate) struct Held {
    cell: Arc<Cell>,
    resources: Resources,
    redlock: Redlock,
}

impl Held {
    pub(crate) fn new(cell: Arc<Cell>, resources: Resources, redlock: Redlock) -> Arc<Self> {
        Arc::new(Self {
            cell,
            resources,
            redlock,
        })
    }

    pub(crate) const fn resources(&self) -> &Resources {
        &self.resources
    }

    pub(crate) fn token(&self) -> &Token {
        self.cell.token()
    }

    pub(crate) fn fencing_token(&self) -> Option<FencingToken> {
        self.cell.peek(Hold::fencing_token)
    }

    pub(crate) fn tally(&self) -> Tally {
        self.cell.tally()
    }

    /// What to say where no node has answered.
    pub(crate) fn unanswered(&self, waited: Duration) -> Unacquired {
        let quorum = self.cell.peek(|hold| hold.round().quorum());
        let names = self.cell.engine().names();
        let votes = names.iter().map(|_node| (None, None));
        Unacquired::new(&self.resources, Tally::new(names, votes, quorum), waited)
    }

    pub(crate) fn valid_until(&self) -> Instant {
        let until = self.cell.peek(Hold::valid_until);
        self.cell.engine().clock().instant(until).into_std()
    }

    /// The ttl that extensions ask for.
    pub(crate) fn ttl(&self) -> Duration {
        self.cell.peek(Hold::ttl)
    }

    pub(crate) fn loss(&self) -> Option<LossCause> {
        self.cell.read(|hold, now| hold.loss(now))
    }

    pub(crate) fn lost(&self) -> Lost {
        Lost::of(Arc::clone(&self.cell))
    }

    pub(crate) async fn extend(&self, ttl: Duration) -> Result<Instant, ExtendError> {
        let config = self.redlock.config();
        config.check_ttl(ttl)?;
        let _one_at_a_time = self.cell.extending.lock().await;
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
        let _wanted = WantedExtension {
            cell: &self.cell,
            number,
        };
        let ended = self.cell.wait(|cell| {
            cell.read(|hold, now| {
                if let Some(cause) = hold.loss(now) {
                    return Some((Err(cause), now));
                }
                let ended = hold.extended().filter(|ended| ended.number == number)?;
                Some((Ok(ended.clone()), now))
            })
        });
        match ended.await {
            (Err(cause), _) => Err(ExtendError::Lost(cause)),
            (Ok(ended), now) if ended.verdict != Verdict::Won => {
                let tally = Tally::new(self.cell.engine().names(), ended.votes, ended.quorum);
                let how = Unacquired::new(&self.resources, tally, now.since(began));
                Err(ExtendError::NoQuorum(how))
            }
            (Ok(_), _) => Ok(self.valid_until()),
        }
    }

    pub(crate) async fn release(self: Arc<Self>) -> Result<Released, ReleaseError> {
        if bug!(ReleaseAtFirstDrop) {
            self.cell.release(LossCause::Released);
        }
        let already_gone = self.loss().is_some();
        match Arc::into_inner(self) {
            Some(held) => released(&held.cell).await,
            // The lock goes with the last guard.
            None => Ok(Released {
                already_gone,
                deleted: 0,
            }),
        }
    }

    pub(crate) fn detach(self: Arc<Self>) -> Result<Lease, Arc<Self>> {
        let held = Arc::try_unwrap(self)?;
        let ttl = held.cell.feed(|hold, now, outbox| hold.detach(now, outbox));
        match ttl {
            Some(ttl) => Ok(Lease::new(&held, ttl)),
            None => Err(Arc::new(held)),
        }
    }
}

/// Somebody waits for an extension by hand: if nobody does, one that has not begun never will.
struct WantedExtension<'a> {
    cell: &'a Arc<Cell>,
    number: u32,
}

impl Drop for WantedExtension<'_> {
    fn drop(&mut self) {
        self.cell
            .feed(|hold, _, _| hold.forgo_extension(self.number));
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.cell.release(LossCause::Released);
    }
}

/// Releases the lock of a cell and waits for as long as [`Guard::release`](crate::Guard::release) says.
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
    let report = cell.wait(|cell| {
        let report = cell.peek(Hold::report);
        (report.confirmed || report.timed_out).then_some(report)
    });
    let Report {
        confirmed, deleted, ..
    } = report.await;
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

/// What a release found. While other guards of a nested lock live, nothing is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Released {
    /// The lock had been lost, or no node that had answered by then had its key any more.
    pub already_gone: bool,
    /// How many nodes had deleted the key when the release returned; others may follow.
    pub deleted: usize,
}
