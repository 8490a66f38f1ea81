//! Liveness: with nodes healed and everything delivered, every attempt comes to rest.
//!
//! From a state, one fixed schedule is followed: links are mended, commands executed, replies
//! delivered, broken connections finished; then owners release; then time passes. Every attempt
//! must get its verdict before any timer fires, and settle in the end.

use super::properties::Violation;
use super::world::{Action, Event, Stage, World};

/// More steps than any schedule needs.
pub(super) const LONGEST: usize = 200;

/// The next step to rest; `None` at rest.
pub(super) fn next(world: &World) -> Result<Option<Action>, Violation> {
    let live = |&a: &usize| world.attempts[a].stage == Stage::Live;
    let mut event = None;
    for a in (0..world.plan.attempts).filter(live) {
        event = event.or_else(|| by_network(world, a));
    }
    for a in (0..world.plan.attempts).filter(live) {
        let hold = &world.attempts[a].hold;
        if event.is_none() && !hold.is_releasing() {
            if hold.verdict().is_none() {
                return Err(Violation::Stuck(a));
            }
            event = Some(Event::GiveUp(a));
        }
    }
    for a in (0..world.plan.attempts).filter(live) {
        let due = world.attempts[a].hold.next_deadline();
        event = event.or_else(|| match due {
            Some(at) if at <= world.now() => Some(Event::Deadline(a)),
            _ => Some(Event::Tick),
        });
    }
    Ok(event.map(|event| Action {
        event,
        unwritten: 0,
    }))
}

fn by_network(world: &World, a: usize) -> Option<Event> {
    let channels = world.attempts[a].channels.iter().enumerate();
    for (n, channel) in channels.take(world.plan.nodes) {
        if !channel.replies.is_empty() {
            return Some(Event::Deliver(a, n));
        } else if !channel.up {
            return Some(Event::Connect(a, n, false));
        } else if !channel.requests.is_empty() {
            return Some(Event::Execute(a, n));
        } else if !channel.broken.is_empty() {
            return Some(Event::Finish(a, n));
        }
    }
    None
}
