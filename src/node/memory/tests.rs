//! What a client sees of a memory server.

mod contract;
mod faults;
mod rig;
mod timeline;
mod watching;
