//! The life of a node's connections: connect, introduce, serve, break, connect again.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisError};
use tokio::sync::mpsc;

use super::handshake::{self, Facts};
use super::ladder::Ladder;
use super::marker::Marking;
use super::pushes::Pushes;
use crate::node::gate::{Gate, MAX_UNANSWERED};
use crate::node::glance::Glance;
use crate::node::reconnect::{self, CONNECT_TIMEOUT};
use crate::node::vigil::Vigil;
use crate::node::{Context, Link, Request, Standing};
use crate::quorum::ledger::{ConnectionId, News};
use crate::quorum::validity::Moment;
use crate::quorum::vote::Unsent;
use crate::telemetry;

/// What drives one node. Its fields outlive every connection.
pub(super) struct Driver {
    pub(super) name: Arc<str>,
    pub(super) client: Client,
    pub(super) queue: mpsc::UnboundedReceiver<Request>,
    pub(super) glances: mpsc::UnboundedReceiver<Glance>,
    pub(super) gate: Arc<Gate>,
    pub(super) context: Context,
    /// How long after a newer connection's first reply an old one counts as finished, where the
    /// server does not confirm it.
    pub(super) finish_after: Duration,
    pub(super) next_id: u64,
    /// Connections that carried requests and may not be finished.
    pub(super) unfinished: Vec<Carried>,
    pub(super) vigil: Vigil,
    pub(super) marking: Marking,
    pub(super) said: Said,
}

/// What has been said once, and is not said again.
#[derive(Debug, Default)]
pub(super) struct Said {
    info: bool,
    marker: bool,
    releases: bool,
    transactions: bool,
    differs: Option<String>,
}

/// A connection that carried requests, as the server knew it.
pub(super) struct Carried {
    id: ConnectionId,
    client_id: Option<i64>,
    run_id: Option<Arc<str>>,
    /// It may have carried extensions that must not be executed after those of a newer one.
    may_shorten: bool,
}

/// A connection that may serve.
pub(super) struct Live {
    pub(super) id: ConnectionId,
    pub(super) connection: MultiplexedConnection,
    pub(super) pushes: Arc<Pushes>,
    /// When the older connections count as finished without the server's word.
    pub(super) finish_at: Option<Moment>,
    pub(super) ladder: Ladder,
    /// It tells when a key changes that was watched.
    pub(super) tells: bool,
}

enum Failure {
    SetAside(Unsent),
    Error(String),
}

impl From<RedisError> for Failure {
    fn from(error: RedisError) -> Self {
        Self::Error(error.to_string())
    }
}

impl Driver {
    pub(super) async fn run(mut self) {
        let mut failures = 0_u32;
        loop {
            match self.connect().await {
                Ok(live) => {
                    failures = 0;
                    self.serve(live).await;
                }
                Err(Failure::SetAside(reason)) => self.link(Link::Down(reason), None),
                Err(Failure::Error(error)) => {
                    self.link(Link::Down(Unsent::NotConnected), Some(error));
                }
            }
            self.vigil.on_away();
            failures = failures.saturating_add(1);
            if !self.pause(failures).await {
                return;
            }
        }
    }

    /// Waits before the next connection; meanwhile fails what was submitted before the link went
    /// down. `false`: nobody can submit any more.
    async fn pause(&mut self, failures: u32) -> bool {
        let pause = reconnect::pause(failures, self.context.entropy.jitter());
        let Standing { link, error, .. } = self.gate.standing();
        let reason = match link {
            Link::Down(reason) | Link::ReleasesOnly(reason) => reason,
            Link::Connecting | Link::Up | Link::Quarantined { .. } => Unsent::NotConnected,
        };
        let mut sleep = std::pin::pin!(tokio::time::sleep(pause));
        loop {
            tokio::select! {
                biased;
                request = self.queue.recv() => {
                    let Some(request) = request else { return false };
                    self.gate.answered(1);
                    request.fail(reason, error.clone());
                }
                Some(glance) = self.glances.recv() => drop(glance),
                () = &mut sleep => return true,
            }
        }
    }

    async fn connect(&mut self) -> Result<Live, Failure> {
        let pushes = Arc::new(Pushes::default());
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            // Our own deadlines decide; a command that is out stays out.
            .set_response_timeout(None)
            .set_pipeline_buffer_size(MAX_UNANSWERED)
            .set_push_sender(pushes.receiver(Arc::clone(&self.context.observer)));
        let client = self.client.clone();
        let marking = &self.marking;
        let asked_at = self.context.clock.now();
        let introduced = async {
            let mut connection = client
                .get_multiplexed_async_connection_with_config(&config)
                .await?;
            let facts = handshake::introduce(&mut connection, marking).await?;
            Ok::<_, RedisError>((connection, facts))
        };
        let (mut connection, facts) = tokio::time::timeout(CONNECT_TIMEOUT, introduced)
            .await
            .map_err(|_elapsed| Failure::Error("no answer to the handshake".into()))??;
        let mut confirmed = self.finish(&mut connection, &facts).await?;
        self.check(&facts)?;
        if !confirmed && self.unfinished.iter().any(|old| old.may_shorten) {
            // It could be asked to confirm it, and cannot any more.
            tokio::time::sleep(self.finish_after).await;
            self.finished(None);
            confirmed = true;
        }
        let ladder = facts.ladder();
        self.next_id = self.next_id.saturating_add(1);
        let id = ConnectionId(self.next_id);
        let now = self.context.clock.now();
        self.vigil
            .on_introduced(facts.run_id.clone(), facts.look, asked_at, now);
        if self.vigil.is_denied() && !std::mem::replace(&mut self.said.marker, true) {
            telemetry::node_marker_denied(&self.name);
        }
        let finish_at = (!confirmed).then(|| now.after(self.finish_after));
        self.unfinished.push(Carried {
            id,
            client_id: facts.client_id,
            run_id: facts.run_id,
            may_shorten: ladder.may_shorten(),
        });
        Ok(Live {
            id,
            connection,
            pushes,
            finish_at,
            ladder,
            tells: facts.tells,
        })
    }

