//! Fenced holds as tables.

use super::super::ballot::Ballot;
use super::*;

const MEMORY: Duration = Duration::from_secs(600);

fn ballot(number: u64) -> Ballot {
    Ballot::new(number, MEMORY)
}

fn acquire(number: u64) -> Command {
    Command::Acquire {
        ttl: TTL,
        ballot: Some(ballot(number)),
    }
}

fn tombstone(number: u64) -> Command {
    Command::Tombstone {
        ballot: ballot(number),
    }
}

const fn stale(fence: u64) -> Vote {
    Vote::Stale { fence }
}

const fn busy(fence: u64) -> Vote {
    Vote::Held {
        ttl: Some(TTL),
        fence: Some(fence),
    }
}

/// An attempt with ballot 100 at three nodes.
fn fenced(nodes: &mut Nodes) -> Hold {
    let terms = Terms {
        ballot: Some(ballot(100)),
        renewal: Renewal::every(Duration::from_secs(2)),
        ..TERMS
    };
    let mut hold = Hold::new(3, &terms);
    hold.start(at(0), nodes);
    assert_eq!(nodes.take(), [0, 1, 2].map(|node| (node, acquire(100))));
    hold
}

fn vote(hold: &mut Hold, nodes: &mut Nodes, node: usize, number: u64, vote: Vote) {
    hold.on_reply(node, acquire(number), answered(vote), at(5), nodes);
}

fn token(hold: &Hold) -> Option<u64> {
    hold.fencing_token().map(|token| token.as_u64())
}

#[test]
fn the_fencing_token_is_the_ballot() {
    let mut nodes = Nodes::default();
    let mut hold = fenced(&mut nodes);
    for node in [0, 1] {
        vote(&mut hold, &mut nodes, node, 100, Vote::Granted);
    }
    assert_eq!(hold.take(at(5), &mut nodes), Some(Verdict::Won));
    assert_eq!(token(&hold), Some(100));
    assert_eq!(
        token(&held(&mut nodes)),
        None,
        "without a ballot there is none"
    );
}

#[test]
fn a_ballot_that_is_too_small_is_raised_once_in_the_same_attempt() {
    let mut nodes = Nodes::default();
    let mut hold = fenced(&mut nodes);
    vote(&mut hold, &mut nodes, 0, 100, Vote::Granted);
    vote(&mut hold, &mut nodes, 1, 100, stale(300));
    assert_eq!((nodes.take(), hold.verdict()), (vec![], None));
    vote(&mut hold, &mut nodes, 2, 100, stale(200));
    // Every node again, also the one that has our key: it is upgraded.
    assert_eq!(nodes.take(), [0, 1, 2].map(|node| (node, acquire(301))));
    assert_eq!((hold.verdict(), nodes.wakes), (None, 0));
    assert_eq!(hold.next_deadline(), Some(at(1000)), "the same time-out");
    vote(&mut hold, &mut nodes, 0, 301, Vote::Granted);
    vote(&mut hold, &mut nodes, 1, 301, Vote::Granted);
    assert_eq!(hold.take(at(6), &mut nodes), Some(Verdict::Won));
    assert_eq!(token(&hold), Some(301));
    assert_eq!(hold.valid_until(), at(5 + 9898), "a new round, a new start");
}

#[test]
fn there_is_no_third_round() {
    let mut nodes = Nodes::default();
    let mut hold = fenced(&mut nodes);
    for node in [0, 1] {
        vote(&mut hold, &mut nodes, node, 100, stale(300));
    }
    nodes.take();
    for node in [0, 1] {
        vote(&mut hold, &mut nodes, node, 301, stale(400));
    }
    assert_eq!(hold.verdict(), Some(Verdict::Contended));
    // Both acquires are still out there, and nothing was granted elsewhere.
    assert_eq!(nodes.take(), [(2, tombstone(301))]);
}

