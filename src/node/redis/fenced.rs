//! Commands with ballots: one script each, since nothing less is one step at the node.

use std::time::Duration;

use redis::{Cmd, Value, from_redis_value};

use super::commands::millis;
use super::ladder::Form;
use super::scripts::{FENCED_ACQUIRE, FENCED_EXTEND, Source, TOMBSTONE};
use crate::node::Request;
use crate::quorum::hold::Command;
use crate::quorum::own_keys::fence_key;
use crate::quorum::vote::Vote;

/// The request as a command of Redis, if it carries a ballot.
pub(super) fn command(request: &Request, form: Form) -> Option<Cmd> {
    let command = request.command();
    let ballot = command.ballot()?;
    let memory = millis(ballot.memory());
    let fences: Vec<String> = request.keys().iter().map(|key| fence_key(key)).collect();
    let script = |script: &Source| script.call_with(form, request, &fences);
    // Ballots travel as text: Lua would print a large number with an exponent.
    let mut cmd;
    match command {
        Command::Acquire { ttl, .. } => {
            cmd = script(&FENCED_ACQUIRE);
            cmd.arg(millis(ttl)).arg(ballot.number()).arg(memory);
        }
        Command::Extend { ttl, .. } | Command::Heal { ttl, .. } => {
            cmd = script(&FENCED_EXTEND);
            cmd.arg(millis(ttl)).arg(ballot.number()).arg(memory);
            cmd.arg(u8::from(matches!(command, Command::Heal { .. })));
        }
        Command::Tombstone { .. } => {
            cmd = script(&TOMBSTONE);
            cmd.arg(ballot.tombstone()).arg(memory);
        }
        Command::Release => return None,
    }
    Some(cmd)
}

/// What the reply to a command with a ballot means, if it is one that the scripts give.
pub(super) fn vote(request: &Request, reply: &Value) -> Option<Vote> {
    const NOT_OURS: Vote = Vote::Held {
        ttl: None,
        fence: None,
    };
    request.command().ballot()?;
    let number = |value: &Value| {
        from_redis_value::<Option<u64>>(value.clone())
            .ok()
            .flatten()
    };
    let parts = if let Value::Array(parts) = reply {
        parts
    } else {
        std::slice::from_ref(reply)
    };
    match parts {
        [Value::Int(1)] => Some(Vote::Granted),
        [Value::Int(0)] => Some(NOT_OURS),
        [Value::Int(0), Value::Int(left), fence, ..] => Some(Vote::Held {
            // Without a ttl, or without a key, it is negative.
            ttl: u64::try_from(*left).ok().map(Duration::from_millis),
            fence: number(fence),
        }),
        [Value::Int(-1), fence] => number(fence).map(|fence| Vote::Stale { fence }),
        _ => None,
    }
}

#[cfg(test)]
#[cfg(feature = "testkit")]
mod tests;
