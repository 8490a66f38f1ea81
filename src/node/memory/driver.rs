//! The life of a memory node's connections: connect, introduce, serve, break, connect again.

mod connecting;
mod looking;
mod watching;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::link::{Connection, MemoryLink};
use super::pipe::{self, Reply};
use crate::node::breaker::{Breaker, Due};
use crate::node::gate::Gate;
use crate::node::glance::Glance;
use crate::node::reconnect::{self, CONNECT_TIMEOUT};
use crate::node::vigil::Vigil;
use crate::node::{Context, Link, Request};
use crate::quorum::hold::Command;
use crate::quorum::ledger::{ConnectionId, News};
use crate::quorum::validity::Moment;
use crate::quorum::vote::Unsent;

/// How long after a newer connection's first reply an old one counts as finished, where the
/// server does not confirm it.
pub(super) const FINISH_AFTER: Duration = Duration::from_millis(250);

/// What drives one node. Its fields outlive every connection.
pub(super) struct Driver {
    network: MemoryLink,
    queue: mpsc::UnboundedReceiver<Request>,
    gate: Arc<Gate>,
    vigil: Vigil,
    context: Context,
    next_id: u64,
    /// Connections that may have carried requests and may not be finished.
    unfinished: Vec<Carried>,
    /// Written to the present connection.
    unanswered: VecDeque<Request>,
    /// What is asked for, and what has been written of it to the present connection.
    glances: mpsc::UnboundedReceiver<Glance>,
    glanced: VecDeque<Glance>,
}

/// A connection as the server knew it.
struct Carried {
    id: ConnectionId,
    client_id: u64,
    run_id: Option<Arc<str>>,
}

/// A connection that may serve.
struct Live {
    id: ConnectionId,
    connection: Connection,
    /// When the older connections count as finished without the server's word.
    finish_at: Option<Moment>,
    /// It tells when a key changes that was watched.
    tells: bool,
}

/// Why there is no connection: the reason, and what went wrong.
type Failure = (Unsent, Option<Arc<str>>);

fn failure(error: &str) -> Failure {
    (Unsent::NotConnected, Some(error.into()))
}

impl Driver {
    pub(super) const fn new(
        network: MemoryLink,
        queue: mpsc::UnboundedReceiver<Request>,
        glances: mpsc::UnboundedReceiver<Glance>,
        gate: Arc<Gate>,
        vigil: Vigil,
        context: Context,
    ) -> Self {
        Self {
            network,
            queue,
            gate,
            vigil,
            context,
            next_id: 0,
            unfinished: Vec::new(),
            unanswered: VecDeque::new(),
            glances,
            glanced: VecDeque::new(),
        }
    }

    pub(super) async fn run(mut self) {
        let mut failures = 0_u32;
        loop {
            let deadline = self.context.clock.now().after(CONNECT_TIMEOUT);
            let deadline = self.context.clock.instant(deadline);
            let connected = tokio::time::timeout_at(deadline, self.connect()).await;
            let (reason, error) =
                match connected.unwrap_or_else(|_| Err(failure("no answer to the handshake"))) {
                    Ok(live) => {
                        failures = 0;
                        match self.serve(live).await {
                            Some(ended) => ended,
                            None => return,
                        }
                    }
                    Err(failure) => failure,
                };
            self.vigil.on_away();
            self.go_down(reason, error.as_ref());
            failures = failures.saturating_add(1);
            if !self.pause(failures, reason, error.as_ref()).await {
                return;
            }
        }
    }

