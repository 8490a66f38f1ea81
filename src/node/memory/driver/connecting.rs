//! A connection before it serves.

use std::sync::{Arc, PoisonError};

use super::{Carried, Driver, FINISH_AFTER, Failure, Live, failure};
use crate::node::memory::link::Connection;
use crate::node::memory::pipe::{self, Reply};
use crate::quorum::ledger::{ConnectionId, News};
use crate::quorum::vote::Unsent;

impl Driver {
    pub(super) async fn connect(&mut self) -> Result<Live, Failure> {
        let mut connection = self.network.connect();
        let reply = connection.receive().await;
        if matches!(reply, Reply::ConnectionRefused) {
            return Err(failure("connection refused"));
        }
        if !matches!(reply, Reply::Accepted) {
            return Err(failure("connection reset"));
        }
        let asked_at = self.context.clock.now();
        connection.send(pipe::Request::Introduce);
        let Reply::Identity(identity) = self.reply(&mut connection).await else {
            return Err(failure("connection reset"));
        };
        let first_reply = self.context.clock.now();
        let confirmed = self
            .finish(&mut connection, identity.run_id.as_ref())
            .await?;
        self.check(&identity)?;
        self.next_id = self.next_id.saturating_add(1);
        let id = ConnectionId(self.next_id);
        let pipe::Identity {
            client_id,
            run_id,
            look,
            tells,
            ..
        } = identity;
        let now = self.context.clock.now();
        self.vigil
            .on_introduced(run_id.clone(), look, asked_at, now);
        self.unfinished.push(Carried {
            id,
            client_id,
            run_id,
        });
        Ok(Live {
            id,
            connection,
            finish_at: (!confirmed).then(|| first_reply.after(FINISH_AFTER)),
            tells,
        })
    }

    /// Gets the older connections finished. Returns whether they are.
    async fn finish(
        &mut self,
        connection: &mut Connection,
        run_id: Option<&Arc<str>>,
    ) -> Result<bool, Failure> {
        // A connection to a process that has ended is finished; its id may be somebody else's now.
        let old: Vec<u64> = self
            .unfinished
            .iter()
            .filter(|old| old.run_id.as_ref() == run_id)
            .map(|old| old.client_id)
            .collect();
        for &client_id in &old {
            connection.send(pipe::Request::KillClient(client_id));
        }
        let mut confirmed = true;
        for _ in &old {
            let reply = self.reply(connection).await;
            if !matches!(reply, Reply::Killed | Reply::KillDenied) {
                return Err(failure("connection reset"));
            }
            confirmed &= matches!(reply, Reply::Killed);
        }
        if confirmed {
            self.finished(None);
        }
        Ok(confirmed)
    }

    /// All connections but the current one are finished.
    pub(super) fn finished(&mut self, current: Option<ConnectionId>) {
        let over = self
            .unfinished
            .iter()
            .map(|old| old.id)
            .filter(|&id| Some(id) != current)
            .max();
        self.unfinished.retain(|old| Some(old.id) == current);
        if let Some(through) = over {
            self.gate.set_finished(through);
            self.context.observer.on_news(News::Finished(through));
        }
    }

    fn check(&self, identity: &pipe::Identity) -> Result<(), Failure> {
        let mut identities = self
            .context
            .identities
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // In any case: another server answers here now than whoever did before.
        let admitted = match &identity.run_id {
            Some(run_id) => identities.admit(self.context.node, run_id),
            None => Ok(()),
        };
        drop(identities);
        if identity.is_cluster {
            return Err((Unsent::Cluster, None));
        }
        if identity.is_replica {
            return Err((Unsent::Replica, None));
        }
        admitted.map_err(|node| (Unsent::DuplicateOf { node }, None))
    }
}
