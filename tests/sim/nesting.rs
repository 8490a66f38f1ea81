//! One logical thread of work that acquires what it holds.

use std::time::Duration;

use crate::callers::{Caller, Fate, Wish};
use crate::dice::ms;
use crate::history::{LetGo, Op, Origin, Patience};
use crate::holding::Holding;
use crate::plan::Plan;

/// No ttl that is asked for is shorter: it never needs an extension.
const SHORTEST_TTL: Duration = ms(100);

impl Caller {
    /// Acquires a lock some more times, and lets go of all guards, in any order.
    pub(crate) async fn nest(&mut self) {
        let owner = self.incarnation.redlock.owner();
        let wish = self.wish();
        let key = Plan::key(wish.resource);
        let request = owner.acquire(key.as_str());
        let Some(outermost) = self.ask(wish, Origin::Fresh, request).await else {
            return;
        };
        let outer = outermost.op;
        let mut guards = vec![outermost];
        for _ in 0..self.dice.between(2, 6) {
            let rest = self.dice.time(0, 100);
            self.pass(rest).await;
            if self.stop.is_set() {
                break;
            }
            if self.dice.chance(60) {
                let (inner, origin) = self.inner(wish, outer);
                let request = owner.acquire(key.as_str());
                guards.extend(self.ask(inner, origin, request).await);
            } else if guards.len() > 1 {
                self.let_one_go(&mut guards).await;
            } else if self.dice.chance(30) {
                guards[0].extend(wish.ttl, None).await;
            }
            guards.iter().for_each(Holding::look);
        }
        while guards.len() > 1 {
            self.let_one_go(&mut guards).await;
            let rest = self.dice.time(0, 50);
            self.pass(rest).await;
            guards.iter().for_each(Holding::look);
        }
        if let Some(last) = guards.pop() {
            self.hold(last, wish.ttl, wish.keep).await;
        }
    }

    fn inner(&mut self, outer: Wish, op: Op) -> (Wish, Origin) {
        let free = self.dice.chance(70);
        let fate = match self.dice.below(10) {
            0 => Fate::DropAfterPolls(self.dice.between(1, 3)),
            1 => Fate::DropAfter(self.dice.time(0, 3 * self.world.plan.latency)),
            _ => Fate::Await,
        };
        let wish = Wish {
            ttl: if free {
                SHORTEST_TTL
            } else {
                self.world.plan.trust.max_ttl
            },
            patience: Patience::Once,
            fenced: outer.fenced && self.dice.chance(50),
            fate,
            ..outer
        };
        (wish, Origin::Nested { outer: op, free })
    }

    async fn let_one_go(&mut self, guards: &mut Vec<Holding>) {
        let one = guards.swap_remove(self.dice.index(guards.len()));
        let how = self.dice.weighed(&[
            (4, LetGo::Release),
            (1, LetGo::ReleaseDropped),
            (3, LetGo::Drop),
            // It is not the only one: it stays a guard, and is dropped.
            (1, LetGo::Detach),
        ]);
        one.let_go(how).await;
    }
}
