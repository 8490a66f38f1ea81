//! What the callers of a client do.

use std::future::{Future, IntoFuture as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redlock_quorum::{Acquire, AcquireError, Guard, Renewal, Wait};

use crate::dice::{Dice, ms};
use crate::history::{Failure, LetGo, Op, Origin, Patience, What};
use crate::holding::Holding;
use crate::pausable::{Polls, Stop};
use crate::plan::{LONGEST_WAIT, Plan, round_timeout};
use crate::trust::Fenced;
use crate::world::{Incarnation, World};

/// What a caller does with the future of its request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fate {
    Await,
    DropAfter(Duration),
    DropAfterPolls(u64),
    /// It is polled once, and dropped after this time, less than a round's: something else came
    /// first.
    Neglect(Duration),
}

/// What keeps a lock alive while it is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    AsItIs,
    Renewed,
    RenewedFor(Duration),
}

impl Keep {
    pub(crate) fn renewal(self) -> Renewal {
        match self {
            Self::AsItIs => Renewal::off(),
            Self::Renewed => Renewal::every_third(),
            Self::RenewedFor(limit) => Renewal::every_third().max_hold(limit),
        }
    }
}

/// What a caller asks for, and what it does about the answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    pub(crate) resource: usize,
    pub(crate) ttl: Duration,
    pub(crate) patience: Patience,
    pub(crate) keep: Keep,
    pub(crate) fenced: bool,
    pub(crate) fate: Fate,
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
    let wish = Wish {
        resource,
        ttl: caller.world.plan.ttl,
        patience: Patience::For(limit),
        keep: Keep::AsItIs,
        fenced: caller.fences(resource),
        fate: Fate::Await,
    };
    let redlock = caller.incarnation.redlock.clone();
    let request = redlock.acquire(Plan::key(resource));
    if let Some(holding) = caller.ask(wish, Origin::Fresh, request).await {
        holding.let_go(LetGo::Release).await;
    }
}

