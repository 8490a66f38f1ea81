//! Deliberate mistakes, for the tests that prove that the tests catch them.
//!
//! `bug!(Name)` in the code asks whether that mistake is switched on. Without the feature `testkit`
//! it is the literal `false`, and nothing of this is compiled.

use std::cell::Cell;

/// A mistake that a client of this kind can make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bug {
    /// Nothing is taken off a ttl for clocks that run at different rates.
    DriftIgnored,
    /// A grant is valid from the deciding reply, not from before the first send.
    LeaseClockAfterReply,
    /// So is an extension.
    ExtensionClockAfterReply,
    /// The lease clock starts with the request, not with each round.
    LeaseClockOncePerWait,
    /// A lost round returns, and nothing is released.
    NoCleanup,
    /// What was not answered when the removal began is not released.
    PendingForgotten,
    /// An unanswered acquire counts as one that was not applied.
    UnknownIsRefused,
    /// Half of an even number of nodes is a quorum.
    EvenHalf,
    /// One node is a quorum.
    QuorumOfOne,
    /// A debt ends one ttl after its release was sent.
    DebtsEndEarly,
    /// A release that is answered on a newer connection settles, whatever the old one may bring.
    StragglerNotOutlived,
    /// The caller's last look at the clock is left out.
    NoLastLook,
    /// A hold counts as lost a while after its validity has ended.
    LossLate,
    /// An acquisition goes on after its time to wait.
    DeadlineIgnored,
    /// All attempts bear one token.
    TokenReused,
    /// The node deletes whatever stands under the key.
    ReleaseIgnoresToken,
    /// A node's word that a watched key has changed is dropped.
    WakeUpLost,
    /// The end of a hold wakes nobody in its process.
    HeadNotWoken,
    /// Who leaves a line does not call the next one.
    NextNotCalled,
    /// Lines are served last in, first out.
    LastInFirstOut,
    /// The line of a resource that nobody waits for or holds is kept.
    LineKept,
    /// A place is not left when its waiter is dropped.
    PlaceKept,
    /// A set stands in the line of its first resource only.
    SetInOneLine,
    /// Those who are not the head of a line do not look at their deadline.
    QueuedForGood,
    /// A set is granted by a node where somebody else has one of its keys.
    HalfASet,
    /// No timer is set for the expiry of others' keys.
    ExpiryNotTimed,
    /// News is waited for from nodes that do not tell.
    SilenceTrusted,
    /// What has settled is kept on the books.
    SettledKept,
    /// A fencing token is one more than the largest fence heard of, not the attempt's own ballot.
    TokenFromFencesHeard,
    /// Votes for an attempt's first ballot count for its second.
    FirstBallotCounts,
    /// A node accepts any ballot.
    AnyBallotAccepted,
    /// The release of a fenced lock leaves no tombstone where something is unanswered.
    NoTombstone,
    /// A node that may have forgotten votes at once.
    QuarantineOff,
    /// A node that lacks the key is healed before a quorum has confirmed it.
    HealBeforeProof,
    /// An extension sets the key where it is missing.
    ExtensionRecreates,
    /// An extension of a fenced lock does the same.
    FencedExtensionRecreates,
    /// The release of one of several guards releases the lock.
    ReleaseAtFirstDrop,
    /// A nested acquisition asks the nodes, as if the owner did not hold the lock.
    NestedAsksAgain,
    /// Detaching removes the keys.
    DetachReleases,
    /// A lease is attached whether its key is there or not.
    AttachWithoutProof,
    /// Attaching that is dropped when it has just succeeded releases the lock.
    DroppedAttachReleases,
    /// `using` lets a section go on after the loss.
    SectionOutlivesLoss,
}

thread_local! {
    static BUG: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// Switches a mistake on for all clients that the present thread drives, or all off.
pub fn commit(bug: Option<Bug>) {
    BUG.set(bug);
}

pub(crate) fn is(bug: Bug) -> bool {
    BUG.get() == Some(bug)
}
