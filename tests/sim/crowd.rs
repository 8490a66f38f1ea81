//! Many who want the same at the same time: lines within clients, sets of resources that overlap,
//! and somebody else's client between them.

use std::sync::Arc;
use std::time::Duration;

use crate::callers::{Caller, Fate, Keep, Wish};
use crate::dice::{Dice, ms};
use crate::history::{LetGo, Origin, Patience, What};
use crate::plan::{Class, Plan};
use crate::trust::Fenced;
use crate::world::World;

/// How a seed is crowded.
#[derive(Clone, Debug)]
pub(crate) struct Crowd {
    /// How many tasks of one client rush at once, at most.
    tasks: u64,
    /// The time from one rush to the next, in milliseconds.
    period: u64,
    /// Another client, not one of ours, locks and unlocks with plain keys.
    foreign: bool,
    /// Servers that do not tell of changes.
    pub(crate) denies_tracking: Vec<bool>,
}

impl Crowd {
    /// Whether a seed is crowded, and its class, if that is decided here: many are calm, since only
    /// then is it certain who has to be woken by when.
    pub(crate) fn draw(seed: u64) -> Option<(Dice, Option<Class>)> {
        let mut dice = Dice::new(seed ^ 0xc0_0d);
        let is_crowded = dice.chance(35);
        let class = dice.chance(50).then_some(Class::Calm);
        is_crowded.then_some((dice, class))
    }

    pub(crate) fn new(mut dice: Dice, servers: usize, clients: usize) -> Self {
        let some_deny = dice.chance(40);
        Self {
            tasks: if clients > 4 { 3 } else { dice.between(3, 6) },
            period: dice.pick(&[4000, 5000, 7000]),
            foreign: dice.chance(50),
            denies_tracking: (0..servers).map(|_| some_deny && dice.chance(50)).collect(),
        }
    }

    /// The next rush: its number, and its time.
    fn next_rush(&self, now: Duration) -> (u64, Duration) {
        let number = u64::try_from(now.as_millis()).expect("a few minutes") / self.period + 1;
        (number, ms(number * self.period))
    }
}

/// Comes and goes in rushes, until all is over.
pub(crate) async fn rush(world: Arc<World>, client: usize) {
    let Some(crowd) = world.plan.crowd.clone() else {
        return;
    };
    let (mut dice, stop) = (world.fork_dice(), world.stop.clone());
    loop {
        let (number, at) = crowd.next_rush(world.history.now());
        tokio::select! {
            biased;
            () = stop.wait() => return,
            () = tokio::time::sleep_until(world.history.instant(at)) => {}
        }
        let hot = usize::try_from(number).expect("a few") % world.plan.resources;
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..dice.between(2, crowd.tasks) {
            let incarnation = world.client(client);
            let caller = Caller {
                world: Arc::clone(&world),
                client,
                incarnation: incarnation.clone(),
                stop: stop.clone(),
                dice: dice.fork(),
            };
            tasks.spawn(incarnation.pause.on(caller.join_in(hot)));
        }
        let all = async { while tasks.join_next().await.is_some() {} };
        if world.plan.abrupt_end {
            tokio::select! {
                biased;
                () = stop.wait() => return,
                () = all => {}
            }
        } else {
            all.await;
        }
        if stop.is_set() {
            return;
        }
    }
}

impl Caller {
    async fn join_in(mut self, hot: usize) {
        let delay = self.dice.time(0, 30);
        self.pass(delay).await;
        if self.stop.is_set() {
            return;
        }
        let mut wish = self.impatient_or_not(hot);
        match self.dice.below(20) {
            0..3 => {
                wish.patience = Patience::Once;
                self.want(wish).await;
            }
            3..10 if self.world.plan.resources > 1 => {
                let resources = self.set_with(hot);
                self.want_all(wish, &resources).await;
            }
            _ => self.want(wish).await,
        }
    }

