//! Fenced holds over keyspaces, with everything lost, late and out of order: at any time a
//! connection may break, what was written to it may arrive whenever it likes or never, and lock
//! keys may vanish. Fence keys stay.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;

use super::super::ballot::{Ballot, Hints};
use super::super::keyspace::Keyspace;
use super::*;

const MEMORY: Duration = Duration::from_secs(600);
const KEY: &str = "resource";
const FENCE: &str = "redlock-quorum:fence:resource";
const HOUR: u64 = 3_600_000_000;
const CLIENTS: usize = 3;

#[derive(Clone, Copy, Debug)]
enum Step {
    Start {
        client: usize,
    },
    /// The node executes the first request on the attempt's way to it. Attempts are counted back
    /// from the last.
    Execute {
        attempt: usize,
        node: usize,
    },
    Answer {
        attempt: usize,
        node: usize,
    },
    Break {
        attempt: usize,
        node: usize,
    },
    /// A request of a broken connection arrives.
    Late {
        which: usize,
    },
    Extend {
        attempt: usize,
    },
    Release {
        attempt: usize,
    },
    Vanish {
        node: usize,
    },
}

/// One attempt's connection to one node.
#[derive(Default)]
struct Pipe {
    connection: u64,
    requests: VecDeque<Command>,
    replies: VecDeque<(Command, Vote)>,
}

struct Attempt {
    hold: Hold,
    client: usize,
    pipes: Vec<Pipe>,
    /// The largest token granted before it began.
    after: u64,
    /// Its fencing token, once it has won.
    granted: Option<u64>,
    extended: u32,
    /// When its extension began: the largest token granted until then.
    before_extension: u64,
}

#[derive(Default)]
struct Sent(Vec<(usize, Command)>);

impl Outbox for Sent {
    fn submit(&mut self, node: usize, command: Command) -> Result<(), Unsent> {
        self.0.push((node, command));
        Ok(())
    }

    fn withdraw(&mut self, _node: usize, _command: Command) -> bool {
        false
    }

    fn wake(&mut self) {}
}

struct World {
    keys: Vec<Keyspace>,
    /// The largest ballot that each node has accepted.
    accepted: Vec<u64>,
    attempts: Vec<Attempt>,
    late: Vec<(usize, usize, Command)>,
    hints: Vec<Hints>,
    grants: Vec<u64>,
    vanishing: bool,
    now: u64,
}

impl World {
    fn new(nodes: usize, vanishing: bool) -> Self {
        Self {
            keys: vec![Keyspace::default(); nodes],
            accepted: vec![0; nodes],
            attempts: Vec::new(),
            late: Vec::new(),
            hints: (0..CLIENTS).map(|_| Hints::default()).collect(),
            grants: Vec::new(),
            vanishing,
            now: 0,
        }
    }

    fn step(&mut self, step: Step) {
        let (last, nodes) = (self.attempts.len(), self.keys.len());
        let nth = |back: usize| last.checked_sub(back + 1);
        match step {
            Step::Start { client } => self.start(client),
            Step::Execute { attempt, node } => self.execute(nth(attempt), node % nodes),
            Step::Answer { attempt, node } => self.answer(nth(attempt), node % nodes),
            Step::Break { attempt, node } => self.break_connection(nth(attempt), node % nodes),
            Step::Late { which } if !self.late.is_empty() => {
                let which = which % self.late.len();
                let (attempt, node, command) = self.late.swap_remove(which);
                self.apply(attempt, node, command);
            }
            Step::Extend { attempt } => self.extend(nth(attempt)),
            Step::Release { attempt } => self.release(nth(attempt)),
            Step::Vanish { node } if self.vanishing => self.keys[node % nodes].delete(KEY),
            Step::Late { .. } | Step::Vanish { .. } => {}
        }
        self.now += 1;
    }

    fn extend(&mut self, which: Option<usize>) {
        let largest = self.largest();
        self.with(which, |attempt, now, outbox| {
            let hold = &mut attempt.hold;
            let may = attempt.granted.is_some() && hold.loss(now).is_none();
            if may && !hold.is_extending() && hold.extend(TTL, now, ROUND, outbox).is_some() {
                attempt.before_extension = largest;
            }
        });
    }

