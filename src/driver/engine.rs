//! What all locks of one client share: the nodes, the clock, the watchdog, the debts.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};

use super::cell::Cell;
use super::queue::Queue;
use super::timer;
use super::told::Told;
use super::watchdog::Watchdog;
use crate::clock::Clock;
use crate::node::glance::Glimpse;
use crate::node::vigil::Founders;
use crate::node::{Context, Link, Node, Request, Standing};
use crate::quorum::ballot::Hints;
use crate::quorum::hold::Command;
use crate::quorum::trust::Identities;
use crate::quorum::validity::{self, Moment};
use crate::quorum::vote::Unsent;
use crate::token::Entropy;

/// How many releases may be owed to a node that cannot be reached; beyond it acquires are not sent
/// there, so that a dead node costs a bounded amount of memory.
pub(crate) const MAX_DEBTS: usize = 1024;

/// What an engine is made of: nodes that have not been started, with their names, and more.
#[derive(Default)]
pub(crate) struct Parts {
    pub(crate) nodes: Vec<Box<dyn Node>>,
    pub(crate) names: Arc<[Arc<str>]>,
    pub(crate) entropy: Entropy,
    /// What the wall clock shows at the start, where a test has said so: microseconds since 1970.
    pub(crate) wall_clock: Option<u64>,
}

pub(crate) struct Engine {
    nodes: Box<[Peer]>,
    names: Arc<[Arc<str>]>,
    clock: Arc<Clock>,
    entropy: Arc<Entropy>,
    hints: Mutex<Hints>,
    queue: Arc<Queue>,
    runtime: Handle,
    watchdog: Arc<Watchdog>,
    ids: AtomicU64,
    /// Attempts, holds and debts that have not settled. Whatever they wait for keeps them alive.
    unsettled: Mutex<BTreeMap<u64, Weak<Cell>>>,
    closed: AtomicBool,
    /// A link has changed, a lock has settled, or the client was closed.
    changed: Notify,
}

struct Peer {
    node: Box<dyn Node>,
    /// The cells that wait for this node's news, each for a release it owes.
    debtors: Mutex<BTreeMap<u64, Arc<Cell>>>,
    debts: AtomicUsize,
}

impl Engine {
    /// Starts the nodes' drivers and the watchdog on `runtime`.
    pub(crate) fn start(parts: Parts, runtime: Handle) -> Arc<Self> {
        let Parts {
            nodes,
            names,
            entropy,
            wall_clock,
        } = parts;
        let entropy = Arc::new(entropy);
        let identities = Arc::new(Mutex::new(Identities::new(nodes.len())));
        let founders = Arc::new(Founders::new(nodes.len()));
        let peer = |node| Peer {
            node,
            debtors: Mutex::default(),
            debts: AtomicUsize::new(0),
        };
        let entered = runtime.enter();
        let clock = Arc::new(Clock::with_wall(wall_clock));
        drop(entered);
        let engine = Arc::new(Self {
            nodes: nodes.into_iter().map(peer).collect(),
            queue: Arc::new(Queue::new(Arc::clone(&clock), names.len())),
            names,
            clock,
            entropy,
            hints: Mutex::default(),
            runtime,
            watchdog: Arc::default(),
            ids: AtomicU64::new(0),
            unsettled: Mutex::default(),
            closed: AtomicBool::new(false),
            changed: Notify::new(),
        });
        let entered = engine.runtime.enter();
        for (node, peer) in engine.nodes.iter().enumerate() {
            peer.node.start(Context {
                node,
                observer: Arc::new(Told {
                    engine: Arc::downgrade(&engine),
                    node,
                }),
                clock: Arc::clone(&engine.clock),
                entropy: Arc::clone(&engine.entropy),
                identities: Arc::clone(&identities),
                founders: Arc::clone(&founders),
            });
        }
        drop(entered);
        engine
            .runtime
            .spawn(Arc::clone(&engine.watchdog).run(Arc::downgrade(&engine)));
        engine
    }

    pub(crate) fn nodes(&self) -> impl ExactSizeIterator<Item = usize> + use<> {
        0..self.nodes.len()
    }

    pub(crate) fn names(&self) -> &[Arc<str>] {
        &self.names
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn entropy(&self) -> &Entropy {
        &self.entropy
    }

    /// What has been heard of the ballots of others.
    pub(crate) fn hints(&self) -> MutexGuard<'_, Hints> {
        self.hints.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) const fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    pub(crate) fn watchdog(&self) -> &Watchdog {
        &self.watchdog
    }

    pub(crate) fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    /// Waits wherever it is polled, also without a runtime.
    pub(crate) fn sleep_until(
        &self,
        moment: Moment,
    ) -> impl Future<Output = ()> + Send + Sync + use<> {
        timer::sleep_until(moment, Arc::clone(&self.clock), self.runtime.clone())
    }

    /// Was the client closed, or has the runtime ended that drove its nodes?
    pub(crate) fn has_ended(&self) -> bool {
        let is_gone = |peer: &Peer| peer.node.link() == Link::Down(Unsent::Closed);
        self.is_closed() || self.nodes.iter().all(is_gone)
    }

    pub(crate) fn submit(&self, node: usize, request: Request) -> Result<(), Unsent> {
        let Some(peer) = self.nodes.get(node) else {
            return Err(request.refuse(Unsent::NotConnected));
        };
        let is_acquire = matches!(request.command(), Command::Acquire { .. });
        if is_acquire && peer.debts.load(Ordering::Relaxed) >= MAX_DEBTS {
            return Err(request.refuse(Unsent::QueueFull));
        }
        peer.node.submit(request)
    }

