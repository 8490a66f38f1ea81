//! Facts in, decisions out.

mod identities;
mod restarts;

use std::sync::Arc;
use std::time::Duration;

use super::amnesia::{Ask, Guarding, RestartGuard, Trust, quarantine};
use super::founding::Founding;
use super::marker::{Look, Marker, Sighting};
use crate::quorum::validity::Moment;

/// The client's clock begins at some other time than the server's.
const SERVER_AHEAD: u64 = 1_764_500_000_000;
const MAX_TTL: Duration = Duration::from_secs(10);
/// 10 s, a hundredth of it, and 1 s.
const QUARANTINE: u64 = 11_100;

fn at(millis: u64) -> Moment {
    Moment::from_nanos(millis.saturating_mul(1_000_000))
}

/// One client's view of some nodes. Time is in milliseconds, and passes when it is said so.
struct Client {
    trusts: Vec<Trust>,
    founding: Founding,
    now: u64,
    /// The server's clock, less the client's, beyond what it is at first.
    ahead: i64,
}

impl Client {
    fn new(nodes: usize, policy: RestartGuard) -> Self {
        Self::with(nodes, policy, false)
    }

    fn with(nodes: usize, policy: RestartGuard, persistent: bool) -> Self {
        let guarding = Guarding {
            policy,
            quarantine: quarantine(MAX_TTL),
            persistent,
        };
        Self {
            trusts: (0..nodes).map(|node| Trust::new(node, guarding)).collect(),
            founding: Founding::new(nodes),
            now: 1_000_000,
            ahead: 0,
        }
    }

    fn pass(&mut self, millis: u64) {
        self.now += millis;
    }

    fn server_time(&self) -> u64 {
        (SERVER_AHEAD + self.now)
            .checked_add_signed(self.ahead)
            .unwrap()
    }

    fn look(&self, sighting: Sighting) -> Look {
        let server_time = Some(self.server_time());
        Look {
            sighting,
            server_time,
        }
    }

    /// Connects to a process; returns whether the fleet is to be founded.
    fn connect(&mut self, node: usize, run_id: &str, sighting: Sighting) -> bool {
        let (look, now) = (self.look(sighting), at(self.now));
        let run_id = (!run_id.is_empty()).then(|| Arc::from(run_id));
        self.trusts[node].on_introduced(run_id, look, now, now, &mut self.founding)
    }

    fn answer(&mut self, node: usize, sighting: Sighting) {
        let (look, now) = (self.look(sighting), at(self.now));
        self.trusts[node].on_look(look, now, &mut self.founding);
    }

    fn poll(&mut self, node: usize, busy: bool) -> Option<Ask> {
        let chosen = || self.founding.take(node);
        self.trusts[node].poll(at(self.now), || busy, chosen)
    }

    fn trusted(&self, node: usize) -> bool {
        self.trusts[node].is_trusted(at(self.now))
    }

    /// It becomes trusted after so many milliseconds, and not before.
    fn trusted_in(&mut self, node: usize, millis: u64) {
        self.pass(millis - 1);
        assert!(!self.trusted(node), "1 ms before");
        self.pass(1);
        assert!(self.trusted(node), "after {millis} ms");
    }

    /// Goes on from a marker that has been found missing for the first time: a second look, and a
    /// marker that is written and read back.
    fn marks(&mut self, node: usize, run_id: &str) {
        self.pass(999);
        assert_eq!(self.poll(node, true), None, "the second look is due later");
        self.pass(1);
        assert_eq!(self.poll(node, false), Some(Ask::Look));
        self.answer(node, Sighting::Missing);
        let marker = seen(run_id, self.server_time());
        assert_eq!(self.poll(node, false), written(&marker, true));
        self.answer(node, found(&marker));
    }
}

fn found(marker: &str) -> Sighting {
    Sighting::Found(marker.into())
}

fn seen(run_id: &str, time: u64) -> String {
    format!("{run_id}|{time}")
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "it is compared with what poll says"
)]
fn written(marker: &str, only_if_missing: bool) -> Option<Ask> {
    Some(Ask::Write {
        marker: marker.into(),
        only_if_missing,
    })
}

#[test]
fn a_quarantine_outlasts_every_lock() {
    assert_eq!(quarantine(MAX_TTL), Duration::from_millis(QUARANTINE));
    assert_eq!(
        quarantine(Duration::from_secs(60)),
        Duration::from_millis(61_600)
    );
}

#[test]
fn a_marker_is_read_as_it_is_written() {
    for marker in [
        Marker::founded(Some("abc")),
        Marker::founded(None),
        Marker::seen(Some("abc"), Some(1_764_511_200_123)),
        Marker::seen(Some("abc"), None),
        Marker::seen(None, Some(0)),
    ] {
        assert_eq!(Marker::parse(&marker.to_string()), Some(marker));
    }
    for text in ["", "abc", "abc|", "abc|x", "abc|-1", "abc|1.5"] {
        assert_eq!(Marker::parse(text), None, "{text}");
    }
    assert_ne!(
        Marker::seen(None, Some(0)),
        Marker::founded(None),
        "a server's clock at zero founds nothing"
    );
}

