//! Compare and change where scripts are forbidden and the server cannot compare by itself.
//!
//! First `WATCH`, `GET` and `MULTI`, then the change and `EXEC`, which does nothing if the key was
//! touched since the `WATCH`, or has expired. The change is written only when the server is known to be
//! inside `MULTI`: where that is refused it would be carried out at once, whoever has the key by then.
//!
//! `EXEC`, and whatever ends a `MULTI`, ends the watches of its whole connection: so while a transaction
//! lasts nothing else is written there, and no other request of the node begins.

use std::sync::Arc;

use redis::{Pipeline, Value};

use super::commands::{self, millis};
use crate::node::Request;
use crate::quorum::hold::Command;
use crate::quorum::vote::{Refusal, Vote};

/// Whoever touches a key so often between two of our commands does not stop.
const MOST_TRIES: u8 = 8;

/// What follows a reply.
pub(super) enum Next {
    /// Write the change, and `EXEC`.
    Change,
    /// The key was touched: look again.
    Again(u8),
    /// It is decided; is the server inside `MULTI`?
    Vote {
        vote: Vote,
        error: Option<Arc<str>>,
        inside: bool,
    },
}

impl Next {
    fn of((vote, error): (Vote, Option<Arc<str>>), inside: bool) -> Self {
        Self::Vote {
            vote,
            error,
            inside,
        }
    }
}

pub(super) fn watch(pipeline: &mut Pipeline, request: &Request) {
    pipeline.cmd("WATCH").arg(request.key());
    pipeline.cmd("GET").arg(request.key());
    if matches!(request.command(), Command::Extend { .. }) {
        pipeline.cmd("PTTL").arg(request.key());
    }
    pipeline.cmd("MULTI");
}

/// What the server says of the key.
pub(super) fn on_watched(request: &Request, replies: &[Value]) -> Next {
    let inside = matches!(replies.last(), Some(Value::Okay));
    if let Some(error) = first_error(replies) {
        return Next::of(commands::vote(request, error), inside);
    }
    let (ours, left) = match replies {
        [_, Value::BulkString(value), rest @ ..] => {
            (value == request.token().as_bytes(), rest.first())
        }
        _ => (false, None),
    };
    let left = match left {
        // Negative where there is no ttl.
        Some(Value::Int(left)) => u64::try_from(*left).unwrap_or(0),
        _ => 0,
    };
    // Never shortened: an earlier promise of validity must stand.
    let lasts = matches!(request.command(), Command::Extend { ttl, .. } if left >= millis(ttl));
    if !ours || lasts {
        let done = Value::Int(i64::from(ours));
        Next::of(commands::vote(request, &done), inside)
    } else if inside {
        Next::Change
    } else {
        Next::of(commands::unexpected(), inside)
    }
}

pub(super) fn change(pipeline: &mut Pipeline, request: &Request) {
    match request.command() {
        Command::Extend { ttl, .. } => pipeline.cmd("PEXPIRE").arg(request.key()).arg(millis(ttl)),
        Command::Acquire { .. }
        | Command::Heal { .. }
        | Command::Release
        | Command::Tombstone { .. } => pipeline.cmd("DEL").arg(request.key()),
    };
    leave(pipeline);
}

/// Leaves `MULTI`, with nothing done or with what was queued, and ends all watches.
pub(super) fn leave(pipeline: &mut Pipeline) {
    pipeline.cmd("EXEC");
}

/// What became of the change.
pub(super) fn on_changed(request: &Request, tries: u8, replies: &[Value]) -> Next {
    let tries = tries.saturating_add(1);
    match replies {
        [_, Value::Array(done)] => {
            let vote = |done| commands::vote(request, done);
            Next::of(done.first().map_or_else(commands::unexpected, vote), false)
        }
        // Somebody touched the key. It may be ours all the same: a ttl was changed, or the watch was
        // older than this transaction.
        [_, Value::Nil] if tries < MOST_TRIES => Next::Again(tries),
        [_, Value::Nil] => Next::of(
            (
                Vote::Unknown,
                Some("the key changes again and again".into()),
            ),
            false,
        ),
        _ => {
            let Some(error) = first_error(replies) else {
                return Next::of(commands::unexpected(), false);
            };
            let (vote, text) = commands::vote(request, error);
            let vote = why_aborted(error).map_or(vote, Vote::Refused);
            Next::of((vote, text), false)
        }
    }
}

/// Has the server left `MULTI`? If it may be inside, the connection is of no use any more.
pub(super) fn has_left(exec: Option<&Value>) -> bool {
    match exec {
        Some(Value::ServerError(error)) => error.code() == "EXECABORT",
        Some(_) | None => true,
    }
}

fn first_error(replies: &[Value]) -> Option<&Value> {
    replies
        .iter()
        .find(|reply| matches!(reply, Value::ServerError(_)))
}

/// A server that refuses `EXEC` itself discards the transaction, and names its reason in the text.
fn why_aborted(error: &Value) -> Option<Refusal> {
    let Value::ServerError(error) = error else {
        return None;
    };
    let (_, reason) = error.details()?.split_once("discarded because of: ")?;
    Refusal::from_code(reason.split(' ').next()?)
}
