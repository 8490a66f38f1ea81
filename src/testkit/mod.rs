//! Tools for tests: throw-away servers, a fault-injecting proxy, memory nodes.
//!
//! Nothing here belongs in a service: these tools start processes, open ports and block threads.

pub mod fleet;
mod port;
pub mod proxy;
