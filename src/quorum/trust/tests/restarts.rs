//! Restarts, flushes, and clients that may not look.

use super::*;

fn founded_client(policy: RestartGuard) -> Client {
    let mut client = Client::new(1, policy);
    client.connect(0, "a", found("a|0"));
    assert!(client.trusted(0));
    client
}

#[test]
fn a_restart_with_data_is_seen_by_its_run_id() {
    for policy in [RestartGuard::Observed, RestartGuard::Strict] {
        let mut client = founded_client(policy);
        client.pass(60_000);
        client.connect(0, "b", found("a|0"));
        assert!(!client.trusted(0));
        let marker = seen("b", client.server_time());
        assert_eq!(client.poll(0, false), written(&marker, false), "at once");
        client.answer(0, found(&marker));
        client.trusted_in(0, QUARANTINE);
    }
}

#[test]
fn a_client_that_has_not_seen_the_restart_asks_the_marker() {
    let mut client = Client::new(1, RestartGuard::Observed);
    let marker = seen("b", client.server_time() - 4000);
    client.connect(0, "b", found(&marker));
    client.trusted_in(0, QUARANTINE - 4000);
    // It is counted by our own clock, whatever the server's does.
    client.ahead = -3_600_000;
    client.connect(0, "b", found(&marker));
    assert!(client.trusted(0), "the same marker of the same process");

    let mut fresh = Client::new(1, RestartGuard::Observed);
    let marker = seen("b", fresh.server_time() - QUARANTINE);
    fresh.connect(0, "b", found(&marker));
    assert!(fresh.trusted(0), "old enough");
}

#[test]
fn a_client_that_saw_the_change_counts_all_of_it() {
    let mut client = founded_client(RestartGuard::Observed);
    // Somebody has marked the new process before we came; its clock may have been set forward since.
    let marker = seen("b", client.server_time() - QUARANTINE);
    client.connect(0, "b", found(&marker));
    client.trusted_in(0, QUARANTINE);

    // Also where the fleet has been founded again by somebody who saw nothing of it.
    client.connect(0, "c", found("c|0"));
    client.trusted_in(0, QUARANTINE);
}

#[test]
fn a_reconnect_changes_nothing() {
    let mut client = founded_client(RestartGuard::Observed);
    client.connect(0, "b", Sighting::Missing);
    client.marks(0, "b");
    let marker = seen("b", client.server_time());
    client.pass(2000);
    client.trusts[0].on_away(&mut client.founding);
    assert!(!client.trusted(0));
    client.pass(1000);
    client.connect(0, "b", found(&marker));
    client.trusted_in(0, QUARANTINE - 3000);
    client.connect(0, "b", found(&marker));
    assert!(client.trusted(0));
}

#[test]
fn a_restart_without_data_is_marked_after_a_second_look_and_counts_from_there() {
    let mut client = founded_client(RestartGuard::Observed);
    client.connect(0, "b", Sighting::Missing);
    assert!(!client.trusts[0].is_undecided());
    client.marks(0, "b");
    client.trusted_in(0, QUARANTINE);
}

#[test]
fn a_missing_marker_that_somebody_else_writes_is_taken() {
    let mut client = Client::new(2, RestartGuard::Observed);
    client.connect(0, "a", Sighting::Missing);
    assert!(client.trusts[0].is_undecided());
    client.pass(1000);
    assert_eq!(client.poll(0, false), Some(Ask::Look));
    client.answer(0, found("a|0"));
    assert!(client.trusted(0), "founded by another client meanwhile");
}

#[test]
fn a_flush_shows_at_the_next_look() {
    let mut client = founded_client(RestartGuard::Observed);
    client.pass(1000);
    assert_eq!(client.poll(0, true), Some(Ask::Look));
    assert_eq!(client.poll(0, true), None, "one question at a time");
    client.answer(0, Sighting::Missing);
    assert!(!client.trusted(0));
    client.marks(0, "a");
    client.trusted_in(0, QUARANTINE);
}

#[test]
fn a_flush_that_is_told_is_looked_at_without_delay() {
    for busy in [true, false] {
        let mut client = founded_client(RestartGuard::Observed);
        client.pass(10);
        assert_eq!(client.poll(0, busy), None);
        client.trusts[0].on_flushed();
        assert_eq!(client.poll(0, busy), Some(Ask::Look));
        client.answer(0, found("a|0"));
        assert_eq!(client.poll(0, busy), None, "once, and it was none");
        client.trusts[0].on_flushed();
        assert_eq!(client.poll(0, busy), Some(Ask::Look));
        client.answer(0, Sighting::Missing);
        assert!(!client.trusted(0));
        assert_eq!(client.poll(0, busy), None, "the second look is not sooner");
    }
}

#[test]
fn a_flush_that_is_told_during_a_look_is_looked_at_once_more() {
    let mut client = founded_client(RestartGuard::Observed);
    client.pass(1000);
    assert_eq!(client.poll(0, true), Some(Ask::Look));
    client.trusts[0].on_flushed();
    assert_eq!(client.poll(0, true), None, "one question at a time");
    client.answer(0, found("a|0"));
    assert!(client.trusted(0), "that was before");
    assert_eq!(client.poll(0, true), Some(Ask::Look));
    client.answer(0, Sighting::Missing);
    assert!(!client.trusted(0));
}

