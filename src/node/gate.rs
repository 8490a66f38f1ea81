//! What may be handed to a node right now.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;

use super::{Link, Request, Standing};
use crate::quorum::hold::Command;
use crate::quorum::ledger::ConnectionId;
use crate::quorum::vote::Unsent;

/// So many commands may wait for a node's answer; beyond it only releases are taken.
pub(crate) const MAX_UNANSWERED: usize = 4096;

/// Between those who submit to a node and its driver.
#[derive(Debug)]
pub(crate) struct Gate {
    standing: Mutex<Standing>,
    unanswered: AtomicUsize,
    /// See [`Node::tells`](super::Node::tells).
    tells: AtomicBool,
}

impl Gate {
    pub(crate) fn new() -> Self {
        let standing = Standing {
            link: Link::Connecting,
            finished: None,
            error: None,
        };
        Self {
            standing: Mutex::new(standing),
            unanswered: AtomicUsize::new(0),
            tells: AtomicBool::new(false),
        }
    }

    /// Lets a command in, or says why not. What was let in is counted until [`Gate::answered`].
    pub(crate) fn admit(&self, command: Command) -> Result<(), Unsent> {
        self.lock().link.admits(command)?;
        self.count(command.is_release())
    }

    /// Counts what is let in; `always`: also beyond the bound.
    pub(super) fn count(&self, always: bool) -> Result<(), Unsent> {
        let out = self.unanswered.fetch_add(1, Ordering::Relaxed);
        if out >= MAX_UNANSWERED && !always {
            self.answered(1);
            return Err(Unsent::QueueFull);
        }
        Ok(())
    }

    /// Lets a request into a driver's queue, or refuses it.
    pub(crate) fn pass(
        &self,
        request: Request,
        queue: &mpsc::UnboundedSender<Request>,
    ) -> Result<(), Unsent> {
        if let Err(reason) = self.admit(request.command()) {
            return Err(request.refuse(reason));
        }
        queue.send(request).map_err(|unsent| {
            self.answered(1);
            unsent.0.refuse(Unsent::Closed)
        })
    }

    /// So many commands are answered, or will not be.
    pub(crate) fn answered(&self, count: usize) {
        self.unanswered.fetch_sub(count, Ordering::Relaxed);
    }

    pub(crate) fn standing(&self) -> Standing {
        self.lock().clone()
    }

    pub(crate) fn link(&self) -> Link {
        self.lock().link
    }

    pub(crate) fn tells(&self) -> bool {
        self.tells.load(Ordering::Relaxed)
    }

    /// Returns whether this is a change.
    pub(crate) fn set_link(&self, link: Link, error: Option<Arc<str>>) -> bool {
        if matches!(link, Link::Down(_)) {
            self.set_tells(false);
        }
        let mut standing = self.lock();
        standing.error = error;
        std::mem::replace(&mut standing.link, link) != link
    }

    /// A link that goes down tells no more. Returns whether it did before.
    pub(crate) fn set_tells(&self, tells: bool) -> bool {
        self.tells.swap(tells, Ordering::Relaxed)
    }

    pub(crate) fn set_finished(&self, through: ConnectionId) {
        let mut standing = self.lock();
        standing.finished = standing.finished.max(Some(through));
    }

    fn lock(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const ACQUIRE: Command = Command::Acquire {
        ttl: Duration::from_secs(1),
        ballot: None,
    };

    #[test]
    fn a_release_always_has_room() {
        let gate = Gate::new();
        for _ in 0..MAX_UNANSWERED {
            assert_eq!(gate.admit(ACQUIRE), Ok(()));
        }
        assert_eq!(gate.admit(ACQUIRE), Err(Unsent::QueueFull));
        assert_eq!(gate.admit(Command::Release), Ok(()));
        gate.answered(2);
        assert_eq!(gate.admit(ACQUIRE), Ok(()));
        gate.set_link(Link::ReleasesOnly(Unsent::BreakerOpen), None);
        assert_eq!(gate.admit(ACQUIRE), Err(Unsent::BreakerOpen));
        assert_eq!(gate.admit(Command::Release), Ok(()));
        gate.set_link(Link::Down(Unsent::NotConnected), None);
        assert_eq!(gate.admit(Command::Release), Err(Unsent::NotConnected));
    }

    #[test]
    fn a_connection_that_has_ended_tells_nothing() {
        let gate = Gate::new();
        assert!(!gate.tells());
        gate.set_tells(true);
        gate.set_link(Link::Up, None);
        gate.set_link(Link::ReleasesOnly(Unsent::BreakerOpen), None);
        assert!(gate.tells(), "it is the same connection");
        gate.set_link(Link::Down(Unsent::NotConnected), None);
        assert!(!gate.tells());
    }

    #[test]
    fn a_node_in_quarantine_takes_everything_but_acquires() {
        let gate = Gate::new();
        for decided in [false, true] {
            gate.set_link(Link::Quarantined { decided }, None);
            assert_eq!(gate.admit(ACQUIRE), Err(Unsent::Quarantined));
            let (ttl, ballot) = (Duration::from_secs(1), None);
            let extend = Command::Extend {
                ttl,
                number: 1,
                ballot,
            };
            for command in [extend, Command::Heal { ttl, ballot }, Command::Release] {
                assert_eq!(gate.admit(command), Ok(()));
            }
        }
    }
}
