//! Each rule weakened: the known counter-example must be found, and is told.
use super::explore::{Budget, Order, explore};
use super::properties::Violation;
use super::rules::{Plan, Rule, Withdraw};
use std::time::Duration;

const BUDGET: Budget = Budget {
    time: Duration::from_secs(3600),
    bytes: 12 << 30,
};

fn breaks(plan: &'static Plan) -> Violation {
    let outcome = explore(plan, Order::BreadthFirst, BUDGET);
    println!("{outcome}");
    outcome.violation.expect("a counter-example").0
}

macro_rules! bug {
    ($name:ident, $plan:expr) => {
        #[test]
        fn $name() {
            static PLAN: Plan = $plan;
            breaks(&PLAN);
        }
    };
}
const fn weak(rule: Rule, nodes: usize, attempts: usize) -> Plan {
    Plan {
        rule,
        ..Plan::new("weak", nodes, attempts)
    }
}
bug!(
    unknown,
    Plan {
        breaks: 1,
        ..weak(Rule::UnknownIsRefused, 3, 2)
    }
);
bug!(pending, weak(Rule::PendingIsNotReleased, 3, 2));
bug!(
    straggler,
    Plan {
        breaks: 1,
        ..weak(Rule::StragglerIsForgotten, 3, 2)
    }
);
bug!(
    debt,
    Plan {
        breaks: 1,
        ..weak(Rule::DebtEndsWithSending, 3, 2)
    }
);
bug!(overtakes, weak(Rule::ReleaseOvertakes, 3, 2));
bug!(blind, weak(Rule::ReleaseIsBlind, 3, 2));
bug!(quorum_of_one, weak(Rule::Quorum(1), 3, 2));
bug!(half, weak(Rule::Quorum(2), 4, 2));
bug!(
    validity,
    Plan {
        ticks: 2,
        ..weak(Rule::ValidityFromReply, 3, 2)
    }
);
bug!(no_last_look, weak(Rule::NoLastLook, 3, 2));
bug!(
    naive_heal,
    Plan {
        cleanup: false,
        ticks: 2,
        extensions: 1,
        vanishings: 2,
        continuity: true,
        withdraw: Withdraw::Always,
        ..weak(Rule::NaiveHeal, 3, 2)
    }
);
bug!(
    straggler_extension,
    Plan {
        ticks: 2,
        extensions: 1,
        vanishings: 1,
        continuity: true,
        ..weak(Rule::Sound, 3, 2)
    }
);
bug!(
    straggler_extension_never,
    Plan {
        ticks: 2,
        extensions: 1,
        vanishings: 1,
        continuity: true,
        withdraw: Withdraw::Never,
        ..weak(Rule::Sound, 3, 2)
    }
);
bug!(retried, weak(Rule::LossIsRetried, 3, 2));
bug!(
    news,
    Plan {
        breaks: 1,
        ..weak(Rule::NewsIsNotTold, 3, 2)
    }
);
