//! One fan-out to all nodes, and when it is decided: law 3.
//!
//! A round is fed votes as they come and says, exactly once, how it ended, at the earliest vote
//! that determines it. It knows no clock: every input carries the moment it happened.

use std::sync::Arc;
use std::time::Duration;

use super::validity::{self, Moment};
use super::vote::Vote;

/// How a round ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// A quorum granted it, and enough of its validity is left.
    Won,
    /// A quorum granted it, but too late to be of use.
    TooLate,
    /// No quorum can grant it any more, and somebody else is in the way.
    Contended,
    /// No quorum can grant it any more, for want of answers.
    NoQuorum,
}

#[derive(Clone, Debug)]
pub(crate) struct Round {
    started_at: Moment,
    ttl: Duration,
    quorum: usize,
    /// Node by node.
    cast: Vec<Cast>,
    granted: usize,
    pending: usize,
    verdict: Option<Verdict>,
}

#[derive(Clone, Debug, Default)]
struct Cast {
    vote: Option<Vote>,
    error: Option<Arc<str>>,
}

impl Round {
    /// A round over `nodes` nodes that began at `started_at`, just before its first submission.
    pub(crate) fn new(nodes: usize, started_at: Moment, ttl: Duration) -> Self {
        Self {
            started_at,
            ttl,
            quorum: validity::quorum(nodes),
            cast: vec![Cast::default(); nodes],
            granted: 0,
            pending: nodes,
            verdict: None,
        }
    }

    /// Sets the moment of the beginning anew, before the first vote.
    pub(crate) const fn begin(&mut self, now: Moment) {
        self.started_at = now;
    }

    pub(crate) const fn started_at(&self) -> Moment {
        self.started_at
    }

    pub(crate) const fn ttl(&self) -> Duration {
        self.ttl
    }

    pub(crate) const fn quorum(&self) -> usize {
        self.quorum
    }

    pub(crate) const fn verdict(&self) -> Option<Verdict> {
        self.verdict
    }

    pub(crate) fn valid_until(&self) -> Moment {
        validity::valid_until(self.started_at, self.ttl)
    }

    /// How many nodes have not voted.
    pub(crate) const fn pending(&self) -> usize {
        self.pending
    }

    pub(crate) fn is_pending(&self, node: usize) -> bool {
        self.cast.get(node).is_some_and(|cast| cast.vote.is_none())
    }

    pub(crate) fn vote(&self, node: usize) -> Option<Vote> {
        self.cast.get(node).and_then(|cast| cast.vote)
    }

