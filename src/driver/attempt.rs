//! One attempt at a lock, in the hands of a caller who may drop it.

use std::sync::Arc;

use super::cell::{Cell, Mark};
use super::engine::Engine;
use crate::quorum::hold::{Hold, LossCause, Outbox, Terms};
use crate::quorum::round::Verdict;
use crate::quorum::tally::Tally;
use crate::quorum::validity::Moment;
use crate::quorum::waiting::InWay;

/// Given up when it is dropped, unless it is kept.
pub(crate) struct Attempt {
    cell: Arc<Cell>,
    kept: bool,
}

impl Attempt {
    pub(crate) fn start(
        engine: &Arc<Engine>,
        mark: Mark,
        terms: &Terms,
        begin: impl FnOnce(&mut Hold, Moment, &mut dyn Outbox),
    ) -> Self {
        Self {
            cell: Cell::start(engine, mark, terms, begin),
            kept: false,
        }
    }

    /// How the attempt ended; `None` if the client was closed. The clock has the last word.
    pub(crate) async fn verdict(&self) -> Option<Verdict> {
        let closed = || self.cell.engine().is_closed();
        let verdict = |cell: &Arc<Cell>| {
            cell.peek(Hold::verdict)?;
            cell.feed(Hold::take).map(Some)
        };
        self.cell
            .wait(|cell| if closed() { Some(None) } else { verdict(cell) })
            .await
    }

    /// Looks until it finds something: at once, and again whenever a vote may have come.
    pub(crate) async fn wait<R>(&self, mut look: impl FnMut(&Hold) -> Option<R>) -> R {
        self.cell.wait(|cell| cell.peek(&mut look)).await
    }

    /// Looks at what does not depend on the time.
    pub(crate) fn peek<R>(&self, look: impl FnOnce(&Hold) -> R) -> R {
        self.cell.peek(look)
    }

    /// See [`Cell::in_way`].
    pub(crate) fn in_way(&self, node: usize) -> Vec<InWay> {
        self.cell.in_way(node)
    }

    /// See [`Hold::backdate`].
    #[cfg(feature = "testkit")]
    pub(crate) fn backdate(&self, started_at: Moment) {
        self.cell.feed(|hold, _, _| hold.backdate(started_at));
    }

    pub(crate) fn tally(&self) -> Tally {
        self.cell.tally()
    }

    pub(crate) fn keep(mut self) -> Arc<Cell> {
        self.kept = true;
        Arc::clone(&self.cell)
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.kept {
            self.cell.release(LossCause::Released);
        }
    }
}
