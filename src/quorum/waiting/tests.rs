use super::super::vote::Unsent;
use super::*;

const NODES: usize = 3;
const TTL: Duration = Duration::from_secs(10);
const TRIP: Duration = ms(3);
const FREE: Vote = Vote::Granted;
const LOST: Vote = Vote::Unknown;
const DOWN: Vote = Vote::Unsent(Unsent::NotConnected);

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn held(millis: u64) -> Vote {
    Vote::Held {
        ttl: Some(ms(millis)),
        fence: None,
    }
}

fn start() -> Moment {
    Moment::from_nanos(1_000_000_000)
}

fn at(millis: u64) -> Moment {
    start().after(TRIP).after(ms(millis))
}

fn round(votes: &[Vote]) -> Round {
    let mut round = Round::new(NODES, start(), TTL);
    for (node, &vote) in votes.iter().enumerate() {
        round.on_vote(node, vote, None, at(0));
    }
    round
}

/// A waiter after these votes; the middle of every span is drawn.
fn after(votes: &[Vote]) -> Waiting {
    let mut waiting = Waiting::new(NODES);
    waiting.on_lost(&round(votes), |_| Vec::new(), at(0), || 1 << 63);
    waiting
}

fn due(waiting: &Waiting) -> Moment {
    waiting.due(|_| true)
}

#[test]
fn without_news_the_nodes_are_asked_at_the_poll_floor() {
    let waiting = after(&[held(9_000), held(9_000), held(9_000)]);
    assert_eq!(due(&waiting), at(2_000));
    assert_eq!(poll_pause(0), ms(1_500));
    assert!(poll_pause(u64::MAX) < ms(2_500));
}

#[test]
fn when_a_quorum_of_keys_has_expired_it_is_time() {
    // As soon as the second can be free, whatever the third says.
    let waiting = after(&[held(100), held(700), held(400)]);
    assert_eq!(due(&waiting), at(401));
    // A key without a ttl does not expire, and a node that did not answer is not counted on.
    for unknown in [
        Vote::Held {
            ttl: None,
            fence: None,
        },
        LOST,
        DOWN,
    ] {
        let waiting = after(&[held(100), held(700), unknown]);
        assert_eq!(due(&waiting), at(701));
    }
}

#[test]
fn a_quorum_of_news_is_enough_and_the_first_of_it_is_after_two_round_trips() {
    let mut waiting = after(&[held(9_000), held(9_000), held(9_000)]);
    waiting.on_touched(1, u64::MAX, at(50));
    assert_eq!(due(&waiting), at(50).after(TRIP * 2));
    waiting.on_touched(1, u64::MAX, at(52));
    assert_eq!(
        due(&waiting),
        at(50).after(TRIP * 2),
        "one node is no quorum"
    );
    waiting.on_touched(2, u64::MAX, at(51));
    assert_eq!(due(&waiting), at(51));
}

#[test]
fn a_node_that_did_not_answer_counts_once_it_is_heard_of() {
    let mut waiting = after(&[held(9_000), held(9_000), DOWN]);
    waiting.on_touched(2, u64::MAX, at(20));
    waiting.on_touched(0, u64::MAX, at(21));
    assert_eq!(due(&waiting), at(21));
}

#[test]
fn late_votes_are_heard_but_do_not_undo_news() {
    let mut votes = round(&[held(9_000), held(9_000)]);
    let mut waiting = Waiting::new(NODES);
    waiting.on_lost(&votes, |_| Vec::new(), at(0), || 1 << 63);
    waiting.on_touched(0, u64::MAX, at(1));
    votes.on_vote(2, held(30), None, at(2));
    waiting.hear(&votes, |_| Vec::new(), at(2), || 1 << 63);
    // The first is free and the last will be.
    let first = at(1).after(TRIP * 2);
    assert_eq!(due(&waiting), first.min(at(33)));
    waiting.hear(&votes, |_| Vec::new(), at(20), || 1 << 63);
    assert_eq!(due(&waiting), first.min(at(33)), "a vote is heard once");
}

#[test]
fn where_no_quorum_tells_a_backoff_asks() {
    let votes = [held(9_000), held(9_000), held(9_000)];
    let mut waiting = after(&votes);
    assert_eq!(waiting.due(|node| node < 2), at(2_000));
    assert_eq!(waiting.due(|node| node < 1), at(4), "half of 8 ms");
    waiting.on_lost(&round(&votes), |_| Vec::new(), at(0), || 1 << 63);
    assert_eq!(waiting.due(|_| false), at(8), "half of 16 ms");
    // Nor does a node tell that is not connected.
    assert_eq!(due(&after(&[held(9_000), DOWN, DOWN])), at(4));
}

#[test]
fn those_who_collided_keep_apart_and_a_free_way_ends_that() {
    let split = [FREE, held(9_000), held(9_000)];
    let mut waiting = after(&split);
    waiting.on_touched(1, u64::MAX, at(10));
    // Half of four round trips, which are more than 8 ms.
    assert_eq!(due(&waiting), at(10).after(TRIP * 2));
    waiting.on_lost(&round(&split), |_| Vec::new(), at(0), || 1 << 63);
    waiting.on_touched(1, u64::MAX, at(10));
    assert_eq!(due(&waiting), at(10).after(TRIP * 4));
    waiting.on_lost(&round(&[held(9_000); 3]), |_| Vec::new(), at(0), || 1 << 63);
    waiting.on_touched(1, u64::MAX, at(10));
    waiting.on_touched(2, u64::MAX, at(10));
    assert_eq!(due(&waiting), at(10));
}

