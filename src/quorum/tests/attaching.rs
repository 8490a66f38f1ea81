//! Locks that come from, or go to, another client.

use super::*;

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
fn an_attachment_that_is_dropped_before_it_is_taken_leaves_the_lock_alone() {
    let won = |nodes: &mut Nodes| {
        let (mut hold, extend) = attaching(nodes);
        for node in 0..2 {
            hold.on_reply(node, extend, answered(Vote::Granted), at(5), nodes);
        }
        assert_eq!(hold.verdict(), Some(Verdict::Won));
        hold
    };
    let mut nodes = Nodes::default();
    let mut dropped = won(&mut nodes);
    dropped.release(LossCause::Released, at(6), &mut nodes);
    assert_eq!(nodes.take(), []);
    assert!(dropped.is_settled());
    let mut late = won(&mut nodes);
    late.on_deadline(late.loss_at(), &mut nodes);
    assert_eq!(late.loss(at(9897)), Some(LossCause::Expired));
    assert_eq!(nodes.releases(), [], "somebody else may have attached it");
    let mut taken = won(&mut nodes);
    assert_eq!(taken.take(at(6), &mut nodes), Some(Verdict::Won));
    taken.release(LossCause::Released, at(7), &mut nodes);
    assert_eq!(nodes.releases(), [0, 1, 2]);
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
    assert!(!hold.report().confirmed);
    for (node, vote) in [(0, Vote::Granted), (1, HELD)] {
        hold.on_reply(node, Command::Release, answered(vote), at(1), &mut nodes);
    }
    assert_eq!((hold.report().confirmed, hold.report().deleted), (true, 1));
}

#[test]
fn law_4_a_debt_is_not_given_up_while_an_attachment_is_in_flight() {
    let mut nodes = Nodes::default();
    let (mut hold, extend) = attaching(&mut nodes);
    for node in 0..2 {
        hold.on_reply(node, extend, answered(Vote::Granted), at(5), &mut nodes);
    }
    assert_eq!(hold.take(at(5), &mut nodes), Some(Verdict::Won));
    // The second connection has just ended; the answer of node 2 is on its way to the hold.
    nodes.down = vec![2];
    hold.release(LossCause::Released, at(4000), &mut nodes);
    assert_eq!(nodes.releases(), [0, 1]);
    for node in 0..2 {
        let granted = answered(Vote::Granted);
        hold.on_reply(node, Command::Release, granted, at(4001), &mut nodes);
    }
    hold.on_news(2, News::Finished(FIRST), at(4001), &mut nodes);
    hold.on_deadline(at(60_000), &mut nodes);
    assert!(!hold.is_settled());
    hold.on_reply(2, extend, broken(2), at(60_000), &mut nodes);
    hold.on_news(2, News::Finished(ConnectionId(2)), at(60_000), &mut nodes);
    hold.on_deadline(at(70_000), &mut nodes);
    assert!(hold.is_settled());
}
