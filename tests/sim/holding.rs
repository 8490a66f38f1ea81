//! A held lock in the hands of a caller.

use std::sync::Arc;
use std::time::Duration;

use redlock_quorum::{ExtendError, FencingToken, Guard};
use tokio::task::AbortHandle;

use crate::dice::ms;
use crate::history::{LetGo, Op, Unextended, What};
use crate::pausable::Polls;
use crate::plan::LONGEST_TTL;
use crate::world::{Detached, Incarnation, World};

/// So long before the end of validity the nodes are looked at: before the guard counts as lost.
const PROBE_BEFORE: Duration = ms(3);

/// A guard, with those who watch it. Dropping it drops the guard.
pub(crate) struct Holding {
    world: Arc<World>,
    client: usize,
    pub(crate) op: Op,
    resource: usize,
    token: String,
    guard: Option<Guard>,
    probe: Option<AbortHandle>,
}

impl Holding {
    pub(crate) fn new(
        world: Arc<World>,
        client: usize,
        incarnation: &Incarnation,
        op: Op,
        resource: usize,
        guard: Guard,
    ) -> Self {
        let (token, valid_until) = announce(&world, client, incarnation, op, resource, &guard);
        let mut holding = Self {
            world,
            client,
            op,
            resource,
            token,
            guard: Some(guard),
            probe: None,
        };
        holding.probe_before(valid_until);
        holding
    }

    fn push(&self, what: What) {
        self.world.history.push(self.client, what);
    }

    /// Counts the keys shortly before the end of validity, unless the lock is let go before.
    fn probe_before(&mut self, valid_until: Duration) {
        let at = valid_until.saturating_sub(PROBE_BEFORE);
        let world = Arc::clone(&self.world);
        let (client, op, resource) = (self.client, self.op, self.resource);
        let token = self.token.clone();
        let probe = tokio::spawn(async move {
            tokio::time::sleep_until(world.history.instant(at)).await;
            // Time may have jumped.
            if world.history.now() < at + ms(1) {
                let holders = world.holders(resource, &token);
                world.history.push(client, What::Holders { op, holders });
            }
        });
        if let Some(earlier) = self.probe.replace(probe.abort_handle()) {
            earlier.abort();
        }
    }

    fn guard(&self) -> &Guard {
        self.guard.as_ref().expect("it is held")
    }

    pub(crate) fn look(&self) {
        let loss = self.guard().loss();
        let valid_until = self.world.history.since_start(self.guard().valid_until());
        let op = self.op;
        self.push(What::Looked {
            op,
            loss,
            valid_until,
        });
    }

    pub(crate) async fn extend(&mut self, ttl: Duration, drop_after: Option<Duration>) {
        self.world.count_call();
        let op = self.op;
        self.push(What::Extend { op, ttl });
        let mut extending = Extending {
            holding: self,
            ttl,
            done: false,
        };
        let extension = extending.holding.guard().extend(ttl);
        let result = match drop_after {
            None => Some(extension.await),
            Some(time) => tokio::time::timeout(time, extension).await.ok(),
        };
        extending.done = result.is_some();
        drop(extending);
        match result {
            Some(Ok(until)) => {
                let valid_until = self.world.history.since_start(until);
                self.push(What::Extended {
                    op,
                    ttl,
                    valid_until,
                });
                self.probe_before(valid_until);
            }
            Some(Err(error)) => {
                let why = match error {
                    ExtendError::NoQuorum(_) => Unextended::NoQuorum,
                    ExtendError::Lost(cause) => Unextended::Lost(cause),
                    _ => Unextended::Other,
                };
                self.push(What::NotExtended { op, why });
            }
            None => {}
        }
    }

    pub(crate) async fn let_go(mut self, how: LetGo) {
        self.world.count_call();
        let op = self.op;
        let Some(guard) = self.guard.take() else {
            return;
        };
        let (guard, how) = match how {
            LetGo::Detach => match self.detach(guard) {
                Some(guard) => (guard, LetGo::Drop),
                None => return,
            },
            how => (guard, how),
        };
        self.push(What::LetGo { op, how });
        if how == LetGo::Leak {
            // Not forgotten for good: a hundred thousand seeds would fill the memory.
            self.world
                .leaks_until(self.world.history.now() + LONGEST_TTL);
            self.world.leaked.lock().unwrap().push(guard);
            self.probe = None;
            return;
        }
        self.stop_probe();
        match how {
            LetGo::Drop | LetGo::Leak | LetGo::Detach => drop(guard),
            LetGo::ReleaseDropped => drop(Polls::at_most(1, guard.release()).await),
            LetGo::Release => match guard.release().await {
                Ok(released) => self.push(What::Released {
                    op,
                    already_gone: released.already_gone,
                    deleted: released.deleted,
                    holders: self.world.holders(self.resource, &self.token),
                }),
                Err(_) => self.push(What::Unconfirmed { op }),
            },
        }
    }

    /// Hands the lock on to whoever comes first; gives back a guard that cannot be detached.
    fn detach(&mut self, guard: Guard) -> Option<Guard> {
        let op = self.op;
        match guard.detach() {
            Ok(lease) => {
                let how = LetGo::Detach;
                self.push(What::LetGo { op, how });
                self.stop_probe();
                let resource = self.resource;
                self.world.detached(Detached {
                    from: op,
                    resource,
                    token: self.token.clone(),
                    lease,
                });
                None
            }
            Err(guard) => {
                self.push(What::NotDetached { op });
                Some(guard)
            }
        }
    }

    fn stop_probe(&mut self) {
        if let Some(probe) = self.probe.take() {
            probe.abort();
        }
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        if let Some(guard) = self.guard.take() {
            let (op, how) = (self.op, LetGo::Drop);
            self.push(What::LetGo { op, how });
            self.stop_probe();
            drop(guard);
        }
    }
}

/// Writes down that the lock is held, and watches for its loss. Returns its token, and until when it
/// is valid.
pub(crate) fn announce(
    world: &World,
    client: usize,
    incarnation: &Incarnation,
    op: Op,
    resource: usize,
    guard: &Guard,
) -> (String, Duration) {
    let token = guard.token().as_str().to_owned();
    let valid_until = world.history.since_start(guard.valid_until());
    let acquired = What::Acquired {
        op,
        token: token.clone(),
        fence: guard.fencing_token().map(FencingToken::as_u64),
        valid_until,
        holders: world.holders(resource, &token),
    };
    world.history.push(client, acquired);
    let lost = incarnation.pause.on(guard.lost());
    let history = world.history.clone();
    tokio::spawn(async move {
        let cause = lost.await;
        history.push(client, What::Lost { op, cause });
    });
    (token, valid_until)
}

/// An extension under way: writes down that it was dropped, unless it is done.
struct Extending<'a> {
    holding: &'a Holding,
    ttl: Duration,
    done: bool,
}

impl Drop for Extending<'_> {
    fn drop(&mut self) {
        if !self.done {
            let (op, ttl) = (self.holding.op, self.ttl);
            self.holding.push(What::ExtendAbandoned { op, ttl });
        }
    }
}
