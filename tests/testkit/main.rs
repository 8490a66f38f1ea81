//! The tools for tests, tested: throw-away servers and the fault-injecting proxy.

// `cfg(test)` always holds here: it tells clippy that the helpers are test code, too.
#[cfg(test)]
mod fleet;
#[cfg(test)]
mod proxy;
