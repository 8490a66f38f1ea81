//! The suite, tested: every deliberate mistake is caught within a stated number of seeds.

use std::env;

use redlock_quorum::testkit::sabotage::Bug;

use crate::run::run;

/// A test for each mistake, with the number of seeds within which it must be caught.
macro_rules! caught {
    ($($test:ident: $bug:ident within $seeds:literal;)*) => {
        const BUGS: &[Bug] = &[$(Bug::$bug),*];

        $(#[test]
        fn $test() {
            check(Bug::$bug, $seeds);
        })*
    };
}

caught! {
    drift_ignored: DriftIgnored within 10;
    lease_clock_after_reply: LeaseClockAfterReply within 10;
    extension_clock_after_reply: ExtensionClockAfterReply within 10;
    lease_clock_once_per_wait: LeaseClockOncePerWait within 10;
    no_cleanup: NoCleanup within 20;
    pending_forgotten: PendingForgotten within 20;
    unknown_is_refused: UnknownIsRefused within 200;
    even_half: EvenHalf within 30;
    quorum_of_one: QuorumOfOne within 10;
    debts_end_early: DebtsEndEarly within 200;
    straggler_not_outlived: StragglerNotOutlived within 600;
    no_last_look: NoLastLook within 400;
    loss_late: LossLate within 10;
    deadline_ignored: DeadlineIgnored within 10;
    token_reused: TokenReused within 10;
    release_ignores_token: ReleaseIgnoresToken within 10;
    settled_kept: SettledKept within 10;
    token_from_fences_heard: TokenFromFencesHeard within 10;
    first_ballot_counts: FirstBallotCounts within 600;
    any_ballot_accepted: AnyBallotAccepted within 50;
    no_tombstone: NoTombstone within 200;
    quarantine_off: QuarantineOff within 400;
    heal_before_proof: HealBeforeProof within 100;
    extension_recreates: ExtensionRecreates within 50;
    fenced_extension_recreates: FencedExtensionRecreates within 50;
    release_at_first_drop: ReleaseAtFirstDrop within 20;
    nested_asks_again: NestedAsksAgain within 20;
    detach_releases: DetachReleases within 20;
    attach_without_proof: AttachWithoutProof within 50;
    dropped_attach_releases: DroppedAttachReleases within 50;
    section_outlives_loss: SectionOutlivesLoss within 50;
    wake_up_lost: WakeUpLost within 10;
    head_not_woken: HeadNotWoken within 50;
    next_not_called: NextNotCalled within 50;
    last_in_first_out: LastInFirstOut within 20;
    line_kept: LineKept within 10;
    place_kept: PlaceKept within 10;
    set_in_one_line: SetInOneLine within 50;
    queued_for_good: QueuedForGood within 20;
    half_a_set: HalfASet within 50;
    expiry_not_timed: ExpiryNotTimed within 10;
    silence_trusted: SilenceTrusted within 50;
}

fn check(bug: Bug, within: u64) {
    for seed in 0..within {
        let outcome = run(seed, Some(bug));
        if let Some(first) = outcome.violations.first() {
            println!(
                "{bug:?}: caught after {} of {within} seeds: {first}",
                seed + 1
            );
            return;
        }
    }
    panic!("{bug:?} was not caught in {within} seeds");
}

/// The mistake that `REDLOCK_SIM_BUG` names.
pub(crate) fn named() -> Option<Bug> {
    let name = env::var("REDLOCK_SIM_BUG").ok()?;
    let found = BUGS.iter().find(|bug| format!("{bug:?}") == name);
    Some(*found.unwrap_or_else(|| panic!("there is no mistake {name}")))
}
