//! Reentrancy: one logical thread of work, and what it holds.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::client::Redlock;
use crate::guard::{Guard, Held};
use crate::request::{Acquire, Wait};

/// One logical thread of work: what it holds it can acquire again.
///
/// A nested acquisition of a resource that the owner holds costs no round trip, unless it asks for
/// a longer ttl; it shares the lock, its token and its loss, and the lock is released with the last
/// of the guards. The outermost acquisition's [`Renewal`](crate::Renewal) governs. A second
/// acquisition while the first is in flight waits for it.
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

/// What an owner holds, key by key. The lock of a slot is held while its resource is acquired.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    by_key: Mutex<BTreeMap<String, Slot>>,
}

pub(crate) type Slot = Arc<tokio::sync::Mutex<Weak<Held>>>;

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
        Acquire::new(self.redlock.clone(), resource.into()).owned_by(Arc::clone(&self.slots))
    }

    /// [`acquire`](Self::acquire) with [`Wait::Once`].
    pub fn try_acquire(&self, resource: impl Into<String>) -> Acquire {
        self.acquire(resource).wait(Wait::Once)
    }
}

impl Slots {
    pub(crate) fn slot(&self, key: &str) -> Slot {
        let mut by_key = self.by_key.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = by_key.get(key) {
            return Arc::clone(slot);
        }
        // What is held by nobody, and acquired by nobody, needs no slot.
        by_key.retain(|_, slot| {
            Arc::strong_count(slot) > 1 || slot.try_lock().is_ok_and(|held| held.strong_count() > 0)
        });
        Arc::clone(by_key.entry(key.into()).or_default())
    }
}

/// One more guard of the lock that a slot holds, if it holds one.
pub(crate) fn held(slot: &Weak<Held>) -> Option<Guard> {
    slot.upgrade().map(Guard::share)
}
