//! A Redlock quorum client for Rust.
#[cfg(feature = "testkit")]
pub mod testkit;
