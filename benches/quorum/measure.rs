//! One block: so many tasks doing cycles on one contender, with the time and the CPU it took.
#![expect(
    clippy::disallowed_methods,
    reason = "a benchmark measures in real time"
)]

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};
use tokio::task::JoinSet;

use crate::contender::{Contender, Failure};

/// A block that takes longer has failed.
const LIMIT: Duration = Duration::from_secs(60);

/// When a task has done enough.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Until {
    Cycles(u32),
    Time(Duration),
}

/// What one block took.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) cycles: u32,
    pub(crate) wall: Duration,
    /// Of this process: the servers are processes of their own.
    pub(crate) cpu: Duration,
    pub(crate) acquire: Latency,
    pub(crate) release: Latency,
    pub(crate) cycle: Latency,
}

impl Block {
    pub(crate) fn cycles_per_second(&self) -> f64 {
        f64::from(self.cycles) / self.wall.as_secs_f64()
    }

    pub(crate) fn cpu_seconds_per_10k(&self) -> f64 {
        self.cpu.as_secs_f64() / f64::from(self.cycles) * 10_000.0
    }
}

#[derive(Debug)]
pub(crate) struct Latency(Histogram<u64>);

impl Latency {
    fn of(samples: impl Iterator<Item = Duration>) -> Result<Self, Failure> {
        let mut histogram = Histogram::new(3)?;
        for sample in samples {
            histogram.record(u64::try_from(sample.as_nanos())?)?;
        }
        Ok(Self(histogram))
    }

    pub(crate) fn micros(&self, quantile: f64) -> f64 {
        Duration::from_nanos(self.0.value_at_quantile(quantile)).as_secs_f64() * 1e6
    }
}

/// What one cycle took: its acquire, its release.
type Sample = (Duration, Duration);

/// Runs one block. Each task works on a resource of its own, whose name begins with `prefix`.
pub(crate) async fn block<C: Contender>(
    contender: &C,
    tasks: u16,
    until: Until,
    prefix: &str,
) -> Result<Block, Failure> {
    let mut running = JoinSet::new();
    let (began, cpu_before) = (Instant::now(), cpu());
    for task in 0..tasks {
        running.spawn(cycles(contender.clone(), format!("{prefix}/{task}"), until));
    }
    let mut samples = Vec::new();
    while let Some(done) = tokio::time::timeout(LIMIT, running.join_next()).await? {
        samples.push(done??);
    }
    let (wall, cpu) = (began.elapsed(), cpu().saturating_sub(cpu_before));
    // Only now, so that the histograms disturb nothing.
    let samples = samples.concat();
    Ok(Block {
        cycles: u32::try_from(samples.len())?,
        wall,
        cpu,
        acquire: Latency::of(samples.iter().map(|sample| sample.0))?,
        release: Latency::of(samples.iter().map(|sample| sample.1))?,
        cycle: Latency::of(samples.iter().map(|sample| sample.0 + sample.1))?,
    })
}

async fn cycles<C: Contender>(
    contender: C,
    resource: String,
    until: Until,
) -> Result<Vec<Sample>, Failure> {
    let began = Instant::now();
    let mut samples = Vec::new();
    let mut now = began;
    loop {
        let enough = match until {
            Until::Cycles(cycles) => samples.len() >= usize::try_from(cycles)?,
            Until::Time(time) => now.duration_since(began) >= time,
        };
        if enough {
            return Ok(samples);
        }
        let start = Instant::now();
        let held = contender.acquire(&resource).await?;
        let acquired = Instant::now();
        contender.release(held).await?;
        now = Instant::now();
        samples.push((acquired.duration_since(start), now.duration_since(acquired)));
    }
}

/// The CPU time of this process so far, all threads, in user and in kernel mode.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    Duration::from_secs(part(time.tv_sec)) + Duration::from_nanos(part(time.tv_nsec))
}
