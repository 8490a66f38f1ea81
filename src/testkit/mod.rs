//! Tools for tests: throw-away servers, a fault-injecting proxy, memory nodes.
