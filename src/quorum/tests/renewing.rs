//! Renewals, heals and the longest hold.

use super::*;

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
fn the_end_of_an_extension_by_hand_is_kept_while_renewals_follow_it() {
    let mut nodes = Nodes::default();
    let mut hold = renewed_every_two_seconds(&mut nodes, None);
    let number = hold.extend(TTL, at(100), ROUND, &mut nodes).unwrap();
    let extend = extension(number, TTL);
    for node in [0, 1] {
        hold.on_reply(node, extend, answered(Vote::Granted), at(101), &mut nodes);
    }
    nodes.take();
    let (command, due) = renew(&mut hold, &mut nodes);
    for node in [0, 1] {
        hold.on_reply(node, command, answered(Vote::Granted), due, &mut nodes);
    }
    assert!(!hold.is_extending());
    let ended = hold.extended().map(|ended| (ended.number, ended.verdict));
    assert_eq!(
        ended,
        Some((number, Verdict::Won)),
        "its caller has not looked yet"
    );
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
fn law_5_after_the_longest_hold_nothing_is_healed() {
    let mut nodes = Nodes::default();
    let limit = Duration::from_secs(11);
    let mut hold = renewed_every_two_seconds(&mut nodes, Some(limit));
    let (command, due) = renew(&mut hold, &mut nodes);
    for node in [0, 1] {
        hold.on_reply(node, command, answered(Vote::Granted), due, &mut nodes);
    }
    let end = hold.loss_at();
    hold.on_deadline(end, &mut nodes);
    assert_eq!(hold.loss(end), Some(LossCause::MaxHold));
    hold.on_reply(2, command, answered(HELD), end, &mut nodes);
    assert_eq!(nodes.take(), []);
}

#[test]
fn law_5_a_vote_that_comes_with_the_loss_heals_nothing() {
    let mut nodes = Nodes::default();
    let renewal = Renewal::every(Duration::from_secs(2)).max_renewals(1);
    let mut hold = renewed(&mut nodes, renewal);
    votes(&mut hold, &mut nodes, &[(2, HELD)]);
    let (command, due) = renew(&mut hold, &mut nodes);
    for node in [0, 1] {
        hold.on_reply(node, command, answered(Vote::Granted), due, &mut nodes);
    }
    // Before the watchdog has run.
    hold.on_reply(2, command, answered(HELD), hold.loss_at(), &mut nodes);
    assert_eq!(nodes.releases(), [0, 1]);
}

#[test]
fn an_extension_by_hand_that_fails_brings_no_renewal_beyond_the_last() {
    let mut nodes = Nodes::default();
    let renewal = Renewal::every(Duration::from_secs(2)).max_renewals(0);
    let mut hold = renewed(&mut nodes, renewal);
    nodes.down = vec![0, 1, 2];
    hold.extend(TTL, at(100), ROUND, &mut nodes).unwrap();
    assert_eq!(hold.next_deadline(), Some(hold.loss_at()));
}

#[test]
fn a_renewal_comes_while_enough_is_left_to_be_of_use() {
    for jitter in [1, 7, u64::MAX, u64::MAX << 32] {
        let mut nodes = Nodes::default();
        let renewal = Renewal::every(Duration::from_millis(9900));
        let terms = Terms {
            renewal,
            jitter,
            ..TERMS
        };
        let mut hold = Hold::new(3, &terms);
        hold.start(at(0), &mut nodes);
        votes(
            &mut hold,
            &mut nodes,
            &[(0, Vote::Granted), (1, Vote::Granted)],
        );
        let due = hold.next_deadline().unwrap();
        assert!(hold.valid_until().since(due) >= TTL / 10, "{due:?}");
        assert!(due.since(at(0)) > TTL / 2, "{due:?}");
    }
}

#[test]
fn a_short_extension_by_hand_is_followed_by_a_renewal_in_time() {
    let mut nodes = Nodes::default();
    let renewal = Renewal::every(Duration::from_secs(8));
    let mut hold = renewed(&mut nodes, renewal);
    let short = Duration::from_secs(5);
    let number = hold.extend(short, at(6000), ROUND, &mut nodes).unwrap();
    let extend = extension(number, short);
    for node in [0, 1] {
        hold.on_reply(node, extend, answered(Vote::Granted), at(6001), &mut nodes);
    }
    assert!(hold.next_deadline() < Some(hold.loss_at()));
}

#[test]
fn an_extension_by_hand_that_fails_leaves_renewals_their_time_out() {
    let mut nodes = Nodes::default();
    let mut hold = renewed_every_two_seconds(&mut nodes, None);
    let (long, patience) = (TTL * 6, ROUND * 6);
    let number = hold.extend(long, at(1000), patience, &mut nodes).unwrap();
    nodes.take();
    for node in 0..3 {
        let refused = answered(Vote::Refused(Refusal::Busy));
        hold.on_reply(node, extension(number, long), refused, at(1001), &mut nodes);
    }
    let (_, begun) = renew(&mut hold, &mut nodes);
    assert_eq!(hold.next_deadline(), Some(begun.after(ROUND)));
}
