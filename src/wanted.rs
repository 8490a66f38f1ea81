//! What a request asks for, and how it gets it.

use std::sync::Arc;
use std::time::Duration;

use crate::client::Redlock;
use crate::contest::Contest;
use crate::driver::engine::Engine;
use crate::error::{AcquireError, ExtendError, InvalidRequest, UsingError};
use crate::held::Held;
use crate::node::reconnect::CONNECT_TIMEOUT;
use crate::owner::Slots;
use crate::quorum::bug;
use crate::quorum::renewal::Renewal;
use crate::quorum::validity::Moment;
use crate::request::Wait;
use crate::resources::Resources;

/// What a request asks for: one resource, or several at once.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) redlock: Redlock,
    pub(crate) resources: Resources,
    pub(crate) ttl: Duration,
    pub(crate) wait: Wait,
    pub(crate) renewal: Renewal,
    pub(crate) owner: Option<Arc<Slots>>,
    pub(crate) fenced: bool,
}

impl Wanted {
    pub(crate) fn new(redlock: Redlock, resources: Resources) -> Self {
        let config = redlock.config();
        let (ttl, wait, fenced) = (config.ttl, config.wait, config.fenced);
        Self {
            redlock,
            resources,
            ttl,
            wait,
            renewal: Renewal::default(),
            owner: None,
            fenced,
        }
    }

    /// Runs `section` while it is held, with a guard that `guard` makes.
    pub(crate) async fn using<G, T>(
        self,
        guard: fn(Arc<Held>) -> G,
        section: impl AsyncFnOnce(&G) -> T,
    ) -> Result<T, UsingError<T>> {
        let held = self.run().await.map_err(UsingError::Acquire)?;
        let outcome = {
            let (guard, lost) = (guard(Arc::clone(&held)), held.lost());
            tokio::select! {
                biased;
                cause = lost, if !bug!(SectionOutlivesLoss) => Err(UsingError::Lost(cause)),
                // It may have blocked: then nothing could drop it.
                output = section(&guard) => match held.loss() {
                    Some(cause) if !bug!(SectionOutlivesLoss) => Err(UsingError::Lost(cause)),
                    Some(_) | None => Ok(output),
                },
            }
        };
        let output = outcome?;
        match held.release().await {
            Ok(_released) => Ok(output),
            Err(source) => Err(UsingError::Release { output, source }),
        }
    }

    /// Acquires it, or nests it in what its owner holds.
    pub(crate) async fn run(self) -> Result<Arc<Held>, AcquireError> {
        let config = self.redlock.config();
        config.check_resources(&self.resources)?;
        config.check_ttl(self.ttl)?;
        if !self.renewal.is_sound(self.ttl) {
            return Err(InvalidRequest::UnsoundRenewal.into());
        }
        let engine = self.redlock.engine()?;
        let began = engine.clock().now();
        let Some(owner) = &self.owner else {
            return self.contend(&engine, began).await;
        };
        let slot = owner.slot(self.resources.keys());
        // If the other one takes too long, only the last attempt is left.
        let _flight = tokio::select! {
            biased;
            flight = slot.flight.lock() => Some(flight),
            () = self.patience(&engine, began) => None,
        };
        if let Some(held) = slot.held().filter(|_| !bug!(NestedAsksAgain)) {
            return self.nest(held, &engine, began).await;
        }
        let held = self.contend(&engine, began).await?;
        slot.hold(&held);
        Ok(held)
    }

    /// How long it waits for another acquisition by the same owner.
    async fn patience(&self, engine: &Engine, began: Moment) {
        let until = match self.wait {
            Wait::Once => {
                engine.ready(began.after(CONNECT_TIMEOUT)).await;
                let round = self.redlock.config().round_timeout(self.ttl);
                engine.clock().now().after(round)
            }
            Wait::For(limit) => began.after(limit),
            Wait::Forever => return std::future::pending().await,
        };
        engine.sleep_until(until).await;
    }

    /// Until when the round lasts that begins at the deadline.
    async fn last_round(&self, engine: &Engine, began: Moment) {
        let begins = match self.wait {
            Wait::Once => engine.clock().now(),
            Wait::For(limit) => began.after(limit),
            Wait::Forever => return std::future::pending().await,
        };
        let round = self.redlock.config().round_timeout(self.ttl);
        engine.sleep_until(begins.after(round)).await;
    }

    /// The owner holds it already.
    async fn nest(
        &self,
        held: Arc<Held>,
        engine: &Engine,
        began: Moment,
    ) -> Result<Arc<Held>, AcquireError> {
        if let Some(cause) = held.loss() {
            return Err(AcquireError::Lost(cause));
        }
        if self.fenced && held.fencing_token().is_none() {
            return Err(InvalidRequest::FencedInPlain.into());
        }
        if self.ttl <= held.ttl() {
            return Ok(held);
        }
        let extended = tokio::select! {
            biased;
            extended = held.extend(self.ttl) => extended,
            // It may have to come after the extensions of others.
            () = self.last_round(engine, began) => {
                Err(ExtendError::NoQuorum(held.unanswered(engine.clock().now().since(began))))
            }
        };
        match extended {
            Ok(_until) => Ok(held),
            Err(ExtendError::Lost(cause)) => Err(AcquireError::Lost(cause)),
            Err(ExtendError::NoQuorum(how)) => Err(AcquireError::NoQuorum(how)),
            Err(ExtendError::InvalidRequest(problem)) => Err(problem.into()),
        }
    }

    async fn contend(
        &self,
        engine: &Arc<Engine>,
        began: Moment,
    ) -> Result<Arc<Held>, AcquireError> {
        let contest = Contest {
            engine,
            wanted: self,
            began,
        };
        let cell = contest.run().await?;
        let (resources, redlock) = (self.resources.clone(), self.redlock.clone());
        Ok(Held::new(cell, resources, redlock))
    }
}
