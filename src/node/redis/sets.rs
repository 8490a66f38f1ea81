//! Commands for several keys at once: one script each, since nothing less is all or nothing.

use std::time::Duration;

use redis::{Cmd, Value};

use super::commands::millis;
use super::ladder::Form;
use super::scripts::{ACQUIRE_ALL, EXTEND_ALL, RELEASE_ALL};
use crate::node::Request;
use crate::quorum::hold::Command;
use crate::quorum::vote::Vote;

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

/// Which keys of a set are in the way, one bit each: the reply names their places, from 1 on.
pub(super) fn in_way(request: &Request, reply: &Value) -> u64 {
    let Value::Array(parts) = reply else { return 0 };
    let Some(Value::Array(places)) = parts.last().filter(|_| request.is_for_set()) else {
        return 0;
    };
    let bit = |place: &Value| {
        let Value::Int(place) = place else {
            return None;
        };
        u32::try_from(place.saturating_sub(1)).ok()
    };
    let bits = places.iter().filter_map(bit);
    bits.fold(0, |keys, bit| keys | 1_u64.checked_shl(bit).unwrap_or(0))
}