#[test]
fn after_a_bare_round_the_nodes_are_watched_at_once_unless_others_collided_with_it() {
    let bare = Vote::Held {
        ttl: None,
        fence: None,
    };
    let pause = |votes: &[Vote]| {
        Waiting::new(NODES).on_lost(&round(votes), |_| Vec::new(), at(0), || 1 << 63)
    };
    assert_eq!(pause(&[bare, bare]), Duration::ZERO);
    assert_eq!(pause(&[FREE, bare, bare]), TRIP * 2);
    assert_eq!(pause(&[DOWN, DOWN]), ms(4), "an outage is waited for");
}

#[test]
fn a_round_that_timed_out_says_nothing_of_a_trip() {
    let mut waiting = Waiting::new(NODES);
    waiting.on_lost(
        &round(&[held(9_000), held(9_000), LOST]),
        |_| Vec::new(),
        at(1_000),
        || 0,
    );
    waiting.on_touched(0, u64::MAX, at(1_000));
    assert_eq!(due(&waiting), at(1_100));
}

/// Of three keys these are in the way, the first for a second.
fn first_and_last(_node: usize) -> Vec<InWay> {
    let key = |place, ttl| InWay {
        place,
        ttl: Some(ttl),
    };
    vec![key(0, ms(1_000)), key(2, ms(9_000))]
}

#[test]
fn who_waits_for_several_keys_acts_when_all_that_were_in_the_way_have_changed() {
    let held = round(&[held(9_000); 3]);
    let mut waiting = Waiting::new(NODES);
    waiting.on_lost(&held, first_and_last, at(0), || 1 << 63);
    for node in 0..3 {
        // It was free, and is taken by somebody, again and again; or is one of two.
        waiting.on_touched(node, 0b010, at(1));
        waiting.on_touched(node, 0b001, at(1));
    }
    assert_eq!(due(&waiting), at(2_000));
    waiting.on_touched(1, 0b100, at(2));
    assert_eq!(due(&waiting), at(2).after(TRIP * 2));
    waiting.on_touched(0, 0b100, at(3));
    assert_eq!(due(&waiting), at(3));
    // Where it is not known which are in the way, any may be.
    waiting.on_lost(&held, |_| Vec::new(), at(0), || 1 << 63);
    waiting.on_touched(0, 0b010, at(1));
    waiting.on_touched(1, 0b100, at(2));
    assert_eq!(due(&waiting), at(2));
}

/// Nodes tell late of what expires.
#[test]
fn who_waits_for_several_keys_goes_when_the_rest_of_those_in_the_way_has_expired() {
    let mut waiting = Waiting::new(NODES);
    let lost = round(&[held(9_000); 3]);
    waiting.on_lost(&lost, first_and_last, at(0), || 1 << 63);
    waiting.on_touched(0, 0b100, at(1));
    assert_eq!(due(&waiting), at(2_000), "one node is no quorum");
    waiting.on_touched(1, 0b100, at(2));
    assert_eq!(due(&waiting), at(1_001));
    waiting.on_touched(2, 0b001, at(3));
    assert_eq!(due(&waiting), at(1_001));
    let key = |ttl| vec![InWay { place: 1, ttl }];
    waiting.on_lost(
        &lost,
        |node| key((node > 0).then_some(ms(5))),
        at(0),
        || 1 << 63,
    );
    assert_eq!(due(&waiting), at(6), "two expire");
    waiting.on_lost(
        &lost,
        |node| key((node > 1).then_some(ms(5))),
        at(0),
        || 1 << 63,
    );
    assert_eq!(due(&waiting), at(2_000), "one does");
}

#[test]
fn the_change_of_a_key_may_be_told_before_it_is_known_that_it_was_in_the_way() {
    let lost = [held(9_000), held(9_000)];
    let mut votes = round(&lost);
    let mut waiting = Waiting::new(NODES);
    waiting.on_lost(&votes, first_and_last, at(0), || 1 << 63);
    waiting.on_touched(2, 0b100, at(1));
    waiting.on_touched(2, 0b001, at(1));
    waiting.on_touched(1, u64::MAX, at(2));
    assert_eq!(due(&waiting), at(2).after(TRIP * 2), "one may be free");
    votes.on_vote(2, held(9_000), None, at(3));
    waiting.hear(&votes, first_and_last, at(3), || 1 << 63);
    assert_eq!(due(&waiting), at(3), "two");
}

#[test]
fn a_grant_that_comes_after_the_lost_round_is_a_collision_too() {
    let mut waiting = after(&[held(9_000), held(9_000)]);
    for doubled in [2, 4] {
        let mut votes = round(&[held(9_000), held(9_000)]);
        waiting.on_lost(&votes, |_| Vec::new(), at(0), || 1 << 63);
        votes.on_vote(2, FREE, None, at(2));
        waiting.hear(&votes, |_| Vec::new(), at(2), || 1 << 63);
        waiting.hear(&votes, |_| Vec::new(), at(3), || 1 << 63);
        waiting.on_touched(0, u64::MAX, at(10));
        assert_eq!(due(&waiting), at(10).after(TRIP * doubled));
    }
}
