//! The servers of a seed, its clients, and the networks between them.

use std::collections::VecDeque;
use std::future::{Future as _, IntoFuture as _};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use redlock_quorum::testkit::memory::{HeldConnection, Latency, MemoryLink, MemoryServer, Restart};
use redlock_quorum::{Guard, GuardSet, Lease, Redlock};

use crate::dice::{Dice, ms};
use crate::history::{Op, Recorder, What};
use crate::pausable::{Pause, Stop};
use crate::plan::{LONGEST_TTL, Plan};

/// The longest latency of a message, one way and in milliseconds, once all is healed.
const HEALTHY: u64 = 3;

/// One run of a client's process.
#[derive(Clone)]
pub(crate) struct Incarnation {
    pub(crate) number: usize,
    pub(crate) redlock: Redlock,
    pub(crate) links: Vec<MemoryLink>,
    pub(crate) pause: Pause,
    /// Its engine is gone.
    pub(crate) ended: Arc<AtomicBool>,
    /// It was closed.
    pub(crate) closed: Arc<AtomicBool>,
}

/// A lock on its way to another holder.
#[derive(Clone)]
pub(crate) struct Detached {
    pub(crate) from: Op,
    pub(crate) resource: usize,
    pub(crate) token: String,
    pub(crate) lease: Lease,
}

pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) history: Recorder,
    pub(crate) servers: Vec<MemoryServer>,
    clients: Mutex<Vec<Incarnation>>,
    /// All that ever were, by client.
    all: Mutex<Vec<(usize, Incarnation)>>,
    incarnations_made: AtomicUsize,
    ops: AtomicUsize,
    /// Calls of the interface.
    calls: AtomicUsize,
    faults: AtomicUsize,
    pub(crate) held: Mutex<Vec<HeldConnection>>,
    healed: AtomicBool,
    pub(crate) stop: Stop,
    /// Guards that nobody will ever look at again.
    pub(crate) leaked: Mutex<Vec<Guard>>,
    pub(crate) leaked_sets: Mutex<Vec<GuardSet>>,
    leases: Mutex<VecDeque<Detached>>,
    /// Until when what was leaked or ended may stay.
    leaked_until: Mutex<Duration>,
    dice: Mutex<Dice>,
}

impl World {
    pub(crate) fn new(plan: Plan) -> Arc<Self> {
        let mut dice = Dice::new(plan.seed);
        let history = Recorder::start();
        let servers: Vec<MemoryServer> = plan
            .rates
            .iter()
            .zip(&plan.denies_kill)
            .map(|(&rate, &denies)| {
                let server = if plan.trust.founded {
                    MemoryServer::new(dice.next())
                } else {
                    MemoryServer::unfounded(dice.next())
                };
                server.set_clock_rate(rate);
                server.deny_client_kill(denies);
                server.keep_log(true);
                server
            })
            .collect();
        if let Some(crowd) = &plan.crowd {
            for (server, &denies) in servers.iter().zip(&crowd.denies_tracking) {
                server.deny_tracking(denies);
            }
        }
        let world = Self {
            history,
            servers,
            clients: Mutex::default(),
            all: Mutex::default(),
            incarnations_made: AtomicUsize::new(0),
            ops: AtomicUsize::new(0),
            calls: AtomicUsize::new(0),
            faults: AtomicUsize::new(0),
            held: Mutex::default(),
            healed: AtomicBool::new(false),
            stop: Stop::default(),
            leaked: Mutex::default(),
            leaked_sets: Mutex::default(),
            leases: Mutex::default(),
            leaked_until: Mutex::default(),
            dice: Mutex::new(dice),
            plan,
        };
        for client in 0..world.plan.clients {
            let incarnation = world.incarnate(client);
            world.clients.lock().unwrap().push(incarnation);
        }
        Arc::new(world)
    }

    fn incarnate(&self, client: usize) -> Incarnation {
        let mut dice = self.dice.lock().unwrap().fork();
        let number = self.incarnations_made.fetch_add(1, Ordering::Relaxed);
        let links: Vec<MemoryLink> = self.servers.iter().map(MemoryServer::link).collect();
        for link in &links {
            let longest = match (self.is_healed(), dice.chance(50)) {
                (true, _) => HEALTHY,
                (false, true) => self.plan.latency,
                (false, false) => self.plan.latency / 2,
            };
            set_latency(link, &mut dice, longest);
        }
        let trust = &self.plan.trust;
        let redlock = Redlock::builder()
            .memory_nodes(links.iter().cloned())
            .seed(dice.next())
            .ttl(self.plan.ttl)
            .max_ttl(trust.max_ttl)
            .restart_guard(trust.guard)
            .wall_clock(trust.wall_clock(&mut dice, self.history.now()))
            .build()
            .expect("the settings are sound");
        start(&redlock);
        let incarnation = Incarnation {
            number,
            redlock,
            links,
            pause: Pause::default(),
            ended: Arc::default(),
            closed: Arc::default(),
        };
        let started = What::Started {
            incarnation: number,
        };
        self.history.push(client, started);
        self.all.lock().unwrap().push((client, incarnation.clone()));
        incarnation
    }

