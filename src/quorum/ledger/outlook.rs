//! For the model: what decides about the future of a node's entry, as seen from a moment.

use std::hash::{Hash, Hasher};

use super::{Ledger, Moment, Removal};

impl Ledger {
    pub(in super::super) fn hash_outlook_at(
        &self,
        node: usize,
        now: Moment,
        hasher: &mut impl Hasher,
    ) {
        let entry = &self.entries[node];
        entry.removal.hash_outlook(now, hasher);
        if entry.removal == Removal::Settled {
            return;
        }
        hasher.write_u8(entry.presence as u8);
        hasher.write_u8(entry.pending);
        hasher.write_u8(u8::from(entry.overtaken) | u8::from(entry.give_up_at.is_some()) << 1);
        for connection in [entry.unfinished, entry.straggler] {
            hasher.write_u64(connection.map_or(0, |connection| connection.0));
        }
        hasher.write_usize(entry.extensions);
        hasher.write_usize(entry.overtaken_extensions);
        if let Some(at) = entry.give_up_at {
            at.since(now).hash(hasher);
        }
    }
}

impl Removal {
    fn hash_outlook(self, now: Moment, hasher: &mut impl Hasher) {
        match self {
            Self::None => hasher.write_u8(1),
            Self::InFlight => hasher.write_u8(2),
            Self::AwaitingConnection => hasher.write_u8(3),
            Self::AwaitingFinish => hasher.write_u8(4),
            Self::RetryAt(at) => {
                hasher.write_u8(5);
                at.since(now).hash(hasher);
            }
            Self::Settled => hasher.write_u8(6),
        }
    }
}
