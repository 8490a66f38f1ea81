//! What can happen next in a world.

use std::fmt;

use super::super::hold::Phase;
use super::super::round::Verdict;
use super::name;
use super::op::Op;
use super::properties::Violation;
use super::rules::Rule;
use super::world::{Action, Event, Stage, World};

impl World {
    /// Every world that one action leads to. A violation ends it.
    pub(super) fn successors(
        &self,
        mut found: impl FnMut(Action, Self),
    ) -> Result<(), (Action, Violation)> {
        for event in self.events() {
            let mut asked = 0;
            let mut unwritten = 0_u8;
            loop {
                let action = Action { event, unwritten };
                let mut next = self.clone();
                asked |= next.act(action).map_err(|violation| (action, violation))?;
                found(action, next);
                // The next larger subset of the nodes where it mattered; after the last comes none.
                unwritten = unwritten.wrapping_sub(asked) & asked;
                if unwritten == 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    pub(super) fn events(&self) -> Vec<Event> {
        let mut events = Vec::with_capacity(16);
        for a in 0..self.plan.attempts {
            match self.attempts[a].stage {
                Stage::Unstarted => {
                    events.push(Event::Start(a));
                    for n in 0..self.plan.nodes {
                        self.link_events(a, n, &mut events);
                    }
                }
                Stage::Live => self.attempt_events(a, &mut events),
                Stage::Over if self.attempts[a].believes_until.is_some() => {
                    events.push(Event::GiveUp(a));
                }
                Stage::Over => {}
            }
        }
        if self.vanishings_left > 0 {
            let with_key = |&n: &usize| self.nodes[n].key.is_some();
            let nodes = (0..self.plan.nodes).filter(with_key);
            events.extend(nodes.map(Event::Vanish));
        }
        if self.restarts_left > 0 {
            let with_key = |&n: &usize| self.nodes[n].key.is_some();
            let nodes = (0..self.plan.nodes).filter(with_key);
            events.extend(nodes.map(Event::Restart));
        }
        if !self.plan.frozen {
            events.push(Event::Tick);
        }
        events
    }

    fn attempt_events(&self, a: usize, events: &mut Vec<Event>) {
        let attempt = &self.attempts[a];
        let hold = &attempt.hold;
        for n in 0..self.plan.nodes {
            let channel = &attempt.channels[n];
            if !channel.requests.is_empty() {
                events.push(Event::Execute(a, n));
                if self.refusals_left > 0 {
                    events.push(Event::Refuse(a, n));
                }
                if hold.is_releasing() && matches!(channel.requests.front(), Some(Op::Heal { .. }))
                {
                    events.push(Event::Skip(a, n));
                }
            }
            if !channel.replies.is_empty() {
                events.push(Event::Deliver(a, n));
            }
            for (which, broken) in channel.broken.iter().enumerate() {
                if !broken.requests.is_empty() {
                    events.push(Event::Straggle(a, n, which));
                }
            }
            self.link_events(a, n, events);
        }
        if self.can_be_taken(a) {
            events.push(Event::Take(a));
        }
        let keeps = a < self.plan.keepers;
        if !keeps && !hold.is_releasing() || attempt.believes_until.is_some() {
            events.push(Event::GiveUp(a));
        }
        let extensible = attempt.taken && !hold.is_extending() && attempt.extensions_left > 0;
        if extensible && hold.loss(self.now()).is_none() {
            events.push(Event::Extend(a));
        }
        let is_due = hold.next_deadline().is_some_and(|at| at <= self.now());
        if is_due || hold.phase == Phase::Acquiring {
            events.push(Event::Deadline(a));
        }
        let old = self.now.saturating_sub(attempt.started) >= u32::from(self.plan.ticks);
        if self.plan.rule == Rule::DebtEndsWithSending && hold.is_releasing() && old {
            events.push(Event::Forget(a));
        }
    }

    fn can_be_taken(&self, a: usize) -> bool {
        let attempt = &self.attempts[a];
        let votes_suffice = if let Rule::Quorum(votes) = self.plan.rule {
            self.granted(a) >= votes
        } else {
            attempt.hold.verdict() == Some(Verdict::Won)
        };
        votes_suffice && !attempt.taken && !attempt.hold.is_releasing()
    }

    fn link_events(&self, a: usize, n: usize, events: &mut Vec<Event>) {
        let channel = &self.attempts[a].channels[n];
        if channel.up {
            if channel.breaks_left > 0 {
                let most = channel.requests.iter().count();
                events.extend((0..=most).map(|written| Event::Break(a, n, written)));
            }
            if !channel.broken.is_empty() {
                events.push(Event::Finish(a, n));
            }
        } else if channel.replies.is_empty() {
            events.push(Event::Connect(a, n, true));
            if !channel.broken.is_empty() {
                events.push(Event::Connect(a, n, false));
            }
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |a: usize, n: usize| format!("{}'s connection to node {}", name(a), n + 1);
        match self.event {
            Event::Start(a) => write!(f, "{} asks the nodes", name(a)),
            Event::Take(a) => write!(f, "{}'s caller takes the verdict", name(a)),
            Event::GiveUp(a) => write!(f, "{}'s caller gives up or releases", name(a)),
            Event::Extend(a) => write!(f, "{} begins an extension", name(a)),
            Event::Deadline(a) => write!(f, "{}'s timer fires", name(a)),
            // What is executed and delivered tells of itself.
            Event::Execute(..) | Event::Deliver(..) => return Ok(()),
            Event::Skip(a, n) => write!(f, "{}'s heal is not sent to node {}", name(a), n + 1),
            Event::Refuse(a, n) => write!(f, "node {} refuses a command of {}", n + 1, name(a)),
            Event::Break(a, n, written) => {
                write!(
                    f,
                    "{} breaks, {written} written commands are left on it",
                    of(a, n)
                )
            }
            Event::Straggle(a, n, _) => write!(f, "of what is left on {}:", of(a, n)),
            Event::Connect(a, n, true) => {
                write!(f, "{} is made anew, what was before is finished", of(a, n))
            }
            Event::Connect(a, n, false) => write!(f, "{} is made anew", of(a, n)),
            Event::Finish(a, n) => write!(f, "what was before {} is finished", of(a, n)),
            Event::Vanish(n) => write!(f, "the key on node {} vanishes", n + 1),
            Event::Restart(n) => write!(f, "node {} restarts without data", n + 1),
            Event::Tick => f.write_str("time goes on"),
            Event::Forget(a) => write!(f, "{}'s debts are a ttl old, and dropped", name(a)),
        }?;
        if self.unwritten != 0 {
            let nodes: Vec<String> = (0..8_u8)
                .filter(|node| self.unwritten & (1 << node) != 0)
                .map(|node| (node + 1).to_string())
                .collect();
            write!(f, " (unwritten at node {})", nodes.join(", "))?;
        }
        Ok(())
    }
}
