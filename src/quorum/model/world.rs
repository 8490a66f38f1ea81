//! One state of a world, and what can happen in it.

use super::super::hold::{Hold, LossCause, Phase};
use super::super::ledger::News;
use super::super::validity::{self, Moment};
use super::super::vote::Vote;
use super::channel::Channel;
use super::node::Node;
use super::properties::{self, Violation};
use super::rules::{Plan, Rule};
use super::{AT_ANY_TIME, TTL, moment, terms};

/// Room for the nodes of any plan.
pub(super) const MOST_NODES: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    Unstarted,
    Live,
    /// Settled, and seen to have left nothing.
    Over,
}

#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) stage: Stage,
    pub(super) hold: Hold,
    pub(super) channels: [Channel; MOST_NODES],
    /// The caller has been handed the lock.
    pub(super) taken: bool,
    /// A caller with a weakened rule believes to hold the lock until then.
    pub(super) believes_until: Option<Moment>,
    pub(super) extensions_left: u8,
    pub(super) started: u32,
    /// The attempts, one bit each, that held the lock when this one started.
    pub(super) held_at_start: u8,
    /// Another started and was granted the lock while this one held it; and an extension began
    /// after that.
    pub(super) intruded: bool,
    pub(super) doubtful: bool,
    /// Its fencing token once it is granted, and the nodes that granted it, one bit each.
    pub(super) token: u8,
    pub(super) granted_by: u8,
    /// What each node's counter said, where counters are tokens.
    pub(super) counted: [u8; MOST_NODES],
}

#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) plan: &'static Plan,
    pub(super) now: u32,
    pub(super) nodes: [Node; MOST_NODES],
    pub(super) attempts: Vec<Attempt>,
    pub(super) refusals_left: u8,
    pub(super) vanishings_left: u8,
    pub(super) restarts_left: u8,
    /// A timer is firing.
    pub(super) timing_out: bool,
    /// What happened, in words; kept only when a trace is told.
    pub(super) story: Option<Vec<String>>,
}

/// What can happen next. The first number is an attempt, the second a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Start(usize),
    /// The caller takes the verdict.
    Take(usize),
    /// The caller drops the request or the guard, or releases.
    GiveUp(usize),
    Extend(usize),
    /// A timer that is due fires.
    Deadline(usize),
    /// The node executes the next command, or refuses it.
    Execute(usize, usize),
    Refuse(usize, usize),
    /// A heal that had not been written is not, because its lock has ended.
    Skip(usize, usize),
    /// The next reply arrives.
    Deliver(usize, usize),
    /// The connection breaks; so many of its commands had been written and not executed.
    Break(usize, usize, usize),
    /// The node executes a command of a broken connection.
    Straggle(usize, usize, usize),
    /// A new connection; the node confirms that the older ones are finished, or does not.
    Connect(usize, usize, bool),
    /// The older connections are finished.
    Finish(usize, usize),
    Vanish(usize),
    /// The node comes back without data.
    Restart(usize),
    /// The clock goes on.
    Tick,
    /// By a weakened rule the debts of an attempt end.
    Forget(usize),
}

/// An event, and the nodes whose commands turn out to be unwritten if they are withdrawn now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Action {
    pub(super) event: Event,
    pub(super) unwritten: u8,
}

impl World {
    /// `breaks` says which channels break, and how often: attempt, node, for each break. `ballots`
    /// are the attempts' first ones.
    pub(super) fn new(plan: &'static Plan, breaks: &[(usize, usize)], ballots: &[u8]) -> Self {
        let attempt = |attempt| Attempt {
            stage: Stage::Unstarted,
            hold: Hold::new(plan.nodes, &terms(ballots[attempt])),
            channels: std::array::from_fn(|node| {
                let breaks = breaks.iter().filter(|&&at| at == (attempt, node)).count();
                Channel::new(u8::try_from(breaks).expect("few breaks"))
            }),
            taken: false,
            believes_until: None,
            extensions_left: if attempt < plan.extenders {
                plan.extensions
            } else {
                0
            },
            started: 0,
            held_at_start: 0,
            intruded: false,
            doubtful: false,
            token: 0,
            granted_by: 0,
            counted: [0; MOST_NODES],
        };
        let mut world = Self {
            plan,
            now: 0,
            nodes: [Node::default(); MOST_NODES],
            attempts: (0..plan.attempts).map(attempt).collect(),
            refusals_left: plan.refusals,
            vanishings_left: plan.vanishings,
            restarts_left: plan.restarts,
            timing_out: false,
            story: None,
        };
        if plan.held > 0 {
            let at_each =
                |event: fn(usize, usize) -> Event| (0..plan.held).map(move |n| event(0, n));
            let votes = at_each(Event::Execute).chain(at_each(Event::Deliver));
            let events = [Event::Start(0)].into_iter().chain(votes);
            for event in events.chain([Event::Take(0), Event::Tick]) {
                let unwritten = 0;
                let acted = world.act(Action { event, unwritten });
                acted.expect("nothing is wrong with it");
            }
        }
        world
    }

