//! Requests as Redis commands, replies as votes.

use std::sync::{Arc, LazyLock};

use redis::{Cmd, Script, ServerError, ServerErrorKind, Value};

use super::fenced;
use crate::node::Request;
use crate::quorum::hold::Command;
use crate::quorum::vote::{Refusal, Vote};

pub(super) static RELEASE: LazyLock<Script> = LazyLock::new(|| Script::new(RELEASE_TEXT));
pub(super) static EXTEND: LazyLock<Script> = LazyLock::new(|| Script::new(EXTEND_TEXT));

pub(super) const RELEASE_TEXT: &str = include_str!("scripts/release.lua");
pub(super) const EXTEND_TEXT: &str = include_str!("scripts/extend.lua");

/// How a script is named to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Hash,
    /// The server did not know the hash.
    Text,
}

pub(super) fn command(request: &Request, form: Form) -> Cmd {
    if let Some(cmd) = fenced::command(request, form) {
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
            let mut cmd = script(&EXTEND, EXTEND_TEXT, form, request);
            cmd.arg(millis(ttl));
            cmd
        }
        Command::Release | Command::Tombstone { .. } => {
            script(&RELEASE, RELEASE_TEXT, form, request)
        }
    }
}

fn script(script: &Script, text: &str, form: Form, request: &Request) -> Cmd {
    let mut cmd = Cmd::with_capacity(6, 192);
    match form {
        Form::Hash => cmd.arg("EVALSHA").arg(script.get_hash()),
        Form::Text => cmd.arg("EVAL").arg(text),
    };
    cmd.arg(1).arg(request.key()).arg(request.token());
    cmd
}

pub(super) fn millis(ttl: std::time::Duration) -> u64 {
    u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn is_unknown_script(value: &Value) -> bool {
    matches!(value, Value::ServerError(error) if error.kind() == Some(ServerErrorKind::NoScript))
}

/// What the server's reply to this request means.
pub(super) fn vote(request: &Request, reply: &Value) -> (Vote, Option<Arc<str>>) {
    const NOT_OURS: Vote = Vote::Held {
        ttl: None,
        fence: None,
    };
    if let Some(vote) = fenced::vote(request, reply) {
        return (vote, None);
    }
    let is_acquire = matches!(
        request.command(),
        Command::Acquire { .. } | Command::Heal { .. }
    );
    match (is_acquire, reply) {
        (true, Value::Okay) | (false, Value::Int(1)) => (Vote::Granted, None),
        (true, Value::Nil) | (false, Value::Int(0)) => (NOT_OURS, None),
        (_, Value::ServerError(error)) => match Refusal::from_code(error.code()) {
            // Whatever it is, it is no lock of ours.
            Some(Refusal::WrongType) if !is_acquire => (NOT_OURS, None),
            Some(refusal) => {
                let text = text(error, request.token());
                (
                    Vote::Refused(refusal),
                    Some(fenced::explain(request, refusal, text)),
                )
            }
            None => (Vote::Unknown, Some(text(error, request.token()))),
        },
        _ => (Vote::Unknown, Some("unexpected reply".into())),
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
