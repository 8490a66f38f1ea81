//! The table, and the same as JSON.
#![expect(clippy::print_stdout, reason = "the table is what this program is for")]

use std::fmt;
use std::fs::File;
use std::path::Path;

use serde::Serialize;

use crate::contender::Failure;
use crate::measure::{Block, Latency};
use crate::plan::{Configuration, Round};

/// One task: at most so many times the floor's median cycle.
const MOST_P50: f64 = 1.25;
/// Many tasks: at least so many times the floor's cycles a second ..
const LEAST_RATE: f64 = 1.3;
/// .. with at most so many times its CPU.
const MOST_CPU: f64 = 0.6;
const MANY: u16 = 64;

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    crate_version: &'static str,
    server: String,
    runtime: String,
    rounds: u16,
    cycles: u32,
    lines: Vec<Line>,
}

#[derive(Debug, Serialize)]
struct Line {
    #[serde(flatten)]
    configuration: Configuration,
    floor: Figures,
    ours: Figures,
    ratios: Ratios,
    /// `None` where no target is set.
    target_met: Option<bool>,
}

/// Medians over the rounds.
#[derive(Debug, Serialize)]
struct Figures {
    cycles_per_second: Spread,
    cpu_seconds_per_10k: Spread,
    acquire_micros: Quantiles,
    release_micros: Quantiles,
    cycle_micros: Quantiles,
}

#[derive(Debug, Serialize)]
struct Quantiles {
    p50: Spread,
    p99: Spread,
}

/// Ours by the floor's, each within one round.
#[derive(Debug, Serialize)]
struct Ratios {
    cycles_per_second: Spread,
    cpu: Spread,
    acquire_p50: Spread,
    acquire_p99: Spread,
    release_p50: Spread,
    release_p99: Spread,
    cycle_p50: Spread,
    cycle_p99: Spread,
}

/// The median over the rounds, and how far they lay apart.
#[derive(Clone, Copy, Debug, Serialize)]
struct Spread {
    median: f64,
    min: f64,
    max: f64,
}

impl Spread {
    fn over(rounds: &[Round], value: impl Fn(&Round) -> f64) -> Self {
        let mut values: Vec<f64> = rounds.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        let at = |place: usize| values.get(place).copied().unwrap_or(f64::NAN);
        let last = values.len().saturating_sub(1);
        Self {
            median: f64::midpoint(at(last / 2), at(last.div_ceil(2))),
            min: at(0),
            max: at(last),
        }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { median, min, max } = self;
        f.pad(&format!("{median:.2} ({min:.2}-{max:.2})"))
    }
}

impl Figures {
    fn of(rounds: &[Round], side: fn(&Round) -> &Block) -> Self {
        let quantiles = |latency: fn(&Block) -> &Latency| Quantiles {
            p50: Spread::over(rounds, |round| latency(side(round)).micros(0.5)),
            p99: Spread::over(rounds, |round| latency(side(round)).micros(0.99)),
        };
        Self {
            cycles_per_second: Spread::over(rounds, |round| side(round).cycles_per_second()),
            cpu_seconds_per_10k: Spread::over(rounds, |round| side(round).cpu_seconds_per_10k()),
            acquire_micros: quantiles(|block| &block.acquire),
            release_micros: quantiles(|block| &block.release),
            cycle_micros: quantiles(|block| &block.cycle),
        }
    }
}

impl Ratios {
    fn of(rounds: &[Round]) -> Self {
        let ratio = |value: &dyn Fn(&Block) -> f64| {
            Spread::over(rounds, |round| value(&round.ours) / value(&round.floor))
        };
        Self {
            cycles_per_second: ratio(&Block::cycles_per_second),
            cpu: ratio(&Block::cpu_seconds_per_10k),
            acquire_p50: ratio(&|block| block.acquire.micros(0.5)),
            acquire_p99: ratio(&|block| block.acquire.micros(0.99)),
            release_p50: ratio(&|block| block.release.micros(0.5)),
            release_p99: ratio(&|block| block.release.micros(0.99)),
            cycle_p50: ratio(&|block| block.cycle.micros(0.5)),
            cycle_p99: ratio(&|block| block.cycle.micros(0.99)),
        }
    }

