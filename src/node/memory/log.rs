//! What a server has read.

use std::time::Duration;

use crate::quorum::ballot::Ballot;
use crate::quorum::hold::Command;
use crate::quorum::vote::Vote;

/// How many commands a server has read, whatever it answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Commands {
    /// Acquires.
    pub acquire: u64,
    /// Extensions.
    pub extend: u64,
    /// Heals.
    pub heal: u64,
    /// Releases.
    pub release: u64,
}

/// The kind of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CommandKind {
    /// `SET key token NX PX ttl`, or the same with a ballot.
    Acquire,
    /// Compare, and set a longer ttl.
    Extend,
    /// As `Acquire`, for a lock that is held.
    Heal,
    /// Compare, and delete; with a tombstone or without.
    Release,
}

/// A line of a server's log: one command that it has read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Executed {
    /// When, on the true clock, counted from the making of the server.
    pub at: Duration,
    /// Over which of the server's links it came, counted from 0 in the order of their making.
    pub link: usize,
    /// What was asked for.
    pub kind: CommandKind,
    /// The key of the lock; the first, if it has several.
    pub key: String,
    /// All keys of the lock, sorted.
    pub keys: Vec<String>,
    /// The token that came with it.
    pub token: String,
    /// The ballot that came with it, if the lock is fenced.
    pub ballot: Option<u64>,
    /// What was answered.
    pub vote: Vote,
    /// Whether it changed the key, which with an error the answer does not tell.
    pub took_effect: bool,
}

impl Executed {
    pub(super) fn new(
        at: Duration,
        link: usize,
        command: Command,
        keys: &[Box<str>],
        token: &str,
        vote: Vote,
        applied: Option<Vote>,
    ) -> Self {
        let kind = match command {
            Command::Acquire { .. } => CommandKind::Acquire,
            Command::Heal { .. } => CommandKind::Heal,
            Command::Extend { .. } => CommandKind::Extend,
            Command::Release | Command::Tombstone { .. } => CommandKind::Release,
        };
        let took_effect = applied == Some(Vote::Granted);
        Self {
            at,
            link,
            kind,
            key: keys.first().map_or_else(String::new, ToString::to_string),
            keys: keys.iter().map(ToString::to_string).collect(),
            token: token.into(),
            ballot: command.ballot().map(Ballot::number),
            vote,
            took_effect,
        }
    }
}
