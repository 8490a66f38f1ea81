//! A Redlock quorum client for Rust.

mod clock;
mod driver;
mod node;
mod quorum;
#[cfg(feature = "testkit")]
pub mod testkit;
mod token;
