//! How one event is carried out: the part that the driver and the connections have in it.

use std::cell::Cell;

use super::super::hold::{Hold, Outbox};
use super::super::ledger::{Carrier, ConnectionId, News};
use super::super::round::Verdict;
use super::super::validity::{self, Moment};
use super::channel::{Channel, Wire};
use super::op::{Answer, Op};
use super::properties::{self, Violation};
use super::rules::Rule;
use super::world::{Attempt, Stage, World};
use super::{TERMS, TTL, name};

impl World {
    /// Feeds a hold one input, as the driver does; then the hold is told the news that it needs now.
    /// Returns the nodes where it mattered whether a command was unwritten.
    pub(super) fn feed(
        &mut self,
        a: usize,
        unwritten: u8,
        input: impl FnOnce(&mut Hold, Moment, &mut dyn Outbox),
    ) -> Result<u8, Violation> {
        let now = self.now();
        let quarantined = self.quarantined();
        let Attempt { hold, channels, .. } = &mut self.attempts[a];
        let (had_ended, before) = (hold.is_releasing(), hold.verdict());
        let mut wire = Wire {
            rule: self.plan.rule,
            withdraw: self.plan.withdraw,
            channels: &mut channels[..self.plan.nodes],
            quarantined,
            ended: had_ended,
            unwritten,
            asked: Cell::new(0),
            kept_back: 0,
            violation: None,
        };
        input(hold, now, &mut wire);
        let Wire {
            asked,
            kept_back,
            violation,
            ..
        } = wire;
        if let Some(violation) = violation.filter(|_| self.plan.cleanup) {
            return Err(violation);
        }
        let after = hold.verdict();
        if had_ended && !hold.is_releasing() || before.is_some() && before != after {
            return Err(Violation::Undone);
        }
        let given_up = hold.is_releasing() && after.is_none();
        if !had_ended && before.is_none() && !given_up {
            if !properties::verdict_is_right(hold.round(), self.timing_out) {
                return Err(Violation::Verdict);
            }
            if let Some(verdict) = after {
                self.note(|| format!("   {}'s round is decided: {verdict:?}", name(a)));
            }
            let is_late = after == Some(Verdict::TooLate);
            if after == Some(Verdict::Won) || is_late && self.plan.rule == Rule::LateGrantCounts {
                self.intrude(a);
                self.on_granted(a)?;
            }
        }
        for node in 0..self.plan.nodes {
            if kept_back & (1 << node) != 0 {
                self.hear(a, node, Op::Release, Answer::NOT_OURS, 0)?;
            }
        }
        self.listen(a)?;
        Ok(asked.get())
    }

    /// Signs the attempt up for the news it needs, and tells it what it would have been told.
    fn listen(&mut self, a: usize) -> Result<(), Violation> {
        if self.plan.rule == Rule::NewsIsNotTold {
            return Ok(());
        }
        let mut missed = Vec::new();
        let Attempt { hold, channels, .. } = &mut self.attempts[a];
        for (node, channel) in channels.iter_mut().enumerate().take(self.plan.nodes) {
            let needs = hold.needs_news(node);
            if needs && !channel.told {
                if channel.finished > 0 {
                    let through = ConnectionId(channel.finished.into());
                    missed.push((node, News::Finished(through)));
                }
                if channel.up {
                    missed.push((node, News::Up));
                }
            }
            channel.told = needs;
        }
        for (node, news) in missed {
            self.tell(a, node, news)?;
        }
        Ok(())
    }

    pub(super) fn tell(&mut self, a: usize, node: usize, news: News) -> Result<(), Violation> {
        self.feed(a, 0, |hold, now, outbox| {
            hold.on_news(node, news, now, outbox);
        })?;
        Ok(())
    }

    fn tell_if_told(&mut self, a: usize, node: usize, news: News) -> Result<(), Violation> {
        if self.attempts[a].channels[node].told {
            self.tell(a, node, news)?;
        }
        Ok(())
    }

