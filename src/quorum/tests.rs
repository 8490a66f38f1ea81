//! A hold's whole life as tables: inputs, and the commands that must follow.

mod ballots_at_random;
mod fenced;

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

#[test]
fn every_node_is_asked_at_once() {
    let mut nodes = Nodes::default();
    let hold = started(&mut nodes, 3);
    assert_eq!(nodes.take(), [(0, ACQUIRE), (1, ACQUIRE), (2, ACQUIRE)]);
    assert_eq!(hold.next_deadline(), Some(at(1000)));
}

#[test]
fn law_3_a_quorum_is_not_waited_for_beyond_its_last_vote() {
    let mut nodes = Nodes::default();
    let mut hold = started(&mut nodes, 5);
    votes(
        &mut hold,
        &mut nodes,
        &[(4, Vote::Granted), (0, HELD), (1, Vote::Granted)],
    );
    assert_eq!(hold.verdict(), None);
    votes(&mut hold, &mut nodes, &[(2, Vote::Granted)]);
    assert_eq!(hold.verdict(), Some(Verdict::Won));
    assert_eq!(hold.valid_until(), at(9898));
    assert_eq!(
        hold.next_deadline(),
        Some(at(9897)),
        "the loss, less a millisecond"
    );
}

#[test]
fn law_3_the_last_look_at_the_clock_is_the_callers() {
    let mut nodes = Nodes::default();
    let mut hold = started(&mut nodes, 1);
    votes(&mut hold, &mut nodes, &[(0, Vote::Granted)]);
    nodes.take();
    assert_eq!(hold.verdict(), Some(Verdict::Won));
    assert_eq!(hold.take(at(8899), &mut nodes), Some(Verdict::TooLate));
    assert_eq!(nodes.releases(), [0]);
}

#[test]
fn law_3_what_waits_for_a_handshake_at_the_verdict_is_withdrawn() {
    let mut nodes = Nodes {
        unwritten: vec![2],
        connecting: vec![2],
        ..Nodes::default()
    };
    let mut hold = held(&mut nodes);
    let shown: Vec<_> = hold.round().votes().map(|(vote, _)| vote).collect();
    assert_eq!(shown[2], Some(Vote::Unsent(Unsent::Decided)));
    hold.release(LossCause::Released, at(2), &mut nodes);
    assert_eq!(nodes.releases(), [0, 1], "and owes no release");
}

#[test]
fn a_won_lock_still_goes_to_the_nodes_that_are_up() {
    let mut nodes = Nodes {
        unwritten: vec![2],
        ..Nodes::default()
    };
    let mut hold = held(&mut nodes);
    assert_eq!(hold.round().votes().last(), Some((None, None)));
    nodes.unwritten.clear();
    hold.release(LossCause::Released, at(2), &mut nodes);
    assert_eq!(nodes.releases(), [0, 1, 2]);

    let mut nodes = Nodes {
        unwritten: vec![2],
        ..Nodes::default()
    };
    let mut hold = held(&mut nodes);
    hold.release(LossCause::Released, at(2), &mut nodes);
    assert_eq!(nodes.releases(), [0, 1], "unless it is over before that");
}

#[test]
fn law_4_a_failed_round_is_released_where_it_may_be() {
    // granted, held, refused, unsent, unknown, and two pending
    let mut nodes = Nodes {
        down: vec![3],
        ..Nodes::default()
    };
    let mut hold = started(&mut nodes, 7);
    nodes.take();
    let sure = [
        (0, Vote::Granted),
        (1, HELD),
        (2, Vote::Refused(Refusal::Loading)),
    ];
    votes(&mut hold, &mut nodes, &sure);
    assert_eq!(nodes.take(), [], "not decided");
    hold.on_reply(4, ACQUIRE, broken(1), at(1), &mut nodes);
    assert_eq!(hold.verdict(), Some(Verdict::Contended));
    assert_eq!(nodes.releases(), [0, 4, 5, 6]);
}

#[test]
fn law_4_a_dropped_request_is_released_where_it_may_be() {
    let mut nodes = Nodes {
        unwritten: vec![2],
        ..Nodes::default()
    };
    let mut hold = started(&mut nodes, 3);
    votes(&mut hold, &mut nodes, &[(0, Vote::Granted)]);
    nodes.take();
    hold.release(LossCause::Released, at(1), &mut nodes);
    assert_eq!(
        nodes.releases(),
        [0, 1],
        "1 is pending, 2 was never written"
    );
    hold.on_reply(
        0,
        Command::Release,
        answered(Vote::Granted),
        at(2),
        &mut nodes,
    );
    assert!(!hold.is_settled());
    hold.on_reply(1, ACQUIRE, answered(Vote::Granted), at(2), &mut nodes);
    hold.on_reply(
        1,
        Command::Release,
        answered(Vote::Granted),
        at(2),
        &mut nodes,
    );
    assert!(hold.is_settled());
    assert_eq!(hold.next_deadline(), None);
}

