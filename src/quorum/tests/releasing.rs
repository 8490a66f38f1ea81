//! Releases and debts: law 4.

use super::*;

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
    assert!(!hold.report().confirmed);
    hold.on_deadline(at(1002), &mut nodes);
    assert!(hold.report().timed_out && !hold.report().confirmed);
    hold.on_reply(
        2,
        Command::Release,
        answered(Vote::Granted),
        at(1003),
        &mut nodes,
    );
    assert!(hold.report().confirmed);
    assert_eq!(
        (hold.report().deleted, hold.possible_holders().count()),
        (3, 2)
    );
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
            (hold.report().confirmed, nodes.wakes)
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
    let report = hold.report();
    assert!(
        !report.confirmed && report.timed_out,
        "the keys are still there"
    );
    assert_eq!(hold.possible_holders().collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn callers_are_woken_when_a_retry_finds_the_driver_gone() {
    let mut nodes = Nodes::default();
    let mut hold = started(&mut nodes, 1);
    votes(&mut hold, &mut nodes, &[(0, Vote::Granted)]);
    hold.release(LossCause::Released, at(1), &mut nodes);
    let busy = answered(Vote::Refused(Refusal::Busy));
    hold.on_reply(0, Command::Release, busy, at(2), &mut nodes);
    nodes.gone = vec![0];
    nodes.wakes = 0;
    hold.on_deadline(at(102), &mut nodes);
    assert!(hold.is_settled() && hold.report().timed_out);
    assert_eq!(nodes.wakes, 1);
}
