//! A server's state between those who use it, and the task that carries its messages.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::Notify;

use super::state::State;
use crate::clock::Clock;
use crate::quorum::validity::Moment;

#[derive(Debug)]
pub(super) struct Shared {
    // A std mutex: nothing is awaited and nobody is called back under it.
    state: Mutex<State>,
    clock: Clock,
    /// Something may be due earlier than it was.
    changed: Arc<Notify>,
}

impl Shared {
    pub(super) fn new(seed: u64) -> Self {
        let clock = Clock::start();
        let state = Mutex::new(State::new(seed, clock.now()));
        Self {
            state,
            clock,
            changed: Arc::default(),
        }
    }

    pub(super) fn with<R>(&self, look: impl FnOnce(&mut State, Moment) -> R) -> R {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let result = look(&mut state, self.clock.now());
        drop(state);
        self.changed.notify_one();
        result
    }

    /// Sees to it that a task of the present runtime carries messages.
    pub(super) fn drive(self: &Arc<Self>) {
        if !self.with(|state, _| std::mem::replace(&mut state.is_driven, true)) {
            let changed = Arc::clone(&self.changed);
            tokio::spawn(carry(Carrying(Arc::downgrade(self)), changed));
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.changed.notify_one();
    }
}

/// Another task may take over when this one ends with its runtime.
struct Carrying(Weak<Shared>);

impl Drop for Carrying {
    fn drop(&mut self) {
        if let Some(shared) = self.0.upgrade() {
            shared.with(|state, _| state.is_driven = false);
        }
    }
}

/// Carries messages until the server is gone.
async fn carry(carrying: Carrying, changed: Arc<Notify>) {
    loop {
        let next = {
            let Some(shared) = carrying.0.upgrade() else {
                return;
            };
            let mut state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
            state
                .advance(shared.clock.now())
                .map(|next| shared.clock.instant(next))
        };
        match next {
            Some(next) => {
                tokio::select! {
                    biased;
                    () = changed.notified() => {}
                    () = tokio::time::sleep_until(next) => {}
                }
            }
            None => changed.notified().await,
        }
    }
}