pub(crate) struct Caller {
    pub(crate) world: Arc<World>,
    pub(crate) client: usize,
    pub(crate) incarnation: Incarnation,
    pub(crate) stop: Stop,
    pub(crate) dice: Dice,
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
        match self.dice.below(20) {
            0..2 => self.nest().await,
            2..4 => self.work_in_a_section().await,
            4..7 if self.take_over().await => {}
            _ => {
                let wish = self.wish();
                let request = self.incarnation.redlock.acquire(Plan::key(wish.resource));
                if let Some(holding) = self.ask(wish, Origin::Fresh, request).await {
                    self.hold(holding, wish.ttl, wish.keep).await;
                }
            }
        }
    }

    pub(crate) fn wish(&mut self) -> Wish {
        let resource = self.dice.index(self.world.plan.resources);
        let (ttl, patience, fate) = self.choose();
        Wish {
            resource,
            ttl,
            patience,
            keep: self.keep(),
            fenced: self.fences(resource),
            fate,
        }
    }

    pub(crate) fn fences(&mut self, resource: usize) -> bool {
        match self.world.plan.trust.fenced[resource] {
            Fenced::No => false,
            Fenced::All => true,
            Fenced::Some => self.dice.chance(50),
        }
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
            2 => Fate::DropAfter(self.dice.time(0, 3 * self.world.plan.latency + 20)),
            3 => self.neglect(),
            _ if patience == Patience::Forever => Fate::DropAfter(self.dice.time(0, LONGEST_WAIT)),
            _ => Fate::Await,
        };
        (ttl, patience, fate)
    }

    pub(crate) fn neglect(&mut self) -> Fate {
        let longest = (3 * self.world.plan.latency + 20).min(50);
        Fate::Neglect(self.dice.time(0, longest))
    }

    /// Writes down what is asked for, and gives it a number.
    pub(crate) fn asks(&self, wish: Wish, origin: Origin) -> Op {
        let world = &self.world;
        world.count_call();
        let op = world.next_op();
        let asked = What::Asked {
            op,
            incarnation: self.incarnation.number,
            origin,
            resource: wish.resource,
            ttl: wish.ttl,
            patience: wish.patience,
            round_timeout: round_timeout(wish.ttl),
            renews: wish.keep != Keep::AsItIs,
            max_hold: match wish.keep {
                Keep::RenewedFor(limit) => Some(limit),
                Keep::AsItIs | Keep::Renewed => None,
            },
            fenced: wish.fenced,
        };
        world.history.push(self.client, asked);
        op
    }

    pub(crate) async fn ask(
        &mut self,
        wish: Wish,
        origin: Origin,
        request: Acquire,
    ) -> Option<Holding> {
        let op = self.asks(wish, origin);
        let world = Arc::clone(&self.world);
        let asking = Asking::new(&world, self.client, op);
        let request = wish.put_to(request).into_future();
        let answer = decide(request, wish.fate).await?;
        asking.done();
        match answer {
            Ok(guard) => Some(self.holding(op, wish.resource, guard)),
            Err(error) => {
                self.refused(op, &error).await;
                None
            }
        }
    }

    pub(crate) fn holding(&self, op: Op, resource: usize, guard: Guard) -> Holding {
        let world = Arc::clone(&self.world);
        Holding::new(world, self.client, &self.incarnation, op, resource, guard)
    }

    pub(crate) async fn refused(&mut self, op: Op, error: &AcquireError) {
        let failure = match error {
            AcquireError::Contended(_) => Failure::Contended,
            AcquireError::NoQuorum(_) => Failure::NoQuorum,
            AcquireError::TooLate(_) => Failure::TooLate,
            AcquireError::Lost(_) => Failure::Lost,
            AcquireError::Closed => Failure::Closed,
            _ => Failure::Other,
        };
        self.failed(op, failure, error.to_string()).await;
    }

    pub(crate) async fn failed(&mut self, op: Op, failure: Failure, text: String) {
        let failed = What::Failed { op, failure, text };
        self.world.history.push(self.client, failed);
        if failure == Failure::Closed {
            self.pass(ms(50)).await;
        }
    }

    /// Holds a lock for a while, then lets it go.
    pub(crate) async fn hold(&mut self, mut holding: Holding, ttl: Duration, keep: Keep) {
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
            (4, LetGo::Detach),
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
    pub(crate) async fn pass(&mut self, time: Duration) {
        tokio::select! {
            biased;
            () = self.stop.wait() => {}
            () = tokio::time::sleep(time) => {}
        }
    }
}

impl Wish {
    /// The request with all that is wished for.
    pub(crate) fn put_to(self, request: Acquire) -> Acquire {
        let wait = match self.patience {
            Patience::Once => Wait::Once,
            Patience::For(limit) => Wait::For(limit),
            Patience::Forever => Wait::Forever,
        };
        let request = request.ttl(self.ttl).wait(wait);
        let request = request.renewal(self.keep.renewal());
        if self.fenced {
            request.fenced()
        } else {
            request
        }
    }
}

pub(crate) async fn decide<F: Future>(request: F, fate: Fate) -> Option<F::Output> {
    match fate {
        Fate::Await => Some(request.await),
        Fate::DropAfter(time) => tokio::time::timeout(time, request).await.ok(),
        Fate::DropAfterPolls(polls) => Polls::at_most(polls, request).await,
        Fate::Neglect(time) => {
            let mut request = Box::pin(request);
            let answer = Polls::at_most(1, request.as_mut()).await;
            if answer.is_none() {
                tokio::time::sleep(time).await;
            }
            answer
        }
    }
}

/// A request under way: writes down that it was dropped, unless it is done.
pub(crate) struct Asking<'a> {
    world: &'a World,
    client: usize,
    op: Op,
    is_done: AtomicBool,
}

impl<'a> Asking<'a> {
    pub(crate) fn new(world: &'a World, client: usize, op: Op) -> Self {
        Self {
            world,
            client,
            op,
            is_done: AtomicBool::new(false),
        }
    }

    pub(crate) fn done(&self) {
        self.is_done.store(true, Ordering::Relaxed);
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if !self.is_done.load(Ordering::Relaxed) {
            let op = self.op;
            self.world.history.push(self.client, What::Abandoned { op });
        }
    }
}
