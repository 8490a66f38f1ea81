//! Looking at a key: a question that changes nothing, and belongs to no lock.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::Link;
use super::gate::Gate;
use crate::quorum::majority::Seen;
use crate::quorum::vote::Unsent;

/// What a node says; or, in one line, why it does not.
pub(crate) type Glimpse = Result<Seen, Arc<str>>;

/// What stands at a key? Whoever asked is answered once; or never, if this is dropped before.
pub(crate) struct Glance {
    key: Box<str>,
    asker: oneshot::Sender<Glimpse>,
    /// It counts there for as long as it lives.
    _admitted: Admitted,
}

struct Admitted(Arc<Gate>);

impl Drop for Admitted {
    fn drop(&mut self) {
        self.0.answered(1);
    }
}

impl Glance {
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// Does nobody wait for the answer any more?
    pub(crate) fn is_given_up(&self) -> bool {
        self.asker.is_closed()
    }

    pub(crate) fn answer(self, glimpse: Glimpse) {
        // Nobody may wait for it any more.
        drop(self.asker.send(glimpse));
    }
}

/// The way to a driver that looks.
pub(crate) type Glances = mpsc::UnboundedSender<Glance>;

impl Gate {
    /// Lets a glance into a driver's queue, or refuses it. Unlike a lock's commands it passes in
    /// quarantine and while the breaker is open.
    pub(crate) fn look(
        self: &Arc<Self>,
        key: &str,
        queue: &Glances,
    ) -> Result<oneshot::Receiver<Glimpse>, Unsent> {
        match self.link() {
            Link::Down(reason) => return Err(reason),
            Link::Connecting | Link::Up | Link::Quarantined { .. } | Link::ReleasesOnly(_) => {}
        }
        self.count(false)?;
        let (asker, answer) = oneshot::channel();
        let glance = Glance {
            key: key.into(),
            asker,
            _admitted: Admitted(Arc::clone(self)),
        };
        queue.send(glance).map_err(|_unsent| Unsent::Closed)?;
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::gate::MAX_UNANSWERED;

    #[test]
    fn a_glance_counts_until_it_is_over() {
        let gate = Arc::new(Gate::new());
        let (queue, mut asked) = mpsc::unbounded_channel();
        let answers: Vec<_> = (0..MAX_UNANSWERED)
            .map(|_| gate.look("k", &queue).unwrap())
            .collect();
        assert_eq!(gate.look("k", &queue).unwrap_err(), Unsent::QueueFull);
        drop(asked.try_recv());
        let mut answer = gate.look("k", &queue).unwrap();
        assert_eq!(gate.look("k", &queue).unwrap_err(), Unsent::QueueFull);
        drop(answers);
        for _ in 1..MAX_UNANSWERED {
            assert!(asked.try_recv().unwrap().is_given_up());
        }
        let seen = Seen {
            key: None,
            fence: None,
        };
        let glance = asked.try_recv().unwrap();
        assert!(!glance.is_given_up());
        glance.answer(Ok(seen.clone()));
        assert_eq!(answer.try_recv(), Ok(Ok(seen)));
        gate.look("k", &queue).unwrap();
    }

    #[test]
    fn a_node_that_answers_can_be_looked_at_whatever_else_it_takes() {
        let gate = Arc::new(Gate::new());
        let (queue, asked) = mpsc::unbounded_channel();
        let undecided = Link::Quarantined { decided: false };
        let closed = Link::ReleasesOnly(Unsent::BreakerOpen);
        for link in [Link::Connecting, Link::Up, undecided, closed] {
            gate.set_link(link, None);
            assert!(gate.look("k", &queue).is_ok(), "{link:?}");
        }
        gate.set_link(Link::Down(Unsent::Replica), None);
        assert_eq!(gate.look("k", &queue).unwrap_err(), Unsent::Replica);
        gate.set_link(Link::Up, None);
        drop(asked);
        assert_eq!(gate.look("k", &queue).unwrap_err(), Unsent::Closed);
    }
}
