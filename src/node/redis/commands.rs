//! Requests as Redis commands, replies as votes.

use std::sync::Arc;

use redis::{Cmd, ServerError, Value};

use super::ladder::{self, Form};
use super::scripts::{EXTEND, RELEASE};
use super::{fenced, sets};
use crate::node::Request;
use crate::quorum::hold::Command;
use crate::quorum::vote::{Refusal, Vote};

/// A request as one command. (A transaction is more: see [`super::transaction`].)
pub(super) fn command(request: &Request, form: Form) -> Cmd {
    let own = fenced::command(request, form).or_else(|| sets::command(request, form));
    if let Some(cmd) = own.or_else(|| ladder::native(request, form)) {
        return cmd;
    }
    match request.command() {
        Command::Acquire { ttl, .. } | Command::Heal { ttl, .. } => {
            let mut cmd = Cmd::with_capacity(6, 128);
            cmd.arg("SET")
                .arg(request.key())
                .arg(request.token())
                .arg("NX")
                .arg("PX")
                .arg(millis(ttl));
            cmd
        }
        Command::Extend { ttl, .. } => {
            let mut cmd = EXTEND.call(form, request);
            cmd.arg(millis(ttl));
            cmd
        }
        Command::Release | Command::Tombstone { .. } => RELEASE.call(form, request),
    }
}

pub(super) fn millis(ttl: std::time::Duration) -> u64 {
    u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)
}

/// What the server's reply to this request means.
pub(super) fn vote(request: &Request, reply: &Value) -> (Vote, Option<Arc<str>>) {
    const NOT_OURS: Vote = Vote::Held {
        ttl: None,
        fence: None,
    };
    if let Some(vote) = fenced::vote(request, reply).or_else(|| sets::vote(request, reply)) {
        return (vote, None);
    }
    let command = request.command();
    let is_acquire = matches!(command, Command::Acquire { .. } | Command::Heal { .. });
    // An extension is a `SET` in one of its forms.
    let is_set = !command.is_release();
    match (is_set, reply) {
        (true, Value::Okay) => (Vote::Granted, None),
        (true, Value::Nil) => (NOT_OURS, None),
        (_, Value::Int(1)) if !is_acquire => (Vote::Granted, None),
        (_, Value::Int(0)) if !is_acquire => (NOT_OURS, None),
        (_, Value::ServerError(error)) => match Refusal::from_code(error.code()) {
            // Whatever it is, it is no lock of ours. (Where there are ballots it is no ballot.)
            Some(Refusal::WrongType) if !is_acquire && command.ballot().is_none() => {
                (NOT_OURS, None)
            }
            Some(refusal) => {
                let text = text(error, request.token());
                (
                    Vote::Refused(refusal),
                    Some(explain(request, refusal, text)),
                )
            }
            None => (Vote::Unknown, Some(text(error, request.token()))),
        },
        _ => unexpected(),
    }
}

pub(super) fn unexpected() -> (Vote, Option<Arc<str>>) {
    (Vote::Unknown, Some("unexpected reply".into()))
}

/// Where scripts are forbidden, one that cannot be done without says so. (Where it is one of the keys
/// of a set, the server says that itself.)
fn explain(request: &Request, refusal: Refusal, text: Arc<str>) -> Arc<str> {
    let what = if request.command().ballot().is_some() {
        "fencing needs scripts, and the keys redlock-quorum:*"
    } else if request.is_for_set() && !text.contains(" key") {
        "several resources at once need scripts"
    } else {
        return text;
    };
    if refusal == Refusal::NoPerm {
        format!("{what}: {text}").into()
    } else {
        text
    }
}

/// One line; servers repeat a command's arguments in some errors, and the token is a secret.
fn text(error: &ServerError, token: &str) -> Arc<str> {
    let details = error
        .details()
        .unwrap_or_default()
        .replace(token, "[token]");
    format!("{} {details}", error.code())
        .trim_end()
        .replace(['\r', '\n'], " ")
        .into()
}