    /// Gets the older connections finished. Returns whether they are.
    async fn finish(
        &mut self,
        connection: &mut MultiplexedConnection,
        facts: &Facts,
    ) -> Result<bool, Failure> {
        let same = |old: &Carried| old.run_id.is_some() && old.run_id == facts.run_id;
        // A connection to a process that has ended is finished; its id may be somebody else's now.
        let restarted =
            |old: &Carried| old.run_id.is_some() && facts.run_id.is_some() && !same(old);
        let remaining: Vec<&Carried> = self
            .unfinished
            .iter()
            .filter(|old| !restarted(old))
            .collect();
        let known: Option<Vec<i64>> = remaining
            .iter()
            .map(|old| old.client_id.filter(|_| same(old)))
            .collect();
        let confirmed = match known {
            Some(ids) if ids.is_empty() => true,
            Some(ids) => tokio::time::timeout(CONNECT_TIMEOUT, handshake::kill(connection, &ids))
                .await
                .map_err(|_elapsed| Failure::Error("no answer to the handshake".into()))??,
            None => false,
        };
        if confirmed && !self.unfinished.is_empty() {
            self.finished(None);
        }
        Ok(confirmed)
    }

    /// All connections before `current` are finished.
    pub(super) fn finished(&mut self, current: Option<ConnectionId>) {
        self.unfinished.retain(|old| {
            let over = Some(old.id) != current;
            if over {
                self.gate.set_finished(old.id);
            }
            !over
        });
        if let Some(through) = self.gate.standing().finished {
            self.context.observer.on_news(News::Finished(through));
        }
    }

    /// Nothing else than a transaction is left to it.
    pub(super) fn needs_transactions(&mut self) {
        if !std::mem::replace(&mut self.said.transactions, true) {
            telemetry::node_needs_transactions(&self.name);
        }
    }

    fn check(&mut self, facts: &Facts) -> Result<(), Failure> {
        // Whoever answers here now, the server that did before does not.
        if let Some(run_id) = &facts.run_id {
            let mut identities = self
                .context
                .identities
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            identities
                .admit(self.context.node, run_id)
                .map_err(|node| Failure::SetAside(Unsent::DuplicateOf { node }))?;
        }
        facts.fitness().map_err(Failure::SetAside)?;
        if facts.evicts {
            telemetry::node_evicts(&self.name);
        }
        if facts.run_id.is_none() && !std::mem::replace(&mut self.said.info, true) {
            telemetry::node_info_denied(&self.name);
        }
        if facts.differs.is_some() && self.said.differs != facts.differs {
            self.said.differs.clone_from(&facts.differs);
            let theirs = facts.differs.as_deref().unwrap_or_default();
            telemetry::node_settings_differ(&self.name, self.marking.ours(), theirs);
        }
        Ok(())
    }

    /// The link of a connection that answers, as far as the node is trusted.
    pub(super) fn up(&self) {
        let (link, reason) = self.vigil.link(self.context.clock.now());
        self.link(link, reason);
    }

    /// From now on the present connection tells when a watched key changes, or it does not.
    pub(super) fn tells(&mut self, tells: bool) {
        self.gate.set_tells(tells);
        if !tells && !std::mem::replace(&mut self.said.releases, true) {
            telemetry::node_does_not_tell(&self.name);
        }
    }

    pub(super) fn link(&self, link: Link, error: Option<String>) {
        let error: Option<Arc<str>> = error.map(Into::into);
        if !self.gate.set_link(link, error.clone()) {
            return;
        }
        match link {
            Link::Up => telemetry::node_up(&self.name),
            Link::ReleasesOnly(reason) | Link::Down(reason) => {
                telemetry::node_not_used(&self.name, reason, error.as_deref());
            }
            Link::Quarantined { decided: true } => {
                telemetry::node_not_used(&self.name, Unsent::Quarantined, error.as_deref());
            }
            Link::Connecting | Link::Quarantined { decided: false } => {}
        }
        self.context.observer.on_link();
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // Also when the runtime ends: what is owed now is left to the ttl.
        self.gate.set_link(Link::Down(Unsent::Closed), None);
        self.queue.close();
        while let Ok(request) = self.queue.try_recv() {
            self.gate.answered(1);
            request.fail(Unsent::Closed, None);
        }
        self.context.observer.on_news(News::Gone);
        self.context.observer.on_link();
    }
}
