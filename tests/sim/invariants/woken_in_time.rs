//! Who waits for what is free gets it, or another does, long before the first poll, after 1 s.
//!
//! A request may go while all its resources are free and nobody is before it in the lines of its
//! client. In a calm seed a message takes 10 ms at most. So it takes 40 ms until a release has
//! reached the nodes, and their word or the clock of a quorum of them the waiter; 250 ms at most
//! until those who collided before try again; 40 ms for the gap between two turns, if that is due;
//! and 40 ms for a round and for removing what it leaves if it is lost. Contenders who collide again
//! and again need more, but are ever less likely to: in 1,500 seeds nobody needed more than 300 ms.
//! Where messages may be lost there is no such bound: a round may last for its time-out.

use std::collections::BTreeMap;
use std::time::Duration;

use redlock_quorum::LossCause;

use super::{Invariant, Violation};
use crate::dice::ms;
use crate::history::{History, LetGo, Op, Origin, What};
use crate::holds::{Hold, Request};
use crate::plan::Class;

/// So long may a request be free to go and not be granted.
const BOUND: Duration = ms(600);
/// A new client is connected within this time.
const CONNECTS: Duration = ms(200);

/// From when to when.
type Span = (Duration, Duration);

pub(crate) fn check(history: &History) -> Vec<Violation> {
    if history.plan.class != Class::Calm {
        return Vec::new();
    }
    let mut violations = Vec::new();
    for (op, (from, to)) in longest_waits(history) {
        if to.saturating_sub(from) > BOUND {
            let took = to.saturating_sub(from);
            let what = format!(
                "#{op} was free to go from {:.3} on, and nobody was granted it for {took:?}",
                from.as_secs_f64()
            );
            violations.push(Violation::new(Invariant::WokenInTime, to, what).of(&[op]));
        }
    }
    violations
}

/// For each request that queued, the longest time in which it could have been granted.
fn longest_waits(history: &History) -> Vec<(Op, Span)> {
    let requests = history.requests();
    let end = history
        .events
        .last()
        .map_or(Duration::ZERO, |event| event.at);
    let taken = taken(history, requests, end);
    let started = started(history);
    let mut waits = Vec::new();
    for (place, request) in requests.iter().enumerate() {
        if !request.queues() {
            continue;
        }
        let ended = ended(request, end);
        let mut blocked: Vec<Span> = request
            .resources()
            .filter_map(|resource| taken.get(&resource))
            .flatten()
            .copied()
            .collect();
        let is_before = |other: &&Request| {
            other.incarnation == request.incarnation && other.queues() && shares(other, request)
        };
        let before = requests[..place].iter().filter(is_before);
        blocked.extend(before.map(|other| (other.asked, self::ended(other, end))));
        blocked.extend(started.get(&request.incarnation));
        waits.push((request.op, longest_gap(blocked, (request.asked, ended))));
    }
    waits
}

fn ended(request: &Request, end: Duration) -> Duration {
    request.ended.map_or(end, |(at, _)| at)
}

fn shares(one: &Request, other: &Request) -> bool {
    one.resources()
        .any(|resource| other.resources().any(|another| another == resource))
}

/// The longest part of a time that is not blocked.
fn longest_gap(mut blocked: Vec<Span>, (from, to): Span) -> Span {
    blocked.retain(|&(begins, ends)| begins < to && ends > from);
    blocked.sort_unstable();
    blocked.push((to, to));
    let (mut longest, mut since) = ((from, from), from);
    for (begins, ends) in blocked {
        if begins.saturating_sub(since) > longest.1.saturating_sub(longest.0) {
            longest = (since, begins);
        }
        since = since.max(ends);
    }
    longest
}

/// When each resource was not free.
fn taken(history: &History, requests: &[Request], end: Duration) -> BTreeMap<usize, Vec<Span>> {
    let mut taken: BTreeMap<usize, Vec<Span>> = BTreeMap::new();
    for request in requests {
        let span = match &request.hold {
            Some(hold) => (hold.acquired, key_ends(request, hold, end)),
            // It may have made the key last for its ttl.
            None if matches!(request.origin, Origin::Attached { .. }) => {
                let ended = ended(request, end);
                (request.asked, ended + request.ttl + margin(request.ttl))
            }
            None => continue,
        };
        for resource in request.resources() {
            taken.entry(resource).or_default().push(span);
        }
    }
    let mut foreign = BTreeMap::new();
    for event in &history.events {
        if let What::Foreign { resource, holds } = event.what {
            let since = foreign.insert(resource, event.at).filter(|_| !holds);
            let spans = taken.entry(resource).or_default();
            spans.extend(since.map(|since| (since, event.at)));
        }
    }
    taken
}

