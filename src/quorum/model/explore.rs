//! Tries every order of events, and tells the shortest way to a violation.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::time::{Duration, Instant};

use super::super::sabotage;
use super::properties::Violation;
use super::rules::{Plan, Rule};
use super::world::{Action, World};
use super::{rest, tokens};

/// Breadth first finds the shortest counter-example; depth first keeps few states at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    BreadthFirst,
    DepthFirst,
}

/// When to stop without having seen everything.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    pub(super) time: Duration,
    pub(super) bytes: usize,
}

#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) plan: &'static Plan,
    pub(super) states: usize,
    pub(super) actions: u64,
    /// The most events to a state, by the way it was found.
    pub(super) depth: u32,
    /// Nothing is left to try.
    pub(super) complete: bool,
    pub(super) time: Duration,
    pub(super) violation: Option<(Violation, Vec<String>)>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = match (&self.violation, self.complete) {
            (Some(_), _) => "a violation after",
            (None, true) => "all of",
            (None, false) => "NOT COMPLETE after",
        };
        write!(
            f,
            "model: {}\nmodel: {how} {} states, {} actions, depth {}, {:.1} s",
            self.plan,
            self.states,
            self.actions,
            self.depth,
            self.time.as_secs_f64()
        )?;
        if let Some((violation, story)) = &self.violation {
            for line in story {
                write!(f, "\n  {line}")?;
            }
            write!(f, "\n  VIOLATION: {violation}")?;
        }
        Ok(())
    }
}

/// How a state was first reached.
#[derive(Clone, Copy)]
struct Way {
    from: u32,
    action: Action,
}

/// A fingerprint is as good as its own hash.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0 << 8 | u64::from(byte);
        }
    }

    fn write_u128(&mut self, print: u128) {
        self.0 = u64::try_from(print & u128::from(u64::MAX)).expect("64 bits");
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type Prints = HashSet<u128, BuildHasherDefault<AsItIs>>;

struct Search {
    plan: &'static Plan,
    initial: Vec<World>,
    seen: Prints,
    /// States from which the schedule of `rest` ends well.
    restful: Prints,
    ways: Vec<Way>,
    actions: u64,
    depth: u32,
}

pub(super) fn explore(plan: Plan, order: Order, budget: Budget) -> Outcome {
    // A few for each run of the tests, and none is ever let go.
    let plan: &'static Plan = Box::leak(Box::new(plan));
    let began = now();
    let mut search = Search {
        plan,
        initial: initial(plan),
        seen: Prints::default(),
        restful: Prints::default(),
        ways: Vec::new(),
        actions: 0,
        depth: 0,
    };
    let bug = if let Rule::Core(bug) = plan.rule {
        Some(bug)
    } else {
        None
    };
    sabotage::commit(bug);
    let ended = search.run(order, || now() - began < budget.time, budget.bytes);
    let outcome = Outcome {
        plan,
        states: search.seen.len(),
        actions: search.actions,
        depth: search.depth,
        complete: matches!(ended, Ok(true)),
        time: now() - began,
        violation: ended.err().map(|(at, last, violation)| {
            let story = search.tell(at, &last);
            (violation, story)
        }),
    };
    sabotage::commit(None);
    outcome
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long a search takes decides nothing in it"
)]
fn now() -> Instant {
    Instant::now()
}

/// One world for every way to deal the breaks out to the connections, and the ballots to the
/// attempts.
fn initial(plan: &'static Plan) -> Vec<World> {
    let places: Vec<(usize, usize)> = (0..plan.attempts)
        .flat_map(|attempt| (0..plan.nodes).map(move |node| (attempt, node)))
        .collect();
    let mut deals = vec![Vec::new()];
    for _ in 0..plan.breaks {
        deals = deals
            .into_iter()
            .flat_map(|deal| {
                let and = move |&place: &_| deal.iter().copied().chain([place]).collect();
                places.iter().map(and).collect::<Vec<Vec<_>>>()
            })
            .collect();
    }
    let ballots = tokens::ballots(plan.attempts, plan.ballots);
    let with = |deal: &Vec<_>| {
        let worlds = ballots
            .iter()
            .map(|ballots| World::new(plan, deal, ballots));
        worlds.collect::<Vec<_>>()
    };
    deals.iter().flat_map(with).collect()
}

