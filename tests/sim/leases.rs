//! Locks that go from one holder to another without a guard.

use redlock_quorum::{AttachError, ReleaseError};

use crate::callers::{Asking, Caller, Fate, Keep, Wish, decide};
use crate::dice::ms;
use crate::history::{Failure, Origin, Patience, What};
use crate::world::Detached;

impl Caller {
    /// Attaches or releases a lock that somebody detached, or lets it expire; `false`: there is none.
    pub(crate) async fn take_over(&mut self) -> bool {
        let Some(detached) = self.world.next_lease() else {
            return false;
        };
        match self.dice.below(10) {
            0..7 => self.attach(detached).await,
            7..9 => self.disown(detached).await,
            _ => {}
        }
        true
    }

    async fn attach(&mut self, detached: Detached) {
        let ttl = detached.lease.ttl();
        let fate = match self.dice.below(10) {
            0 => Fate::DropAfterPolls(self.dice.between(1, 6)),
            1 => Fate::DropAfter(self.dice.time(0, 3 * self.world.plan.latency + 20)),
            2 | 3 => self.neglect(),
            _ => Fate::Await,
        };
        let wish = Wish {
            resource: detached.resource,
            ttl,
            patience: Patience::Once,
            keep: Keep::Renewed,
            fenced: detached.lease.fencing_token().is_some(),
            fate,
        };
        let from = detached.from;
        let op = self.asks(wish, Origin::Attached { from });
        let world = self.world.clone();
        let asking = Asking::new(&world, self.client, op);
        let redlock = self.incarnation.redlock.clone();
        let Some(answer) = decide(redlock.attach(detached.lease.clone()), fate).await else {
            // The lock is as it was, and the lease can be attached again.
            world.detached(detached);
            return;
        };
        asking.done();
        let error = match answer {
            Ok(guard) => {
                let holding = self.holding(op, wish.resource, guard);
                return Box::pin(self.hold(holding, ttl, wish.keep)).await;
            }
            Err(error) => error,
        };
        let failure = match &error {
            AttachError::Gone { .. } => Failure::Gone,
            AttachError::NoQuorum { .. } => Failure::NoQuorum,
            AttachError::Closed { .. } => Failure::Closed,
            _ => Failure::Other,
        };
        let text = error.to_string();
        let lease = error.into_lease();
        if failure != Failure::Gone {
            world.detached(Detached { lease, ..detached });
        }
        self.failed(op, failure, text).await;
    }

    async fn disown(&mut self, detached: Detached) {
        let world = self.world.clone();
        world.count_call();
        let op = detached.from;
        world.history.push(self.client, What::Disown { op });
        let redlock = self.incarnation.redlock.clone();
        let result = redlock.release_lease(detached.lease).await;
        let holders = world.holders(detached.resource, &detached.token);
        let disowned = What::Disowned {
            op,
            confirmed: result.is_ok(),
            holders,
        };
        world.history.push(self.client, disowned);
        if matches!(result, Err(ReleaseError::Closed)) {
            self.pass(ms(50)).await;
        }
    }
}
