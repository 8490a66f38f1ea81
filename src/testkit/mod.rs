//! Tools for tests: throw-away servers, a fault-injecting proxy, memory nodes.

pub use crate::node::memory::{
    CommandKind, Commands, CutFate, Effect, Executed, HeldConnection, Latency, MemoryLink,
    MemoryServer, Restart,
};
