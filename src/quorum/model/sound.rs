//! The rules as they are: nothing is violated in any state.
use super::explore::{Budget, Order, explore};
use super::rules::{Plan, Withdraw};
use std::time::Duration;

const BUDGET: Budget = Budget {
    time: Duration::from_secs(60),
    bytes: 6 << 30,
};

macro_rules! sound {
    ($name:ident, $plan:expr) => {
        #[test]
        fn $name() {
            static PLAN: Plan = $plan;
            let outcome = explore(&PLAN, Order::BreadthFirst, BUDGET);
            println!("{} {outcome}", stringify!($name));
            assert!(outcome.violation.is_none());
        }
    };
}
const fn w(nodes: usize, attempts: usize) -> Plan {
    Plan::new("w", nodes, attempts)
}
sound!(a_plain, w(3, 2));
sound!(b_plain4, w(4, 2));
sound!(
    d_alone3,
    Plan {
        ticks: 2,
        extensions: 1,
        breaks: 1,
        refusals: 1,
        ..w(3, 1)
    }
);
sound!(
    d_alone2,
    Plan {
        ticks: 2,
        extensions: 1,
        breaks: 2,
        refusals: 1,
        ..w(2, 1)
    }
);
sound!(
    d_alone1,
    Plan {
        ticks: 2,
        extensions: 2,
        breaks: 3,
        refusals: 2,
        vanishings: 1,
        ..w(1, 1)
    }
);
sound!(
    d_stub1,
    Plan {
        ticks: 2,
        extensions: 2,
        breaks: 3,
        stubborn: true,
        ..w(1, 1)
    }
);
sound!(
    d_stub2,
    Plan {
        ticks: 2,
        extensions: 1,
        breaks: 2,
        stubborn: true,
        ..w(2, 1)
    }
);
sound!(
    e_refusals,
    Plan {
        refusals: 1,
        ..w(3, 2)
    }
);
sound!(
    e_vanishing,
    Plan {
        vanishings: 1,
        ..w(3, 2)
    }
);
sound!(
    f_continuity,
    Plan {
        vanishings: 2,
        ticks: 2,
        extensions: 1,
        withdraw: Withdraw::Always,
        continuity: true,
        ..w(3, 2)
    }
);
sound!(
    g_ext_always,
    Plan {
        ticks: 2,
        extensions: 1,
        withdraw: Withdraw::Always,
        ..w(3, 2)
    }
);
sound!(
    h_break,
    Plan {
        breaks: 1,
        ..w(3, 2)
    }
);
sound!(
    h_break_never,
    Plan {
        breaks: 1,
        withdraw: Withdraw::Never,
        ..w(3, 2)
    }
);
sound!(
    i_two_ticks,
    Plan {
        ticks: 2,
        ..w(3, 2)
    }
);
