//! Compares quorum sizes: an acquire and a release over N = 1, 3 and 5 nodes, by one task and by
//! many, healthy and with one node frozen, each as a ratio to a raw fan-out measured in the same
//! round.
//!
//! `cargo bench --bench quorum -- --quick`, or `--help`. What the columns mean and how to read
//! them: `docs/benchmarks.md`.

mod contender;
mod floor;
mod measure;
mod ours;
mod plan;
mod report;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use redlock_quorum::testkit::fleet::Fleet;
use tokio::runtime::{self, Runtime};

use self::contender::Failure;
use self::plan::{Bench, Configuration, Scenario};
use self::report::Report;

#[derive(Debug, Parser)]
#[command(about = "Compares quorum sizes with a raw fan-out", long_about = None)]
struct Args {
    /// How many nodes.
    #[arg(long, value_delimiter = ',', default_value = "1,3,5", value_parser = clap::value_parser!(u8).range(1..=9))]
    nodes: Vec<u8>,
    /// How many tasks at once, each on a resource of its own.
    #[arg(long, value_delimiter = ',', default_value = "1,64", value_parser = clap::value_parser!(u16).range(1..=1024))]
    tasks: Vec<u16>,
    /// Which states of the nodes.
    #[arg(long, value_delimiter = ',', default_value = "healthy,frozen")]
    scenario: Vec<Scenario>,
    /// How many rounds; each gives one ratio.
    #[arg(long, default_value_t = 7)]
    rounds: u16,
    /// How many cycles a task does in a round; more than 8 tasks share the cycles of 8.
    #[arg(long, default_value_t = 3000)]
    cycles: u32,
    /// Which tokio runtime.
    #[arg(long, default_value = "multi")]
    runtime: Flavor,
    /// Three short rounds: shows that it works and roughly where it stands.
    #[arg(long)]
    quick: bool,
    /// Writes the results here as well.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Runs nothing but our side for so long, for a profiler: the first of each list, healthy.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    profile: Option<Duration>,
    /// Passed by `cargo bench`.
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Flavor {
    /// Two workers.
    Multi,
    /// One thread.
    Current,
}

impl Flavor {
    fn build(self) -> std::io::Result<Runtime> {
        match self {
            Self::Multi => runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build(),
            Self::Current => runtime::Builder::new_current_thread().enable_all().build(),
        }
    }
}

fn main() -> Result<(), Failure> {
    let mut args = Args::parse();
    if args.quick {
        (args.rounds, args.cycles) = (args.rounds.min(3), args.cycles.min(1000));
    }
    let runtime = args.runtime.build()?;
    let nodes = args.nodes.iter().copied().max().unwrap_or(1);
    // It ends with this function, however that ends.
    let fleet = Fleet::start(nodes.into())?;
    let mut bench = Bench::new(&runtime, &fleet, args.cycles);
    let configurations = Configuration::all(&args.scenario, &args.nodes, &args.tasks);
    if let Some(time) = args.profile {
        let first = configurations.first().ok_or("nothing to run")?;
        return bench.profile(first, time);
    }
    let mut report = Report::new(
        plan::server_version(&fleet)?,
        format!("{:?}", args.runtime).to_lowercase(),
        args.rounds,
        args.cycles,
    );
    for configuration in configurations {
        let mut rounds = Vec::new();
        for _ in 0..args.rounds {
            rounds.push(bench.round(&configuration)?);
        }
        report.add(&configuration, &rounds);
    }
    report.print_end();
    if let Some(file) = args.json {
        report.write(&file)?;
    }
    Ok(())
}
