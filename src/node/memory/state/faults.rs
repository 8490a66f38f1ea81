//! What the world does to a server and to its connections.

use super::State;
use crate::node::memory::link::CutFate;
use crate::node::memory::pipe::Reply;
use crate::node::memory::server::Restart;
use crate::node::memory::wire::{Hold, Wire};
use crate::quorum::validity::Moment;

impl State {
    pub(in crate::node::memory) fn thaw(&mut self, now: Moment) {
        self.process.is_frozen = false;
        let mut readable: Vec<(u64, u64)> = self
            .wires
            .iter()
            .filter(|(_, wire)| !wire.unread.is_empty())
            .map(|(&id, wire)| (wire.unread_since, id))
            .collect();
        readable.sort_unstable();
        for (_, id) in readable {
            while let Some(request) = self
                .wires
                .get_mut(&id)
                .and_then(|wire| wire.unread.pop_front())
            {
                self.execute(id, request, now);
            }
        }
    }

    pub(in crate::node::memory) fn crash(&mut self, now: Moment) {
        self.process.crash();
        let open: Vec<u64> = self
            .wires
            .iter()
            .filter(|(_, wire)| wire.is_open())
            .map(|(&id, _)| id)
            .collect();
        for id in open {
            self.reply(id, Reply::Reset, now);
            self.close_server(id);
        }
    }

    pub(in crate::node::memory) fn restart(&mut self, how: Restart, now: Moment) {
        if self.process.is_running {
            self.crash(now);
        }
        self.process.start(how);
    }

    /// Breaks a link's connections from the middle of the network.
    pub(in crate::node::memory) fn cut(&mut self, link: usize, fate: CutFate, now: Moment) {
        let cut: Vec<u64> = self
            .wires
            .iter()
            .filter(|(_, wire)| wire.link == link && wire.client.is_some())
            .map(|(&id, _)| id)
            .collect();
        for id in cut {
            let Some(wire) = self.wires.get_mut(&id) else {
                continue;
            };
            let Some(link) = self.links.get(wire.link) else {
                continue;
            };
            wire.requests
                .truncate(link.survivors(wire.requests.len(), fate));
            if let Some(client) = &wire.client {
                // A client that does not listen any more is about to close its end.
                drop(client.send(Reply::Reset));
            }
            self.close(id, now);
        }
    }

    /// Keeps what is written to the link's present connection on the way.
    pub(in crate::node::memory) fn hold(&mut self, link: usize) -> Option<u64> {
        let is_present = |wire: &Wire| wire.link == link && wire.client.is_some() && wire.is_open();
        let (&id, wire) = self
            .wires
            .iter_mut()
            .rev()
            .find(|(_, wire)| is_present(wire))?;
        wire.hold = Hold::Forever;
        Some(id)
    }

    pub(in crate::node::memory) fn let_go(&mut self, wire: u64, at: Moment) {
        if let Some(wire) = self.wires.get_mut(&wire) {
            wire.hold = Hold::Until(at);
        }
    }
}