    fn release(&mut self, which: Option<usize>) {
        self.with(which, |attempt, now, outbox| {
            attempt.hold.release(LossCause::Released, now, outbox);
        });
    }

    fn largest(&self) -> u64 {
        self.grants.iter().copied().max().unwrap_or(0)
    }

    fn start(&mut self, client: usize) {
        let wall = HOUR * (1 + u64::try_from(client).unwrap()) + self.now * 1000;
        let ballot = self.hints[client].choose(&[KEY], wall, MEMORY);
        let terms = Terms {
            ballot: Some(ballot),
            ..TERMS
        };
        self.attempts.push(Attempt {
            hold: Hold::new(self.keys.len(), &terms),
            client,
            pipes: self.keys.iter().map(|_| Pipe::default()).collect(),
            after: self.largest(),
            granted: None,
            extended: 0,
            before_extension: 0,
        });
        self.with(
            self.attempts.len().checked_sub(1),
            |attempt, now, outbox| {
                attempt.hold.start(now, outbox);
            },
        );
    }

    /// Feeds an attempt, puts what it submits on the way, and looks at what has become of it.
    fn with(&mut self, which: Option<usize>, input: impl FnOnce(&mut Attempt, Moment, &mut Sent)) {
        let now = at(self.now);
        let Some(attempt) = which.and_then(|which| self.attempts.get_mut(which)) else {
            return;
        };
        let mut sent = Sent::default();
        input(attempt, now, &mut sent);
        for (node, command) in sent.0 {
            if let Command::Acquire { ballot, .. } = command {
                let number = ballot.map_or(0, Ballot::tombstone);
                self.hints[attempt.client].note(KEY, number);
            }
            attempt.pipes[node].requests.push_back(command);
        }
        let is_held = attempt.hold.loss(now).is_none();
        if attempt.granted.is_none() && is_held && attempt.hold.verdict() == Some(Verdict::Won) {
            let token = attempt.hold.fencing_token().unwrap().as_u64();
            assert!(!self.grants.contains(&token), "unique");
            assert!(
                token > attempt.after,
                "larger than what was granted before it began"
            );
            if !self.vanishing {
                assert!(
                    self.grants.iter().all(|&other| other < token),
                    "in the order of grants"
                );
            }
            attempt.granted = Some(token);
            self.grants.push(token);
        }
        if let Some(ended) = attempt.hold.extended().cloned()
            && ended.number > attempt.extended
        {
            attempt.extended = ended.number;
            if ended.verdict == Verdict::Won {
                assert!(
                    Some(attempt.before_extension) <= attempt.granted,
                    "an extension proves that nobody came after it"
                );
            }
        }
        let held =
            |attempt: &&Attempt| attempt.granted.is_some() && attempt.hold.loss(now).is_none();
        let holders = self.attempts.iter().filter(held).count();
        assert!(holders <= 1 || self.vanishing, "one at a time");
    }

    /// A node executes a command, and its ballots never decrease.
    fn apply(&mut self, attempt: usize, node: usize, command: Command) -> Vote {
        let token = attempt.to_string();
        let (keys, now) = (&mut self.keys[node], at(self.now));
        let fence = |keys: &mut Keyspace| {
            let text = keys.get(FENCE, now).map(String::from);
            text.map_or(0, |text| text.parse::<u64>().unwrap())
        };
        let ours = keys.get(KEY, now) == Some(&token);
        let before = fence(keys);
        let vote = keys.apply(command, &[KEY], &token, now);
        let after = fence(keys);
        assert!(after >= before);
        if let (Command::Acquire { ballot, .. }, Vote::Granted) = (command, vote) {
            let number = ballot.unwrap().number();
            let again = ours && number == before;
            assert!(
                again || number > self.accepted[node],
                "what is accepted grows"
            );
            self.accepted[node] = self.accepted[node].max(number);
        }
        vote
    }

