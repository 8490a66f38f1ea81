//! The model: the deciding code of this crate under exhaustive exploration, in small worlds.
//!
//! A [`world`] is some attempts for one resource, each a real `Hold` with a client of its own,
//! nodes that follow the real node-side rule, and what lies between them (a [`channel`]). Whatever
//! can happen next is an [`Event`](world::Event); [`explore`] tries every order of events.
//! [`properties`] says what must hold in each state, [`rest`] that every state can be brought to
//! rest. [`rules`] weakens one rule after the other: each must have its known counter-example.
//!
//! **Ballots.** The attempts of a fenced world have first ballots in every relation to each other, and
//! a time-out that leaves room for a second one. What the properties ask of the past ([`tokens`]) is
//! part of a state for as long as somebody may still be granted the lock.
//!
//! **Restarts.** A node comes back without data and all its connections break; for one ttl it is not
//! asked for new locks. That is what `trust` makes of it; how it finds out is not in the model.
//!
//! **Time.** One clock, whose step is a ttl or half of one. The round time-out is zero and timers
//! fire at any time after they are due, or never: so a round times out at any point, after any
//! wait. (A fenced attempt's time-out is a ttl, and may come at any time too.) That is more than can
//! happen to a client, not less. A key lives exactly its ttl; all clocks agree. Drift is not in the
//! model.
//!
//! **Why the state space is finite.** Each attempt has one life, connections break a bounded number
//! of times, and moments count as distances from now, with all that have passed alike.
//!
//! **Symmetry** and what else keeps it small is explained in [`state`].

mod amnesia;
mod bugs;
mod channel;
mod explore;
mod fenced;
mod long;
mod node;
mod op;
mod options;
mod properties;
mod rest;
mod restart;
mod rules;
mod sound;
mod state;
mod steps;
mod tokens;
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

/// What an attempt is asked for with, by its first ballot, if it is fenced. For a second ballot
/// there is time as long as the timer has not fired.
fn terms(ballot: u8) -> Terms {
    Terms {
        round_timeout: if ballot > 0 { TTL } else { AT_ANY_TIME },
        ballot: op::ballot(ballot),
        ..TERMS
    }
}

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
