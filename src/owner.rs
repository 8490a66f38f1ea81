//! Reentrancy: one logical thread of work, and what it holds.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::client::Redlock;
use crate::held::Held;
use crate::request::{Acquire, Wait};
use crate::request_all::AcquireAll;
use crate::wanted::Wanted;

/// One logical thread of work: what it holds it can acquire again.
///
/// A nested acquisition of a resource that the owner holds costs no round trip, unless it asks for
/// a longer ttl; it shares the lock, its token and its loss, and the lock is released with the last
/// of the guards. The outermost acquisition's [`Renewal`](crate::Renewal) governs.
///
/// A second acquisition that comes while the first is still under way waits for that one, at most for
/// its own [`wait`](Acquire::wait) (with [`Wait::Once`], for a round time-out). If the first has no
/// answer by then, the second makes one attempt of its own.
///
/// A lock on several resources is one thing: the same set nests, in whatever order it is named. Another
/// set that shares a resource with it, or one of its resources alone, does not: that is a lock of its
/// own, which is in the way of the first like anybody else's, so the owner waits for itself until the
/// request's time is over.
///
/// An owner is not `Clone`: give every logical thread of work its own.
///
/// # Examples
///
/// ```no_run
/// # async fn example(redlock: redlock_quorum::Redlock) -> Result<(), Box<dyn std::error::Error>> {
/// let owner = redlock.owner();
/// let outer = owner.acquire("invoices").await?;
/// let inner = owner.acquire("invoices").await?; // at once
/// inner.release().await?; // the lock is still held
/// outer.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Owner {
    redlock: Redlock,
    slots: Arc<Slots>,
}

/// What an owner holds, by its keys.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    by_keys: Mutex<ByKeys>,
}

type ByKeys = BTreeMap<Arc<[Box<str>]>, Arc<Slot>>;

/// One lock of an owner.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    /// Locked while it is acquired.
    pub(crate) flight: tokio::sync::Mutex<()>,
    held: Mutex<Weak<Held>>,
}

impl Slot {
    pub(crate) fn held(&self) -> Option<Arc<Held>> {
        self.weak().upgrade()
    }

    pub(crate) fn hold(&self, held: &Arc<Held>) {
        *self.weak() = Arc::downgrade(held);
    }

    fn weak(&self) -> MutexGuard<'_, Weak<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Owner {
    pub(crate) fn new(redlock: Redlock) -> Self {
        Self {
            redlock,
            slots: Arc::default(),
        }
    }

    /// A request for the lock on `resource`, as [`Redlock::acquire`]; see [`Owner`] for what is
    /// different if the owner holds it.
    ///
    /// If the owner's lock on it is lost while a guard of it lives, it fails with
    /// [`AcquireError::Lost`](crate::AcquireError::Lost). If it asks for a longer ttl and that
    /// extension fails, it fails with [`AcquireError::NoQuorum`](crate::AcquireError::NoQuorum), and
    /// the lock stands as it was.
    pub fn acquire(&self, resource: impl Into<String>) -> Acquire {
        Acquire::new(self.wanted([resource]))
    }

    /// [`acquire`](Self::acquire) with [`Wait::Once`].
    pub fn try_acquire(&self, resource: impl Into<String>) -> Acquire {
        self.acquire(resource).wait(Wait::Once)
    }

    /// A request for one lock on several resources, as [`Redlock::acquire_all`]; it nests in a lock
    /// of the owner on just the same resources, as [`acquire`](Self::acquire) does.
    pub fn acquire_all<R: Into<String>>(
        &self,
        resources: impl IntoIterator<Item = R>,
    ) -> AcquireAll {
        AcquireAll::new(self.wanted(resources))
    }

    fn wanted<R: Into<String>>(&self, resources: impl IntoIterator<Item = R>) -> Wanted {
        Wanted {
            owner: Some(Arc::clone(&self.slots)),
            ..self.redlock.wanted(resources)
        }
    }
}

impl Slots {
    pub(crate) fn slot(&self, keys: &Arc<[Box<str>]>) -> Arc<Slot> {
        let mut by_keys = self.by_keys.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = by_keys.get(keys) {
            return Arc::clone(slot);
        }
        // What is held by nobody, and acquired by nobody, needs no slot.
        by_keys.retain(|_, slot| Arc::strong_count(slot) > 1 || slot.weak().strong_count() > 0);
        Arc::clone(by_keys.entry(Arc::clone(keys)).or_default())
    }
}
