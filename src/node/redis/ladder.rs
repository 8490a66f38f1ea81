//! Which form of release and of extension a server gets.
//!
//! A lock is released by compare-and-delete and extended by compare-and-pexpire, and not every server
//! knows, or allows, every form of these. The form is found by trying, on each connection anew: a reply
//! that means "not in this form" leads to the next one, in which the same request is written again. What
//! a server says of itself only chooses where to begin.
//!
//! # An extension never shortens
//!
//! `SET .. IFEQ .. PX` sets the ttl, whatever it was; the script and the transaction look first. So it
//! must not be executed after an extension that asked for more and that somebody relies on. A lock has
//! one extension at a time, each asks for an end that is later than what is promised, and nothing is
//! promised by one that has failed, whatever its late replies say. So it is enough that a node executes
//! extensions in the order in which they were submitted, or not at all. On one connection it does:
//! a retry, which may come out of order, is never in this form. Across connections it does if nothing
//! that an old one carried is executed after anything on a newer one: if the server says so to
//! `CLIENT KILL`, or has restarted. Hence the form is used only by connections that may ask for both,
//! and a connection that follows one of them and gets no such answer waits before it serves.

use redis::{Cmd, ServerError, ServerErrorKind, Value};

use crate::node::Request;
use crate::quorum::hold::Command;

/// How a request is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `SET .. NX PX`: there is no other way to set a lock.
    Plain,
    /// `DELEX .. IFEQ`, of Redis 8.4.
    DelEx,
    /// `DELIFEQ`, of Valkey 9.0.
    DelIfEq,
    /// `SET .. IFEQ .. PX`, of Redis 8.4 and Valkey 8.1.
    SetIfEq,
    /// A script, by its hash.
    Hash,
    /// A script that the server did not know by its hash.
    Text,
    /// `WATCH`, `GET`, `MULTI`, and then [`Form::Change`]; so often it was in vain.
    Watch(u8),
    /// The change, and `EXEC`.
    Change(u8),
}

impl Form {
    /// Nothing else may be written between its beginning and its end.
    pub(super) const fn is_transaction(self) -> bool {
        matches!(self, Self::Watch(_) | Self::Change(_))
    }
}

const WATCH: Form = Form::Watch(0);

/// What a server says about itself, as far as it matters here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin<'a> {
    pub(super) server: &'a str,
    pub(super) version: &'a str,
    /// It tells when an old connection is finished.
    pub(super) finishes: bool,
}

/// The forms of one connection.
#[derive(Clone, Debug)]
pub(super) struct Ladder {
    release: Steps,
    extension: Steps,
}

impl Ladder {
    pub(super) fn new(origin: Origin<'_>) -> Self {
        const NATIVE_FIRST: &[Form] = &[Form::DelEx, Form::DelIfEq, Form::Hash, WATCH];
        const VALKEY: &[Form] = &[Form::DelIfEq, Form::Hash, WATCH];
        const SCRIPT_FIRST: &[Form] = &[Form::Hash, Form::DelEx, Form::DelIfEq, WATCH];
        const SET_FIRST: &[Form] = &[Form::SetIfEq, Form::Hash, WATCH];
        // A script that was refused is asked for again out of order, so never by `SET`.
        const NO_SET: &[Form] = &[Form::Hash, WATCH];
        let version = parse(origin.version);
        let (release, knows_set) = match (origin.server, version) {
            ("redis", Some(version)) if version < (8, 4) => (SCRIPT_FIRST, false),
            ("valkey", Some(version)) if version < (9, 0) => (SCRIPT_FIRST, version >= (8, 1)),
            ("valkey", Some(_)) => (VALKEY, true),
            _ => (NATIVE_FIRST, true),
        };
        let extension = if knows_set && origin.finishes {
            SET_FIRST
        } else {
            NO_SET
        };
        Self {
            release: Steps::new(release),
            extension: Steps::new(extension),
        }
    }

    /// The form that a request gets now.
    pub(super) fn form(&self, request: &Request) -> Form {
        match request.command() {
            // There is no other.
            _ if is_script(request) => Form::Hash,
            Command::Acquire { .. } | Command::Heal { .. } => Form::Plain,
            Command::Extend { .. } => self.extension.form(),
            Command::Release | Command::Tombstone { .. } => self.release.form(),
        }
    }

