//! What the client says about nodes that may forget, and how often.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};

use redlock_quorum::Redlock;
use redlock_quorum::testkit::fleet::Fleet;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::support::{ask, builder, eventually, fleet, ms, run_on_one_thread, warm_up};

/// Writes down the client's warnings, a line each.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    fn count(&self, text: &str) -> usize {
        let lines = self.0.lock().unwrap();
        lines.iter().filter(|line| line.contains(text)).count()
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "redlock_quorum" && *metadata.level() == tracing::Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Runs a test with its client on this thread, where warnings are heard.
fn heard(test: impl AsyncFnOnce(&Warnings)) {
    let warnings = Warnings::default();
    let _heard = tracing::subscriber::set_default(warnings.clone());
    run_on_one_thread(test(&warnings));
}

/// All connections are ended by the servers, and made again.
async fn reconnects(fleet: &Fleet, redlock: &Redlock) {
    for server in fleet {
        ask(server, &["CLIENT", "KILL", "TYPE", "normal"]);
    }
    warm_up(redlock).await;
}

#[test]
fn what_is_denied_is_said_once() {
    heard(async |warnings| {
        let fleet = fleet(1);
        let rules = "on >secret ~* +@all -info -client|tracking";
        let mut words = vec!["ACL", "SETUSER", "locker"];
        words.extend(rules.split(' '));
        ask(&fleet[0], &words);
        let url = |user: &str| format!("redis://{user}:secret@127.0.0.1:{}", fleet[0].port());
        let redlock = builder([url("locker")]).build().unwrap();
        for _ in 0..2 {
            reconnects(&fleet, &redlock).await;
        }
        assert_eq!(warnings.count("node hides its restarts"), 1);
        assert_eq!(warnings.count("node hides its releases"), 1);
        assert_eq!(warnings.count("node hides its marker"), 0);

        let rules = "on >secret ~locks:* +@all";
        let mut words = vec!["ACL", "SETUSER", "other"];
        words.extend(rules.split(' '));
        ask(&fleet[0], &words);
        let redlock = builder([url("other")]).prefix("locks:").build().unwrap();
        for _ in 0..2 {
            reconnects(&fleet, &redlock).await;
        }
        assert_eq!(warnings.count("node hides its marker"), 1);
        assert_eq!(
            warnings.count("node hides its releases"),
            1,
            "the first client"
        );
    });
}

#[test]
fn other_settings_are_said_once() {
    heard(async |warnings| {
        let fleet = fleet(1);
        let first = builder(fleet.urls()).build().unwrap();
        warm_up(&first).await;
        let second = builder(fleet.urls()).max_ttl(ms(30_000)).build().unwrap();
        for _ in 0..2 {
            reconnects(&fleet, &second).await;
        }
        assert_eq!(warnings.count("node is used with other settings"), 1);
        assert_eq!(warnings.count("ours=\"1|30000\" theirs=\"1|60000\""), 1);
    });
}

#[test]
fn a_quarantine_is_said_once_and_its_end_too() {
    heard(async |warnings| {
        let mut fleet = fleet(1);
        let ttl = ms(1000);
        let redlock = builder(fleet.urls()).ttl(ttl).max_ttl(ttl).build().unwrap();
        warm_up(&redlock).await;
        assert_eq!(warnings.count("quarantined"), 0);
        fleet[0].restart().unwrap();
        eventually("it is quarantined", async || {
            drop(redlock.try_acquire("resource").await);
            warnings.count("reason=quarantined") == 1
        })
        .await;
        warm_up(&redlock).await;
        assert_eq!(warnings.count("reason=quarantined"), 1);
    });
}

#[test]
fn that_a_node_needs_transactions_is_said_once() {
    heard(async |warnings| {
        let fleet = fleet(1);
        let user = |name: &str, rules: &str| {
            let words = format!("ACL SETUSER {name} on >secret ~* +@all {rules}");
            ask(&fleet[0], &words.trim_end().split(' ').collect::<Vec<_>>());
            let url = format!("redis://{name}:secret@127.0.0.1:{}", fleet[0].port());
            builder([url]).build().unwrap()
        };
        let redlock = user("locker", "-@scripting");
        for _ in 0..2 {
            warm_up(&redlock).await;
            reconnects(&fleet, &redlock).await;
        }
        assert_eq!(warnings.count("node needs transactions"), 1);
        let redlock = user("other", "");
        warm_up(&redlock).await;
        assert_eq!(warnings.count("node needs transactions"), 1);
    });
}