#[test]
fn law_4_a_release_is_repeated_after_a_reconnect() {
    let mut nodes = Nodes::default();
    let mut hold = held(&mut nodes);
    hold.release(LossCause::Released, at(2), &mut nodes);
    assert_eq!(nodes.releases(), [0, 1, 2]);
    for node in [0, 1] {
        hold.on_reply(
            node,
            Command::Release,
            answered(Vote::Granted),
            at(3),
            &mut nodes,
        );
    }
    // Node 2's connection breaks with the acquire and the release on it.
    nodes.down = vec![2];
    hold.on_reply(2, ACQUIRE, broken(1), at(4), &mut nodes);
    hold.on_reply(2, Command::Release, broken(1), at(4), &mut nodes);
    assert!(hold.needs_news(2));
    assert_eq!(hold.owed().collect::<Vec<_>>(), [2]);
    nodes.down = vec![];
    hold.on_news(2, News::Finished(FIRST), at(5), &mut nodes);
    assert_eq!(nodes.take(), [], "there is no connection yet");
    hold.on_news(2, News::Up, at(5), &mut nodes);
    assert_eq!(nodes.releases(), [2]);
    hold.on_reply(
        2,
        Command::Release,
        answered(Vote::Granted),
        at(6),
        &mut nodes,
    );
    assert!(hold.is_settled());
}

#[test]
fn law_4_a_straggler_is_outlived() {
    let mut nodes = Nodes::default();
    let mut hold = started(&mut nodes, 1);
    nodes.take();
    hold.on_reply(0, ACQUIRE, broken(1), at(1), &mut nodes);
    assert_eq!(nodes.releases(), [0]);
    let second = |vote| Reply {
        vote,
        carrier: Carrier::Answered(ConnectionId(2)),
        error: None,
    };
    // Answered on a newer connection, but the old one may still deliver the acquire.
    hold.on_reply(0, Command::Release, second(HELD), at(2), &mut nodes);
    assert!(!hold.is_settled() && hold.needs_news(0));
    hold.on_deadline(at(60_000), &mut nodes);
    assert!(!hold.is_settled(), "one ttl after sending means nothing");
    hold.on_news(0, News::Finished(FIRST), at(60_000), &mut nodes);
    assert_eq!(nodes.releases(), [0]);
    hold.on_reply(
        0,
        Command::Release,
        second(Vote::Granted),
        at(60_001),
        &mut nodes,
    );
    assert!(hold.is_settled());
}

#[test]
fn law_4_a_straggler_is_outlived_also_if_its_end_comes_before_the_answer() {
    let mut nodes = Nodes::default();
    let mut hold = started(&mut nodes, 1);
    hold.on_reply(0, ACQUIRE, broken(1), at(1), &mut nodes);
    nodes.take();
    hold.on_news(0, News::Finished(FIRST), at(2), &mut nodes);
    assert_eq!(nodes.take(), [], "one release is in flight");
    let answer = Reply {
        vote: HELD,
        carrier: Carrier::Answered(ConnectionId(2)),
        error: None,
    };
    hold.on_reply(0, Command::Release, answer.clone(), at(3), &mut nodes);
    assert_eq!(
        nodes.releases(),
        [0],
        "it may have been executed before the end"
    );
    hold.on_reply(0, Command::Release, answer, at(4), &mut nodes);
    assert!(hold.is_settled());
}