    pub(super) fn take(&mut self, a: usize, unwritten: u8) -> Result<u8, Violation> {
        let now = self.now();
        let mut verdict = Some(Verdict::Won);
        let mut asked = 0;
        let rule = self.plan.rule;
        if let Rule::Quorum(_) = rule {
            let until = self.attempts[a].hold.round().valid_until();
            self.attempts[a].believes_until = Some(until);
        } else if rule == Rule::ValidityFromReply {
            self.attempts[a].believes_until = Some(validity::valid_until(now, TTL));
        } else if rule != Rule::NoLastLook {
            asked = self.feed(a, unwritten, |hold, now, outbox| {
                verdict = hold.take(now, outbox);
            })?;
        }
        let attempt = &mut self.attempts[a];
        if verdict == Some(Verdict::Won) {
            attempt.taken = true;
            if attempt.believes_until.is_none() && attempt.hold.loss(now).is_some() {
                return Err(Violation::HandedOutLate);
            }
        }
        self.note(|| format!("   it is handed out: {verdict:?}"));
        Ok(asked)
    }

    pub(super) fn execute(&mut self, a: usize, node: usize) -> Result<(), Violation> {
        let op = self.attempts[a].channels[node].requests.pop();
        let op = op.expect("a command to execute");
        let answer = self.run(a, node, op)?;
        self.attempts[a].channels[node].replies.push((op, answer));
        Ok(())
    }

    /// The node executes a command.
    pub(super) fn run(&mut self, a: usize, node: usize, op: Op) -> Result<Answer, Violation> {
        let before = self.nodes[node].key;
        let answer = if self.plan.stubborn && op.is_release() {
            Answer::Refused
        } else {
            self.nodes[node].execute(self.plan, a, op, self.now)
        };
        let place = node + 1;
        let owner = before.map_or("nobody", |(owner, _)| name(owner));
        self.note(|| {
            format!(
                "node {place} (locked by {owner}) executes {}'s {op}: {answer}",
                name(a)
            )
        });
        let foreign = before.is_some_and(|(owner, _)| owner != a);
        if op.is_release() && foreign && self.nodes[node].key != before {
            return Err(Violation::ForeignRelease);
        }
        if op.is_acquire() {
            self.attempts[a].counted[node] = self.nodes[node].fence;
        }
        if self.is_risen(a, node) {
            return Err(Violation::Risen { attempt: a, node });
        }
        Ok(answer)
    }

    pub(super) fn refuse(&mut self, a: usize, node: usize) {
        self.refusals_left -= 1;
        let channel = &mut self.attempts[a].channels[node];
        let op = channel.requests.pop().expect("a command to refuse");
        channel.replies.push((op, Answer::Refused));
    }

    /// A heal is found to be unwanted just before it is written.
    pub(super) fn skip(&mut self, a: usize, node: usize) {
        let channel = &mut self.attempts[a].channels[node];
        let op = channel.requests.pop().expect("a heal");
        channel.replies.push((op, Answer::Unwritten));
    }

    pub(super) fn deliver(
        &mut self,
        a: usize,
        node: usize,
        unwritten: u8,
    ) -> Result<u8, Violation> {
        let attempt = &mut self.attempts[a];
        let channel = &mut attempt.channels[node];
        let (op, answer) = channel.replies.pop().expect("a reply");
        let extending = attempt.hold.is_extending();
        self.note(|| {
            let name = name(a);
            format!("{name} hears of its {op} from node {}: {answer}", node + 1)
        });
        let asked = self.hear(a, node, op, answer, unwritten)?;
        let attempt = &self.attempts[a];
        let extended = extending
            && !attempt.hold.is_extending()
            && !attempt.hold.is_releasing()
            && attempt
                .hold
                .extended()
                .is_some_and(|extended| extended.verdict == Verdict::Won);
        if extended && attempt.doubtful && self.plan.continuity {
            return Err(Violation::UnsoundExtension(a));
        }
        Ok(asked)
    }

