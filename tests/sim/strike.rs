//! One fault: how it begins, and how it ends.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use redlock_quorum::testkit::memory::{CutFate, Effect, MemoryLink, Restart};
use redlock_quorum::{Refusal, RestartGuard};

use crate::dice::{Dice, ms};
use crate::faults::{Fault, STRAGGLES};
use crate::history::What;
use crate::plan::{Class, Plan};
use crate::world::{World, set_latency};

/// Where servers keep what they remember of themselves.
const MARKER: &str = "redlock-quorum:node";

/// One fault, with those whom it strikes.
pub(crate) struct Strike {
    pub(crate) world: Arc<World>,
    pub(crate) server: usize,
    pub(crate) client: usize,
    pub(crate) length: Duration,
    pub(crate) dice: Dice,
}

impl Strike {
    fn say(&self, what: impl fmt::Display) {
        let (server, length) = (self.server, self.length.as_millis());
        self.world
            .history
            .fault(format_args!("server {server}: {what} ({length} ms)"));
    }

    fn say_link(&self, what: impl fmt::Display) {
        let client = self.client;
        self.say(format_args!("link to client {client}: {what}"));
    }

    /// After the fault's length, unless all is healed by then.
    fn later(self, undo: impl FnOnce(Self) + Send + 'static) {
        let stop = self.world.stop.clone();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = stop.wait() => {}
                () = tokio::time::sleep(self.length) => undo(self),
            }
        });
    }

    pub(crate) async fn now(mut self, fault: Fault) {
        let world = Arc::clone(&self.world);
        let server = &world.servers[self.server];
        let incarnation = world.client(self.client);
        let link = incarnation.links[self.server].clone();
        match fault {
            Fault::Slow => {
                self.say_link("slow");
                // Longer would outlast the wait for connections whose end nobody confirms.
                let longest = if world.plan.denies_kill[self.server] {
                    100
                } else {
                    400
                };
                set_latency(&link, &mut self.dice, longest);
                let latency = world.plan.latency;
                self.later(move |mut strike| set_latency(&link, &mut strike.dice, latency));
            }
            Fault::RequestsLost => {
                self.say_link("requests do not pass, then are lost");
                link.block_requests(true);
                self.later(move |strike| {
                    link.cut(CutFate::Lost);
                    link.block_requests(false);
                    strike.say_link("requests pass");
                });
            }
            Fault::RepliesLost => {
                self.say_link("replies do not pass");
                link.block_replies(true);
                self.later(move |mut strike| {
                    if strike.dice.chance(50) {
                        link.cut(CutFate::Executed);
                    }
                    link.block_replies(false);
                    strike.say_link("replies pass");
                });
            }
            Fault::Parted => {
                self.say_link("parted");
                link.partition(true);
                if self.dice.chance(50) {
                    // What is on the way now arrives when they are joined.
                    tokio::time::sleep(self.dice.time(1, 150)).await;
                    link.cut(CutFate::Executed);
                }
                if world.is_healed() {
                    link.partition(false);
                }
                self.later(move |strike| {
                    link.partition(false);
                    strike.say_link("joined");
                });
            }
            Fault::Cut => {
                let fates = [CutFate::Executed, CutFate::Lost, CutFate::Either];
                let fate = self.dice.pick(&fates);
                self.say_link(format_args!("cut, what is on the way: {fate:?}"));
                link.cut(fate);
            }
            Fault::Straggler => self.straggler(&link).await,
            Fault::Frozen => {
                self.say("frozen");
                server.freeze();
                self.later(|strike| {
                    strike.world.servers[strike.server].thaw();
                    strike.say("thawed");
                });
            }
            Fault::CrashedEmpty if self.may_forget() => self.crash(Restart::Empty),
            Fault::Crashed | Fault::CrashedEmpty => self.crash(Restart::KeepData),
            Fault::Refusing => {
                let refusal = self
                    .dice
                    .pick(&[Refusal::Loading, Refusal::ReadOnly, Refusal::Oom]);
                self.say(format_args!("refuses with {refusal}"));
                server.refuse(Some(refusal));
                self.later(|strike| {
                    strike.world.servers[strike.server].refuse(None);
                    strike.say("refuses no more");
                });
            }
            Fault::Failing => {
                let effect = self.dice.pick(&[Effect::Applied, Effect::NotApplied]);
                self.say(format_args!("answers with errors, commands are {effect:?}"));
                server.fail_with_error(Some(effect));
                self.later(|strike| {
                    strike.world.servers[strike.server].fail_with_error(None);
                    strike.say("answers again");
                });
            }
            Fault::Demoted => {
                self.say("is a replica");
                server.set_replica(true);
                self.later(|strike| {
                    strike.world.servers[strike.server].set_replica(false);
                    strike.say("is a master");
                });
            }
            Fault::Flushed => {
                self.say("flushed");
                server.flush();
            }
            Fault::KeyLost => {
                let key = Plan::key(self.dice.index(world.plan.resources));
                self.say(format_args!("{key} vanishes"));
                server.delete(&key);
            }
            Fault::ClockForward | Fault::ClockBack => self.set_clock(fault),
            Fault::ClientPaused => self.pause_client(),
            Fault::ClientEnded => self.end_client(),
            Fault::Jump => {
                let by = self.length.min(ms(5000));
                world.history.push(None, What::Jumped { by });
                tokio::time::advance(by).await;
            }
        }
    }

    /// Keeps what is on a connection, cuts it, and lets it arrive after what newer ones carry.
    async fn straggler(mut self, link: &MemoryLink) {
        let Some(held) = link.hold_connection() else {
            return;
        };
        self.say_link("connection held");
        tokio::time::sleep(self.dice.time(1, 60)).await;
        if self.world.is_healed() {
            held.deliver();
            return;
        }
        let denies = self.world.plan.denies_kill[self.server];
        if denies || self.dice.chance(80) {
            link.cut(CutFate::Executed);
        }
        if denies {
            let after = self.dice.time(1, STRAGGLES);
            held.deliver_in(after);
            self.say_link(format_args!(
                "cut, what is held comes in {} ms",
                after.as_millis()
            ));
        } else {
            self.say_link(format_args!("cut, {} commands are held", held.commands()));
            self.world.held.lock().unwrap().push(held);
            self.later(|strike| {
                let mut all = strike.world.held.lock().unwrap();
                if !all.is_empty() {
                    let held = all.remove(0);
                    drop(all);
                    held.deliver();
                    strike.say("the longest held connection is delivered");
                }
            });
        }
    }

    /// A fleet without any marker looks new to a client that has never seen it: `Observed` bears the
    /// loss of all data but the last server's. That is no limit in the second class.
    fn may_forget(&self) -> bool {
        let world = &self.world;
        let last = world.servers.len() - 1;
        let is_founded = || world.servers[last].get(MARKER).is_some();
        world.plan.class == Class::Second
            || world.plan.trust.guard == RestartGuard::Strict
            || (self.server != last && is_founded())
    }

    fn crash(self, how: Restart) {
        self.say(format_args!("crashes, will restart: {how:?}"));
        self.world.servers[self.server].crash();
        self.later(move |strike| {
            let server = &strike.world.servers[strike.server];
            if !server.is_running() {
                server.restart(how);
                strike.say("restarted");
            }
        });
    }

    fn set_clock(mut self, fault: Fault) {
        let millis = i64::try_from(self.dice.between(1, 5000)).unwrap();
        let server = self.server;
        let millis = if fault == Fault::ClockBack {
            -millis
        } else {
            millis
        };
        self.say(format_args!("the clock is set to {millis} ms off"));
        // Whatever it was before: it may have been set back, now or when it was set right.
        self.world.history.push(None, What::SetBack { server });
        self.world.servers[server].set_clock_offset(millis);
    }

    fn pause_client(self) {
        let client = self.client;
        let incarnation = self.world.client(client);
        let number = incarnation.number;
        let paused = What::Paused {
            incarnation: number,
        };
        self.world.history.push(client, paused);
        incarnation.pause.set(true);
        for link in &incarnation.links {
            link.pause_client(true);
        }
        self.later(move |strike| {
            let resumed = What::Resumed {
                incarnation: number,
            };
            strike.world.history.push(client, resumed);
            for link in &incarnation.links {
                link.pause_client(false);
            }
            incarnation.pause.set(false);
        });
    }

    fn end_client(self) {
        let client = self.client;
        let incarnation = self.world.client(client);
        if incarnation.ended.swap(true, Ordering::Relaxed) {
            return;
        }
        self.world.history.push(client, What::Ended);
        for link in &incarnation.links {
            link.end_client();
        }
        self.later(move |strike| {
            if strike.world.client(client).number == incarnation.number {
                strike.world.replace(client);
            }
        });
    }
}
