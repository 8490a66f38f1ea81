//! What a client sees of a node, whatever kind it is of.

mod denied;
mod flushes;
mod rig;
mod watching;