    fn hear(
        &mut self,
        a: usize,
        node: usize,
        op: Op,
        answer: Answer,
        unwritten: u8,
    ) -> Result<u8, Violation> {
        let answer = match (self.plan.rule, op, answer) {
            (Rule::UnknownIsRefused, Op::Acquire { .. }, Answer::Broken) => Answer::Unwritten,
            _ => answer,
        };
        let mut reply = answer.reply(self.attempts[a].channels[node].connection);
        if let (Rule::StragglerIsForgotten, Op::Acquire { .. }, Carrier::Broken(connection)) =
            (self.plan.rule, op, reply.carrier)
        {
            reply.carrier = Carrier::Answered(connection);
        }
        self.feed(a, unwritten, |hold, now, outbox| {
            hold.on_reply(node, op.command(), reply, now, outbox);
        })
    }

    pub(super) fn break_off(&mut self, a: usize, node: usize, written: usize) {
        let live = self.attempts[a].stage == Stage::Live;
        let channel = &mut self.attempts[a].channels[node];
        channel.breaks_left -= 1;
        if live {
            channel.cut(written);
        } else {
            channel.up = false;
        }
    }

    pub(super) fn connect(
        &mut self,
        a: usize,
        node: usize,
        confirmed: bool,
    ) -> Result<(), Violation> {
        if confirmed {
            self.finish(a, node)?;
        }
        let channel = &mut self.attempts[a].channels[node];
        channel.connection += 1;
        channel.up = true;
        self.tell_if_told(a, node, News::Up)
    }

    /// All broken connections are finished.
    pub(super) fn finish(&mut self, a: usize, node: usize) -> Result<(), Violation> {
        let channel = &mut self.attempts[a].channels[node];
        let through = channel.broken.iter().map(|broken| broken.connection).max();
        channel.broken.clear();
        if let Some(through) = through {
            channel.finished = through;
            let through = ConnectionId(through.into());
            self.tell_if_told(a, node, News::Finished(through))?;
        }
        Ok(())
    }

    /// Delivers what nobody can tell from what is delivered later (see `state`), and lets go of
    /// attempts that have settled.
    pub(super) fn tidy(&mut self) -> Result<(), Violation> {
        for a in 0..self.plan.attempts {
            let live = |world: &Self| world.attempts[a].stage == Stage::Live;
            if !live(self) {
                continue;
            }
            for node in 0..self.plan.nodes {
                let prompt = self.plan.prompt && !self.attempts[a].channels[node].up;
                while prompt && !self.attempts[a].channels[node].replies.is_empty() {
                    self.deliver(a, node, 0)?;
                }
            }
            if !self.attempts[a].hold.is_releasing() {
                continue;
            }
            for node in 0..self.plan.nodes {
                let settled = self.restarts_left == 0;
                while settled && self.attempts[a].channels[node].has_idle_reply() {
                    self.deliver(a, node, 0)?;
                }
            }
            if self.attempts[a].hold.is_settled() {
                if self.plan.cleanup {
                    properties::nothing_is_left(self, a)?;
                }
                self.note(|| format!("   {} has settled", name(a)));
                let attempt = &mut self.attempts[a];
                attempt.stage = Stage::Over;
                attempt.hold = Hold::new(0, &TERMS);
                attempt.channels = std::array::from_fn(|_| Channel::new(0));
                for node in &mut self.nodes {
                    node.tombstones &= !(1 << a);
                }
            }
        }
        Ok(())
    }
}

impl Channel {
    fn has_idle_reply(&self) -> bool {
        let refused = |(_, answer)| answer == Answer::Refused;
        self.is_reliable() && self.replies.front().is_some_and(|reply| !refused(reply))
    }
}
