//! Locks on several resources, in the hands of a caller.

use std::future::IntoFuture as _;
use std::sync::Arc;
use std::time::Duration;

use redlock_quorum::{ExtendError, FencingToken, GuardSet, Wait};

use crate::callers::{Asking, Caller, Wish, decide};
use crate::history::{LetGo, Op, Origin, Patience, Unextended, What};
use crate::pausable::Polls;
use crate::plan::{LONGEST_TTL, Plan};
use crate::world::World;

/// A held set. Dropping it drops the guard.
pub(crate) struct SetHolding {
    world: Arc<World>,
    client: usize,
    op: Op,
    keys: Vec<String>,
    token: String,
    guard: Option<GuardSet>,
}

impl Caller {
    /// Asks for all of these resources, in this order and with what is in there twice.
    pub(crate) async fn ask_for_all(
        &mut self,
        wish: Wish,
        resources: &[usize],
    ) -> Option<SetHolding> {
        let mut sorted = resources.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let wish = Wish {
            resource: sorted[0],
            ..wish
        };
        let op = self.asks(wish, Origin::Fresh);
        let others = sorted[1..].to_vec();
        let world = Arc::clone(&self.world);
        world.history.push(self.client, What::Set { op, others });
        let asking = Asking::new(&world, self.client, op);
        let keys = resources.iter().map(|&resource| Plan::key(resource));
        let mut request = self.incarnation.redlock.acquire_all(keys);
        if wish.fenced {
            request = request.fenced();
        }
        let request = request
            .ttl(wish.ttl)
            .wait(wait(wish.patience))
            .renewal(wish.keep.renewal());
        let answer = decide(request.into_future(), wish.fate).await?;
        asking.done();
        match answer {
            Ok(guard) => Some(self.holding_all(op, &sorted, guard)),
            Err(error) => {
                self.refused(op, &error).await;
                None
            }
        }
    }

    fn holding_all(&self, op: Op, resources: &[usize], guard: GuardSet) -> SetHolding {
        let keys: Vec<String> = resources.iter().copied().map(Plan::key).collect();
        let world = Arc::clone(&self.world);
        let token = guard.token().as_str().to_owned();
        let fence = guard.fencing_token(&keys[0]).map(FencingToken::as_u64);
        let has_all = |of_them: usize| of_them == keys.len();
        let acquired = What::Acquired {
            op,
            token: token.clone(),
            fence,
            valid_until: world.history.since_start(guard.valid_until()),
            holders: on_servers(&world, &keys, &token, has_all),
        };
        world.history.push(self.client, acquired);
        let (client, history) = (self.client, world.history.clone());
        let lost = self.incarnation.pause.on(guard.lost());
        tokio::spawn(async move {
            let cause = lost.await;
            history.push(client, What::Lost { op, cause });
        });
        SetHolding {
            world,
            client,
            op,
            keys,
            token,
            guard: Some(guard),
        }
    }
}

impl SetHolding {
    fn push(&self, what: What) {
        self.world.history.push(self.client, what);
    }

    pub(crate) fn look(&self) {
        let guard = self.guard.as_ref().expect("it is held");
        let (op, loss) = (self.op, guard.loss());
        let valid_until = self.world.history.since_start(guard.valid_until());
        self.push(What::Looked {
            op,
            loss,
            valid_until,
        });
    }

    pub(crate) async fn extend(&mut self, ttl: Duration) {
        self.world.count_call();
        let op = self.op;
        self.push(What::Extend { op, ttl });
        let guard = self.guard.as_ref().expect("it is held");
        match guard.extend(ttl).await {
            Ok(until) => {
                let valid_until = self.world.history.since_start(until);
                self.push(What::Extended {
                    op,
                    ttl,
                    valid_until,
                });
            }
            Err(error) => {
                let why = match error {
                    ExtendError::NoQuorum(_) => Unextended::NoQuorum,
                    ExtendError::Lost(cause) => Unextended::Lost(cause),
                    _ => Unextended::Other,
                };
                self.push(What::NotExtended { op, why });
            }
        }
    }

    pub(crate) async fn let_go(mut self, how: LetGo) {
        self.world.count_call();
        let op = self.op;
        let Some(guard) = self.guard.take() else {
            return;
        };
        self.push(What::LetGo { op, how });
        match how {
            LetGo::Leak => {
                let until = self.world.history.now() + LONGEST_TTL;
                self.world.leaks_until(until);
                self.world.leaked_sets.lock().unwrap().push(guard);
            }
            LetGo::Drop | LetGo::Detach => drop(guard),
            LetGo::ReleaseDropped => drop(Polls::at_most(1, guard.release()).await),
            LetGo::Release => match guard.release().await {
                Ok(released) => self.push(What::Released {
                    op,
                    already_gone: released.already_gone,
                    deleted: released.deleted,
                    holders: on_servers(&self.world, &self.keys, &self.token, |any| any > 0),
                }),
                Err(_) => self.push(What::Unconfirmed { op }),
            },
        }
    }
}

impl Drop for SetHolding {
    fn drop(&mut self) {
        if let Some(guard) = self.guard.take() {
            let (op, how) = (self.op, LetGo::Drop);
            self.push(What::LetGo { op, how });
            drop(guard);
        }
    }
}

/// How many servers have so many of the keys with this token.
fn on_servers(
    world: &World,
    keys: &[String],
    token: &str,
    enough: impl Fn(usize) -> bool,
) -> usize {
    let servers = world.servers.iter();
    servers
        .filter(|server| {
            let is_ours = |key: &&String| server.get(key).as_deref() == Some(token);
            enough(keys.iter().filter(is_ours).count())
        })
        .count()
}

fn wait(patience: Patience) -> Wait {
    match patience {
        Patience::Once => Wait::Once,
        Patience::For(limit) => Wait::For(limit),
        Patience::Forever => Wait::Forever,
    }
}
