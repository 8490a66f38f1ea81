//! For the model: what decides about the future of a hold's ballots.

use std::hash::Hasher;

use super::Balloting;

impl Balloting {
    pub(in super::super) fn hash_outlook(&self, is_asking: bool, hasher: &mut impl Hasher) {
        let Some(ballot) = self.current else { return };
        hasher.write_u64(ballot.number());
        if is_asking && !self.again {
            hasher.write_u64(self.heard);
        }
        hasher.write_u8(u8::from(self.again));
    }
}