    fn impatient_or_not(&mut self, resource: usize) -> Wish {
        let patience = if self.dice.chance(60) {
            Patience::For(self.dice.time(0, 4000))
        } else {
            Patience::Forever
        };
        let fate = match self.dice.below(20) {
            0..3 => Fate::DropAfterPolls(self.dice.between(1, 6)),
            3..7 => Fate::DropAfter(self.dice.time(0, 400)),
            _ => Fate::Await,
        };
        let ttl = self.dice.pick(&[300, 1000, 3000]);
        Wish {
            resource,
            ttl: ms(ttl).min(self.world.plan.trust.max_ttl),
            patience,
            keep: if self.dice.chance(70) {
                Keep::AsItIs
            } else {
                Keep::Renewed
            },
            fenced: self.fences(resource),
            fate,
        }
    }

    /// Two or three resources, one of them this, in any order, and some of them twice.
    fn set_with(&mut self, hot: usize) -> Vec<usize> {
        let mut set = vec![hot];
        for _ in 0..self.dice.between(1, 2) {
            set.push(self.dice.index(self.world.plan.resources));
        }
        let place = self.dice.index(set.len());
        set.swap(0, place);
        set
    }

    async fn want(&mut self, wish: Wish) {
        let request = self.incarnation.redlock.acquire(Plan::key(wish.resource));
        let Some(mut holding) = self.ask(wish, Origin::Fresh, request).await else {
            return;
        };
        if let Some(extension) = self.work(wish.ttl).await {
            holding.extend(extension, None).await;
        }
        holding.look();
        holding.let_go(self.leave(wish)).await;
    }

    async fn want_all(&mut self, mut wish: Wish, resources: &[usize]) {
        // A resource that all others fence is fenced in sets, too.
        let fences = &self.world.plan.trust.fenced;
        wish.fenced |= resources.iter().any(|&one| fences[one] == Fenced::All);
        let Some(mut holding) = self.ask_for_all(wish, resources).await else {
            return;
        };
        if let Some(extension) = self.work(wish.ttl).await {
            holding.extend(extension).await;
        }
        let how = match self.leave(wish) {
            LetGo::Detach => LetGo::Drop,
            how => how,
        };
        holding.look();
        holding.let_go(how).await;
    }

    /// Does what the lock is for. Returns by how much to extend it, if that is wanted.
    async fn work(&mut self, ttl: Duration) -> Option<Duration> {
        let longest = self.dice.weighed(&[(14, 15), (5, 150), (1, 500)]);
        let rest = self.dice.time(0, longest);
        self.pass(rest).await;
        self.dice.chance(10).then_some(ttl)
    }

    fn leave(&mut self, wish: Wish) -> LetGo {
        let may_leak = wish.keep == Keep::AsItIs && wish.ttl <= ms(1000);
        self.dice.weighed(&[
            (20, LetGo::Release),
            (4, LetGo::ReleaseDropped),
            (12, LetGo::Drop),
            (1, LetGo::Detach),
            (if may_leak { 2 } else { 0 }, LetGo::Leak),
        ])
    }
}

/// A client that is not ours: it sets plain keys where nothing stands, and deletes them.
pub(crate) async fn meddle(world: Arc<World>) {
    let Some(crowd) = world.plan.crowd.clone().filter(|crowd| crowd.foreign) else {
        return;
    };
    let (mut dice, stop) = (world.fork_dice(), world.stop.clone());
    while !stop.is_set() {
        let (number, at) = crowd.next_rush(world.history.now());
        // Before the rush, while it lasts, or after it.
        let at = at + dice.time(0, 600);
        tokio::select! {
            biased;
            () = stop.wait() => return,
            () = tokio::time::sleep_until(world.history.instant(at)) => {}
        }
        let resource = usize::try_from(number).expect("a few") % world.plan.resources;
        let key = Plan::key(resource);
        if world
            .servers
            .iter()
            .any(|server| server.get(&key).is_some())
        {
            continue;
        }
        let ours = format!("foreign-{number}");
        let ttl = dice.chance(70).then_some(ms(10_000));
        for server in &world.servers {
            server.set(&key, &ours, ttl);
        }
        let holds = true;
        world.history.push(None, What::Foreign { resource, holds });
        tokio::select! {
            biased;
            () = stop.wait() => {}
            () = tokio::time::sleep(dice.time(0, 700)) => {}
        }
        let holds = false;
        world.history.push(None, What::Foreign { resource, holds });
        for server in &world.servers {
            if server.get(&key).as_deref() == Some(ours.as_str()) {
                server.delete(&key);
            }
        }
    }
}
