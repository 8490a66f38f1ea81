//! What a world is made of: how many nodes and attempts, which faults, and which rule is weakened.

use std::fmt;

use super::super::sabotage::Bug;

/// The rules as they are, or one of them weakened as other clients have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Sound,
    /// A broken connection counts as "not applied".
    UnknownIsRefused,
    /// A failed or released attempt is not released where its acquire has not been answered.
    PendingIsNotReleased,
    /// A release answered on a newer connection settles, though the older is not finished.
    StragglerIsForgotten,
    /// A debt ends one ttl after the acquire was sent.
    DebtEndsWithSending,
    /// The release does not queue behind the acquire.
    ReleaseOvertakes,
    /// A release deletes whatever is there.
    ReleaseIsBlind,
    /// So many votes are taken for a quorum.
    Quorum(usize),
    /// The lease clock starts when the lock is handed out.
    ValidityFromReply,
    /// What was won is handed out without another look at the clock.
    NoLastLook,
    /// An extension sets the key where it is missing, without proof.
    NaiveHeal,
    /// A lock that was not won, or was lost, is asked for again with the same token.
    LossIsRetried,
    /// Ballots are left out: each node counts what it grants, and the largest of a quorum's counters
    /// is the token.
    CountersAreTokens,
    /// A node accepts the ballot that it has accepted last, from anybody.
    EqualBallotIsAccepted,
    /// A tombstone removes the key, and is forgotten.
    TombstoneIsForgotten,
    /// What a quorum granted counts, however late the answers come.
    LateGrantCounts,
    /// A node that has forgotten what it granted votes at once.
    QuarantineOff,
    /// One of the core's own deliberate mistakes.
    Core(Bug),
    /// Nobody is told that a node can be reached again, or that a connection is finished.
    NewsIsNotTold,
}

/// Is a command that has not been executed found unwritten when it is withdrawn?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Withdraw {
    Never,
    Always,
    Either,
}

/// What is the same in all states of one search.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) name: &'static str,
    pub(super) rule: Rule,
    pub(super) nodes: usize,
    pub(super) attempts: usize,
    /// The clock's step is a ttl divided by this.
    pub(super) ticks: u8,
    /// How many extensions an attempt begins, and how many attempts do.
    pub(super) extensions: u8,
    pub(super) extenders: usize,
    /// The first attempt holds the lock in the beginning, by so many nodes, the first, and for a tick
    /// already; 0: it does not.
    pub(super) held: usize,
    /// The callers of so many attempts, the first, never give up.
    pub(super) keepers: usize,
    /// The clock stands still.
    pub(super) frozen: bool,
    pub(super) withdraw: Withdraw,
    /// How many connections break in all.
    pub(super) breaks: u8,
    /// How many commands a node refuses.
    pub(super) refusals: u8,
    /// An attempt hears of a broken connection at once: it takes no time, and nothing comes between.
    pub(super) prompt: bool,
    /// Nodes refuse every release.
    pub(super) stubborn: bool,
    /// How many keys vanish before their time: exclusion is not promised then.
    pub(super) vanishings: u8,
    /// How many nodes come back without data.
    pub(super) restarts: u8,
    /// Locks are fenced, by first ballots from 1 to this; 0: they are plain.
    pub(super) ballots: u8,
    /// Is it checked that nothing is left of what has settled, and that it asks for nothing more?
    pub(super) cleanup: bool,
    /// Is it checked that an extension proves that nobody else was granted the lock before?
    pub(super) continuity: bool,
    /// Is it checked that every state can be brought to rest?
    pub(super) liveness: bool,
}

impl Plan {
    pub(super) const fn new(name: &'static str, nodes: usize, attempts: usize) -> Self {
        Self {
            name,
            rule: Rule::Sound,
            nodes,
            attempts,
            ticks: 1,
            extensions: 0,
            extenders: attempts,
            held: 0,
            keepers: 0,
            frozen: false,
            withdraw: Withdraw::Either,
            breaks: 0,
            refusals: 0,
            prompt: false,
            stubborn: false,
            vanishings: 0,
            restarts: 0,
            ballots: 0,
            cleanup: true,
            continuity: false,
            liveness: true,
        }
    }

    pub(super) fn has_tokens(&self) -> bool {
        self.ballots > 0 || self.rule == Rule::CountersAreTokens
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ({} nodes, {} attempts, ttl {} ticks, {} extensions by {} attempts, {} breaks, \
             {} refusals, {} vanishing keys, {} restarts, {})",
            self.name,
            self.nodes,
            self.attempts,
            self.ticks,
            self.extensions,
            self.extenders,
            self.breaks,
            self.refusals,
            self.vanishings,
            self.restarts,
            match self.ballots {
                0 => "plain".into(),
                1 => "first ballots of 1".into(),
                largest => format!("first ballots of 1 to {largest}"),
            },
        )
    }
}
