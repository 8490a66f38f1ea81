//! What the callers of a client do.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use redlock_quorum::{AcquireError, Acquiring, Guard, Renewal, Wait};

use crate::dice::{Dice, ms};
use crate::history::{Failure, LetGo, Op, Origin, Patience, What};
use crate::holding::Holding;
use crate::pausable::{Polls, Stop};
use crate::plan::{LONGEST_WAIT, Plan, round_timeout};
use crate::trust::Fenced;
use crate::world::{Incarnation, World};

/// What a caller does with the future of its request.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Await,
    DropAfter(Duration),
    DropAfterPolls(u64),
}

/// What keeps a lock alive while it is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keep {
    AsItIs,
    Renewed,
    RenewedFor(Duration),
}

impl Keep {
    fn renewal(self) -> Renewal {
        match self {
            Self::AsItIs => Renewal::off(),
            Self::Renewed => Renewal::every_third(),
            Self::RenewedFor(limit) => Renewal::every_third().max_hold(limit),
        }
    }
}

/// One caller: asks, holds, lets go, until all is over.
pub(crate) async fn work(world: Arc<World>, client: usize) {
    let mut dice = world.fork_dice();
    let stop = world.stop.clone();
    while !stop.is_set() {
        let incarnation = world.client(client);
        let caller = Caller {
            world: Arc::clone(&world),
            client,
            incarnation: incarnation.clone(),
            stop: stop.clone(),
            dice: dice.fork(),
        };
        let turn = incarnation.pause.on(caller.turn());
        if world.plan.abrupt_end {
            tokio::select! {
                biased;
                () = stop.wait() => return,
                () = turn => {}
            }
        } else {
            turn.await;
        }
    }
}

/// Takes a lock that must be there to be taken, and gives it back.
pub(crate) async fn serve(world: Arc<World>, client: usize, resource: usize, limit: Duration) {
    let mut caller = Caller {
        incarnation: world.client(client),
        stop: world.stop.clone(),
        dice: world.fork_dice(),
        world,
        client,
    };
    let ttl = caller.world.plan.ttl;
    let patience = Patience::For(limit);
    if let Some(holding) = caller
        .ask(resource, ttl, patience, Keep::AsItIs, Fate::Await)
        .await
    {
        holding.let_go(LetGo::Release).await;
    }
}

struct Caller {
    world: Arc<World>,
    client: usize,
    incarnation: Incarnation,
    stop: Stop,
    dice: Dice,
}

impl Caller {
    async fn turn(mut self) {
        let think = self.dice.time(0, 2 * self.world.plan.think);
        self.pass(think).await;
        if self.stop.is_set() {
            return;
        }
        if self.dice.below(400) == 0 {
            self.close().await;
            return;
        }
        let resource = self.dice.index(self.world.plan.resources);
        let (ttl, patience, fate) = self.choose();
        let keep = self.keep();
        let Some(holding) = self.ask(resource, ttl, patience, keep, fate).await else {
            return;
        };
        self.hold(holding, ttl, keep).await;
    }

    fn keep(&mut self) -> Keep {
        match self.dice.below(10) {
            0..5 => Keep::AsItIs,
            5..8 => Keep::Renewed,
            _ => Keep::RenewedFor(self.dice.time(100, 5000)),
        }
    }

    fn choose(&mut self) -> (Duration, Patience, Fate) {
        let ttl = if self.dice.chance(75) {
            self.world.plan.ttl
        } else {
            let ttl = ms(self.dice.pick(&[100, 300, 1000, 3000, 6000, 10_000]));
            ttl.min(self.world.plan.trust.max_ttl)
        };
        let patience = match self.dice.below(20) {
            0..8 => Patience::Once,
            8..19 => Patience::For(self.dice.time(0, LONGEST_WAIT)),
            _ => Patience::Forever,
        };
        let fate = match self.dice.below(20) {
            0 | 1 => Fate::DropAfterPolls(self.dice.between(1, 6)),
            2 | 3 => Fate::DropAfter(self.dice.time(0, 3 * self.world.plan.latency + 20)),
            _ if patience == Patience::Forever => Fate::DropAfter(self.dice.time(0, LONGEST_WAIT)),
            _ => Fate::Await,
        };
        (ttl, patience, fate)
    }

