//! The scripts, and how one is called.
//!
//! They check everything before the first write, so one that ends with an error has done nothing; a
//! release alone deletes before it looks at its fences.

use std::sync::OnceLock;

use redis::{Cmd, Script};

use super::ladder::Form;
use crate::node::Request;

macro_rules! lua {
    ($($file:literal),+) => {
        Source {
            text: concat!($(include_str!(concat!("scripts/", $file, ".lua"))),+),
            hash: OnceLock::new(),
        }
    };
}

pub(super) static RELEASE: Source = lua!("release");
pub(super) static EXTEND: Source = lua!("extend");
pub(super) static ACQUIRE_ALL: Source = lua!("locks", "acquire_all");
pub(super) static RELEASE_ALL: Source = lua!("locks", "release_all");
pub(super) static EXTEND_ALL: Source = lua!("locks", "extend_all");
pub(super) static FENCED_ACQUIRE: Source = lua!("locks", "fences", "fenced_acquire");
pub(super) static FENCED_EXTEND: Source = lua!("locks", "fences", "fenced_extend");
pub(super) static TOMBSTONE: Source = lua!("locks", "fences", "tombstone");

/// What a handshake loads.
pub(super) static ALL: [&Source; 8] = [
    &RELEASE,
    &EXTEND,
    &ACQUIRE_ALL,
    &RELEASE_ALL,
    &EXTEND_ALL,
    &FENCED_ACQUIRE,
    &FENCED_EXTEND,
    &TOMBSTONE,
];

/// A script.
pub(super) struct Source {
    text: &'static str,
    hash: OnceLock<String>,
}

impl Source {
    pub(super) const fn text(&self) -> &'static str {
        self.text
    }

    /// A call with the keys of the lock, and its token as the first argument.
    pub(super) fn call(&self, form: Form, request: &Request) -> Cmd {
        self.call_with(form, request, &[])
    }

    /// The same, with more keys behind those of the lock.
    pub(super) fn call_with(&self, form: Form, request: &Request, more: &[String]) -> Cmd {
        let keys = request.keys();
        let count = keys.len().saturating_add(more.len());
        let mut cmd = Cmd::with_capacity(count.saturating_add(8), 320);
        if form == Form::Text {
            cmd.arg("EVAL").arg(self.text);
        } else {
            cmd.arg("EVALSHA").arg(self.hash());
        }
        cmd.arg(count);
        for key in keys {
            cmd.arg(&**key);
        }
        cmd.arg(more).arg(request.token());
        cmd
    }

    fn hash(&self) -> &str {
        self.hash
            .get_or_init(|| Script::new(self.text).get_hash().to_owned())
    }
}