#[test]
fn the_time_still_to_wait_is_capped() {
    let quarantine = quarantine(MAX_TTL);
    let remaining = |first_seen, now| {
        Marker::seen(Some("a"), first_seen)
            .remaining(quarantine, now)
            .as_millis()
    };
    let all = u128::from(QUARANTINE);
    assert_eq!(remaining(Some(1000), Some(1000)), all);
    assert_eq!(remaining(Some(1000), Some(1100)), all - 100);
    assert_eq!(remaining(Some(1000), Some(1000 + QUARANTINE)), 0);
    assert_eq!(remaining(Some(1000), Some(u64::MAX)), 0);
    assert_eq!(remaining(Some(1000), Some(0)), all, "a clock set back");
    assert_eq!(remaining(Some(1000), None), all, "no clock");
    assert_eq!(
        remaining(None, Some(1_764_511_200_123)),
        all,
        "no clock then"
    );
    let founded = Marker::founded(Some("a"));
    assert!(founded.remaining(quarantine, None).is_zero());
}

#[test]
fn a_fleet_without_any_marker_is_founded_by_whoever_sees_all_of_it() {
    let mut client = Client::new(3, RestartGuard::Observed);
    assert!(!client.connect(0, "a", Sighting::Missing));
    client.pass(400);
    assert!(!client.connect(1, "b", Sighting::Missing));
    assert_eq!(client.poll(0, true), None);
    client.pass(600);
    assert!(client.connect(2, "c", Sighting::Missing), "within a second");
    for (node, run_id) in ["a", "b", "c"].into_iter().enumerate() {
        let founded = seen(run_id, 0);
        assert!(!client.trusted(node), "not before it is read back");
        assert_eq!(client.poll(node, false), written(&founded, true));
        client.answer(node, found(&founded));
        assert!(client.trusted(node));
    }
}

#[test]
fn a_founded_node_is_trusted_only_if_that_is_read_back() {
    let mut client = Client::new(1, RestartGuard::Observed);
    assert!(client.connect(0, "a", Sighting::Missing));
    assert_eq!(client.poll(0, false), written("a|0", true));
    // Another client was faster, and had found it missing among others.
    let other = seen("a", client.server_time());
    client.answer(0, found(&other));
    client.trusted_in(0, QUARANTINE);
}

#[test]
fn a_fleet_with_a_node_missing_is_not_founded() {
    let mut client = Client::new(3, RestartGuard::Observed);
    assert!(!client.connect(0, "a", Sighting::Missing));
    assert!(!client.connect(1, "b", Sighting::Missing));
    client.marks(0, "a");
    client.trusted_in(0, QUARANTINE);

    // One that comes later finds the fleet in use.
    client.pass(5000);
    assert!(!client.connect(2, "c", Sighting::Missing));
    client.marks(2, "c");
    client.trusted_in(2, QUARANTINE);
}

#[test]
fn what_was_read_more_than_a_second_ago_founds_nothing() {
    let mut client = Client::new(2, RestartGuard::Observed);
    client.connect(0, "a", Sighting::Missing);
    client.pass(1001);
    assert!(!client.connect(1, "b", Sighting::Missing));
}

#[test]
fn a_connection_that_has_ended_founds_nothing() {
    let mut client = Client::new(2, RestartGuard::Observed);
    client.connect(0, "a", Sighting::Missing);
    client.trusts[0].on_away(&mut client.founding);
    assert!(!client.connect(1, "b", Sighting::Missing));

    // Also between the decision and the write.
    assert!(client.connect(0, "a", Sighting::Missing));
    client.trusts[0].on_away(&mut client.founding);
    assert!(!client.connect(0, "a2", Sighting::Missing), "only once");
    assert_eq!(client.poll(0, true), None);
    assert_eq!(client.poll(1, true), written("b|0", true));
}

#[test]
fn whoever_has_seen_a_marker_founds_nothing() {
    // The only node, or all of them, come back empty.
    let mut client = Client::new(1, RestartGuard::Observed);
    assert!(!client.connect(0, "a", found("a|0")));
    assert!(client.trusted(0));
    assert!(!client.connect(0, "b", Sighting::Missing));
    client.marks(0, "b");
    client.trusted_in(0, QUARANTINE);

    // A marker of an earlier process counts as well: this node has been in use.
    let mut client = Client::new(2, RestartGuard::Observed);
    assert!(!client.connect(0, "a", found("before|0")));
    assert!(!client.connect(1, "b", Sighting::Missing));
    assert!(!client.connect(0, "a", Sighting::Missing));
}

#[test]
fn strict_founds_nothing() {
    let mut client = Client::new(1, RestartGuard::Strict);
    assert!(!client.connect(0, "a", Sighting::Missing));
    client.marks(0, "a");
    client.trusted_in(0, QUARANTINE);
}

#[test]
fn off_asks_nothing_and_trusts_everything() {
    let mut client = Client::new(1, RestartGuard::Off);
    for sighting in [Sighting::Missing, Sighting::Denied, found("x|1")] {
        assert!(!client.connect(0, "a", sighting));
        assert!(client.trusted(0) && !client.trusts[0].is_denied());
        client.pass(5000);
        assert_eq!(client.poll(0, true), None);
        assert_eq!(client.trusts[0].next_deadline(), None);
    }
}
