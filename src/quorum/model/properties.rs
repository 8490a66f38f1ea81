//! What must hold, and how a state that violates it is named.

use std::fmt;

use super::super::round::{Round, Verdict};
use super::super::validity;
use super::super::vote::Vote;
use super::name;
use super::world::{Attempt, Stage, World};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Violation {
    /// Two attempts are certain to hold the lock, and may.
    Overlap(usize, usize),
    /// An attempt has settled, and its key is on a node, or may yet come there.
    Leftover { attempt: usize, node: usize },
    /// A release removed another's key.
    ForeignRelease,
    /// An attempt that had ended asked for the key again.
    Recreated,
    /// A round's verdict is not the one that its votes determine, or not as early.
    Verdict,
    /// A verdict was taken back, or a loss undone.
    Undone,
    /// A lock was handed out after its loss.
    HandedOutLate,
    /// An extension succeeded, though another was granted the lock before it began.
    UnsoundExtension(usize),
    /// Two were granted the lock with one fencing token.
    SameToken(usize, usize),
    /// Of the tokens of two, the order is not that of their grants.
    TokenOrder(usize, usize),
    /// The key was set after the attempt's tombstone.
    Risen { attempt: usize, node: usize },
    /// Everything is delivered and every timer has fired, and an attempt is not at rest.
    Stuck(usize),
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Overlap(one, other) => {
                write!(f, "{} and {} both hold the lock", name(one), name(other))
            }
            Self::Leftover { attempt, node } => write!(
                f,
                "{} counts as settled, and its key is on node {}, or may yet come there",
                name(attempt),
                node + 1
            ),
            Self::ForeignRelease => f.write_str("a release removed another's key"),
            Self::Recreated => f.write_str("an attempt that had ended asked for the key again"),
            Self::Verdict => f.write_str("the verdict is not the one that the votes determine"),
            Self::Undone => f.write_str("a verdict or a loss was taken back"),
            Self::HandedOutLate => f.write_str("a lock was handed out after its loss"),
            Self::UnsoundExtension(attempt) => write!(
                f,
                "{}'s extension succeeded, though another was granted the lock before it began",
                name(attempt)
            ),
            Self::SameToken(one, other) => write!(
                f,
                "{} and {} were granted the lock with the same fencing token",
                name(one),
                name(other)
            ),
            Self::TokenOrder(one, other) => write!(
                f,
                "the fencing tokens of {} and {} are not in the order of their grants",
                name(one),
                name(other)
            ),
            Self::Risen { attempt, node } => write!(
                f,
                "{}'s key is set on node {} after its tombstone",
                name(attempt),
                node + 1
            ),
            Self::Stuck(attempt) => write!(f, "{} never comes to rest", name(attempt)),
        }
    }
}

/// Law 3, by definition: what no completion of the pending votes can change.
pub(super) fn determined(round: &Round) -> Option<bool> {
    let (mut granted, mut pending, mut nodes) = (0, 0, 0);
    for (vote, _) in round.votes() {
        nodes += 1;
        match vote {
            Some(Vote::Granted) => granted += 1,
            None => pending += 1,
            Some(_) => {}
        }
    }
    let quorum = validity::quorum(nodes);
    if granted >= quorum {
        Some(true)
    } else if granted + pending < quorum {
        Some(false)
    } else {
        None
    }
}

/// Is a verdict that has just come (or is missing) the right one?
pub(super) fn verdict_is_right(round: &Round, timed_out: bool) -> bool {
    let won = |verdict| matches!(verdict, Verdict::Won | Verdict::TooLate);
    match (round.verdict(), determined(round)) {
        (None, None) => true,
        (None, Some(_)) => false,
        (Some(verdict), Some(determined)) => won(verdict) == determined,
        (Some(verdict), None) => timed_out && !won(verdict),
    }
}

/// What must hold in every state.
pub(super) fn check(world: &World) -> Result<(), Violation> {
    let mut holders = (0..world.plan.attempts).filter(|&attempt| world.is_certain(attempt));
    if let (Some(one), Some(other)) = (holders.next(), holders.next())
        && world.plan.vanishings == 0
    {
        return Err(Violation::Overlap(one, other));
    }
    Ok(())
}

impl World {
    /// The attempts that have been granted the lock and have not ended, one bit each.
    pub(super) fn holders(&self) -> u8 {
        let holds = |attempt: &Attempt| {
            attempt.stage == Stage::Live
                && attempt.hold.verdict() == Some(Verdict::Won)
                && !attempt.hold.is_releasing()
        };
        let bits = self.attempts.iter().enumerate();
        bits.fold(0, |bits, (a, attempt)| bits | u8::from(holds(attempt)) << a)
    }

    /// Another has been granted the lock: those that held it when that one started, and still do,
    /// should not be able to extend.
    pub(super) fn intrude(&mut self, intruder: usize) {
        let betrayed = self.holders() & self.attempts[intruder].held_at_start;
        for (a, attempt) in self.attempts.iter_mut().enumerate() {
            attempt.intruded |= betrayed & (1 << a) != 0;
        }
    }
}

/// Law 4: nothing is left of an attempt that counts as settled, and nothing can come.
pub(super) fn nothing_is_left(world: &World, attempt: usize) -> Result<(), Violation> {
    let settled = &world.attempts[attempt];
    debug_assert_eq!(settled.stage, Stage::Live);
    for (node, channel) in settled.channels.iter().enumerate().take(world.plan.nodes) {
        let has_key = world.nodes[node]
            .key
            .is_some_and(|(owner, _)| owner == attempt);
        if has_key || channel.can_still_lock(world.nodes[node].fence) {
            return Err(Violation::Leftover { attempt, node });
        }
    }
    Ok(())
}
