//! What goes wrong, when, and for how long.

use std::sync::Arc;

use redlock_quorum::RestartGuard;
use redlock_quorum::testkit::memory::CutFate;

use crate::plan::{Class, Plan};
use crate::strike::Strike;
use crate::world::World;

/// What can go wrong with servers, links and clients. A new one needs a line in [`TABLE`] and an
/// arm in [`Strike::now`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Slow,
    RequestsLost,
    RepliesLost,
    Parted,
    Cut,
    Straggler,
    Frozen,
    Crashed,
    Refusing,
    Failing,
    Demoted,
    ClientPaused,
    ClientEnded,
    Jump,
    CrashedEmpty,
    Flushed,
    KeyLost,
    ClockForward,
    ClockBack,
}

/// How often, and in which class at the earliest (where clients guard against restarts without
/// data, those are of the class of crashes).
const TABLE: [(u64, Fault, Class); 19] = [
    (4, Fault::Slow, Class::Minority),
    (4, Fault::RequestsLost, Class::Minority),
    (4, Fault::RepliesLost, Class::Minority),
    (6, Fault::Parted, Class::Minority),
    (4, Fault::Cut, Class::Minority),
    (8, Fault::Straggler, Class::Minority),
    (4, Fault::Frozen, Class::Minority),
    (4, Fault::Crashed, Class::Minority),
    (2, Fault::Refusing, Class::Minority),
    (3, Fault::Failing, Class::Minority),
    (1, Fault::Demoted, Class::Minority),
    (5, Fault::ClientPaused, Class::First),
    (1, Fault::ClientEnded, Class::First),
    (2, Fault::Jump, Class::First),
    (5, Fault::CrashedEmpty, Class::Second),
    (3, Fault::Flushed, Class::Second),
    (5, Fault::KeyLost, Class::Second),
    (3, Fault::ClockForward, Class::Second),
    (2, Fault::ClockBack, Class::Second),
];

/// For how long after the cut a straggler may be on its way, in milliseconds, where nobody confirms
/// a connection's end: it counts as finished 250 ms after a newer one's first reply, which comes 50
/// ms after the cut at the earliest. What is later breaks the assumption.
pub(crate) const STRAGGLES: u64 = 290;

fn rank(class: Class) -> u8 {
    match class {
        Class::Calm => 0,
        Class::Minority => 1,
        Class::First => 2,
        Class::Second => 3,
    }
}

fn is_possible(plan: &Plan, fault: Fault, class: Class) -> bool {
    let is_guarded = plan.trust.guard != RestartGuard::Off;
    let class = match fault {
        Fault::CrashedEmpty if is_guarded => Class::Minority,
        _ => class,
    };
    let forgets = matches!(fault, Fault::CrashedEmpty | Fault::Flushed);
    rank(class) <= rank(plan.class) && (plan.trust.forgets || !forgets)
}

/// Lets things go wrong until the world is healed.
pub(crate) async fn run(world: Arc<World>) {
    let plan = &world.plan;
    let mut dice = world.fork_dice();
    let possible: Vec<(u64, Fault)> = TABLE
        .iter()
        .filter(|&&(_, fault, class)| is_possible(plan, fault, class))
        .map(|&(weight, fault, _)| (weight, fault))
        .collect();
    let targets = targets(plan);
    if possible.is_empty() || targets == 0 {
        return;
    }
    tokio::spawn(siege(Arc::clone(&world)));
    loop {
        tokio::select! {
            biased;
            () = world.stop.wait() => return,
            () = tokio::time::sleep(dice.time(1, 2 * plan.fault_gap)) => {}
        }
        let fault = dice.weighed(&possible);
        let strike = Strike {
            server: dice.index(targets),
            client: dice.index(plan.clients),
            length: dice.time(1, plan.fault_length),
            dice: dice.fork(),
            world: Arc::clone(&world),
        };
        world.count_fault();
        strike.now(fault).await;
    }
}

/// One server cannot be reached from some moment on until all is healed; what was on the way then
/// arrives, long after those who sent it have let go.
async fn siege(world: Arc<World>) {
    let mut dice = world.fork_dice();
    let targets = targets(&world.plan);
    if targets == 0 || dice.chance(50) {
        return;
    }
    let server = dice.index(targets);
    tokio::select! {
        biased;
        () = world.stop.wait() => return,
        () = tokio::time::sleep(dice.time(4000, 14_000)) => {}
    }
    world.count_fault();
    world
        .history
        .fault(format_args!("server {server}: cannot be reached any more"));
    let clients = (0..world.plan.clients).map(|client| world.client(client));
    let links: Vec<_> = clients
        .map(|incarnation| incarnation.links[server].clone())
        .collect();
    for link in &links {
        link.partition(true);
    }
    tokio::time::sleep(dice.time(1, 250)).await;
    for link in &links {
        link.cut(CutFate::Executed);
        link.partition(!world.is_healed());
    }
}

/// The last thing that goes wrong before all is healed: the connections of some servers are held,
/// cut, and deliver what they carried after the newer ones.
pub(crate) async fn last_wave(world: &World) {
    let mut dice = world.fork_dice();
    let struck: Vec<usize> = (0..targets(&world.plan))
        .filter(|_| dice.chance(60))
        .collect();
    if struck.is_empty() {
        return;
    }
    world.count_fault();
    world.history.fault(format_args!(
        "servers {struck:?}: all connections are held, and cut"
    ));
    let clients: Vec<_> = (0..world.plan.clients)
        .map(|client| world.client(client))
        .collect();
    let links: Vec<_> = struck
        .iter()
        .flat_map(|&server| clients.iter().map(move |client| &client.links[server]))
        .collect();
    let held: Vec<_> = links.iter().map(|link| link.hold_connection()).collect();
    tokio::time::sleep(dice.time(1, 60)).await;
    for (link, held) in links.into_iter().zip(held) {
        link.cut(CutFate::Executed);
        if let Some(held) = held {
            held.deliver_in(dice.time(1, STRAGGLES));
        }
    }
}

/// So many servers may misbehave, the first ones.
fn targets(plan: &Plan) -> usize {
    match plan.class {
        Class::Calm => 0,
        Class::Minority => plan.victims,
        Class::First | Class::Second => plan.servers,
    }
}