    /// The votes as they stand, with what went wrong.
    pub(crate) fn votes(&self) -> impl Iterator<Item = (Option<Vote>, Option<Arc<str>>)> + '_ {
        self.cast.iter().map(|cast| (cast.vote, cast.error.clone()))
    }

    /// Takes a node's vote. Returns the verdict if this vote is the one that determines it.
    ///
    /// A second vote of one node is a spurious call and changes nothing. A vote after the verdict
    /// is recorded, and changes the verdict no more.
    pub(crate) fn on_vote(
        &mut self,
        node: usize,
        vote: Vote,
        error: Option<Arc<str>>,
        now: Moment,
    ) -> Option<Verdict> {
        let cast = self.cast.get_mut(node)?;
        if cast.vote.is_some() {
            return None;
        }
        *cast = Cast {
            vote: Some(vote),
            error,
        };
        self.pending = self.pending.saturating_sub(1);
        if vote == Vote::Granted {
            self.granted = self.granted.saturating_add(1);
        }
        self.decide(now, false)
    }

    /// The round's time is up: what is pending can no longer win it.
    pub(crate) fn on_timeout(&mut self, now: Moment) -> Option<Verdict> {
        self.decide(now, true)
    }

    /// Would a quorum grant it, as far as is known, if only its ballot were larger?
    pub(super) fn a_larger_ballot_could_win(&self) -> bool {
        let stale = |cast: &&Cast| matches!(cast.vote, Some(Vote::Stale { .. }));
        let stale = self.cast.iter().filter(stale).count();
        let possible = self.granted.saturating_add(self.pending);
        stale > 0 && possible.saturating_add(stale) >= self.quorum
    }

    fn decide(&mut self, now: Moment, out_of_time: bool) -> Option<Verdict> {
        if self.verdict.is_some() {
            return None;
        }
        self.verdict = if self.granted >= self.quorum {
            let useful = validity::is_worth_having(self.valid_until(), self.ttl, now);
            Some(if useful {
                Verdict::Won
            } else {
                Verdict::TooLate
            })
        } else if out_of_time || self.granted.saturating_add(self.pending) < self.quorum {
            Some(self.why_lost())
        } else {
            None
        };
        self.verdict
    }

    /// Contended if somebody is in the way, and the nodes that are down did not decide it alone.
    /// What was pending gets the benefit of the doubt.
    fn why_lost(&self) -> Verdict {
        let contended = self
            .cast
            .iter()
            .filter(|cast| cast.vote.is_some_and(Vote::is_contention))
            .count();
        let reachable = self
            .granted
            .saturating_add(contended)
            .saturating_add(self.pending);
        if contended > 0 && reachable >= self.quorum {
            Verdict::Contended
        } else {
            Verdict::NoQuorum
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::vote::{Refusal, Unsent};
    use super::*;

    const TTL: Duration = Duration::from_secs(10);
    const HELD: Vote = Vote::Held {
        ttl: None,
        fence: None,
    };
    const KINDS: [Vote; 5] = [
        Vote::Granted,
        HELD,
        Vote::Refused(Refusal::Loading),
        Vote::Unsent(Unsent::NotConnected),
        Vote::Unknown,
    ];

    fn start() -> Moment {
        Moment::from_nanos(1_000_000_000)
    }

    /// The verdict by definition: what no completion of the pending votes can change.
    fn determined(nodes: usize, votes: &[Vote]) -> Option<bool> {
        let quorum = nodes / 2 + 1;
        let granted = votes.iter().filter(|&&vote| vote == Vote::Granted).count();
        let pending = nodes - votes.len();
        if granted >= quorum {
            Some(true)
        } else if granted + pending < quorum {
            Some(false)
        } else {
            None
        }
    }

    fn check_sequence(nodes: usize, order: &[usize], votes: &[Vote]) {
        let mut round = Round::new(nodes, start(), TTL);
        let mut verdicts = 0;
        for (place, (&node, &vote)) in order.iter().zip(votes).enumerate() {
            let before = round.verdict();
            let verdict = round.on_vote(node, vote, None, start());
            let expected = determined(nodes, &votes[..=place]);
            assert_eq!(
                round.verdict().map(|v| v == Verdict::Won),
                expected,
                "{votes:?}"
            );
            if before.is_none() && expected.is_some() {
                assert_eq!(verdict, round.verdict());
                verdicts += 1;
            } else {
                assert_eq!(verdict, None, "a verdict comes once");
            }
        }
        assert_eq!(verdicts, 1, "every round is decided, {votes:?}");
    }

    /// All vote sequences for N = 1..5, in one order and in its reverse (the order of nodes cannot
    /// matter: a round counts).
    #[test]
    fn law_3_every_interleaving_reaches_one_verdict_at_the_earliest_vote() {
        for nodes in 1..=5_usize {
            let forth: Vec<usize> = (0..nodes).collect();
            let back: Vec<usize> = (0..nodes).rev().collect();
            for code in 0..KINDS.len().pow(u32::try_from(nodes).unwrap()) {
                let votes: Vec<Vote> = (0..nodes)
                    .map(|place| {
                        KINDS[code / KINDS.len().pow(u32::try_from(place).unwrap()) % KINDS.len()]
                    })
                    .collect();
                check_sequence(nodes, &forth, &votes);
                check_sequence(nodes, &back, &votes);
            }
        }
    }

    proptest! {
        #[test]
        fn law_3_holds_for_larger_rounds(
            (order, votes) in (6..=9_usize).prop_flat_map(|nodes| (
                Just((0..nodes).collect::<Vec<_>>()).prop_shuffle(),
                proptest::collection::vec(proptest::sample::select(&KINDS[..]), nodes),
            ))
        ) {
            check_sequence(order.len(), &order, &votes);
        }
    }

    #[test]
    fn a_two_two_split_of_four_nodes_fails_at_once() {
        let mut round = Round::new(4, start(), TTL);
        for (node, vote) in [(0, Vote::Granted), (1, HELD), (2, Vote::Granted)] {
            assert_eq!(round.on_vote(node, vote, None, start()), None);
        }
        assert_eq!(
            round.on_vote(3, HELD, None, start()),
            Some(Verdict::Contended)
        );
    }

    #[test]
    fn a_late_quorum_is_too_late() {
        let mut round = Round::new(1, start(), TTL);
        let late = round.valid_until().before(Duration::from_millis(999));
        assert_eq!(
            round.on_vote(0, Vote::Granted, None, late),
            Some(Verdict::TooLate)
        );
    }

    #[test]
    fn an_outage_is_told_from_contention() {
        // One holder and two dead nodes of three: even without the holder there was no quorum.
        let mut round = Round::new(3, start(), TTL);
        assert_eq!(round.on_vote(0, HELD, None, start()), None);
        let verdict = round.on_vote(1, Vote::Unknown, None, start());
        // The third is pending and gets the benefit of the doubt.
        assert_eq!(verdict, Some(Verdict::Contended));

        let mut round = Round::new(5, start(), TTL);
        for node in [0, 1, 2] {
            let verdict = round.on_vote(node, Vote::Unsent(Unsent::NotConnected), None, start());
            assert_eq!(verdict, (node == 2).then_some(Verdict::NoQuorum));
        }
    }

    #[test]
    fn a_timeout_decides_and_spurious_calls_are_no_ops() {
        let mut round = Round::new(3, start(), TTL);
        assert_eq!(round.on_vote(0, Vote::Granted, None, start()), None);
        assert_eq!(
            round.on_vote(0, Vote::Granted, None, start()),
            None,
            "one vote a node"
        );
        assert_eq!(round.on_timeout(start()), Some(Verdict::NoQuorum));
        assert_eq!(round.on_timeout(start()), None);
        assert_eq!(
            round.on_vote(1, Vote::Granted, None, start()),
            None,
            "a late vote"
        );
        assert_eq!(round.verdict(), Some(Verdict::NoQuorum));
        assert_eq!(
            round.on_vote(7, Vote::Granted, None, start()),
            None,
            "no such node"
        );
    }
}