    fn execute(&mut self, which: Option<usize>, node: usize) {
        let Some(attempt) = which else { return };
        let requests = &mut self.attempts[attempt].pipes[node].requests;
        let Some(command) = requests.pop_front() else {
            return;
        };
        let vote = self.apply(attempt, node, command);
        let replies = &mut self.attempts[attempt].pipes[node].replies;
        replies.push_back((command, vote));
    }

    fn answer(&mut self, which: Option<usize>, node: usize) {
        let Some(attempt) = which.map(|which| &mut self.attempts[which]) else {
            return;
        };
        let pipe = &mut attempt.pipes[node];
        let Some((command, vote)) = pipe.replies.pop_front() else {
            return;
        };
        let reply = Reply {
            vote,
            carrier: Carrier::Answered(ConnectionId(pipe.connection)),
            error: None,
        };
        self.hints[attempt.client].note(KEY, vote.fence().unwrap_or(0));
        self.with(which, |attempt, now, outbox| {
            attempt.hold.on_reply(node, command, reply, now, outbox);
        });
    }

    fn break_connection(&mut self, which: Option<usize>, node: usize) {
        let mut lost = Vec::new();
        self.with(which, |attempt, now, outbox| {
            let pipe = &mut attempt.pipes[node];
            let connection = ConnectionId(pipe.connection);
            pipe.connection += 1;
            lost.extend(std::mem::take(&mut pipe.requests));
            let unheard = std::mem::take(&mut pipe.replies);
            let unanswered = unheard.into_iter().map(|(command, _)| command);
            for command in unanswered.chain(lost.iter().copied()) {
                let reply = broken(connection.0);
                attempt.hold.on_reply(node, command, reply, now, outbox);
            }
            attempt.hold.on_news(node, News::Up, now, outbox);
        });
        let late = lost.into_iter().map(|command| (which, node, command));
        self.late
            .extend(late.filter_map(|(which, node, command)| Some((which?, node, command))));
    }

    /// Everything ends: what is late arrives, what is owed is paid, and no lock key is left.
    fn end(&mut self) {
        let attempts = self.attempts.len();
        for attempt in 0..attempts {
            self.release(Some(attempt));
        }
        for round in 0.. {
            for attempt in 0..attempts {
                for node in 0..self.keys.len() {
                    self.execute(Some(attempt), node);
                    self.answer(Some(attempt), node);
                }
            }
            if self
                .attempts
                .iter()
                .all(|attempt| attempt.hold.is_settled())
            {
                break;
            }
            assert!(round < 50, "settled, without any word of old connections");
        }
        // Behind the settlement, too: the tombstones stand.
        while !self.late.is_empty() {
            self.step(Step::Late { which: 0 });
        }
        let left: BTreeMap<usize, String> = (0..self.keys.len())
            .filter_map(|node| Some((node, self.keys[node].get(KEY, at(self.now))?.to_owned())))
            .collect();
        assert_eq!(left, BTreeMap::new(), "nothing of ours is left");
    }
}

/// Most of what happens concerns the attempts that began last.
fn step() -> impl Strategy<Value = Step> {
    let back = || prop_oneof![4 => 0..3_usize, 1 => 0..9_usize];
    let pair = move || (back(), 0..5_usize);
    prop_oneof![
        2 => (0..CLIENTS).prop_map(|client| Step::Start { client }),
        16 => pair().prop_map(|(attempt, node)| Step::Execute { attempt, node }),
        16 => pair().prop_map(|(attempt, node)| Step::Answer { attempt, node }),
        1 => pair().prop_map(|(attempt, node)| Step::Break { attempt, node }),
        1 => any::<usize>().prop_map(|which| Step::Late { which }),
        3 => back().prop_map(|attempt| Step::Extend { attempt }),
        1 => back().prop_map(|attempt| Step::Release { attempt }),
        1 => (0..5_usize).prop_map(|node| Step::Vanish { node }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn tokens_are_unique_and_ordered_whatever_is_lost_or_late(
        vanishing in any::<bool>(),
        nodes in prop_oneof![Just(3_usize), Just(5)],
        steps in proptest::collection::vec(step(), 50..400),
    ) {
        let mut world = World::new(nodes, vanishing);
        for step in steps {
            world.step(step);
        }
        world.end();
    }
}
