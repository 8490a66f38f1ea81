//! The model: the deciding code of this crate under exhaustive exploration, in small worlds.
//!
//! A [`world`] is some attempts for one resource, each a real `Hold` with a client of its own,
//! nodes that follow the real node-side rule, and what lies between them (a [`channel`]). Whatever
//! can happen next is an [`Event`](world::Event); [`explore`] tries every order of events.
//! [`properties`] says what must hold in each state, [`rest`] that every state can be brought to
//! rest. [`rules`] weakens one rule after the other: each must have its known counter-example.
//!
//! **Time.** One clock, whose step is a ttl or half of one. The round time-out is zero and timers
//! fire at any time after they are due, or never: so a round times out at any point, after any
//! wait. That is more than can happen to a client, not less. A key lives exactly its ttl; all clocks
//! agree. Drift is not in the model.
//!
//! **Why the state space is finite.** Each attempt has one life, connections break a bounded number
//! of times, and moments count as distances from now, with all that have passed alike.
//!
//! **Symmetry** and what else keeps it small is explained in [`state`].

mod bugs;
mod channel;
mod explore;
mod node;
mod options;
mod properties;
mod rest;
mod rules;
mod sound;
mod state;
mod steps;
mod world;

use std::time::Duration;

use self::rules::Plan;
use super::hold::Terms;
use super::renewal::Renewal;
use super::validity::Moment;

const TTL: Duration = Duration::from_secs(10);
/// The round time-out: see above.
const AT_ANY_TIME: Duration = Duration::ZERO;
const TERMS: Terms = Terms {
    ttl: TTL,
    round_timeout: AT_ANY_TIME,
    renewal: Renewal::off(),
    jitter: 0,
    ballot: None,
};

fn tick(plan: &Plan) -> Duration {
    TTL / u32::from(plan.ticks)
}

fn moment(plan: &Plan, ticks: u32) -> Moment {
    Moment::from_nanos(1_000_000_000_000).after(tick(plan).saturating_mul(ticks))
}

/// What attempts are called.
fn name(attempt: usize) -> &'static str {
    ["A", "B", "C", "D"][attempt]
}
