//! The crate from outside, without real servers: the client over memory nodes under a paused clock,
//! and whether the documentation is true.
#![cfg(test)]

mod amnesia;
mod arrows;
mod cancellation;
mod closing;
mod contract;
mod defaults;
mod doc_lint;
mod doc_names;
mod errors;
mod fencing;
mod forgetful;
mod handover;
mod inspect;
mod life;
mod owner;
mod ready;
mod renewal;
mod runtimes;
mod sets;
mod text;
mod using;
mod waiting;
mod woken;
mod world;
