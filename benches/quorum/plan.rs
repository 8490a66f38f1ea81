//! Which blocks are run, and in what order.

use std::fmt;
use std::time::Duration;

use clap::ValueEnum;
use redlock_quorum::testkit::fleet::{Fleet, Server};
use serde::Serialize;
use tokio::runtime::Runtime;

use crate::contender::{Contender, Failure};
use crate::floor::Floor;
use crate::measure::{self, Block, Until};
use crate::ours::Ours;

/// More tasks than this share the cycles of so many: a round should not take longer.
const MOST_SHARES: u16 = 8;
/// The pause after a frozen server goes on.
const SETTLE: Duration = Duration::from_millis(200);

/// The state of the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Scenario {
    /// All nodes answer.
    Healthy,
    /// One node is stopped: its kernel takes bytes, and nothing comes back.
    Frozen,
}

impl Scenario {
    /// How long each side runs before it is measured: with a frozen node until it has been noticed.
    const fn warm_up(self) -> Duration {
        Duration::from_millis(match self {
            Self::Healthy => 50,
            Self::Frozen => 400,
        })
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Healthy => "healthy",
            Self::Frozen => "frozen",
        })
    }
}

/// One line of the table.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Configuration {
    pub(crate) scenario: Scenario,
    pub(crate) nodes: u8,
    pub(crate) tasks: u16,
}

impl Configuration {
    /// All that make sense: without a quorum of living nodes there is nothing to measure.
    pub(crate) fn all(scenarios: &[Scenario], nodes: &[u8], tasks: &[u16]) -> Vec<Self> {
        let mut all = Vec::new();
        for &scenario in scenarios {
            for &nodes in nodes {
                for &tasks in tasks {
                    all.push(Self {
                        scenario,
                        nodes,
                        tasks,
                    });
                }
            }
        }
        all.retain(|one| one.scenario == Scenario::Healthy || one.nodes > 2);
        all
    }
}

/// Both sides, one right after the other.
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) floor: Block,
    pub(crate) ours: Block,
}

pub(crate) struct Bench<'a> {
    runtime: &'a Runtime,
    fleet: &'a Fleet,
    cycles: u32,
    rounds: u32,
}

impl<'a> Bench<'a> {
    pub(crate) const fn new(runtime: &'a Runtime, fleet: &'a Fleet, cycles: u32) -> Self {
        Self {
            runtime,
            fleet,
            cycles,
            rounds: 0,
        }
    }

    /// Measures both sides, over new connections. The side that comes first changes every round.
    pub(crate) fn round(&mut self, configuration: &Configuration) -> Result<Round, Failure> {
        self.rounds += 1;
        let urls = self.urls(configuration);
        let floor = self.runtime.block_on(Floor::connect(&urls))?;
        let ours = Ours::new(&urls)?;
        // Connects.
        self.run(&ours, 1, Until::Cycles(1), "connect")?;
        let frozen = match configuration.scenario {
            Scenario::Healthy => None,
            Scenario::Frozen => self.fleet.iter().take(urls.len()).next_back(),
        };
        let frozen = frozen.map(Frozen::new).transpose()?;

        let tasks = configuration.tasks;
        let until = Until::Time(configuration.scenario.warm_up());
        self.run(&floor, tasks, until, "warm/floor")?;
        self.run(&ours, tasks, until, "warm/ours")?;
        let cycles = self.cycles * u32::from(tasks.min(MOST_SHARES)) / u32::from(tasks);
        let until = Until::Cycles(cycles.max(1));
        let round = if self.rounds.is_multiple_of(2) {
            let floor = self.run(&floor, tasks, until, "floor")?;
            let ours = self.run(&ours, tasks, until, "ours")?;
            Round { floor, ours }
        } else {
            let ours = self.run(&ours, tasks, until, "ours")?;
            let floor = self.run(&floor, tasks, until, "floor")?;
            Round { floor, ours }
        };

        let was_frozen = frozen.is_some();
        drop(frozen);
        let drained = self.runtime.block_on(ours.close());
        if !was_frozen && !drained.is_complete() {
            return Err(format!("healthy nodes are owed releases: {drained:?}").into());
        }
        if was_frozen {
            // The server works off what it was sent, for nobody.
            self.runtime
                .block_on(async { tokio::time::sleep(SETTLE).await });
        }
        Ok(round)
    }

    /// Runs our side alone.
    pub(crate) fn profile(
        &mut self,
        configuration: &Configuration,
        time: Duration,
    ) -> Result<(), Failure> {
        let ours = Ours::new(&self.urls(configuration))?;
        let tasks = configuration.tasks;
        let block = self.run(&ours, tasks, Until::Time(time), "profile")?;
        self.runtime.block_on(ours.close());
        crate::report::print_profile(configuration, &block);
        Ok(())
    }

    fn run<C: Contender>(
        &self,
        contender: &C,
        tasks: u16,
        until: Until,
        name: &str,
    ) -> Result<Block, Failure> {
        // New keys in every round: what an earlier one left behind must not matter.
        let prefix = format!("{}/{name}", self.rounds);
        let block = measure::block(contender, tasks, until, &prefix);
        self.runtime
            .block_on(block)
            .map_err(|error| format!("{name}: {error}").into())
    }

    fn urls(&self, configuration: &Configuration) -> Vec<String> {
        let nodes = configuration.nodes.into();
        self.fleet.iter().take(nodes).map(Server::url).collect()
    }
}

/// A server that stands still for as long as this lives.
struct Frozen<'a>(&'a Server);

impl<'a> Frozen<'a> {
    fn new(server: &'a Server) -> Result<Self, Failure> {
        server.freeze()?;
        Ok(Self(server))
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        // If it cannot go on it has ended, and the next round says so.
        self.0.thaw().ok();
    }
}

/// What the servers are, in one word.
pub(crate) fn server_version(fleet: &Fleet) -> Result<String, Failure> {
    let server = fleet.iter().next().ok_or("no server")?;
    let info: String = redis::from_redis_value(server.command(&["INFO", "server"])?)?;
    let field = |name| info.lines().find_map(|line| line.strip_prefix(name));
    Ok(match field("valkey_version:") {
        Some(version) => format!("valkey {version}"),
        None => format!("redis {}", field("redis_version:").unwrap_or("unknown")),
    })
}
