//! A hold's whole life as tables: inputs, and the commands that must follow.

mod acquiring;
mod attaching;
mod ballots_at_random;
mod extending;
mod fenced;
mod releasing;
mod renewing;

use std::time::Duration;

use super::hold::{Command, Hold, LossCause, Outbox, Reply, Terms};
use super::ledger::{Carrier, ConnectionId, News};
use super::renewal::Renewal;
use super::round::Verdict;
use super::validity::Moment;
use super::vote::{Refusal, Unsent, Vote};

const TTL: Duration = Duration::from_secs(10);
const ROUND: Duration = Duration::from_secs(1);
const FIRST: ConnectionId = ConnectionId(1);
const HELD: Vote = Vote::Held {
    ttl: None,
    fence: None,
};
const ACQUIRE: Command = Command::Acquire {
    ttl: TTL,
    ballot: None,
};

const TERMS: Terms = Terms {
    ttl: TTL,
    round_timeout: ROUND,
    renewal: Renewal::off(),
    jitter: 7,
    ballot: None,
};

/// Records what is submitted; nodes can be down, and commands can still be unwritten.
#[derive(Default)]
struct Nodes {
    sent: Vec<(usize, Command)>,
    down: Vec<usize>,
    gone: Vec<usize>,
    unwritten: Vec<usize>,
    connecting: Vec<usize>,
    wakes: usize,
}

impl Nodes {
    fn take(&mut self) -> Vec<(usize, Command)> {
        std::mem::take(&mut self.sent)
    }

    fn releases(&mut self) -> Vec<usize> {
        let (releases, others): (Vec<_>, Vec<_>) = self
            .take()
            .into_iter()
            .partition(|&(_, command)| command == Command::Release);
        assert_eq!(others, [], "nothing but releases");
        releases.into_iter().map(|(node, _)| node).collect()
    }
}

impl Outbox for Nodes {
    fn submit(&mut self, node: usize, command: Command) -> Result<(), Unsent> {
        if self.gone.contains(&node) {
            return Err(Unsent::Closed);
        }
        if self.down.contains(&node) {
            return Err(Unsent::NotConnected);
        }
        self.sent.push((node, command));
        Ok(())
    }

    fn is_up(&self, node: usize) -> bool {
        !self.connecting.contains(&node)
    }

    fn withdraw(&mut self, node: usize, _command: Command) -> bool {
        self.unwritten.contains(&node)
    }

    fn wake(&mut self) {
        self.wakes += 1;
    }
}

fn at(millis: u64) -> Moment {
    Moment::from_nanos(1_000_000_000_000).after(Duration::from_millis(millis))
}

fn answered(vote: Vote) -> Reply {
    Reply {
        vote,
        carrier: Carrier::Answered(FIRST),
        error: None,
    }
}

fn broken(connection: u64) -> Reply {
    Reply {
        vote: Vote::Unknown,
        carrier: Carrier::Broken(ConnectionId(connection)),
        error: None,
    }
}

const fn extension(number: u32, ttl: Duration) -> Command {
    Command::Extend {
        ttl,
        number,
        ballot: None,
    }
}

fn started(nodes: &mut Nodes, count: usize) -> Hold {
    let mut hold = Hold::new(count, &TERMS);
    hold.start(at(0), nodes);
    hold
}

fn votes(hold: &mut Hold, nodes: &mut Nodes, votes: &[(usize, Vote)]) {
    for &(node, vote) in votes {
        hold.on_reply(node, ACQUIRE, answered(vote), at(1), nodes);
    }
}

/// Held by nodes 0 and 1 of 3; node 2 has not answered.
fn held(nodes: &mut Nodes) -> Hold {
    let mut hold = started(nodes, 3);
    votes(&mut hold, nodes, &[(0, Vote::Granted), (1, Vote::Granted)]);
    assert_eq!(hold.take(at(1), nodes), Some(Verdict::Won));
    nodes.take();
    hold
}

/// Held by nodes 0 and 1 of 3, and renewed so; node 2 has not answered.
fn renewed(nodes: &mut Nodes, renewal: Renewal) -> Hold {
    let mut hold = Hold::new(3, &Terms { renewal, ..TERMS });
    hold.start(at(0), nodes);
    votes(&mut hold, nodes, &[(0, Vote::Granted), (1, Vote::Granted)]);
    nodes.take();
    hold
}

/// Held by nodes 0 and 1 of 3, node 2 has said no; renewed every two seconds.
fn renewed_every_two_seconds(nodes: &mut Nodes, limit: Option<Duration>) -> Hold {
    let mut renewal = Renewal::every(Duration::from_secs(2));
    if let Some(limit) = limit {
        renewal = renewal.max_hold(limit);
    }
    let mut hold = renewed(nodes, renewal);
    votes(&mut hold, nodes, &[(2, HELD)]);
    nodes.take();
    hold
}

/// Runs to the next deadline, which must begin a renewal. Returns its command and its moment.
fn renew(hold: &mut Hold, nodes: &mut Nodes) -> (Command, Moment) {
    let due = hold.next_deadline().unwrap();
    hold.on_deadline(due, nodes);
    let sent = nodes.take();
    assert_eq!(sent.len(), 3, "{sent:?}");
    (sent[0].1, due)
}
