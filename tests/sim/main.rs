//! The simulation: the engine and its guards over memory nodes, on a paused clock, with all chance
//! from one seed; and the invariants that every history must keep.
//!
//! `cargo nextest run --test sim` runs seeds for a minute. `REDLOCK_SIM_SECONDS=n` changes that,
//! `REDLOCK_SIM_SEEDS=n` runs so many, `REDLOCK_SIM_SEED=n` runs one and prints its timeline, and
//! `REDLOCK_SIM_BUG=Name` commits a deliberate mistake. See docs/verification.md.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "each look at a history concerns a few of its events"
)]

// `cfg(test)` always holds here: it tells clippy that the helpers are test code, too.
#[cfg(test)]
mod bugs;
#[cfg(test)]
mod callers;
#[cfg(test)]
mod crowd;
#[cfg(test)]
mod dice;
#[cfg(test)]
mod families;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod history;
#[cfg(test)]
mod holding;
#[cfg(test)]
mod holds;
#[cfg(test)]
mod invariants;
#[cfg(test)]
mod leases;
#[cfg(test)]
mod nesting;
#[cfg(test)]
mod pausable;
#[cfg(test)]
mod plan;
#[cfg(test)]
mod run;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod sections;
#[cfg(test)]
mod sets;
#[cfg(test)]
mod strike;
#[cfg(test)]
mod suite;
#[cfg(test)]
mod timeline;
#[cfg(test)]
mod trust;
#[cfg(test)]
mod world;
