//! The decision core: `(event, now) -> effects`, without runtime, Redis, clock or randomness.
//!
//! ```text
//!   start, reply, news, deadline,          +--------+   submit(node, command)
//!   release, extend   --- with `now` --->  |  Hold  |  --------------------->  Outbox
//!                                          +--------+   withdraw, wake
//!                                           |      |
//!                                        Round   Ledger
//!                          when is it decided?   what may be on each node?
//! ```
//!
//! The laws, and the tests that bear their names:
//!
//! 1. The lease clock starts before the first send ([`validity`]): `law_1_*`.
//! 2. A vote is exactly one of six ([`vote`]): `law_2_*`.
//! 3. The verdict is as early as it is determined ([`round`]): `law_3_*`.
//! 4. Cleanup follows every vote that is granted, unknown or pending ([`ledger`]): `law_4_*`.
//! 5. Loss is sticky and on time ([`loss`]): `law_5_*`.
//! 6. A fresh token for every attempt (`crate::token`): `law_6_*`.
//!
//! The calling contract of every state machine here: time never goes backwards; every submitted
//! command gets exactly one reply unless it was withdrawn; spurious inputs are no-ops.
#![cfg_attr(
    not(test),
    deny(clippy::arithmetic_side_effects, clippy::float_arithmetic)
)]

/// Is this deliberate mistake switched on? Never without the feature `testkit`.
#[cfg(feature = "testkit")]
macro_rules! bug {
    ($bug:ident) => {
        $crate::quorum::sabotage::is($crate::quorum::sabotage::Bug::$bug)
    };
}
#[cfg(not(feature = "testkit"))]
macro_rules! bug {
    ($bug:ident) => {
        false
    };
}
pub(crate) use bug;

pub(crate) mod backoff;
pub(crate) mod ballot;
pub(crate) mod balloting;
pub(crate) mod command;
mod ending;
pub(crate) mod extending;
pub(crate) mod hold;
#[cfg(feature = "testkit")]
pub(crate) mod keyspace;
pub(crate) mod ledger;
pub(crate) mod loss;
pub(crate) mod majority;
pub(crate) mod own_keys;
pub(crate) mod renewal;
pub(crate) mod round;
#[cfg(feature = "testkit")]
pub(crate) mod rule;
#[cfg(feature = "testkit")]
pub(crate) mod sabotage;
pub(crate) mod tally;
pub(crate) mod trust;
pub(crate) mod validity;
pub(crate) mod vote;
pub(crate) mod waiting;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