    pub(super) fn now(&self) -> Moment {
        moment(self.plan, self.now)
    }

    pub(super) fn note(&mut self, tell: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            story.push(tell());
        }
    }

    /// Is this attempt's caller told that it holds the lock?
    pub(super) fn is_certain(&self, attempt: usize) -> bool {
        let attempt = &self.attempts[attempt];
        match attempt.believes_until {
            Some(until) => self.now() < validity::loss_at(until),
            None => {
                attempt.stage == Stage::Live
                    && attempt.taken
                    && attempt.hold.loss(self.now()).is_none()
            }
        }
    }

    /// How many nodes have granted the attempt's round.
    pub(super) fn granted(&self, attempt: usize) -> usize {
        let votes = self.attempts[attempt].hold.round().votes();
        votes
            .filter(|&(vote, _)| vote == Some(Vote::Granted))
            .count()
    }

    /// Carries out one action. Returns the nodes where it mattered whether a command was unwritten.
    pub(super) fn act(&mut self, action: Action) -> Result<u8, Violation> {
        let Action { event, unwritten } = action;
        let mut asked = 0;
        self.timing_out = matches!(event, Event::Deadline(_));
        match event {
            Event::Start(a) => {
                self.attempts[a].stage = Stage::Live;
                self.attempts[a].started = self.now;
                self.attempts[a].held_at_start = self.holders();
                asked = self.feed(a, unwritten, Hold::start)?;
            }
            Event::Take(a) => asked = self.take(a, unwritten)?,
            Event::GiveUp(a) => {
                self.attempts[a].believes_until = None;
                asked = self.feed(a, unwritten, |hold, now, outbox| {
                    hold.release(LossCause::Released, now, outbox);
                })?;
            }
            Event::Extend(a) => {
                let largest = self.largest_token();
                let mut begun = false;
                asked = self.feed(a, unwritten, |hold, now, outbox| {
                    begun = hold.extend(TTL, now, AT_ANY_TIME, outbox).is_some();
                })?;
                let attempt = &mut self.attempts[a];
                attempt.extensions_left -= u8::from(begun);
                attempt.doubtful = if self.plan.has_tokens() {
                    largest > attempt.token
                } else {
                    attempt.intruded
                };
            }
            Event::Deadline(a) => {
                asked = self.feed(a, unwritten, |hold, now, outbox| {
                    // A round's time is up at any point.
                    let is_asking = hold.phase == Phase::Acquiring;
                    let late = if is_asking { hold.decide_by } else { now };
                    hold.on_deadline(late.max(now), outbox);
                })?;
                if self.plan.rule == Rule::LossIsRetried && self.attempts[a].hold.is_releasing() {
                    asked |= self.feed(a, unwritten, Hold::start)?;
                }
            }
            Event::Execute(a, n) => self.execute(a, n)?,
            Event::Refuse(a, n) => self.refuse(a, n),
            Event::Deliver(a, n) => asked = self.deliver(a, n, unwritten)?,
            Event::Break(a, n, written) => self.break_off(a, n, written),
            Event::Skip(a, n) => self.skip(a, n),
            Event::Straggle(a, n, which) => {
                let op = self.attempts[a].channels[n].broken[which].requests.pop();
                self.run(a, n, op.expect("a command to execute"))?;
            }
            Event::Connect(a, n, confirmed) => self.connect(a, n, confirmed)?,
            Event::Finish(a, n) => self.finish(a, n)?,
            Event::Vanish(n) => {
                self.vanishings_left -= 1;
                self.nodes[n].key = None;
            }
            Event::Restart(n) => self.restart(n),
            Event::Tick => {
                self.now += 1;
                self.nodes.iter_mut().for_each(Node::tick);
            }
            Event::Forget(a) => {
                for node in 0..self.plan.nodes {
                    self.tell(a, node, News::Gone)?;
                }
            }
        }
        self.tidy()?;
        properties::check(self)?;
        Ok(asked)
    }
}