#[test]
fn votes_for_the_first_ballot_do_not_count_in_the_second_round() {
    let mut nodes = Nodes::default();
    let terms = Terms {
        ballot: Some(ballot(100)),
        ..TERMS
    };
    let mut hold = Hold::new(5, &terms);
    hold.start(at(0), &mut nodes);
    for node in [0, 1, 2] {
        vote(&mut hold, &mut nodes, node, 100, stale(300));
    }
    assert_eq!(nodes.take().len(), 10);
    for node in [3, 4] {
        vote(&mut hold, &mut nodes, node, 100, Vote::Granted);
    }
    vote(&mut hold, &mut nodes, 0, 301, Vote::Granted);
    assert_eq!(hold.verdict(), None, "one grant of this round");
    for node in [3, 4] {
        vote(&mut hold, &mut nodes, node, 301, stale(900));
    }
    vote(&mut hold, &mut nodes, 1, 301, busy(7));
    assert_eq!(hold.verdict(), Some(Verdict::Contended));
    // The keys that the first ballot won are there, whatever the second was told.
    let expected = [
        (0, Command::Release),
        (2, tombstone(301)),
        (3, Command::Release),
        (4, Command::Release),
    ];
    assert_eq!(nodes.take(), expected);
}

#[test]
fn what_is_unwritten_of_the_first_round_is_withdrawn() {
    let mut nodes = Nodes {
        unwritten: vec![2],
        ..Nodes::default()
    };
    let mut hold = fenced(&mut nodes);
    for node in [0, 1] {
        vote(&mut hold, &mut nodes, node, 100, stale(300));
    }
    nodes.take();
    vote(&mut hold, &mut nodes, 2, 301, Vote::Granted);
    vote(&mut hold, &mut nodes, 0, 301, Vote::Granted);
    hold.on_reply(1, acquire(301), broken(1), at(6), &mut nodes);
    hold.release(LossCause::Released, at(7), &mut nodes);
    let expected = [
        (0, Command::Release),
        (1, tombstone(301)),
        (2, Command::Release),
    ];
    assert_eq!(nodes.take(), expected);
}

#[test]
fn a_larger_ballot_is_tried_only_where_it_could_win() {
    // Two votes, and whether a second round follows the second of them.
    let table = [
        ([stale(300), stale(300)], true),
        ([busy(300), stale(300)], true),
        ([busy(300), busy(300)], false),
        ([Vote::Unknown, stale(300)], true),
        ([Vote::Refused(Refusal::NoPerm), stale(300)], true),
        ([Vote::Unknown, busy(300)], false),
    ];
    for (cast, again) in table {
        let mut nodes = Nodes::default();
        let mut hold = fenced(&mut nodes);
        for (node, cast) in cast.into_iter().enumerate() {
            vote(&mut hold, &mut nodes, node, 100, cast);
        }
        assert_eq!(hold.verdict().is_none(), again, "{cast:?}");
        let asked = nodes.take();
        assert_eq!(asked.contains(&(0, acquire(301))), again, "{cast:?}");
    }
    // Without a quorum behind it, it could not.
    let mut nodes = Nodes::default();
    let mut hold = fenced(&mut nodes);
    for (node, cast) in [busy(300), Vote::Unknown, stale(300)]
        .into_iter()
        .enumerate()
    {
        vote(&mut hold, &mut nodes, node, 100, cast);
    }
    assert_eq!(hold.verdict(), Some(Verdict::Contended));
    // Nor when the time is up.
    let mut nodes = Nodes::default();
    let mut hold = fenced(&mut nodes);
    vote(&mut hold, &mut nodes, 0, 100, stale(300));
    hold.on_deadline(at(1000), &mut nodes);
    assert_eq!(hold.verdict(), Some(Verdict::Contended));
}

#[test]
fn a_plain_attempt_is_never_balloted_again() {
    let mut nodes = Nodes::default();
    let mut hold = started(&mut nodes, 3);
    votes(&mut hold, &mut nodes, &[(0, stale(3)), (1, stale(3))]);
    assert_eq!(hold.verdict(), Some(Verdict::Contended));
}

#[test]
fn law_4_a_tombstone_stands_where_something_is_unanswered() {
    let mut nodes = Nodes::default();
    let mut hold = fenced(&mut nodes);
    for node in [0, 1] {
        vote(&mut hold, &mut nodes, node, 100, Vote::Granted);
    }
    hold.release(LossCause::Released, at(6), &mut nodes);
    let expected = [
        (0, Command::Release),
        (1, Command::Release),
        (2, tombstone(100)),
    ];
    assert_eq!(nodes.take(), expected);
}