    pub(crate) fn client(&self, client: usize) -> Incarnation {
        self.clients.lock().unwrap()[client].clone()
    }

    /// Starts a client again.
    pub(crate) fn replace(&self, client: usize) {
        let fresh = self.incarnate(client);
        self.clients.lock().unwrap()[client] = fresh;
    }

    /// Every incarnation, with its client.
    pub(crate) fn incarnations(&self) -> Vec<(usize, Incarnation)> {
        self.all.lock().unwrap().clone()
    }

    /// Lets go of every client.
    pub(crate) fn forget_clients(&self) {
        self.leaked.lock().unwrap().clear();
        self.leaked_sets.lock().unwrap().clear();
        self.all.lock().unwrap().clear();
        self.clients.lock().unwrap().clear();
    }

    pub(crate) fn fork_dice(&self) -> Dice {
        self.dice.lock().unwrap().fork()
    }

    pub(crate) fn next_op(&self) -> Op {
        self.ops.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn count_call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    pub(crate) fn count_fault(&self) {
        self.faults.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn faults(&self) -> usize {
        self.faults.load(Ordering::Relaxed)
    }

    pub(crate) fn is_healed(&self) -> bool {
        self.healed.load(Ordering::Relaxed)
    }

    pub(crate) fn leaks_until(&self, at: Duration) {
        let mut until = self.leaked_until.lock().unwrap();
        *until = at.max(*until);
    }

    pub(crate) fn leaked_until(&self) -> Duration {
        *self.leaked_until.lock().unwrap()
    }

    /// Somebody may attach it, or it expires.
    pub(crate) fn detached(&self, detached: Detached) {
        self.leaks_until(self.history.now() + LONGEST_TTL);
        self.leases.lock().unwrap().push_back(detached);
    }

    pub(crate) fn next_lease(&self) -> Option<Detached> {
        self.leases.lock().unwrap().pop_front()
    }

    /// On how many servers the key bears the token.
    pub(crate) fn holders(&self, resource: usize, token: &str) -> usize {
        let key = Plan::key(resource);
        self.servers
            .iter()
            .filter(|server| server.get(&key).as_deref() == Some(token))
            .count()
    }

    /// Things may go wrong again.
    pub(crate) fn unsettle(&self) {
        self.stop.clear();
        self.healed.store(false, Ordering::Relaxed);
        let mut dice = self.fork_dice();
        for (_, incarnation) in self.incarnations() {
            for link in &incarnation.links {
                set_latency(link, &mut dice, self.plan.latency);
            }
        }
    }

    /// Ends all faults. The clocks of servers stay as they are.
    pub(crate) fn heal(&self) {
        self.healed.store(true, Ordering::Relaxed);
        for held in self.held.lock().unwrap().drain(..) {
            held.deliver();
        }
        if self.leaked_until() > Duration::ZERO {
            // A detached lock's acquire may have been among it.
            self.leaks_until(self.history.now() + LONGEST_TTL);
        }
        for server in &self.servers {
            server.set_replica(false);
            server.set_cluster(false);
            server.refuse(None);
            server.fail_with_error(None);
            if server.is_running() {
                server.thaw();
            } else {
                server.restart(Restart::KeepData);
            }
        }
        let mut dice = self.fork_dice();
        for (_, incarnation) in self.incarnations() {
            if incarnation.ended.load(Ordering::Relaxed) {
                // What it had sent may arrive only now, and lives for a ttl.
                self.leaks_until(self.history.now() + LONGEST_TTL);
            }
            for link in &incarnation.links {
                link.partition(false);
                link.block_requests(false);
                link.block_replies(false);
                link.pause_client(false);
                set_latency(link, &mut dice, HEALTHY);
            }
            incarnation.pause.set(false);
        }
        for client in 0..self.plan.clients {
            let incarnation = self.client(client);
            let is_gone = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
            if is_gone(&incarnation.ended) || is_gone(&incarnation.closed) {
                self.replace(client);
            }
        }
    }
}

/// Starts a client's engine, and with it its wall clock. Nothing is sent: no node is connected yet.
fn start(redlock: &Redlock) {
    let request = std::pin::pin!(redlock.try_acquire("r0").into_future());
    let mut context = Context::from_waker(Waker::noop());
    assert!(request.poll(&mut context).is_pending());
}

/// Latencies of a link, up to the longest one.
pub(crate) fn set_latency(link: &MemoryLink, dice: &mut Dice, longest: u64) {
    let mut latency = || {
        let fixed = dice.between(0, longest);
        Latency::fixed(ms(fixed)).with_jitter(ms(dice.between(0, longest - fixed)))
    };
    let requests = latency();
    link.set_latency(requests, latency());
}
