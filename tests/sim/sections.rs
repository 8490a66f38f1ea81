//! Critical sections in the hands of the client.

use std::sync::Arc;
use std::time::Duration;

use redlock_quorum::{Guard, UsingError};

use crate::callers::{Asking, Caller, Fate, decide};
use crate::history::{LetGo, Op, Origin, What};
use crate::holding::announce;
use crate::plan::Plan;
use crate::world::World;

impl Caller {
    /// Runs a section under a lock. It ends, is dropped, or is lost with the lock.
    pub(crate) async fn work_in_a_section(&mut self) {
        let wish = self.wish();
        let longest = u64::try_from(wish.ttl.as_millis()).unwrap();
        let longest = match self.dice.below(10) {
            0..7 => longest.min(60),
            _ => longest.min(1500),
        };
        let rests: Vec<Duration> = (0..self.dice.between(1, 4))
            .map(|_| self.dice.time(0, longest))
            .collect();
        let fate = match wish.fate {
            // Also while the section is at work.
            Fate::DropAfter(time) => Fate::DropAfter(time + self.dice.time(0, longest)),
            fate => fate,
        };
        let op = self.asks(wish, Origin::Fresh);
        let world = Arc::clone(&self.world);
        let (client, resource) = (self.client, wish.resource);
        let incarnation = self.incarnation.clone();
        let asking = Asking::new(&world, client, op);
        let request = wish.put_to(incarnation.redlock.acquire(Plan::key(resource)));
        let using = request.using(async |guard: &Guard| {
            asking.done();
            let (token, _) = announce(&world, client, &incarnation, op, resource, guard);
            let section = Section {
                world: &world,
                client,
                op,
                ended: false,
            };
            for &rest in &rests {
                tokio::time::sleep(rest).await;
                world.history.push(client, What::Worked { op });
            }
            section.end();
            token
        });
        let Some(result) = decide(using, fate).await else {
            return;
        };
        asking.done();
        match result {
            Ok(token) => {
                let holders = world.holders(resource, &token);
                let released = What::Released {
                    op,
                    already_gone: false,
                    deleted: 0,
                    holders,
                };
                world.history.push(client, released);
            }
            Err(UsingError::Acquire(error)) => self.refused(op, &error).await,
            Err(UsingError::Release { .. }) => world.history.push(client, What::Unconfirmed { op }),
            Err(_) => {}
        }
    }
}

/// A section at work: writes down that it was dropped, unless it ends.
struct Section<'a> {
    world: &'a World,
    client: usize,
    op: Op,
    ended: bool,
}

impl Section<'_> {
    fn let_go(&self, how: LetGo) {
        let op = self.op;
        self.world
            .history
            .push(self.client, What::LetGo { op, how });
    }

    fn end(mut self) {
        self.ended = true;
        self.let_go(LetGo::Release);
    }
}

impl Drop for Section<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.let_go(LetGo::Drop);
        }
    }
}