    /// May an extension over this connection be in a form that shortens?
    pub(super) fn may_shorten(&self) -> bool {
        self.extension.form() == Form::SetIfEq
    }

    /// Are there transactions on this connection? Then they are alone on it while they last.
    pub(super) fn has_transactions(&self) -> bool {
        self.release.form().is_transaction() || self.extension.form().is_transaction()
    }

    /// The form in which a request must be written again after this reply; `None` if the reply is an
    /// answer.
    pub(super) fn next(&mut self, request: &Request, form: Form, reply: &Value) -> Option<Form> {
        let Value::ServerError(error) = reply else {
            return None;
        };
        if form == Form::Hash && error.kind() == Some(ServerErrorKind::NoScript) {
            return Some(Form::Text);
        }
        let steps = match request.command() {
            _ if is_script(request) => return None,
            Command::Acquire { .. } | Command::Heal { .. } => return None,
            Command::Extend { .. } => &mut self.extension,
            Command::Release | Command::Tombstone { .. } => &mut self.release,
        };
        match form {
            Form::DelEx | Form::DelIfEq | Form::SetIfEq if is_unknown(error) => steps.after(form),
            Form::Hash | Form::Text if is_unknown(error) || is_denied_inside(error) => {
                steps.after(Form::Hash)
            }
            Form::Plain
            | Form::DelEx
            | Form::DelIfEq
            | Form::SetIfEq
            | Form::Hash
            | Form::Text
            | Form::Watch(_)
            | Form::Change(_) => None,
        }
    }
}

/// Is there no form of it but a script: with a ballot, or for several keys at once?
fn is_script(request: &Request) -> bool {
    request.command().ballot().is_some() || request.is_for_set()
}

/// The forms of one command, and how far we have come.
#[derive(Clone, Debug)]
struct Steps {
    forms: &'static [Form],
    at: usize,
}

impl Steps {
    const fn new(forms: &'static [Form]) -> Self {
        Self { forms, at: 0 }
    }

    fn form(&self) -> Form {
        self.forms.get(self.at).copied().unwrap_or(WATCH)
    }

    /// This form was refused. Many requests may be told so at one time: only the first moves us on.
    fn after(&mut self, refused: Form) -> Option<Form> {
        if self.form() == refused {
            self.at = self.at.saturating_add(1);
        }
        Some(self.form())
    }
}

/// Does the server not know the command, or not let this user run it? Then nothing was applied.
fn is_unknown(error: &ServerError) -> bool {
    let details = error.details().unwrap_or_default();
    match error.code() {
        // A key that is denied is denied in every form.
        "NOPERM" => !(details.contains("access a key") || details.contains("keys used as")),
        "ERR" => details.starts_with("unknown command") || details == "syntax error",
        _ => false,
    }
}

/// Was a command denied inside one of our scripts? They write last, so nothing was applied.
fn is_denied_inside(error: &ServerError) -> bool {
    let details = error.details().unwrap_or_default();
    error.code() == "ERR"
        && (details.starts_with("The user executing the script can't run")
            || details.starts_with("ACL failure in script"))
}

/// The major and the minor number.
fn parse(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// A release or an extension as one command that compares by itself; `None` in the other forms.
pub(super) fn native(request: &Request, form: Form) -> Option<Cmd> {
    if !matches!(form, Form::DelEx | Form::DelIfEq | Form::SetIfEq) {
        return None;
    }
    let mut cmd = Cmd::with_capacity(7, 160);
    let (key, token) = (request.key(), request.token());
    match (form, request.command()) {
        (Form::DelEx, _) => cmd.arg("DELEX").arg(key).arg("IFEQ").arg(token),
        (Form::DelIfEq, _) => cmd.arg("DELIFEQ").arg(key).arg(token),
        (Form::SetIfEq, Command::Extend { ttl, .. }) => cmd
            .arg("SET")
            .arg(key)
            .arg(token)
            .arg("IFEQ")
            .arg(token)
            .arg("PX")
            .arg(super::commands::millis(ttl)),
        _ => return None,
    };
    Some(cmd)
}

#[cfg(test)]
mod tests;