/// Where a search ended in a violation: the state, the actions from there, and what is violated.
type Failure = (u32, Vec<Action>, Violation);

impl Search {
    fn run(
        &mut self,
        order: Order,
        in_time: impl Fn() -> bool,
        bytes: usize,
    ) -> Result<bool, Failure> {
        let mut queue = VecDeque::new();
        for world in self.initial.clone() {
            // A way from a state to itself marks where a trace begins.
            let number = self.number();
            let event = super::world::Event::Start(0);
            let begin = Way {
                from: number,
                action: Action {
                    event,
                    unwritten: 0,
                },
            };
            self.ways.push(begin);
            if self.seen.insert(world.fingerprint()) {
                queue.push_back((world, number, 0_u32));
            }
        }
        loop {
            let next = match order {
                Order::BreadthFirst => queue.pop_front(),
                Order::DepthFirst => queue.pop_back(),
            };
            let Some((world, number, depth)) = next else {
                return Ok(true);
            };
            if self.actions.is_multiple_of(64) && !(in_time() && self.bytes() < bytes) {
                return Ok(false);
            }
            self.depth = self.depth.max(depth);
            if self.plan.liveness {
                self.bring_to_rest(&world, number)?;
            }
            world
                .successors(|action, next| {
                    self.actions += 1;
                    if self.seen.insert(next.fingerprint()) {
                        queue.push_back((next, self.number(), depth + 1));
                        self.ways.push(Way {
                            from: number,
                            action,
                        });
                    }
                })
                .map_err(|(action, violation)| (number, vec![action], violation))?;
        }
    }

    /// Follows the schedule of `rest` until it comes to a state from which it has ended well before.
    fn bring_to_rest(&mut self, world: &World, number: u32) -> Result<(), Failure> {
        let mut world = world.clone();
        let mut path = Vec::new();
        let mut prints = Vec::new();
        for _ in 0..rest::LONGEST {
            let print = world.fingerprint();
            if self.restful.contains(&print) {
                self.restful.extend(prints);
                return Ok(());
            }
            prints.push(print);
            let next = rest::next(&world).map_err(|stuck| (number, path.clone(), stuck))?;
            let Some(action) = next else {
                self.restful.extend(prints);
                return Ok(());
            };
            path.push(action);
            self.actions += 1;
            world
                .act(action)
                .map_err(|violation| (number, path.clone(), violation))?;
        }
        Err((number, path, Violation::Stuck(0)))
    }

    fn number(&self) -> u32 {
        u32::try_from(self.ways.len()).expect("fewer than 2^32 states")
    }

    /// What the search holds in memory, by the size of its tables, and while the largest grows.
    fn bytes(&self) -> usize {
        let tables = self.seen.capacity() + self.restful.capacity();
        let growing = self.seen.len() * 10 > self.seen.capacity() * 9;
        let factor = if growing { 3 } else { 1 };
        tables * 20 * factor + self.ways.capacity() * size_of::<Way>()
    }

    /// The way to a state and beyond, in words.
    fn tell(&self, state: u32, beyond: &[Action]) -> Vec<String> {
        let way = |state: u32| self.ways[usize::try_from(state).expect("an index")];
        let mut actions: Vec<Action> = beyond.iter().rev().copied().collect();
        let mut at = state;
        while way(at).from != at {
            actions.push(way(at).action);
            at = way(at).from;
        }
        let mut world = self.initial[usize::try_from(at).expect("an index")].clone();
        world.story = Some(Vec::new());
        if self.plan.held > 0 {
            let nodes = self.plan.held;
            world.note(|| format!("A holds the lock by nodes 1 to {nodes}, for half of its time"));
        }
        for action in actions.into_iter().rev() {
            let line = action.to_string();
            if !line.is_empty() {
                world.note(|| line);
            }
            if world.act(action).is_err() {
                break;
            }
        }
        world.story.unwrap_or_default()
    }
}
