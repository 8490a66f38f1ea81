//! What nodes tell, on its way to those whom it concerns.

use std::sync::Weak;

use super::engine::Engine;
use crate::node::{Link, Observer};
use crate::quorum::ledger::News;

/// Passes one node's news on to the cells that wait for it.
pub(super) struct Told {
    pub(super) engine: Weak<Engine>,
    pub(super) node: usize,
}

impl Observer for Told {
    fn on_news(&self, news: News) {
        let Some(engine) = self.engine.upgrade() else {
            return;
        };
        for cell in engine.debtors(self.node) {
            cell.on_news(self.node, news);
        }
    }

    fn on_link(&self) {
        if let Some(engine) = self.engine.upgrade() {
            if engine.link(self.node) == Link::Up {
                // Whatever it would have told meanwhile was not told.
                engine.queue().on_touched(self.node, None);
            }
            engine.on_changed();
        }
    }

    fn on_touched(&self, key: Option<&str>) {
        if let Some(engine) = self.engine.upgrade() {
            engine.queue().on_touched(self.node, key);
        }
    }

    fn is_busy(&self) -> bool {
        let engine = self.engine.upgrade();
        engine.is_some_and(|engine| engine.is_busy())
    }
}
