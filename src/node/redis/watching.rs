//! Acquires of waiters: where somebody else's key is, they watch it and ask how long it lives.
//!
//! It is reading a key that watches it, also one that is not there; `SET` does not. `CLIENT CACHING
//! YES` holds for the one command behind it, so an acquire goes out in one piece: `SET`, `CLIENT CACHING
//! YES`, `GET`, `PTTL`. The script of a fenced acquire reads the key itself, and tells its ttl: `CLIENT
//! CACHING YES`, `EVALSHA`.

use std::time::Duration;

use redis::{Cmd, Pipeline, Value};

use super::ladder::Form;
use super::outgoing::Sent;
use crate::node::Request;
use crate::quorum::vote::{Refusal, Vote};

/// What an acquire asks for beside the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Watching {
    Nothing,
    /// How long the key lives: its connection does not tell of changes.
    Ttl,
    /// The same, and to be told when it changes.
    Changes,
}

impl Watching {
    pub(super) fn of(request: &Request, tells: bool) -> Self {
        match (request.watches(), tells) {
            (false, _) => Self::Nothing,
            (true, false) => Self::Ttl,
            (true, true) => Self::Changes,
        }
    }
}

/// With the introduction. Our own changes are not told: we know of them.
pub(super) fn begin(pipeline: &mut Pipeline) {
    let tracking = pipeline.cmd("CLIENT").arg("TRACKING").arg("ON");
    tracking.arg("OPTIN").arg("NOLOOP");
}

/// Writes `command`, which is the request in its form, and what is asked for beside it.
pub(super) fn compose(pipeline: &mut Pipeline, sent: &Sent, command: Cmd) {
    let key = sent.request.key();
    match (sent.watching, is_script(sent)) {
        (Watching::Nothing, _) | (Watching::Ttl, true) => {
            pipeline.add_command(command);
        }
        (Watching::Ttl, false) => {
            pipeline.add_command(command).cmd("PTTL").arg(key);
        }
        (Watching::Changes, true) => {
            caching(pipeline).add_command(command);
        }
        (Watching::Changes, false) => {
            caching(pipeline.add_command(command)).cmd("GET").arg(key);
            pipeline.cmd("PTTL").arg(key);
        }
    }
}

fn caching(pipeline: &mut Pipeline) -> &mut Pipeline {
    pipeline.cmd("CLIENT").arg("CACHING").arg("YES");
    pipeline
}

fn is_script(sent: &Sent) -> bool {
    sent.form != Form::Plain
}

/// The reply to the request itself, among all that it got.
pub(super) fn answer<'a>(sent: &Sent, replies: &'a [Value]) -> Option<&'a Value> {
    if is_script(sent) {
        replies.last()
    } else {
        replies.first()
    }
}

/// Adds to the vote how long the key lives, where that was asked for.
pub(super) fn complete(sent: &Sent, vote: Vote, replies: &[Value]) -> Vote {
    let Vote::Held { ttl: None, fence } = vote else {
        return vote;
    };
    if sent.watching == Watching::Nothing || is_script(sent) {
        return vote;
    }
    let ttl = ttl(replies);
    Vote::Held { ttl, fence }
}

fn ttl(replies: &[Value]) -> Option<Duration> {
    match replies {
        // It went away meanwhile. Whatever ended it, we may not be told: also reading ends what has
        // expired, and that would be our own change.
        [_, _, Value::Nil, _] | [.., Value::Int(-2)] => Some(Duration::ZERO),
        // Without a ttl it is negative.
        [.., Value::Int(left)] => u64::try_from(*left).ok().map(Duration::from_millis),
        _ => None,
    }
}

/// Was it refused to watch the key? Then nobody tells of it.
pub(super) fn is_refused(sent: &Sent, replies: &[Value]) -> bool {
    if sent.watching != Watching::Changes {
        return false;
    }
    match (is_script(sent), replies) {
        // A server that refuses everything for now says nothing about watching.
        (false, [Value::ServerError(_), ..]) | (true, [.., Value::ServerError(_)]) => false,
        (true, [caching, _]) => *caching != Value::Okay,
        (false, [_, caching, got, _]) => *caching != Value::Okay || is_unread(got),
        _ => true,
    }
}

/// A value of another type is read too.
fn is_unread(got: &Value) -> bool {
    let Value::ServerError(error) = got else {
        return false;
    };
    Refusal::from_code(error.code()) != Some(Refusal::WrongType)
}

#[cfg(test)]
mod tests;
