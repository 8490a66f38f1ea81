//! The client over memory nodes, under a paused clock.
#![cfg(test)]

mod cancellation;
mod life;
mod renewal;
mod using;
mod world;
