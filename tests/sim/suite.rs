//! Seeds: for a time, by the number, or one to be looked at.

use std::env;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use redlock_quorum::testkit::sabotage::Bug;

use crate::run::{Outcome, run};
use crate::{bugs, timeline};

/// Where the run of every day begins.
const FIRST_SEED: u64 = 0;
/// For how many seconds it lasts.
const SECONDS: u64 = 60;
/// How many lines of a timeline are shown where it failed, and how long before and after.
const LINES: usize = 120;
const BEFORE: Duration = Duration::from_secs(10);
const AFTER: Duration = Duration::from_millis(300);

fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} must be a number, not {text}")),
    )
}

/// What a person needs to look at a seed that failed.
pub(crate) fn report(seed: u64, bug: Option<Bug>, outcome: &Outcome) -> String {
    let mut text = String::new();
    let violations = &outcome.violations;
    writeln!(text, "seed {seed} breaks {} times:", violations.len()).unwrap();
    for violation in violations.iter().take(10) {
        writeln!(text, "  {violation}").unwrap();
    }
    let bug = bug.map_or_else(String::new, |bug| format!("REDLOCK_SIM_BUG={bug:?} "));
    writeln!(
        text,
        "replay: {bug}REDLOCK_SIM_SEED={seed} cargo nextest run --test sim --no-capture -- suite::seeds --exact"
    )
    .unwrap();
    if let Some(first) = violations.first() {
        let history = &outcome.history;
        writeln!(text, "{:?}", history.plan).unwrap();
        let requests = history.requests_by_op();
        let mut words = first.words.clone();
        for op in &first.ops {
            words.push(format!("#{op} "));
            let hold = requests.get(op).and_then(|request| request.hold.as_ref());
            words.extend(hold.map(|hold| timeline::short(&hold.token).to_owned()));
        }
        let asked = first
            .ops
            .iter()
            .filter_map(|op| Some(requests.get(op)?.asked))
            .min();
        let from = asked.unwrap_or_else(|| first.at.saturating_sub(BEFORE));
        let lines = timeline::about(history, &words, from..=first.at + AFTER);
        for line in &lines[lines.len().saturating_sub(LINES)..] {
            writeln!(text, "{line}").unwrap();
        }
    }
    text
}

#[derive(Default)]
struct Totals {
    seeds: AtomicUsize,
    calls: AtomicUsize,
    faults: AtomicUsize,
    virtual_seconds: AtomicU64,
}

impl Totals {
    fn add(&self, outcome: &Outcome) {
        self.seeds.fetch_add(1, Ordering::Relaxed);
        self.calls.fetch_add(outcome.calls, Ordering::Relaxed);
        self.faults.fetch_add(outcome.faults, Ordering::Relaxed);
        self.virtual_seconds
            .fetch_add(outcome.lasted.as_secs(), Ordering::Relaxed);
    }

    fn summary(&self, took: Duration) -> String {
        let seeds = self.seeds.load(Ordering::Relaxed);
        format!(
            "{seeds} seeds, {} calls, {} faults, {} virtual hours in {:.1} s: {:.1} seeds/s",
            self.calls.load(Ordering::Relaxed),
            self.faults.load(Ordering::Relaxed),
            self.virtual_seconds.load(Ordering::Relaxed) / 3600,
            took.as_secs_f64(),
            f64::from(u32::try_from(seeds).unwrap()) / took.as_secs_f64()
        )
    }
}

/// Runs seeds on so many threads until one fails, the time is over, or all are run.
#[expect(clippy::disallowed_methods, reason = "the budget is real time")]
fn run_many(first: u64, count: Option<u64>, limit: Option<Duration>, threads: usize) {
    let began = Instant::now();
    let (next, failed) = (AtomicU64::new(first), AtomicBool::new(false));
    let totals = Totals::default();
    let bug = bugs::named();
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !failed.load(Ordering::Relaxed)
                    && limit.is_none_or(|limit| began.elapsed() < limit)
                {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if count.is_some_and(|count| seed - first >= count) {
                        return;
                    }
                    let outcome = run(seed, bug);
                    totals.add(&outcome);
                    if !outcome.violations.is_empty() {
                        failed.store(true, Ordering::Relaxed);
                        println!("{}", report(seed, bug, &outcome));
                    }
                    if (seed - first + 1).is_multiple_of(1000) && count.is_some() {
                        println!("{}", totals.summary(began.elapsed()));
                    }
                }
            });
        }
    });
    println!("from seed {first}: {}", totals.summary(began.elapsed()));
    assert!(
        !failed.load(Ordering::Relaxed),
        "a seed breaks an invariant, see above"
    );
}

#[test]
fn seeds() {
    if let Some(seed) = number("REDLOCK_SIM_SEED") {
        let bug = bugs::named();
        let outcome = run(seed, bug);
        for line in timeline::lines(&outcome.history) {
            println!("{line}");
        }
        println!(
            "{} calls, {} faults, {:?}",
            outcome.calls, outcome.faults, outcome.lasted
        );
        assert!(
            outcome.violations.is_empty(),
            "{}",
            report(seed, bug, &outcome)
        );
        return;
    }
    let first = number("REDLOCK_SIM_FIRST").unwrap_or(FIRST_SEED);
    match number("REDLOCK_SIM_SEEDS") {
        Some(count) => {
            let threads = thread::available_parallelism().map_or(1, usize::from);
            run_many(first, Some(count), None, threads);
        }
        None => {
            let seconds = number("REDLOCK_SIM_SECONDS").unwrap_or(SECONDS);
            run_many(first, None, Some(Duration::from_secs(seconds)), 1);
        }
    }
}

#[test]
fn one_seed_is_one_timeline() {
    for seed in 0..12 {
        let (first, second) = (run(seed, None), run(seed, None));
        let (first, second) = (
            timeline::lines(&first.history),
            timeline::lines(&second.history),
        );
        assert!(first.len() > 400, "seed {seed} has {} lines", first.len());
        for (line, (one, other)) in first.iter().zip(&second).enumerate() {
            assert_eq!(one, other, "seed {seed}, line {line}");
        }
        assert_eq!(first.len(), second.len());
    }
}

#[test]
fn a_seed_is_long_enough() {
    for seed in 100..106 {
        let outcome = run(seed, None);
        assert!(outcome.lasted >= Duration::from_secs(60));
        assert!(outcome.calls >= 200);
    }
}
