//! Acquisitions: votes, verdicts, and the last look at the clock.

use super::*;

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
fn each_node_that_could_not_be_asked_says_why_also_when_fewer_decide_the_round() {
    let all = vec![0, 1, 2];
    let mut nodes = Nodes {
        down: all.clone(),
        unwritten: all,
        ..Nodes::default()
    };
    let hold = started(&mut nodes, 3);
    assert_eq!(hold.verdict(), Some(Verdict::NoQuorum));
    let down = Some(Vote::Unsent(Unsent::NotConnected));
    assert!(hold.round().votes().all(|(vote, _)| vote == down));
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
fn a_driver_that_went_before_the_removal_began_ends_it_at_once() {
    let mut nodes = Nodes::default();
    let mut hold = held(&mut nodes);
    hold.on_reply(2, ACQUIRE, broken(1), at(2), &mut nodes);
    assert!(hold.needs_news(2), "of its straggler's end");
    for node in [0, 1, 2] {
        hold.on_news(node, News::Gone, at(3), &mut nodes);
    }
    nodes.gone = vec![0, 1, 2];
    hold.release(LossCause::Released, at(4), &mut nodes);
    assert!(hold.is_settled() && !hold.report().confirmed);
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
    assert_eq!(hold.possible_holders().count(), 3);
    // And last: it is healed all the same. The key of another is left alone, by NX.
    let (command, due) = renew(&mut hold, &mut nodes);
    for node in [0, 1] {
        hold.on_reply(node, command, answered(Vote::Granted), due, &mut nodes);
    }
    hold.on_reply(2, command, answered(HELD), due, &mut nodes);
    assert_eq!(nodes.take(), [(2, heal)]);
    hold.on_reply(2, heal, answered(HELD), due, &mut nodes);
    assert_eq!(hold.possible_holders().count(), 2);
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