    fn target_met(&self, tasks: u16) -> Option<bool> {
        match tasks {
            1 => Some(self.cycle_p50.median <= MOST_P50),
            MANY.. => {
                Some(self.cycles_per_second.median >= LEAST_RATE && self.cpu.median <= MOST_CPU)
            }
            _ => None,
        }
    }
}

impl Report {
    /// Begins the table.
    pub(crate) fn new(server: String, runtime: String, rounds: u16, cycles: u32) -> Self {
        let crate_version = env!("CARGO_PKG_VERSION");
        println!(
            "redlock-quorum {crate_version}, {server}, runtime {runtime}, {rounds} rounds of \
             {cycles} cycles; x: ours as a multiple of the floor's, median (min-max) over the rounds\n"
        );
        println!(
            "{:8}{:>2}{:>6} |{:>9}{:>8}{:>7} |{:>9}{:>8}{:>7} | {:18}{:18}{:18}{:18}{:18}{:18}target",
            "nodes",
            "N",
            "tasks",
            "floor c/s",
            "p50 us",
            "cpu s",
            "ours c/s",
            "p50 us",
            "cpu s",
            "x cycle p50",
            "x cycle p99",
            "x acquire p50",
            "x release p50",
            "x cycles/s",
            "x cpu",
        );
        Self {
            crate_version,
            server,
            runtime,
            rounds,
            cycles,
            lines: Vec::new(),
        }
    }

    /// Adds a line to the table.
    pub(crate) fn add(&mut self, configuration: &Configuration, rounds: &[Round]) {
        let ratios = Ratios::of(rounds);
        let line = Line {
            configuration: *configuration,
            floor: Figures::of(rounds, |round| &round.floor),
            ours: Figures::of(rounds, |round| &round.ours),
            target_met: ratios.target_met(configuration.tasks),
            ratios,
        };
        println!("{line}");
        self.lines.push(line);
    }

    pub(crate) fn print_end(&self) {
        let set = self.lines.iter().filter_map(|line| line.target_met);
        let (met, set) = (set.clone().filter(|&met| met).count(), set.count());
        println!(
            "\ntargets: x cycle p50 <= {MOST_P50} for one task; x cycles/s >= {LEAST_RATE} and \
             x cpu <= {MOST_CPU} for {MANY} or more. Met by {met} of {set}."
        );
    }

    pub(crate) fn write(&self, file: &Path) -> Result<(), Failure> {
        Ok(serde_json::to_writer_pretty(File::create(file)?, self)?)
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Configuration {
            scenario,
            nodes,
            tasks,
        } = self.configuration;
        write!(f, "{scenario:8}{nodes:>2}{tasks:>6}")?;
        for side in [&self.floor, &self.ours] {
            write!(
                f,
                " |{:>9.0}{:>8.0}{:>7.3}",
                side.cycles_per_second.median,
                side.cycle_micros.p50.median,
                side.cpu_seconds_per_10k.median
            )?;
        }
        let Ratios {
            cycles_per_second,
            cpu,
            acquire_p50,
            release_p50,
            cycle_p50,
            cycle_p99,
            ..
        } = self.ratios;
        write!(
            f,
            " | {cycle_p50:18}{cycle_p99:18}{acquire_p50:18}{release_p50:18}{cycles_per_second:18}{cpu:18}{}",
            match self.target_met {
                Some(true) => "pass",
                Some(false) => "miss",
                None => "-",
            }
        )
    }
}

pub(crate) fn print_profile(configuration: &Configuration, block: &Block) {
    let Configuration { nodes, tasks, .. } = configuration;
    println!(
        "N = {nodes}, {tasks} tasks: {} cycles, {:.0} a second, p50 {:.0} us, cpu {:.3} s per 10k",
        block.cycles,
        block.cycles_per_second(),
        block.cycle.micros(0.5),
        block.cpu_seconds_per_10k()
    );
}
