//! Glances at keys.

use super::Driver;
use crate::node::breaker::Breaker;
use crate::node::glance::Glance;
use crate::node::memory::link::Connection;
use crate::node::memory::pipe;
use crate::quorum::majority::Seen;

impl Driver {
    pub(super) fn glance(
        &mut self,
        glance: Glance,
        connection: &Connection,
        breaker: &mut Breaker,
    ) {
        if !glance.is_given_up() {
            connection.send(pipe::Request::Glance(glance.key().into()));
            breaker.on_written(self.context.clock.now());
            self.glanced.push_back(glance);
        }
    }

    pub(super) fn glimpse(&mut self, seen: Seen) {
        if let Some(glance) = self.glanced.pop_front() {
            glance.answer(Ok(seen));
        }
    }
}