/// What nobody lets go of stands on the nodes until it expires, also once it is lost, by clocks that
/// are a hundredth slow.
fn key_ends(request: &Request, hold: &Hold, end: Duration) -> Duration {
    let longest = request.ttl.max(request.renewed_ttl).max(hold.longest_ttl);
    let lost = hold.lost.filter(|&(_, cause)| cause != LossCause::Detached);
    let is_released = |cause| matches!(cause, LossCause::Released | LossCause::Closed);
    let expires = match (lost, request.renews) {
        (Some((at, cause)), _) if is_released(cause) => at,
        // Nobody is told when it is renewed, nor how long the key outlasts a limited hold.
        (Some((at, _)), true) => at + longest + margin(longest),
        (None, true) if hold.let_go.is_none() => end,
        (None, true) => hold.at_most_until + longest + margin(longest),
        (_, false) => hold.at_most_until + margin(longest),
    };
    let let_go = hold
        .let_go
        .filter(|&(_, how)| !matches!(how, LetGo::Leak | LetGo::Detach))
        .map(|(at, _)| at);
    [let_go, hold.given_up]
        .into_iter()
        .flatten()
        .fold(expires, Duration::min)
}

fn margin(ttl: Duration) -> Duration {
    ttl / 40 + ms(20)
}

/// When each client was about to connect, and servers did not vote yet.
fn started(history: &History) -> BTreeMap<usize, Span> {
    let trust = &history.plan.trust;
    let founded = if trust.founded {
        Duration::ZERO
    } else {
        // A second to connect, one for the second look, and one to see that it is over.
        trust.quarantine() + ms(3000)
    };
    let mut started = BTreeMap::new();
    for event in &history.events {
        if let What::Started { incarnation } = event.what {
            started.insert(incarnation, (event.at, founded.max(event.at + CONNECTS)));
        }
    }
    started
}

#[cfg(test)]
mod tests {
    use super::super::story::Story;
    use super::*;
    use crate::history::{Failure, Patience};

    const WAITS: Patience = Patience::For(ms(10_000));

    /// One holds from 0 to 500 ms, another waits from 100 ms on.
    fn holder() -> Story {
        let held = Story::new(Class::Calm).holds(0, 0, 988);
        held.asks(1, 100, WAITS).lets_go(0, 500, LetGo::Release)
    }

    #[test]
    fn who_is_not_woken_is_found() {
        assert_eq!(holder().acquired(1, 1100, 2088, 3).check(check), 0);
        assert_eq!(holder().acquired(1, 1101, 2089, 3).check(check), 1);
        assert_eq!(holder().fails(1, 1101, Failure::Contended).check(check), 1);
        let dropped = holder().event(1101, 1, What::Abandoned { op: 1 });
        assert_eq!(dropped.check(check), 1);
        let mut minority = holder().acquired(1, 1101, 2089, 3).history();
        minority.plan.class = Class::Minority;
        assert_eq!(check(&minority).len(), 0);
    }

    #[test]
    fn another_grant_is_as_good_and_so_is_somebody_elses_lock() {
        let until_1500 = |story: Story| story.acquired(1, 1500, 2488, 3).check(check);
        assert_eq!(until_1500(holder()), 1);
        let another = holder().holds(2, 900, 1888).lets_go(2, 1000, LetGo::Drop);
        assert_eq!(until_1500(another), 0);
        let foreign = |holds| What::Foreign { resource: 0, holds };
        let locked = holder().event(600, None, foreign(true));
        assert_eq!(until_1500(locked.event(1000, None, foreign(false))), 0);
    }

    #[test]
    fn what_is_leaked_is_free_when_its_key_has_expired() {
        let story = |at| {
            let leaked = Story::new(Class::Calm).holds(0, 0, 988);
            let leaked = leaked.asks(1, 100, WAITS).lets_go(0, 200, LetGo::Leak);
            leaked.acquired(1, at, at + 10, 3).check(check)
        };
        // 25 ms and 20 ms: for slow clocks.
        assert_eq!(story(988 + 45 + 600), 0);
        assert_eq!(story(988 + 45 + 601), 1);
    }

    #[test]
    fn who_is_behind_another_in_line_waits_for_it() {
        let story = |of_one_client: bool| {
            let mut history = Story::new(Class::Calm)
                .holds(0, 0, 9000)
                .asks(1, 100, WAITS)
                .set(1, &[1])
                .asks(2, 200, WAITS)
                .fails(1, 1000, Failure::Contended)
                .acquired(2, 1100, 2000, 3)
                .history();
            for event in &mut history.events {
                if let What::Asked {
                    op,
                    resource,
                    incarnation,
                    ..
                } = &mut event.what
                {
                    *resource = usize::from(*op == 2);
                    if of_one_client && *op == 2 {
                        *incarnation = 1;
                    }
                }
            }
            check(&history).len()
        };
        assert_eq!(story(true), 0);
        assert_eq!(story(false), 1, "its resource is free");
    }
}