    async fn ask(
        &mut self,
        resource: usize,
        ttl: Duration,
        patience: Patience,
        keep: Keep,
        fate: Fate,
    ) -> Option<Holding> {
        let world = Arc::clone(&self.world);
        world.count_call();
        let op = world.next_op();
        let round_timeout = round_timeout(ttl);
        let fenced = match world.plan.trust.fenced[resource] {
            Fenced::No => false,
            Fenced::All => true,
            Fenced::Some => self.dice.chance(50),
        };
        let asked = What::Asked {
            op,
            incarnation: self.incarnation.number,
            origin: Origin::Fresh,
            resource,
            ttl,
            patience,
            round_timeout,
            renews: keep != Keep::AsItIs,
            max_hold: match keep {
                Keep::RenewedFor(limit) => Some(limit),
                Keep::AsItIs | Keep::Renewed => None,
            },
            fenced,
        };
        world.history.push(self.client, asked);
        let wait = match patience {
            Patience::Once => Wait::Once,
            Patience::For(limit) => Wait::For(limit),
            Patience::Forever => Wait::Forever,
        };
        let mut request = self.incarnation.redlock.acquire(Plan::key(resource));
        if fenced {
            request = request.fenced();
        }
        let asking = Asking {
            world: &world,
            client: self.client,
            op: Some(op),
        };
        let request = request.ttl(ttl).wait(wait).renewal(keep.renewal());
        let answer = decide(request.into_future(), fate).await?;
        asking.done();
        self.answered(op, resource, answer).await
    }

    async fn answered(
        &mut self,
        op: Op,
        resource: usize,
        answer: Result<Guard, AcquireError>,
    ) -> Option<Holding> {
        let world = Arc::clone(&self.world);
        let error = match answer {
            Ok(guard) => {
                let incarnation = &self.incarnation;
                return Some(Holding::new(
                    world,
                    self.client,
                    incarnation,
                    op,
                    resource,
                    guard,
                ));
            }
            Err(error) => error,
        };
        let failure = match &error {
            AcquireError::Contended(_) => Failure::Contended,
            AcquireError::NoQuorum(_) => Failure::NoQuorum,
            AcquireError::TooLate(_) => Failure::TooLate,
            AcquireError::Closed => Failure::Closed,
            _ => Failure::Other,
        };
        let text = error.to_string();
        world
            .history
            .push(self.client, What::Failed { op, failure, text });
        if failure == Failure::Closed {
            self.pass(ms(50)).await;
        }
        None
    }

    /// Holds a lock for a while, then lets it go.
    async fn hold(&mut self, mut holding: Holding, ttl: Duration, keep: Keep) {
        let longest = match self.dice.below(20) {
            0..8 => 20,
            8..19 => u64::try_from(ttl.as_millis() / 2).unwrap().min(1500),
            _ => u64::try_from(ttl.as_millis() * 13 / 10)
                .unwrap()
                .min(12_000),
        };
        for _ in 0..self.dice.between(1, 3) {
            let rest = self.dice.time(0, longest);
            self.pass(rest).await;
            holding.look();
            if self.stop.is_set() {
                break;
            }
            if self.dice.chance(45) {
                let ttl = if self.dice.chance(60) {
                    ttl
                } else {
                    self.choose().0
                };
                let drop_after = self.dice.chance(15).then(|| self.dice.time(0, 100));
                holding.extend(ttl, drop_after).await;
                holding.look();
            }
        }
        let how = self.dice.weighed(&[
            (11, LetGo::Release),
            (2, LetGo::ReleaseDropped),
            (6, LetGo::Drop),
            (1, LetGo::Leak),
        ]);
        // A guard that is renewed and forgotten is renewed for ever.
        let how = if how == LetGo::Leak && keep != Keep::AsItIs {
            LetGo::Drop
        } else {
            how
        };
        holding.let_go(how).await;
    }

    async fn close(&mut self) {
        let world = &self.world;
        if self.incarnation.closed.swap(true, Ordering::Relaxed) {
            return;
        }
        world.count_call();
        world.history.push(self.client, What::Close);
        let limit = self.dice.time(0, 1000);
        let drained = self.incarnation.redlock.clone().close(limit).await;
        let complete = drained.is_complete();
        world.history.push(self.client, What::Closed { complete });
        if world.client(self.client).number == self.incarnation.number {
            world.replace(self.client);
        }
    }

    /// Time passes, unless all is over.
    async fn pass(&mut self, time: Duration) {
        tokio::select! {
            biased;
            () = self.stop.wait() => {}
            () = tokio::time::sleep(time) => {}
        }
    }
}

async fn decide(request: Acquiring, fate: Fate) -> Option<Result<Guard, AcquireError>> {
    match fate {
        Fate::Await => Some(request.await),
        Fate::DropAfter(time) => tokio::time::timeout(time, request).await.ok(),
        Fate::DropAfterPolls(polls) => Polls::at_most(polls, request).await,
    }
}

/// A request under way: writes down that it was dropped, unless it is done.
struct Asking<'a> {
    world: &'a Arc<World>,
    client: usize,
    op: Option<Op>,
}

impl Asking<'_> {
    fn done(mut self) {
        self.op = None;
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if let Some(op) = self.op {
            self.world.history.push(self.client, What::Abandoned { op });
        }
    }
}
