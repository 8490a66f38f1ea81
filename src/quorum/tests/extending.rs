//! Extensions and loss: law 5.

use super::*;

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
    let extend = extension(number, TTL);
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
fn law_4_a_refused_release_is_asked_for_until_no_extension_can_lengthen_the_key() {
    let mut nodes = Nodes::default();
    let mut hold = started(&mut nodes, 1);
    votes(&mut hold, &mut nodes, &[(0, Vote::Granted)]);
    let number = hold.extend(TTL, at(3000), ROUND, &mut nodes).unwrap();
    let extend = extension(number, TTL);
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
    let extend = extension(number, TTL);
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
    let extend = extension(number, TTL);
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
    let extend = extension(number, TTL);
    nodes.take();
    next.on_reply(2, extend, second(HELD), at(6001), &mut nodes);
    next.release(LossCause::Released, at(7000), &mut nodes);
    assert_eq!(nodes.releases(), [0, 1]);
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
    let extend = extension(number, TTL);
    assert_eq!(nodes.take(), [(0, extend), (1, extend), (2, extend)]);
    hold.on_reply(0, extend, answered(Vote::Granted), at(3001), &mut nodes);
    assert_eq!(hold.valid_until(), at(9898));
    hold.on_reply(1, extend, answered(Vote::Granted), at(3900), &mut nodes);
    assert_eq!(hold.valid_until(), at(12_898));
    assert!(!hold.is_extending());

    let mut late = held(&mut nodes);
    let number = late.extend(TTL, at(9800), ROUND, &mut nodes).unwrap();
    let extend = extension(number, TTL);
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
    let extend = extension(number, TTL);
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
    let old = extension(number, TTL);
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
        let extend = extension(number, TTL);
        hold.on_reply(node, extend, answered(Vote::Granted), at(3002), &mut nodes);
    }
    assert_eq!(hold.loss(at(3002)), Some(LossCause::Released));
    assert_eq!(hold.valid_until(), at(9898));
}

#[test]
fn an_extension_by_hand_follows_the_one_in_flight_ahead_of_any_renewal() {
    let mut nodes = Nodes::default();
    let renewal = Renewal::every(Duration::from_millis(400));
    let mut hold = renewed(&mut nodes, renewal);
    let due = hold.next_deadline().unwrap();
    hold.on_deadline(due, &mut nodes);
    let number = 2;
    let (renewal, by_hand) = (extension(1, TTL), extension(number, TTL * 2));
    assert_eq!(nodes.take(), [0, 1, 2].map(|node| (node, renewal)));
    assert_eq!(hold.extend(TTL * 2, due, ROUND, &mut nodes), Some(number));
    assert_eq!(nodes.take(), [], "one at a time");
    // The renewal ends so late that the next is due.
    let late = due.after(ROUND.mul_f32(0.9));
    for node in [0, 1] {
        hold.on_reply(node, renewal, answered(Vote::Granted), late, &mut nodes);
    }
    assert_eq!(nodes.take(), [0, 1, 2].map(|node| (node, by_hand)));
    for node in [0, 1] {
        hold.on_reply(node, by_hand, answered(Vote::Granted), late, &mut nodes);
    }
    let ended = hold.extended().unwrap();
    assert_eq!((ended.number, ended.verdict), (number, Verdict::Won));
    assert_eq!(hold.ttl(), TTL * 2);
    hold.on_deadline(late, &mut nodes);
    assert_eq!(nodes.take(), [], "counted from the later one");
}

#[test]
fn an_extension_that_the_one_in_flight_has_made_needless_sends_nothing() {
    let mut nodes = Nodes::default();
    let mut hold = held(&mut nodes);
    let first = hold.extend(TTL, at(3000), ROUND, &mut nodes).unwrap();
    nodes.take();
    let shorter = hold.extend(TTL / 2, at(3000), ROUND, &mut nodes).unwrap();
    for node in [0, 1] {
        let granted = answered(Vote::Granted);
        hold.on_reply(node, extension(first, TTL), granted, at(3001), &mut nodes);
    }
    assert_eq!(nodes.take(), []);
    let ended = hold.extended().unwrap();
    assert_eq!((ended.number, ended.verdict), (shorter, Verdict::Won));
    assert!(!hold.is_extending());
    // And one that a lost lock no longer needs is not sent either.
    let last = hold.extend(TTL, at(4000), ROUND, &mut nodes).unwrap();
    nodes.take();
    hold.extend(TTL * 2, at(4000), ROUND, &mut nodes);
    for node in [0, 1] {
        hold.on_reply(
            node,
            extension(last, TTL),
            answered(HELD),
            at(4001),
            &mut nodes,
        );
    }
    let is_extension = |&(_, command): &(usize, Command)| matches!(command, Command::Extend { .. });
    assert!(!nodes.take().iter().any(is_extension));
    assert_eq!(hold.loss(at(4001)), Some(LossCause::Gone));
}