#[test]
fn a_flush_that_another_client_has_marked_shows_as_well() {
    let mut client = founded_client(RestartGuard::Observed);
    client.pass(1000);
    assert_eq!(client.poll(0, true), Some(Ask::Look));
    let marker = seen("a", client.server_time() - 500);
    client.answer(0, found(&marker));
    client.trusted_in(0, QUARANTINE);
}

#[test]
fn an_idle_client_looks_with_its_next_acquire() {
    let mut client = founded_client(RestartGuard::Observed);
    let deadline = |client: &Client| client.trusts[0].next_deadline();
    assert_eq!(deadline(&client), Some(at(client.now + 1000)));
    client.pass(999);
    assert_eq!(client.poll(0, true), None, "it looked a second ago");
    client.pass(1);
    assert_eq!(client.poll(0, false), None);
    assert_eq!(deadline(&client), None, "nobody needs to know");
    client.pass(60_000);
    assert_eq!(client.poll(0, true), Some(Ask::Look));
    client.answer(0, found("a|0"));
    assert_eq!(deadline(&client), Some(at(client.now + 1000)));
}

#[test]
fn the_end_of_a_quarantine_is_a_deadline() {
    let mut client = Client::new(1, RestartGuard::Observed);
    let marker = seen("a", client.server_time() - QUARANTINE + 300);
    client.connect(0, "a", found(&marker));
    let deadline = client.trusts[0].next_deadline();
    assert_eq!(deadline, Some(at(client.now + 300)));
}

#[test]
fn a_persistent_node_votes_in_any_case_and_is_marked_all_the_same() {
    let mut client = Client::with(2, RestartGuard::Observed, true);
    client.connect(0, "a", Sighting::Missing);
    assert!(client.trusted(0));
    client.marks(0, "a");
    assert!(client.trusted(0));
    client.connect(0, "b", found("a|0"));
    assert!(client.trusted(0));
    assert_eq!(
        client.poll(0, false),
        written(&seen("b", client.server_time()), false)
    );
}

#[test]
fn without_info_a_missing_marker_still_quarantines() {
    let mut client = Client::new(2, RestartGuard::Observed);
    client.connect(0, "", Sighting::Missing);
    client.marks(0, "");
    client.trusted_in(0, QUARANTINE);
    // A restart with data goes unseen.
    client.connect(0, "", found("whoever|0"));
    client.trusted_in(0, QUARANTINE);
    client.connect(0, "", found("whoever|0"));
    assert!(client.trusted(0));
    client.connect(0, "", Sighting::Missing);
    assert!(!client.trusted(0));
}

#[test]
fn without_the_marker_there_is_no_quarantine_and_no_founding() {
    let mut client = Client::new(2, RestartGuard::Observed);
    assert!(!client.connect(0, "a", Sighting::Denied));
    assert!(client.trusted(0) && client.trusts[0].is_denied());
    assert_eq!(client.poll(0, true), None);
    assert!(!client.connect(1, "b", Sighting::Missing));
    assert!(!client.trusted(1));
    // The right to write may be missing alone.
    client.pass(1000);
    client.poll(1, false);
    client.answer(1, Sighting::Missing);
    assert!(client.poll(1, false).is_some());
    client.answer(1, Sighting::Denied);
    assert!(client.trusted(1));
}

#[test]
fn a_marker_that_cannot_be_read_or_written_is_asked_for_every_second() {
    let mut client = Client::new(1, RestartGuard::Strict);
    client.connect(0, "a", Sighting::Unreadable);
    assert!(!client.trusted(0));
    assert_eq!(client.poll(0, true), None);
    client.pass(1000);
    assert_eq!(client.poll(0, false), Some(Ask::Look));
    client.answer(0, found("garbage"));
    // Replaced at once, then once a second.
    for pause in [0, 1000, 1000] {
        client.pass(pause);
        assert!(matches!(client.poll(0, false), Some(Ask::Write { .. })));
        client.answer(0, found("garbage"));
        assert_eq!(client.poll(0, false), None);
    }
    // A trusted node that is busy for a moment stays trusted.
    let mut client = founded_client(RestartGuard::Observed);
    client.pass(1000);
    client.poll(0, true);
    client.answer(0, Sighting::Unreadable);
    assert!(client.trusted(0));
}

#[test]
fn a_marker_is_not_written_with_the_time_of_an_earlier_process() {
    let mut client = founded_client(RestartGuard::Observed);
    let look = Look {
        sighting: found("a|0"),
        server_time: None,
    };
    let (run_id, now) = (Some(Arc::from("b")), at(client.now));
    client.trusts[0].on_introduced(run_id, look, now, now, &mut client.founding);
    let ageless = Marker::seen(Some("b"), None).to_string();
    assert_eq!(client.poll(0, false), written(&ageless, false));
    client.answer(0, found(&ageless));
    client.trusted_in(0, QUARANTINE);
}

#[test]
fn spurious_answers_change_nothing() {
    let mut client = founded_client(RestartGuard::Observed);
    client.answer(0, Sighting::Missing);
    assert!(client.trusted(0));
}
