//! For the model: what decides about the future of a hold's extensions, as seen from a moment.

use std::hash::{Hash, Hasher};

use super::super::hold::outlook::class;
use super::{Extending, Moment};

impl Extending {
    pub(in super::super) fn hash_outlook(&self, now: Moment, hasher: &mut impl Hasher) {
        hasher.write_u32(self.number);
        hasher.write_u8(u8::from(self.healing == Some(self.number)));
        if let Some(extension) = &self.current {
            extension.round.valid_until().since(now).hash(hasher);
        }
    }

    pub(in super::super) fn hash_outlook_at(&self, node: usize, hasher: &mut impl Hasher) {
        if let Some(extension) = &self.current {
            hasher.write_u8(class(&extension.round, node));
        }
    }
}