    /// See [`Node::look`].
    pub(crate) fn look(
        &self,
        node: usize,
        key: &str,
    ) -> Result<oneshot::Receiver<Glimpse>, Unsent> {
        let peer = self.nodes.get(node).ok_or(Unsent::NotConnected)?;
        peer.node.look(key)
    }

    pub(crate) fn link(&self, node: usize) -> Link {
        let peer = self.nodes.get(node);
        peer.map_or(Link::Down(Unsent::NotConnected), |peer| peer.node.link())
    }

    /// See [`Node::tells`].
    pub(crate) fn tells(&self, node: usize) -> bool {
        self.nodes.get(node).is_some_and(|peer| peer.node.tells())
    }

    pub(crate) fn standing(&self, node: usize) -> Standing {
        self.nodes.get(node).map_or_else(
            || Standing {
                link: Link::Down(Unsent::NotConnected),
                finished: None,
                error: None,
            },
            |peer| peer.node.standing(),
        )
    }

    /// Waits until a quorum of nodes can be asked, until no more will come up in a moment, or until
    /// `limit`: the first round should not be lost to a handshake, or to the founding of a new fleet.
    pub(crate) async fn ready(&self, limit: Moment) {
        let decided = || {
            let undecided = Link::Quarantined { decided: false };
            let is_coming = |link| link == Link::Connecting || link == undecided;
            self.has_quorum() || !self.links().any(is_coming) || self.is_closed()
        };
        self.until(decided, limit).await;
    }

    /// Waits until a quorum of nodes can be asked, however long that takes, or until `limit`. Returns
    /// whether one can be.
    pub(crate) async fn connected(&self, limit: Moment) -> bool {
        let decided = || self.has_quorum() || self.has_ended();
        self.until(decided, limit).await;
        self.has_quorum() && !self.has_ended()
    }

    fn has_quorum(&self) -> bool {
        let up = self.links().filter(|&link| link == Link::Up).count();
        up >= validity::quorum(self.nodes.len())
    }

    fn links(&self) -> impl Iterator<Item = Link> {
        self.nodes.iter().map(|peer| peer.node.link())
    }

    /// Waits until every node has been connected once or could not be, or until `limit`.
    pub(crate) async fn introduced(&self, limit: Moment) {
        let is_coming = |link| link == Link::Connecting;
        self.until(|| !self.links().any(is_coming), limit).await;
    }

    async fn until(&self, decided: impl Fn() -> bool, limit: Moment) {
        if decided() {
            return;
        }
        let mut limit = std::pin::pin!(self.sleep_until(limit));
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if decided() {
                return;
            }
            tokio::select! {
                biased;
                () = changed => {}
                () = &mut limit => return,
            }
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// No new attempt will begin; returns the locks that live.
    pub(crate) fn close(&self) -> Vec<Arc<Cell>> {
        self.closed.store(true, Ordering::Release);
        self.changed.notify_waiters();
        self.living()
    }

    /// Every attempt, hold and debt that has not settled.
    pub(crate) fn living(&self) -> Vec<Arc<Cell>> {
        self.unsettled_cells()
            .values()
            .filter_map(Weak::upgrade)
            .collect()
    }

    /// Waits until `look` finds something; looks after every change of a link and whenever a lock
    /// settles.
    pub(crate) async fn wait<R>(&self, mut look: impl FnMut() -> Option<R>) -> R {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(found) = look() {
                return found;
            }
            changed.await;
        }
    }

    pub(crate) fn on_begun(&self, cell: &Arc<Cell>) {
        let living = Arc::downgrade(cell);
        self.unsettled_cells().insert(cell.id(), living);
    }

    pub(crate) fn on_settled(&self, id: u64) {
        self.unsettled_cells().remove(&id);
    }

    /// A lock may have changed: whoever closes the client wants to know.
    pub(crate) fn on_progress(&self) {
        if self.is_closed() {
            self.changed.notify_waiters();
        }
    }

    /// How many attempts, holds and debts have not settled.
    pub(crate) fn unsettled(&self) -> usize {
        self.unsettled_cells().len()
    }

    fn unsettled_cells(&self) -> MutexGuard<'_, BTreeMap<u64, Weak<Cell>>> {
        self.unsettled
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Does anybody hold or wait for a lock?
    pub(crate) fn is_busy(&self) -> bool {
        self.unsettled() > 0 || !self.queue.is_empty()
    }

    /// Something has changed that whoever waits by [`Engine::wait`] may look for.
    pub(crate) fn on_changed(&self) {
        self.changed.notify_waiters();
    }

    /// The cells that are told this node's news.
    pub(crate) fn debtors(&self, node: usize) -> Vec<Arc<Cell>> {
        let peer = self.nodes.get(node);
        peer.map_or_else(Vec::new, |peer| peer.debtors().values().cloned().collect())
    }

    /// From now on the cell is told this node's news.
    pub(crate) fn tell(&self, node: usize, cell: &Arc<Cell>) {
        if let Some(peer) = self.nodes.get(node) {
            let mut debtors = peer.debtors();
            debtors.insert(cell.id(), Arc::clone(cell));
            peer.debts.store(debtors.len(), Ordering::Relaxed);
        }
    }

    pub(crate) fn tell_no_more(&self, node: usize, id: u64) {
        if let Some(peer) = self.nodes.get(node) {
            let mut debtors = peer.debtors();
            let removed = debtors.remove(&id);
            peer.debts.store(debtors.len(), Ordering::Relaxed);
            drop(debtors);
            drop(removed);
        }
    }
}

impl Peer {
    fn debtors(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Cell>>> {
        self.debtors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.watchdog.stop();
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("nodes", &self.names)
            .field("unsettled", &self.unsettled())
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}
