//! A node that comes back without data.

use super::channel::Queue;
use super::world::{Stage, World};

impl World {
    /// Every connection to it breaks, and nothing that was written to one is executed any more.
    pub(super) fn restart(&mut self, node: usize) {
        self.restarts_left -= 1;
        self.nodes[node].restart(self.plan);
        for a in 0..self.plan.attempts {
            // Whoever comes later finds it up again, or cannot send it an acquire either way.
            if self.attempts[a].stage != Stage::Live {
                continue;
            }
            let channel = &mut self.attempts[a].channels[node];
            if channel.up {
                let written = channel.requests.iter().count();
                channel.cut(written);
            }
            for broken in &mut channel.broken {
                broken.requests = Queue::new();
            }
        }
    }

    /// The nodes that are not asked for new locks, one bit each.
    pub(super) fn quarantined(&self) -> u8 {
        let nodes = self.nodes.iter().enumerate();
        nodes.fold(0, |bits, (n, node)| {
            bits | u8::from(node.quarantine > 0) << n
        })
    }
}
