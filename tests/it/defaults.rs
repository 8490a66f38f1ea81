//! The table of defaults in `docs/operations.md` says what the code does.

use std::time::Duration;

use redlock_quorum::{Redlock, defaults};

use crate::text::{cells, code_spans, file};

/// A duration as the table writes it.
fn told(duration: Duration) -> String {
    if duration.subsec_millis() == 0 {
        format!("{} s", duration.as_secs())
    } else {
        format!("{} ms", duration.as_millis())
    }
}

fn grouped(count: usize) -> String {
    match (count / 1000, count % 1000) {
        (0, rest) => rest.to_string(),
        (thousands, rest) => format!("{thousands},{rest:03}"),
    }
}

/// Name and value of every row, in the table's order.
fn table() -> Vec<(String, String)> {
    let text = file("docs/operations.md");
    let rows = text
        .lines()
        .skip_while(|line| !line.starts_with("| constant |"))
        .skip(2)
        .map_while(cells);
    rows.map(|row| {
        let name = code_spans(row[0]).next().unwrap_or_default();
        assert!(row.len() == 4 && row[3].len() > 10, "{name} has a reason");
        (name.to_owned(), row[1].to_owned())
    })
    .collect()
}

#[test]
fn the_table_of_defaults_is_true() {
    let second = Duration::from_secs(1);
    let round = |ttl| told(defaults::round_timeout(ttl));
    let expected = [
        ("TTL", told(defaults::TTL)),
        ("MAX_TTL", told(defaults::MAX_TTL)),
        ("SHORTEST_TTL", told(defaults::SHORTEST_TTL)),
        ("WAIT", told(defaults::WAIT)),
        (
            "round_timeout",
            format!(
                "ttl/10, {} to {}, at most ttl/2",
                round(Duration::from_millis(200)),
                round(600 * second)
            ),
        ),
        ("quarantine", "`max_ttl`, a hundredth of it and 1 s".into()),
        ("MARKER_LOOK", told(defaults::MARKER_LOOK)),
        ("CONNECT_TIMEOUT", told(defaults::CONNECT_TIMEOUT)),
        ("SHORTEST_RECONNECT", told(defaults::SHORTEST_RECONNECT)),
        ("LONGEST_RECONNECT", told(defaults::LONGEST_RECONNECT)),
        ("LONGEST_BACKOFF", told(defaults::LONGEST_BACKOFF)),
        (
            "POLL_FLOOR",
            format!("{}, give or take a quarter", told(defaults::POLL_FLOOR)),
        ),
        ("ROW", format!("{} grants", defaults::ROW)),
        ("LONGEST_ROW", format!("{} grants", defaults::LONGEST_ROW)),
        ("BREAKER_OPENS_AFTER", told(defaults::BREAKER_OPENS_AFTER)),
        (
            "CONNECTION_REPLACED_AFTER",
            told(defaults::CONNECTION_REPLACED_AFTER),
        ),
        ("RELEASE_RETRY", told(defaults::RELEASE_RETRY)),
        ("renewal_interval", "ttl/3, give or take a tenth".to_owned()),
        ("RENEWAL_TICK", told(defaults::RENEWAL_TICK)),
        ("RENEWAL_RETRY", told(defaults::RENEWAL_RETRY)),
        ("CLOCK_LOOK", told(defaults::CLOCK_LOOK)),
        ("MAX_UNANSWERED", grouped(defaults::MAX_UNANSWERED)),
        ("SHORTEST_FENCE_TTL", told(defaults::SHORTEST_FENCE_TTL)),
        ("MAX_DEBTS", grouped(defaults::MAX_DEBTS)),
        ("MAX_NODES", grouped(defaults::MAX_NODES)),
        (
            "MAX_RESOURCE_BYTES",
            format!("{} bytes", defaults::MAX_RESOURCE_BYTES),
        ),
        ("MAX_RESOURCES", grouped(defaults::MAX_RESOURCES)),
    ]
    .map(|(name, value)| (name.to_owned(), value));
    assert_eq!(table(), expected);
    assert_eq!(defaults::renewal_interval(9 * second), 3 * second);
    let quarantine = |max_ttl| told(defaults::quarantine(max_ttl));
    assert_eq!(quarantine(defaults::MAX_TTL), "61600 ms");
    assert_eq!(quarantine(100 * second), "102 s");
    assert_eq!(round(10 * second), "1 s", "a tenth");
    assert_eq!(round(2 * second), "200 ms", "a tenth");
    assert_eq!(round(Duration::from_millis(20)), "10 ms", "half the ttl");
}

/// Every constant of the module has its row.
#[test]
fn the_table_of_defaults_is_complete() {
    let source = file("src/defaults.rs");
    let public = source.lines().filter_map(|line| {
        let item = ["pub const ", "pub fn "]
            .iter()
            .find_map(|start| line.strip_prefix(start))?;
        item.split([':', '(']).next()
    });
    let mut public: Vec<&str> = public.collect();
    let table = table();
    let mut rows: Vec<&str> = table.iter().map(|(name, _)| name.as_str()).collect();
    public.sort_unstable();
    rows.sort_unstable();
    assert_eq!(rows, public);
}

/// What a client without settings uses is what the module says.
#[test]
fn a_client_without_settings_has_the_defaults() {
    let redlock = Redlock::builder()
        .nodes(["redis://127.0.0.1:1"])
        .build()
        .unwrap();
    let settings = format!("{redlock:?}");
    for (field, value) in [("ttl", defaults::TTL), ("max_ttl", defaults::MAX_TTL)] {
        let shown = format!(" {field}: {value:?},");
        assert!(settings.contains(&shown), "{shown} in {settings}");
    }
    let shown = format!(" wait: For({:?}),", defaults::WAIT);
    assert!(settings.contains(&shown), "{shown} in {settings}");
    assert!(
        settings.contains(" round_timeout: None, fenced: false "),
        "{settings}"
    );
}
