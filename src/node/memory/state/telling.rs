//! A server tells its clients of keys that they watch.

use super::State;
use crate::node::memory::pipe::Reply;
use crate::node::memory::process::Watching;
use crate::quorum::validity::Moment;

impl State {
    /// A new connection asks to be told of changes. Returns whether it will be.
    pub(super) fn track(&mut self, wire: u64) -> bool {
        let tracks = !self.process.denies_tracking;
        if let Some(wire) = self.wires.get_mut(&wire) {
            wire.tracks = tracks;
        }
        tracks
    }

    /// What a command over this connection asks for beside the lock.
    pub(super) fn watching(&self, wire: u64, watches: bool) -> Watching {
        let tracks = || self.wires.get(&wire).is_some_and(|wire| wire.tracks);
        match watches {
            false => Watching::Nothing,
            true if tracks() => Watching::Changes(wire),
            true => Watching::Ttl,
        }
    }

    /// Tells of what has changed, but not the connection over which it was changed, if it was one.
    pub(in crate::node::memory) fn tell(&mut self, changed_by: Option<u64>, now: Moment) {
        for (key, watchers) in self.process.keys.take_touched() {
            for watcher in watchers {
                if Some(watcher) != changed_by {
                    self.reply(watcher, Reply::Touched(Some(key.clone())), now);
                }
            }
        }
    }

    /// Forgets every key, and tells everybody, watching or not.
    pub(in crate::node::memory) fn flush(&mut self, now: Moment) {
        self.process.keys.clear();
        let told: Vec<u64> = self
            .wires
            .iter()
            .filter(|(_, wire)| wire.is_open() && wire.tracks)
            .map(|(&id, _)| id)
            .collect();
        for wire in told {
            self.reply(wire, Reply::Touched(None), now);
        }
    }
}
