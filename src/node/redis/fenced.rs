//! Commands with ballots: one script each, since nothing less is one step at the node.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use redis::{Cmd, Script, Value, from_redis_value};

use super::commands::millis;
use super::ladder::Form;
use crate::node::Request;
use crate::quorum::ballot::fence_key;
use crate::quorum::hold::Command;
use crate::quorum::vote::{Refusal, Vote};

static ACQUIRE: LazyLock<Script> = LazyLock::new(|| Script::new(ACQUIRE_TEXT));
static EXTEND: LazyLock<Script> = LazyLock::new(|| Script::new(EXTEND_TEXT));
static TOMBSTONE: LazyLock<Script> = LazyLock::new(|| Script::new(TOMBSTONE_TEXT));

const ACQUIRE_TEXT: &str = include_str!("scripts/fenced_acquire.lua");
const EXTEND_TEXT: &str = include_str!("scripts/fenced_extend.lua");
const TOMBSTONE_TEXT: &str = include_str!("scripts/tombstone.lua");

/// What a handshake loads.
pub(super) const TEXTS: [&str; 3] = [ACQUIRE_TEXT, EXTEND_TEXT, TOMBSTONE_TEXT];

/// The request as a command of Redis, if it carries a ballot.
pub(super) fn command(request: &Request, form: Form) -> Option<Cmd> {
    let command = request.command();
    let ballot = command.ballot()?;
    let memory = millis(ballot.memory());
    let script = |script: &Script, text: &str| {
        let mut cmd = Cmd::with_capacity(10, 320);
        if form == Form::Text {
            cmd.arg("EVAL").arg(text);
        } else {
            cmd.arg("EVALSHA").arg(script.get_hash());
        }
        cmd.arg(2).arg(request.key()).arg(fence_key(request.key()));
        cmd.arg(request.token());
        cmd
    };
    // Ballots travel as text: Lua would print a large number with an exponent.
    let mut cmd;
    match command {
        Command::Acquire { ttl, .. } => {
            cmd = script(&ACQUIRE, ACQUIRE_TEXT);
            cmd.arg(millis(ttl)).arg(ballot.number()).arg(memory);
        }
        Command::Extend { ttl, .. } | Command::Heal { ttl, .. } => {
            cmd = script(&EXTEND, EXTEND_TEXT);
            cmd.arg(millis(ttl)).arg(ballot.number()).arg(memory);
            cmd.arg(u8::from(matches!(command, Command::Heal { .. })));
        }
        Command::Tombstone { .. } => {
            cmd = script(&TOMBSTONE, TOMBSTONE_TEXT);
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
    if let Value::ServerError(error) = reply {
        // Whatever stands at the lock's key, it is no lock of ours.
        let refusal = Refusal::from_code(error.code());
        return (refusal == Some(Refusal::WrongType)).then_some(NOT_OURS);
    }
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
        [Value::Int(0), Value::Int(left), fence] => Some(Vote::Held {
            // Without a ttl, or without a key, it is negative.
            ttl: u64::try_from(*left).ok().map(Duration::from_millis),
            fence: number(fence),
        }),
        [Value::Int(-1), fence] => number(fence).map(|fence| Vote::Stale { fence }),
        _ => None,
    }
}

/// Without scripts, or without the fence keys, a node cannot fence: says so in the error.
pub(super) fn explain(request: &Request, refusal: Refusal, text: Arc<str>) -> Arc<str> {
    if request.command().ballot().is_some() && refusal == Refusal::NoPerm {
        format!("fencing needs scripts, and the keys redlock-quorum:*: {text}").into()
    } else {
        text
    }
}

#[cfg(test)]
#[cfg(feature = "testkit")]
mod tests;
