//! Larger worlds, as far as time and memory reach: see `scripts/model-long`, which sets the variables.

use std::time::Duration;

use super::amnesia::restarting;
use super::explore::{Budget, Order, explore};
use super::fenced::fenced;
use super::rules::{Plan, Withdraw};

#[test]
fn larger_worlds() {
    let number = |name, usual: u64| match std::env::var(name) {
        Ok(given) => given.parse().expect(name),
        Err(_) => usual,
    };
    let attempts = number("REDLOCK_MODEL_ATTEMPTS", 0);
    let attempts = usize::try_from(attempts).expect("a few");
    if attempts == 0 {
        return;
    }
    let minutes = number("REDLOCK_MODEL_MINUTES", 60);
    let bytes = usize::try_from(number("REDLOCK_MODEL_GIB", 12) << 30).expect("an address");
    let only = std::env::var("REDLOCK_MODEL_WORLD").unwrap_or_default();
    let mut plans = plans(attempts);
    plans.retain(|plan| plan.name.contains(&only));
    let mut left = Duration::from_secs(minutes * 60);
    let mut worlds = u32::try_from(plans.len()).expect("few");
    for plan in plans {
        let time = left / worlds;
        let outcome = explore(plan, Order::DepthFirst, Budget { time, bytes });
        println!("{outcome}");
        assert!(outcome.violation.is_none(), "see above");
        left = left.saturating_sub(outcome.time);
        worlds -= 1;
    }
}

fn plans(attempts: usize) -> Vec<Plan> {
    let wide = || Plan::new("", 3, attempts);
    vec![
        Plan {
            name: "all commands arrive",
            ..wide()
        },
        Plan {
            name: "a key vanishes",
            vanishings: 1,
            ..wide()
        },
        Plan {
            name: "a command is refused",
            refusals: 1,
            ..wide()
        },
        Plan {
            name: "a connection breaks, two attempts",
            breaks: 1,
            ..Plan::new("", 3, 2)
        },
        Plan {
            name: "extensions, two attempts",
            ticks: 2,
            extensions: 1,
            ..Plan::new("", 3, 2)
        },
        Plan {
            name: "two breaks, alone",
            ticks: 2,
            extensions: 1,
            breaks: 2,
            refusals: 1,
            ..Plan::new("", 3, 1)
        },
        Plan {
            name: "an extension proves continuity",
            ticks: 2,
            extensions: 1,
            extenders: 1,
            vanishings: 2,
            withdraw: Withdraw::Always,
            continuity: true,
            ..wide()
        },
        Plan {
            name: "a connection breaks",
            breaks: 1,
            prompt: true,
            ..wide()
        },
        Plan {
            name: "extensions",
            ticks: 2,
            extensions: 1,
            withdraw: Withdraw::Always,
            ..wide()
        },
        Plan {
            name: "fenced, all commands arrive, two attempts",
            ..fenced("", 3)
        },
        Plan {
            name: "fenced, a connection breaks and a key vanishes, two attempts",
            breaks: 1,
            vanishings: 1,
            frozen: true,
            prompt: true,
            ..fenced("", 2)
        },
        Plan {
            name: "fenced, an extension proves continuity, two attempts",
            ticks: 2,
            extensions: 1,
            extenders: 1,
            held: 2,
            keepers: 1,
            vanishings: 2,
            continuity: true,
            withdraw: Withdraw::Never,
            ..fenced("", 2)
        },
        Plan {
            name: "fenced, the clock stands",
            attempts,
            frozen: true,
            withdraw: Withdraw::Always,
            ..fenced("", 2)
        },
        Plan {
            name: "a node restarts without data and is healed, two attempts",
            extensions: 1,
            extenders: 1,
            ..restarting("", 3)
        },
        Plan {
            name: "two nodes restart without data, two attempts",
            restarts: 2,
            extenders: 0,
            ..restarting("", 2)
        },
    ]
}
