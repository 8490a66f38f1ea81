//! Carries out what the core decides, over any set of nodes.
//!
//! [`Engine`](engine::Engine) owns the nodes and everything that outlives a caller; a
//! [`Cell`](cell::Cell) is one lock attempt with its [`Hold`](crate::quorum::hold::Hold) under one
//! mutex, fed by whoever has news for it: a node's driver, the watchdog, the caller. So each lock has
//! one serial owner, and no task.

pub(crate) mod attempt;
pub(crate) mod cell;
mod claims;
pub(crate) mod engine;
pub(crate) mod queue;
mod timer;
mod told;
pub(crate) mod turns;
pub(crate) mod watchdog;