#[test]
fn law_4_a_straggler_is_outlived_also_if_an_extension_went_by_a_newer_connection() {
    let mut nodes = Nodes::default();
    let mut hold = held(&mut nodes);
    hold.on_reply(2, ACQUIRE, broken(1), at(2), &mut nodes);
    let second = Reply {
        vote: HELD,
        carrier: Carrier::Answered(ConnectionId(2)),
        error: None,
    };
    let number = hold.extend(TTL, at(3000), ROUND, &mut nodes).unwrap();
    let extend = Command::Extend {
        ttl: TTL,
        number,
        ballot: None,
    };
    hold.on_reply(2, extend, second.clone(), at(3001), &mut nodes);
    nodes.take();
    hold.release(LossCause::Released, at(4000), &mut nodes);
    assert_eq!(nodes.releases(), [0, 1, 2]);
    hold.on_reply(2, Command::Release, second.clone(), at(4001), &mut nodes);
    assert!(hold.needs_news(2), "the first connection may yet deliver");
    hold.on_news(2, News::Finished(FIRST), at(4001), &mut nodes);
    assert_eq!(nodes.releases(), [2], "it is the acquire's that must end");
    hold.on_reply(2, Command::Release, second, at(4002), &mut nodes);
    assert_eq!(hold.owed().collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn law_4_a_debt_ends_one_ttl_after_its_connection_is_finished() {
    let mut nodes = Nodes::default();
    let mut hold = started(&mut nodes, 1);
    nodes.down = vec![0];
    hold.on_reply(0, ACQUIRE, broken(1), at(1), &mut nodes);
    assert!(hold.needs_news(0));
    hold.on_news(0, News::Finished(FIRST), at(5000), &mut nodes);
    hold.on_deadline(at(14_999), &mut nodes);
    assert!(!hold.is_settled());
    assert_eq!(hold.next_deadline(), Some(at(15_000)));
    hold.on_deadline(at(15_000), &mut nodes);
    assert!(hold.is_settled());
}

#[test]
fn law_4_a_refused_release_is_asked_for_again() {
    let mut nodes = Nodes::default();
    let mut hold = started(&mut nodes, 1);
    votes(&mut hold, &mut nodes, &[(0, Vote::Granted)]);
    nodes.take();
    hold.release(LossCause::Released, at(1), &mut nodes);
    assert_eq!(nodes.releases(), [0]);
    hold.on_reply(
        0,
        Command::Release,
        answered(Vote::Refused(Refusal::Busy)),
        at(2),
        &mut nodes,
    );
    hold.on_deadline(at(102), &mut nodes);
    assert_eq!(nodes.releases(), [0]);
    hold.on_reply(
        0,
        Command::Release,
        answered(Vote::Refused(Refusal::ReadOnly)),
        at(103),
        &mut nodes,
    );
    hold.on_deadline(at(10_002), &mut nodes);
    assert!(hold.is_settled(), "the key has expired by itself");
}

#[test]
fn law_4_a_refused_release_is_asked_for_until_no_extension_can_lengthen_the_key() {
    let mut nodes = Nodes::default();
    let mut hold = started(&mut nodes, 1);
    votes(&mut hold, &mut nodes, &[(0, Vote::Granted)]);
    let number = hold.extend(TTL, at(3000), ROUND, &mut nodes).unwrap();
    let extend = Command::Extend {
        ttl: TTL,
        number,
        ballot: None,
    };
    hold.on_reply(0, extend, broken(1), at(3001), &mut nodes);
    hold.release(LossCause::Released, at(4000), &mut nodes);
    let refused = Reply {
        vote: Vote::Refused(Refusal::Busy),
        carrier: Carrier::Answered(ConnectionId(2)),
        error: None,
    };
    hold.on_reply(0, Command::Release, refused, at(4001), &mut nodes);
    assert!(hold.needs_news(0), "the first connection may yet deliver");
    nodes.down = vec![0];
    hold.on_deadline(at(60_000), &mut nodes);
    assert!(!hold.is_settled());
    hold.on_news(0, News::Finished(FIRST), at(60_000), &mut nodes);
    hold.on_deadline(at(69_999), &mut nodes);
    assert!(!hold.is_settled());
    hold.on_deadline(at(70_000), &mut nodes);
    assert!(hold.is_settled());
}

#[test]
fn law_4_a_debt_is_not_given_up_while_an_extension_is_in_flight() {
    let mut nodes = Nodes::default();
    let mut hold = started(&mut nodes, 1);
    votes(&mut hold, &mut nodes, &[(0, Vote::Granted)]);
    let number = hold.extend(TTL, at(3000), ROUND, &mut nodes).unwrap();
    let extend = Command::Extend {
        ttl: TTL,
        number,
        ballot: None,
    };
    // The second connection has just ended; the extension's answer is on its way to the hold.
    nodes.down = vec![0];
    hold.release(LossCause::Released, at(4000), &mut nodes);
    hold.on_news(0, News::Finished(FIRST), at(4000), &mut nodes);
    hold.on_deadline(at(60_000), &mut nodes);
    assert!(!hold.is_settled());
    hold.on_reply(0, extend, broken(2), at(60_000), &mut nodes);
    hold.on_news(0, News::Finished(ConnectionId(2)), at(60_000), &mut nodes);
    hold.on_deadline(at(70_000), &mut nodes);
    assert!(hold.is_settled());
}

#[test]
fn law_4_an_extension_that_a_straggler_may_have_overtaken_proves_no_absence() {
    let mut nodes = Nodes::default();
    let mut hold = held(&mut nodes);
    hold.on_reply(2, ACQUIRE, broken(1), at(2), &mut nodes);
    let number = hold.extend(TTL, at(3000), ROUND, &mut nodes).unwrap();
    let extend = Command::Extend {
        ttl: TTL,
        number,
        ballot: None,
    };
    nodes.take();
    // The extension finds no key, the straggler sets it, and only then the answer comes.
    hold.on_news(2, News::Finished(FIRST), at(3001), &mut nodes);
    let second = |vote| Reply {
        vote,
        carrier: Carrier::Answered(ConnectionId(2)),
        error: None,
    };
    hold.on_reply(2, extend, second(HELD), at(3002), &mut nodes);
    for node in [0, 1] {
        hold.on_reply(node, extend, answered(Vote::Granted), at(3002), &mut nodes);
    }
    assert_eq!(nodes.take(), [], "nothing to heal");
    // The next one is sent after the straggler's end: its answer counts.
    let mut next = hold.clone();
    hold.release(LossCause::Released, at(4000), &mut nodes);
    assert_eq!(nodes.releases(), [0, 1, 2]);
    let number = next.extend(TTL, at(6000), ROUND, &mut nodes).unwrap();
    let extend = Command::Extend {
        ttl: TTL,
        number,
        ballot: None,
    };
    nodes.take();
    next.on_reply(2, extend, second(HELD), at(6001), &mut nodes);
    next.release(LossCause::Released, at(7000), &mut nodes);
    assert_eq!(nodes.releases(), [0, 1]);
}

#[test]
fn law_4_a_vote_that_comes_after_the_verdict_is_looked_after() {
    let mut nodes = Nodes::default();
    let mut hold = held(&mut nodes);
    hold.on_reply(2, ACQUIRE, answered(HELD), at(2), &mut nodes);
    hold.release(LossCause::Released, at(3), &mut nodes);
    assert_eq!(nodes.releases(), [0, 1], "a late no owes nothing");

    let mut hold = held(&mut nodes);
    hold.on_reply(2, ACQUIRE, answered(Vote::Granted), at(2), &mut nodes);
    hold.release(LossCause::Released, at(3), &mut nodes);
    assert_eq!(nodes.releases(), [0, 1, 2], "a late yes joins the holders");
}

#[test]
fn law_5_loss_is_on_time_and_sticky() {
    let mut nodes = Nodes::default();
    let mut hold = held(&mut nodes);
    assert_eq!(hold.loss(at(9896)), None);
    assert_eq!(
        hold.loss(at(9897)),
        Some(LossCause::Expired),
        "before any timer has fired"
    );
    hold.on_deadline(at(9897), &mut nodes);
    assert_eq!(
        nodes.releases(),
        [0, 1, 2],
        "what may be left is cleaned up"
    );
    hold.release(LossCause::Released, at(9898), &mut nodes);
    assert_eq!(hold.loss(at(0)), Some(LossCause::Expired));
}

#[test]
fn law_5_an_extension_counts_from_its_own_start_and_only_before_the_loss() {
    let mut nodes = Nodes::default();
    let mut hold = held(&mut nodes);
    let number = hold.extend(TTL, at(3000), ROUND, &mut nodes).unwrap();
    let extend = Command::Extend {
        ttl: TTL,
        number,
        ballot: None,
    };
    assert_eq!(nodes.take(), [(0, extend), (1, extend), (2, extend)]);
    hold.on_reply(0, extend, answered(Vote::Granted), at(3001), &mut nodes);
    assert_eq!(hold.valid_until(), at(9898));
    hold.on_reply(1, extend, answered(Vote::Granted), at(3900), &mut nodes);
    assert_eq!(hold.valid_until(), at(12_898));
    assert!(!hold.is_extending());

    let mut late = held(&mut nodes);
    let number = late.extend(TTL, at(9800), ROUND, &mut nodes).unwrap();
    let extend = Command::Extend {
        ttl: TTL,
        number,
        ballot: None,
    };
    for node in [0, 1] {
        late.on_reply(node, extend, answered(Vote::Granted), at(9897), &mut nodes);
    }
    assert_eq!(late.valid_until(), at(9898));
    assert_eq!(late.loss(at(9897)), Some(LossCause::Expired));
}

#[test]
fn law_5_too_few_nodes_with_the_key_are_a_loss_at_once() {
    let mut nodes = Nodes::default();
    let mut hold = held(&mut nodes);
    hold.on_reply(2, ACQUIRE, answered(HELD), at(2), &mut nodes);
    let number = hold.extend(TTL, at(3000), ROUND, &mut nodes).unwrap();
    let extend = Command::Extend {
        ttl: TTL,
        number,
        ballot: None,
    };
    nodes.take();
    hold.on_reply(2, extend, answered(HELD), at(3001), &mut nodes);
    assert_eq!(hold.loss(at(3001)), None);
    hold.on_reply(0, extend, answered(HELD), at(3002), &mut nodes);
    assert_eq!(hold.loss(at(3002)), Some(LossCause::Gone));
    assert_eq!(nodes.releases(), [1]);
}

#[test]
fn law_5_an_extension_without_replies_is_no_loss() {
    let mut nodes = Nodes::default();
    let mut hold = held(&mut nodes);
    let number = hold.extend(TTL, at(3000), ROUND, &mut nodes).unwrap();
    assert_eq!(hold.next_deadline(), Some(at(4000)));
    hold.on_deadline(at(4000), &mut nodes);
    let ended = hold.extended().unwrap();
    assert_eq!((ended.number, ended.verdict), (number, Verdict::NoQuorum));
    assert_eq!((hold.loss(at(4000)), hold.valid_until()), (None, at(9898)));
    // A reply of the old extension does not count for the next.
    let next = hold.extend(TTL, at(5000), ROUND, &mut nodes).unwrap();
    let old = Command::Extend {
        ttl: TTL,
        number,
        ballot: None,
    };
    for node in [0, 1, 2] {
        hold.on_reply(node, old, answered(Vote::Granted), at(5001), &mut nodes);
    }
    assert!(hold.is_extending() && next != number);
}

#[test]
fn a_shorter_extension_sends_nothing() {
    let mut nodes = Nodes::default();
    let mut hold = held(&mut nodes);
    assert_eq!(
        hold.extend(Duration::from_secs(5), at(3000), ROUND, &mut nodes),
        None
    );
    assert_eq!(nodes.take(), []);
}

#[test]
fn a_release_overtakes_no_extension_and_ends_it() {
    let mut nodes = Nodes::default();
    let mut hold = held(&mut nodes);
    let number = hold.extend(TTL, at(3000), ROUND, &mut nodes).unwrap();
    hold.release(LossCause::Released, at(3001), &mut nodes);
    let sent = nodes.take();
    assert_eq!(
        sent[3..],
        [
            (0, Command::Release),
            (1, Command::Release),
            (2, Command::Release)
        ]
    );
    assert!(!hold.is_extending());
    for node in [0, 1] {
        let extend = Command::Extend {
            ttl: TTL,
            number,
            ballot: None,
        };
        hold.on_reply(node, extend, answered(Vote::Granted), at(3002), &mut nodes);
    }
    assert_eq!(hold.loss(at(3002)), Some(LossCause::Released));
    assert_eq!(hold.valid_until(), at(9898));
}

#[test]
fn a_release_is_confirmed_when_no_quorum_can_hold_the_key() {
    let mut nodes = Nodes::default();
    let mut hold = started(&mut nodes, 5);
    let all = [0, 1, 2, 3, 4].map(|node| (node, Vote::Granted));
    votes(&mut hold, &mut nodes, &all);
    hold.release(LossCause::Released, at(2), &mut nodes);
    for node in [0, 1] {
        hold.on_reply(
            node,
            Command::Release,
            answered(Vote::Granted),
            at(3),
            &mut nodes,
        );
    }
    assert!(!hold.removal().confirmed);
    hold.on_deadline(at(1002), &mut nodes);
    assert!(hold.removal().timed_out && !hold.removal().confirmed);
    hold.on_reply(
        2,
        Command::Release,
        answered(Vote::Granted),
        at(1003),
        &mut nodes,
    );
    assert!(hold.removal().confirmed);
    assert_eq!((hold.removal().deleted, hold.removal().remaining), (3, 2));
}

#[test]
fn callers_are_woken_once_when_a_release_is_confirmed_by_whatever_answer() {
    for last in [(1, Command::Release, Vote::Granted), (2, ACQUIRE, HELD)] {
        let mut nodes = Nodes::default();
        let mut hold = started(&mut nodes, 3);
        votes(
            &mut hold,
            &mut nodes,
            &[(0, Vote::Granted), (1, Vote::Granted)],
        );
        hold.release(LossCause::Released, at(2), &mut nodes);
        nodes.wakes = 0;
        let mut reply = |node, command, vote| {
            hold.on_reply(node, command, answered(vote), at(3), &mut nodes);
            (hold.removal().confirmed, nodes.wakes)
        };
        assert_eq!(reply(0, Command::Release, Vote::Granted), (false, 0));
        assert_eq!(reply(last.0, last.1, last.2), (true, 1));
        assert_eq!(reply(2, Command::Release, HELD), (true, 1));
    }
}

#[test]
fn a_driver_that_is_gone_ends_all_debts() {
    let mut nodes = Nodes {
        down: vec![0, 1, 2],
        ..Nodes::default()
    };
    let mut hold = held(&mut Nodes::default());
    hold.release(LossCause::Released, at(2), &mut nodes);
    for node in [0, 1, 2] {
        hold.on_reply(2, ACQUIRE, broken(1), at(3), &mut nodes);
        hold.on_news(node, News::Gone, at(3), &mut nodes);
    }
    assert!(hold.is_settled());
}

#[test]
fn spurious_inputs_are_no_ops() {
    let mut nodes = Nodes::default();
    let mut hold = held(&mut nodes);
    for moment in [0, 1, 500, 5000] {
        hold.on_deadline(at(moment), &mut nodes);
    }
    hold.on_reply(0, ACQUIRE, answered(Vote::Granted), at(2), &mut nodes);
    hold.on_reply(
        0,
        Command::Release,
        answered(Vote::Granted),
        at(2),
        &mut nodes,
    );
    hold.on_news(1, News::Up, at(2), &mut nodes);
    hold.on_news(1, News::Gone, at(2), &mut nodes);
    assert_eq!(nodes.take(), []);
    assert_eq!((hold.loss(at(5000)), hold.valid_until()), (None, at(9898)));
}

/// Held by nodes 0 and 1 of 3, node 2 has said no; renewed every two seconds.
fn renewed_every_two_seconds(nodes: &mut Nodes, limit: Option<Duration>) -> Hold {
    let mut renewal = Renewal::every(Duration::from_secs(2));
    if let Some(limit) = limit {
        renewal = renewal.max_hold(limit);
    }
    let mut hold = Hold::new(3, &Terms { renewal, ..TERMS });
    hold.start(at(0), nodes);
    votes(
        &mut hold,
        nodes,
        &[(0, Vote::Granted), (1, Vote::Granted), (2, HELD)],
    );
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

#[test]
fn a_renewal_is_due_and_moves_the_end() {
    let mut nodes = Nodes::default();
    let mut hold = renewed_every_two_seconds(&mut nodes, None);
    let mut before = at(0);
    for _ in 0..5 {
        let (command, due) = renew(&mut hold, &mut nodes);
        let interval = due.since(before);
        assert!(
            interval > Duration::from_millis(1770) && interval < Duration::from_millis(2201),
            "{interval:?}"
        );
        for node in [0, 1] {
            hold.on_reply(
                node,
                command,
                answered(Vote::Granted),
                due.after(ROUND / 2),
                &mut nodes,
            );
        }
        assert_eq!(hold.valid_until(), due.after(Duration::from_millis(9898)));
        before = due;
    }
}

#[test]
fn law_5_a_renewal_without_replies_is_retried_until_the_loss() {
    let mut nodes = Nodes::default();
    let mut hold = renewed_every_two_seconds(&mut nodes, None);
    nodes.down = vec![0, 1, 2];
    let mut attempts = 0;
    while hold.loss(hold.next_deadline().unwrap()).is_none() {
        let now = hold.next_deadline().unwrap();
        hold.on_deadline(now, &mut nodes);
        attempts += 1;
    }
    assert!((10..20).contains(&attempts), "{attempts}");
    assert_eq!(hold.next_deadline(), Some(hold.loss_at()));
    hold.on_deadline(hold.loss_at(), &mut nodes);
    assert_eq!(hold.loss(at(0)), Some(LossCause::Expired));
}

#[test]
fn a_renewal_waits_for_the_extension_in_flight() {
    let mut nodes = Nodes::default();
    let mut hold = renewed_every_two_seconds(&mut nodes, None);
    let due = hold.next_deadline().unwrap();
    let early = due.before(Duration::from_millis(1));
    hold.extend(TTL, early, ROUND, &mut nodes).unwrap();
    nodes.take();
    hold.on_deadline(due, &mut nodes);
    assert_eq!(nodes.take(), [], "one at a time");
}

#[test]
fn a_confirmed_renewal_heals_the_nodes_that_lack_the_key() {
    let mut nodes = Nodes::default();
    let mut hold = renewed_every_two_seconds(&mut nodes, None);
    let heal = Command::Heal {
        ttl: TTL,
        ballot: None,
    };
    // A node that lacks it answers first: nothing, before a quorum is found.
    let (command, due) = renew(&mut hold, &mut nodes);
    hold.on_reply(2, command, answered(HELD), due, &mut nodes);
    hold.on_reply(0, command, answered(Vote::Granted), due, &mut nodes);
    assert_eq!(nodes.take(), []);
    hold.on_reply(1, command, answered(Vote::Granted), due, &mut nodes);
    assert_eq!(nodes.take(), [(2, heal)]);
    hold.on_reply(2, heal, answered(Vote::Granted), due, &mut nodes);
    assert_eq!(hold.removal().remaining, 3);
    // And last: it is healed all the same. The key of another is left alone, by NX.
    let (command, due) = renew(&mut hold, &mut nodes);
    for node in [0, 1] {
        hold.on_reply(node, command, answered(Vote::Granted), due, &mut nodes);
    }
    hold.on_reply(2, command, answered(HELD), due, &mut nodes);
    assert_eq!(nodes.take(), [(2, heal)]);
    hold.on_reply(2, heal, answered(HELD), due, &mut nodes);
    assert_eq!(hold.removal().remaining, 2);
}

#[test]
fn law_5_a_heal_never_counts_and_never_comes_after_the_loss() {
    let mut nodes = Nodes::default();
    let mut hold = renewed_every_two_seconds(&mut nodes, None);
    let (command, due) = renew(&mut hold, &mut nodes);
    // One key is left of three: that is a loss, and no reason to set the others again.
    hold.on_reply(0, command, answered(HELD), due, &mut nodes);
    assert_eq!(hold.loss(due), Some(LossCause::Gone));
    assert_eq!(nodes.releases(), [1]);
    for node in [1, 2] {
        hold.on_reply(node, command, answered(Vote::Granted), due, &mut nodes);
    }
    assert_eq!(nodes.take(), []);
}

#[test]
fn law_4_a_heal_is_a_debt() {
    let mut nodes = Nodes::default();
    let mut hold = renewed_every_two_seconds(&mut nodes, None);
    let (command, due) = renew(&mut hold, &mut nodes);
    for (node, vote) in [(0, Vote::Granted), (1, Vote::Granted), (2, HELD)] {
        hold.on_reply(node, command, answered(vote), due, &mut nodes);
    }
    nodes.take();
    hold.release(LossCause::Released, due, &mut nodes);
    assert_eq!(
        nodes.releases(),
        [0, 1, 2],
        "behind the heal that is on its way"
    );
}

#[test]
fn max_hold_ends_it_on_time_and_leaves_the_key_to_the_guard() {
    let mut nodes = Nodes::default();
    let mut hold = renewed_every_two_seconds(&mut nodes, Some(Duration::from_secs(3)));
    assert_eq!(hold.valid_until(), at(3000));
    assert_eq!(
        hold.next_deadline(),
        Some(at(2999)),
        "a renewal would be for nothing"
    );
    assert_eq!(hold.loss(at(2999)), Some(LossCause::MaxHold));
    hold.on_deadline(at(2999), &mut nodes);
    assert_eq!(nodes.take(), [], "the section may still be at work");
    assert_eq!(
        hold.next_deadline(),
        Some(at(12_999)),
        "the key has expired"
    );
    hold.release(LossCause::Released, at(5000), &mut nodes);
    assert_eq!(nodes.releases(), [0, 1]);
    assert_eq!(hold.loss(at(5000)), Some(LossCause::MaxHold), "sticky");
}

#[test]
fn max_hold_clips_what_renewals_promise() {
    let mut nodes = Nodes::default();
    let mut hold = renewed_every_two_seconds(&mut nodes, Some(Duration::from_secs(12)));
    assert_eq!(hold.valid_until(), at(9898));
    let (command, due) = renew(&mut hold, &mut nodes);
    assert!(due < at(3000));
    for node in [0, 1] {
        hold.on_reply(node, command, answered(Vote::Granted), due, &mut nodes);
    }
    assert_eq!(
        hold.valid_until(),
        due.after(Duration::from_millis(9898)).min(at(12_000))
    );
    hold.extend(TTL, at(5000), ROUND, &mut nodes).unwrap();
    let (_, command) = nodes.take()[0];
    for node in [0, 1] {
        hold.on_reply(node, command, answered(Vote::Granted), at(5001), &mut nodes);
    }
    assert_eq!(hold.valid_until(), at(12_000));
    assert_eq!(hold.loss(at(11_998)), None);
    assert_eq!(hold.loss(at(11_999)), Some(LossCause::MaxHold));
}

#[test]
fn a_node_with_a_straggler_is_healed_once_it_is_outlived() {
    let mut nodes = Nodes::default();
    let mut hold = Hold::new(
        3,
        &Terms {
            renewal: Renewal::every(Duration::from_secs(2)),
            ..TERMS
        },
    );
    hold.start(at(0), &mut nodes);
    votes(
        &mut hold,
        &mut nodes,
        &[(0, Vote::Granted), (1, Vote::Granted)],
    );
    hold.on_reply(2, ACQUIRE, broken(1), at(1), &mut nodes);
    nodes.take();
    assert!(hold.needs_news(2));
    hold.on_news(2, News::Finished(FIRST), at(2), &mut nodes);
    assert!(!hold.needs_news(2));
    let (command, due) = renew(&mut hold, &mut nodes);
    for (node, vote) in [(0, Vote::Granted), (1, Vote::Granted), (2, HELD)] {
        hold.on_reply(node, command, answered(vote), due, &mut nodes);
    }
    assert_eq!(
        nodes.take(),
        [(
            2,
            Command::Heal {
                ttl: TTL,
                ballot: None
            }
        )]
    );
}

/// Attached to a lock that another client has set on three nodes.
fn attaching(nodes: &mut Nodes) -> (Hold, Command) {
    let mut hold = Hold::new(3, &TERMS);
    hold.attach(at(0), nodes);
    let sent = nodes.take();
    let extend = Command::Extend {
        ttl: TTL,
        number: 0,
        ballot: None,
    };
    assert_eq!(sent, [(0, extend), (1, extend), (2, extend)]);
    (hold, extend)
}

#[test]
fn an_attached_lock_is_valid_from_its_own_send_and_released_everywhere() {
    let mut nodes = Nodes::default();
    let (mut hold, extend) = attaching(&mut nodes);
    for (node, vote) in [(0, Vote::Granted), (1, HELD), (2, Vote::Granted)] {
        hold.on_reply(node, extend, answered(vote), at(5), &mut nodes);
    }
    assert_eq!(hold.take(at(5), &mut nodes), Some(Verdict::Won));
    assert_eq!(hold.valid_until(), at(9898));
    assert_eq!(nodes.take(), [], "no healing by what another has set");
    hold.release(LossCause::Released, at(6), &mut nodes);
    assert_eq!(nodes.releases(), [0, 1, 2]);
}

#[test]
fn a_failed_attachment_leaves_the_lock_alone() {
    for (votes, verdict) in [
        ([HELD, HELD], Verdict::Contended),
        ([Vote::Unsent(Unsent::NotConnected); 2], Verdict::NoQuorum),
    ] {
        let mut nodes = Nodes::default();
        let (mut hold, extend) = attaching(&mut nodes);
        for (node, vote) in votes.into_iter().enumerate() {
            hold.on_reply(node, extend, answered(vote), at(5), &mut nodes);
        }
        assert_eq!(hold.take(at(5), &mut nodes), Some(verdict));
        assert_eq!(nodes.take(), []);
        assert!(hold.is_settled());
    }
    let mut nodes = Nodes::default();
    let (mut hold, extend) = attaching(&mut nodes);
    hold.release(LossCause::Released, at(1), &mut nodes);
    hold.on_reply(0, extend, answered(Vote::Granted), at(2), &mut nodes);
    assert_eq!(nodes.take(), [], "a dropped one too");
    assert!(hold.is_settled());
}

#[test]
fn a_detached_lock_owes_nothing_and_is_renewed_no_more() {
    let mut nodes = Nodes::default();
    let mut hold = renewed_every_two_seconds(&mut nodes, None);
    assert_eq!(hold.detach(at(100), &mut nodes), Some(TTL));
    assert_eq!(nodes.take(), []);
    assert!(hold.is_settled());
    assert_eq!(
        (hold.next_deadline(), hold.loss(at(100))),
        (None, Some(LossCause::Detached))
    );
    assert_eq!(hold.detach(at(101), &mut nodes), None);
    let mut late = renewed_every_two_seconds(&mut nodes, None);
    assert_eq!(
        late.detach(at(9897), &mut nodes),
        None,
        "a lost lock cannot be handed on"
    );
}

#[test]
fn a_disowned_lock_is_released_everywhere() {
    // What is not written yet can be withdrawn: there was no acquire.
    let mut nodes = Nodes {
        unwritten: vec![0, 1, 2],
        ..Nodes::default()
    };
    let mut hold = Hold::new(3, &TERMS);
    hold.disown(at(0), &mut nodes);
    assert_eq!(nodes.releases(), [0, 1, 2]);
    assert!(!hold.removal().confirmed);
    for (node, vote) in [(0, Vote::Granted), (1, HELD)] {
        hold.on_reply(node, Command::Release, answered(vote), at(1), &mut nodes);
    }
    assert_eq!(
        (hold.removal().confirmed, hold.removal().deleted),
        (true, 1)
    );
}