/// What it says about the node's keys is shown where the rule is: after a tombstone neither an
/// acquire nor a heal with this ballot does anything, however late.
#[test]
fn law_4_behind_an_answered_tombstone_no_straggler_is_waited_for() {
    let mut nodes = Nodes::default();
    let mut hold = fenced(&mut nodes);
    for node in [0, 1] {
        vote(&mut hold, &mut nodes, node, 100, Vote::Granted);
    }
    hold.on_reply(2, acquire(100), broken(1), at(5), &mut nodes);
    hold.release(LossCause::Released, at(6), &mut nodes);
    assert_eq!(nodes.take()[2], (2, tombstone(100)));
    let anew = |vote| Reply {
        vote,
        carrier: Carrier::Answered(ConnectionId(2)),
        error: None,
    };
    for node in [0, 1] {
        let released = anew(Vote::Granted);
        hold.on_reply(node, Command::Release, released, at(7), &mut nodes);
    }
    // Refused, it proves nothing, and is asked for again.
    let refused = anew(Vote::Refused(Refusal::Oom));
    hold.on_reply(2, tombstone(100), refused, at(7), &mut nodes);
    assert!(!hold.is_settled());
    hold.on_deadline(at(107), &mut nodes);
    assert_eq!(nodes.take(), [(2, tombstone(100))]);
    hold.on_reply(2, tombstone(100), anew(HELD), at(108), &mut nodes);
    assert!(
        hold.is_settled(),
        "nobody has said that the old connection is finished"
    );
}

#[test]
fn extensions_and_heals_carry_the_token() {
    let mut nodes = Nodes::default();
    let mut hold = fenced(&mut nodes);
    for (node, cast) in [Vote::Granted, Vote::Granted, busy(50)]
        .into_iter()
        .enumerate()
    {
        vote(&mut hold, &mut nodes, node, 100, cast);
    }
    let (command, due) = renew(&mut hold, &mut nodes);
    assert_eq!(command.ballot(), Some(ballot(100)));
    for (node, cast) in [Vote::Granted, Vote::Granted, busy(50)]
        .into_iter()
        .enumerate()
    {
        hold.on_reply(node, command, answered(cast), due, &mut nodes);
    }
    let heal = Command::Heal {
        ttl: TTL,
        ballot: Some(ballot(100)),
    };
    assert_eq!(nodes.take(), [(2, heal)]);
    // A larger ballot has been there: no key of ours, and no debt.
    hold.on_reply(2, heal, answered(stale(200)), due, &mut nodes);
    hold.release(LossCause::Released, due, &mut nodes);
    assert_eq!(nodes.releases(), [0, 1]);
}

/// A fenced lock that was set elsewhere, by a client that may have stragglers.
fn inherited() -> Hold {
    let terms = Terms {
        ballot: Some(ballot(100)),
        ..TERMS
    };
    Hold::new(3, &terms)
}

#[test]
fn law_4_a_lock_that_was_set_elsewhere_is_released_by_tombstones() {
    let mut nodes = Nodes::default();
    let mut hold = inherited();
    hold.attach(at(0), &mut nodes);
    let (_, opening) = nodes.take()[0];
    assert_eq!(opening.ballot(), Some(ballot(100)));
    for node in [0, 1, 2] {
        hold.on_reply(node, opening, answered(Vote::Granted), at(1), &mut nodes);
    }
    assert_eq!(hold.take(at(1), &mut nodes), Some(Verdict::Won));
    assert_eq!((token(&hold), hold.loss(at(1))), (Some(100), None));
    hold.release(LossCause::Released, at(2), &mut nodes);
    assert_eq!(nodes.take(), [0, 1, 2].map(|node| (node, tombstone(100))));

    let mut hold = inherited();
    hold.disown(at(0), &mut nodes);
    assert_eq!(nodes.take(), [0, 1, 2].map(|node| (node, tombstone(100))));
}