    /// Serves requests until the connection ends, and says why it did; `None`: nobody can submit
    /// any more, and all is answered.
    async fn serve(&mut self, live: Live) -> Option<Failure> {
        let Live {
            id,
            mut connection,
            mut finish_at,
            tells,
        } = live;
        self.gate.set_tells(tells);
        self.up();
        self.context.observer.on_news(News::Up);
        let mut breaker = Breaker::default();
        let mut is_wanted = true;
        while is_wanted || !self.unanswered.is_empty() {
            self.look(false, &connection, &mut breaker);
            let deadline = [
                breaker.next_deadline(),
                finish_at,
                self.vigil.next_deadline(),
            ];
            let deadline = deadline.into_iter().flatten().min();
            let timer = self.until(deadline);
            tokio::select! {
                biased;
                reply = connection.receive() => {
                    let now = self.context.clock.now();
                    if matches!(reply, Reply::Reset) {
                        return Some(failure("connection reset"));
                    }
                    self.hear(reply, &mut breaker, now);
                }
                () = self.vigil.chosen(), if self.vigil.awaits_founding() => {}
                request = self.queue.recv(), if is_wanted => match request {
                    Some(request) => self.write(request, id, &connection, &mut breaker),
                    None => is_wanted = false,
                },
                Some(glance) = self.glances.recv() => self.glance(glance, &connection, &mut breaker),
                () = timer, if deadline.is_some() => {
                    let now = self.context.clock.now();
                    if finish_at.is_some_and(|at| at <= now) {
                        finish_at = None;
                        self.finished(Some(id));
                    }
                    match breaker.poll(deadline.unwrap_or(now), now) {
                        Due::Nothing => {}
                        Due::Open => self.link(Link::ReleasesOnly(Unsent::BreakerOpen), Some("no answer")),
                        Due::Replace => return Some(failure("no answer")),
                    }
                    if !breaker.is_open() {
                        self.up();
                    }
                }
            }
        }
        None
    }

    fn write(
        &mut self,
        request: Request,
        id: ConnectionId,
        connection: &Connection,
        breaker: &mut Breaker,
    ) {
        let now = self.context.clock.now();
        if !self.vigil.admits(request.command(), now) {
            self.gate.answered(1);
            request.fail(Unsent::Quarantined, self.gate.standing().error);
            return;
        }
        let Some(request) = request.claim(id) else {
            self.gate.answered(1);
            return;
        };
        if matches!(request.command(), Command::Acquire { .. }) {
            self.look(true, connection, breaker);
        }
        connection.send(pipe::Request::Command {
            command: request.command(),
            keys: request.keys().into(),
            token: request.token().into(),
            watches: request.watches(),
        });
        breaker.on_written(self.context.clock.now());
        self.unanswered.push_back(request);
    }

    fn until(&self, deadline: Option<Moment>) -> tokio::time::Sleep {
        let deadline = deadline.unwrap_or_else(|| self.context.clock.now());
        tokio::time::sleep_until(self.context.clock.instant(deadline))
    }

    /// In this order: nothing new comes in, what is out and what waits is answered, others hear.
    fn go_down(&mut self, reason: Unsent, error: Option<&Arc<str>>) {
        let changed = self.gate.set_link(Link::Down(reason), error.cloned());
        while let Some(request) = self
            .unanswered
            .pop_front()
            .or_else(|| self.queue.try_recv().ok())
        {
            self.gate.answered(1);
            request.fail(reason, error.cloned());
        }
        self.glanced.clear();
        if changed {
            self.context.observer.on_link();
        }
    }

    /// Waits before the next connection; meanwhile fails what was submitted just before the link
    /// went down. `false`: nobody can submit any more.
    async fn pause(&mut self, failures: u32, reason: Unsent, error: Option<&Arc<str>>) -> bool {
        let pause = reconnect::pause(failures, self.context.entropy.jitter());
        let until = self.context.clock.now().after(pause);
        let mut timer = std::pin::pin!(self.until(Some(until)));
        loop {
            tokio::select! {
                biased;
                request = self.queue.recv() => {
                    let Some(request) = request else { return false };
                    self.gate.answered(1);
                    request.fail(reason, error.cloned());
                }
                Some(glance) = self.glances.recv() => drop(glance),
                () = &mut timer => return true,
            }
        }
    }

    fn link(&self, link: Link, error: Option<&str>) {
        if self.gate.set_link(link, error.map(Into::into)) {
            self.context.observer.on_link();
        }
    }
}

impl Drop for Driver {
    /// Also when the runtime ends: what is owed now is left to the ttl.
    fn drop(&mut self) {
        self.queue.close();
        self.go_down(Unsent::Closed, None);
        self.context.observer.on_news(News::Gone);
    }
}
