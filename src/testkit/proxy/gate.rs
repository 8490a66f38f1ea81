//! What the proxy's handle and its thread share: the listener, the open connections and their faults.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::{Direction, Fault, Scope, Stats};

/// One value for each direction.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Lanes<T> {
    pub(super) requests: T,
    pub(super) replies: T,
}

impl Lanes<Fault> {
    fn set(&mut self, direction: Direction, fault: Fault) {
        if direction != Direction::Replies {
            self.requests = fault;
        }
        if direction != Direction::Requests {
            self.replies = fault;
        }
    }
}

/// A connection as its carrier sees it.
#[derive(Debug)]
pub(super) struct Ticket {
    pub(super) id: u64,
    pub(super) faults: Lanes<watch::Receiver<Fault>>,
    pub(super) cut: watch::Receiver<()>,
    pub(super) cut_clients: watch::Receiver<()>,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) taken_bytes: AtomicU64,
    pub(super) request_bytes: AtomicU64,
    pub(super) reply_bytes: AtomicU64,
    pub(super) swallowed_bytes: AtomicU64,
}

#[derive(Debug)]
pub(super) struct Gate {
    state: Mutex<State>,
    cut: watch::Sender<()>,
    cut_clients: watch::Sender<()>,
    pub(super) counters: Counters,
    runtime: Handle,
}

#[derive(Debug)]
struct State {
    /// None while connections are refused.
    listener: Option<TcpListener>,
    closed: bool,
    /// The accepting task, which has to look again when the listener changes.
    waker: Option<Waker>,
    accepted: u64,
    open: BTreeMap<u64, Lanes<watch::Sender<Fault>>>,
    /// The faults of the connections to come, and of the next one when they differ.
    coming: Lanes<Fault>,
    next: Option<Lanes<Fault>>,
}

impl Gate {
    pub(super) fn new(listener: std::net::TcpListener, runtime: Handle) -> io::Result<Self> {
        let listener = Some(registered(listener, &runtime)?);
        let state = State {
            listener,
            closed: false,
            waker: None,
            accepted: 0,
            open: BTreeMap::new(),
            coming: Lanes::default(),
            next: None,
        };
        Ok(Self {
            state: Mutex::new(state),
            cut: watch::Sender::new(()),
            cut_clients: watch::Sender::new(()),
            counters: Counters::default(),
            runtime,
        })
    }

    pub(super) fn inject(&self, scope: Scope, direction: Direction, fault: Fault) {
        let mut state = self.state();
        if matches!(scope, Scope::All | Scope::Open) {
            for lanes in state.open.values() {
                if direction != Direction::Replies {
                    lanes.requests.send_replace(fault);
                }
                if direction != Direction::Requests {
                    lanes.replies.send_replace(fault);
                }
            }
        }
        match scope {
            Scope::All | Scope::New => {
                state.coming.set(direction, fault);
                state.next = None;
            }
            Scope::Next => {
                let coming = state.coming;
                state.next.get_or_insert(coming).set(direction, fault);
            }
            Scope::Open => {}
        }
    }

    pub(super) fn cut(&self) {
        self.cut.send_replace(());
    }

    pub(super) fn cut_clients(&self) {
        self.cut_clients.send_replace(());
    }

    pub(super) fn refuse(&self) {
        self.change(|state| state.listener = None);
    }

    pub(super) fn listen(&self, addr: SocketAddr) -> io::Result<()> {
        if self.state().listener.is_some() {
            return Ok(());
        }
        let listener = registered(std::net::TcpListener::bind(addr)?, &self.runtime)?;
        self.change(|state| state.listener = Some(listener));
        Ok(())
    }

    pub(super) fn close(&self) {
        self.change(|state| {
            state.listener = None;
            state.closed = true;
        });
    }

    pub(super) fn stats(&self) -> Stats {
        let state = self.state();
        Stats {
            accepted: state.accepted,
            open: state.open.len(),
            taken_bytes: self.counters.taken_bytes.load(Ordering::Relaxed),
            request_bytes: self.counters.request_bytes.load(Ordering::Relaxed),
            reply_bytes: self.counters.reply_bytes.load(Ordering::Relaxed),
            swallowed_bytes: self.counters.swallowed_bytes.load(Ordering::Relaxed),
        }
    }

    /// The next connection, registered in the same step; `None` when the proxy is closed.
    pub(super) fn poll_accept(
        &self,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<(TcpStream, Ticket)>>> {
        let mut state = self.state();
        state.waker = Some(context.waker().clone());
        if state.closed {
            return Poll::Ready(None);
        }
        let Some(listener) = &state.listener else {
            return Poll::Pending;
        };
        listener
            .poll_accept(context)
            .map(|accepted| Some(accepted.map(|(client, _)| (client, self.admit(&mut state)))))
    }

    pub(super) fn forget(&self, id: u64) {
        self.state().open.remove(&id);
    }

    fn admit(&self, state: &mut State) -> Ticket {
        let id = state.accepted;
        state.accepted += 1;
        let faults = state.next.take().unwrap_or(state.coming);
        let (requests, of_requests) = watch::channel(faults.requests);
        let (replies, of_replies) = watch::channel(faults.replies);
        state.open.insert(id, Lanes { requests, replies });
        Ticket {
            id,
            faults: Lanes {
                requests: of_requests,
                replies: of_replies,
            },
            cut: self.cut.subscribe(),
            cut_clients: self.cut_clients.subscribe(),
        }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state();
        change(&mut state);
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn registered(listener: std::net::TcpListener, runtime: &Handle) -> io::Result<TcpListener> {
    listener.set_nonblocking(true)?;
    let _inside = runtime.enter();
    TcpListener::from_std(listener)
}
