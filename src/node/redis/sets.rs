//! Commands for several keys at once: one script each, since nothing less is all or nothing.

use std::time::Duration;

use redis::{Cmd, Value};

use super::commands::millis;
use super::ladder::Form;
use super::scripts::{ACQUIRE_ALL, EXTEND_ALL, RELEASE_ALL};
use crate::node::Request;
use crate::quorum::hold::Command;
use crate::quorum::vote::Vote;
use crate::quorum::waiting::InWay;

/// The request as a command of Redis, if it is for a set. (With a ballot: see [`super::fenced`].)
pub(super) fn command(request: &Request, form: Form) -> Option<Cmd> {
    if !request.is_for_set() {
        return None;
    }
    Some(match request.command() {
        Command::Acquire { ttl, .. } | Command::Heal { ttl, .. } => {
            let mut cmd = ACQUIRE_ALL.call(form, request);
            cmd.arg(millis(ttl));
            cmd
        }
        Command::Extend { ttl, .. } => {
            let mut cmd = EXTEND_ALL.call(form, request);
            cmd.arg(millis(ttl));
            cmd
        }
        Command::Release | Command::Tombstone { .. } => RELEASE_ALL.call(form, request),
    })
}

/// What the reply means, if it is to a command for a set, and one that the scripts give.
pub(super) fn vote(request: &Request, reply: &Value) -> Option<Vote> {
    if !request.is_for_set() {
        return None;
    }
    match (request.command(), reply) {
        (_, Value::Int(0)) => Some(Vote::Held {
            ttl: None,
            fence: None,
        }),
        (_, Value::Int(1)) => Some(Vote::Granted),
        // So many keys were deleted.
        (command, Value::Int(2..)) if command.is_release() => Some(Vote::Granted),
        (_, Value::Array(parts)) => match parts.as_slice() {
            [Value::Int(0), Value::Int(left), _] => Some(Vote::Held {
                // Where a key does not expire it is negative.
                ttl: u64::try_from(*left).ok().map(Duration::from_millis),
                fence: None,
            }),
            _ => None,
        },
        _ => None,
    }
}

/// Which keys of a set are in the way: the reply names their places, from 1 on, each with its ttl.
pub(super) fn in_way(request: &Request, reply: &Value) -> Vec<InWay> {
    let Value::Array(parts) = reply else {
        return Vec::new();
    };
    let Some(Value::Array(others)) = parts.last().filter(|_| request.is_for_set()) else {
        return Vec::new();
    };
    let one = |pair: &[Value]| match pair {
        [Value::Int(place), Value::Int(left)] => Some(InWay {
            place: u32::try_from(place.saturating_sub(1)).ok()?,
            // Where it does not expire it is negative.
            ttl: u64::try_from(*left).ok().map(Duration::from_millis),
        }),
        _ => None,
    };
    others.chunks(2).filter_map(one).collect()
}
