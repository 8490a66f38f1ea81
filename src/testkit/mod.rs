//! Tools for tests: throw-away servers, a fault-injecting proxy, memory nodes.
//!
//! Nothing here belongs in a service: these tools start processes, open ports and block threads.

pub mod fleet;
mod port;
pub mod proxy;

/// Deliberate mistakes, which the simulation must catch.
#[doc(hidden)]
pub mod sabotage {
    pub use crate::quorum::sabotage::{Bug, commit};
}

/// Servers in memory, reached over links that can be made to fail.
///
/// One process, no sockets, tokio's clock: under a paused clock hours pass in milliseconds, and
/// one seed is one timeline.
pub mod memory {
    pub use crate::node::memory::{
        CommandKind, Commands, CutFate, Effect, Executed, HeldConnection, Latency, MemoryLink,
        MemoryServer, Restart,
    };
}
