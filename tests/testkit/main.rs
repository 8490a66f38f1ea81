//! The tools for tests, tested: throw-away servers and the fault-injecting proxy.

mod fleet;
