//! Nodes in containers: what a container engine does to a node, and the compose file.
//!
//! The image is `REDLOCK_REDIS_IMAGE`, by default the official `redis:8`; `scripts/build-test-image` builds one
//! without a registry. Where no engine answers the tests say so and do nothing; `scripts/test` names them as skipped.

// `cfg(test)` always holds here: it tells clippy that the helpers are test code, too.
#[cfg(test)]
mod compose;
#[cfg(test)]
mod node;
#[cfg(test)]
mod nodes;
