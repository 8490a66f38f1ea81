//! One seed, from its first request to the last key.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use redlock_quorum::testkit::sabotage::{self, Bug};

use crate::dice::ms;
use crate::history::{History, Phase, What};
use crate::invariants::{self, Violation};
use crate::plan::{LONGEST_TTL, Plan};
use crate::world::World;
use crate::{callers, crowd, faults};

/// A seed goes through so many times of trouble, each with its healing.
const EPOCHS: u32 = 3;
/// Each lasts at least so many seconds, and until there were so many calls.
const SECONDS: u32 = 20;
const CALLS: usize = 67;
/// So long after healing, nothing may be owed that can be paid: a connection takes a second at
/// most to begin, and what it must wait for is a few round trips and the end of its predecessor.
pub(crate) const SETTLES_WITHIN: Duration = ms(2500);
/// After healing every resource must be acquirable within this time: whatever was leaked, or sent
/// by a client that is gone, lives for a ttl, and longer where clocks were set back.
const SERVES_WITHIN: Duration = ms(30_000);

/// What came of a seed.
pub(crate) struct Outcome {
    pub(crate) history: History,
    pub(crate) violations: Vec<Violation>,
    pub(crate) calls: usize,
    pub(crate) faults: usize,
    pub(crate) lasted: Duration,
}

/// Runs a seed, with a deliberate mistake or without.
pub(crate) fn run(seed: u64, bug: Option<Bug>) -> Outcome {
    run_plan(Plan::new(seed), bug)
}

pub(crate) fn run_plan(plan: Plan, bug: Option<Bug>) -> Outcome {
    sabotage::commit(bug);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let outcome = runtime.block_on(live(plan));
    drop(runtime);
    sabotage::commit(None);
    outcome
}

async fn live(plan: Plan) -> Outcome {
    let world = World::new(plan);
    for epoch in 1..=EPOCHS {
        world.unsettle();
        live_through(&world, epoch).await;
        look(&world, Phase::Settled);
    }
    serve(&world).await;
    let expired = world.leaked_until() + LONGEST_TTL / 20 + SETTLES_WITHIN;
    if world.leaked_until() > Duration::ZERO {
        tokio::time::sleep_until(world.history.instant(expired)).await;
    }
    tokio::time::sleep(ms(100)).await;
    look(&world, Phase::Expired);
    end(&world).await;
    Outcome::new(&world)
}

/// Calls and faults, then healing, and the time that it takes to settle.
async fn live_through(world: &Arc<World>, epoch: u32) {
    let mut callers = tokio::task::JoinSet::new();
    for client in 0..world.plan.clients {
        for _ in 0..world.plan.workers {
            callers.spawn(callers::work(Arc::clone(world), client));
        }
    }
    if world.plan.crowd.is_some() {
        for client in 0..world.plan.clients {
            callers.spawn(crowd::rush(Arc::clone(world), client));
        }
        tokio::spawn(crowd::meddle(Arc::clone(world)));
    }
    tokio::spawn(faults::run(Arc::clone(world)));
    let mut seconds = 0;
    let calls = CALLS * usize::try_from(epoch).expect("a few");
    while seconds < SECONDS || world.calls() < calls {
        tokio::time::sleep(ms(1000)).await;
        seconds += 1;
        if seconds > 300 {
            stuck(world, "too few calls in five minutes");
            break;
        }
    }
    faults::last_wave(world).await;
    world.heal();
    phase(world, Phase::Healed);
    world.stop.set();
    let all = async { while callers.join_next().await.is_some() {} };
    if tokio::time::timeout(ms(60_000), all).await.is_err() {
        stuck(world, "a caller, a minute after healing");
        callers.abort_all();
    }
    tokio::time::sleep(SETTLES_WITHIN).await;
}

fn phase(world: &World, phase: Phase) {
    world.history.push(None, What::Phase(phase));
}

fn stuck(world: &World, what: &str) {
    let what = what.to_owned();
    world.history.push(None, What::Stuck { what });
}

/// Looks for what should have settled.
fn look(world: &World, at: Phase) {
    phase(world, at);
    for (number, server) in world.servers.iter().enumerate() {
        let locks = server.keys().into_iter();
        for key in locks.filter(|key| !key.starts_with("redlock-quorum:")) {
            let token = server.get(&key).unwrap_or_default();
            let server = number;
            world.history.push(None, What::Left { server, key, token });
        }
    }
    for (client, incarnation) in world.incarnations() {
        let what = What::Unsettled {
            incarnation: incarnation.number,
            count: incarnation.redlock.unsettled(),
            ended: incarnation.ended.load(Ordering::Relaxed),
        };
        world.history.push(client, what);
        let lines = What::Lines {
            incarnation: incarnation.number,
            count: incarnation.redlock.lines(),
        };
        world.history.push(client, lines);
    }
}

/// Acquires every resource, each client one after the other.
async fn serve(world: &Arc<World>) {
    phase(world, Phase::Serving);
    let resources = world.plan.resources.max(world.plan.clients);
    for turn in 0..resources {
        let (client, resource) = (turn % world.plan.clients, turn % world.plan.resources);
        let served = callers::serve(Arc::clone(world), client, resource, SERVES_WITHIN);
        if tokio::time::timeout(2 * SERVES_WITHIN, served)
            .await
            .is_err()
        {
            stuck(world, "a request after healing");
        }
    }
    tokio::time::sleep(ms(100)).await;
}

/// Closes all clients, and looks whether anything of them is left.
async fn end(world: &Arc<World>) {
    for (client, incarnation) in world.incarnations() {
        let gone =
            incarnation.ended.load(Ordering::Relaxed) || incarnation.closed.load(Ordering::Relaxed);
        if gone {
            continue;
        }
        world.history.push(client, What::Close);
        let drained = incarnation.redlock.close(SETTLES_WITHIN).await;
        let complete = drained.is_complete();
        world.history.push(client, What::Closed { complete });
    }
    world.forget_clients();
    tokio::time::sleep(ms(1500)).await;
    for (server, memory) in world.servers.iter().enumerate() {
        let count = memory.connections();
        world
            .history
            .push(None, What::Connections { server, count });
    }
    // One task carries each server's messages.
    let tasks = tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks();
    let count = tasks.saturating_sub(world.servers.len());
    world.history.push(None, What::TasksLeft { count });
    phase(world, Phase::End);
}

impl Outcome {
    fn new(world: &World) -> Self {
        let history = History {
            plan: world.plan.clone(),
            events: world.history.take(),
            servers: world
                .servers
                .iter()
                .map(|server| server.take_log().into_iter().map(Into::into).collect())
                .collect(),
            requests: OnceLock::new(),
        };
        Self {
            violations: invariants::check(&history),
            calls: world.calls(),
            faults: world.faults(),
            lasted: world.history.now(),
            history,
        }
    }
}
