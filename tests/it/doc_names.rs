//! Every test that a document names exists.
//!
//! A name between backticks is taken for a test's if it begins with `law_` and a number, if it has
//! three underscores or more, or if it stands in the last column of a table of `failure-modes.md`.
//! `law_4_*` stands for some test whose name begins so.

use std::collections::BTreeSet;

use crate::text::{cells, code_spans, file, files};

const DOCUMENTS: [&str; 3] = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"];

fn is_name(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    word.starts_with(|c: char| c.is_ascii_lowercase()) && word.chars().all(plain)
}

fn is_law(word: &str) -> bool {
    word.strip_prefix("law_")
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

fn is_tests_name(word: &str) -> bool {
    let word = word.strip_suffix('*').unwrap_or(word);
    is_name(word) && (is_law(word) || word.matches('_').count() >= 3)
}

fn named(document: &str, text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for line in text.lines() {
        names.extend(
            code_spans(line)
                .filter(|word| is_tests_name(word))
                .map(String::from),
        );
        if document.ends_with("failure-modes.md")
            && let Some(last) = cells(line).as_deref().and_then(<[_]>::last)
        {
            names.extend(
                code_spans(last)
                    .filter(|word| is_name(word))
                    .map(String::from),
            );
        }
    }
    names
}

/// The names of all functions that follow an attribute of a test, and of the simulation's invariants.
fn tests() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (path, _) in files("tests/sim/invariants", "rs") {
        names.extend(
            path.file_stem()
                .map(|name| name.to_string_lossy().into_owned()),
        );
    }
    for (_, text) in files("src", "rs").into_iter().chain(files("tests", "rs")) {
        let mut is_test = false;
        for line in text.lines().map(str::trim) {
            let after = ["fn ", "async fn "]
                .iter()
                .find_map(|start| line.strip_prefix(start));
            if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
                is_test = true;
            } else if let Some(after) = after.filter(|_| is_test) {
                let name = after.split(['(', '<']).next().unwrap_or_default();
                names.insert(name.to_owned());
                is_test = false;
            }
        }
    }
    names
}

fn missing(document: &str, text: &str, tests: &BTreeSet<String>) -> Vec<String> {
    let exists = |name: &str| match name.strip_suffix('*') {
        Some(start) => tests.iter().any(|test| test.starts_with(start)),
        None => tests.contains(name),
    };
    let names = named(document, text).into_iter();
    names
        .filter(|name| !exists(name))
        .map(|name| format!("{document}: {name}"))
        .collect()
}

#[test]
fn every_test_that_a_document_names_exists() {
    let tests = tests();
    let mut texts: Vec<(String, String)> = DOCUMENTS
        .iter()
        .map(|&document| (document.to_owned(), file(document)))
        .collect();
    for (path, text) in files("docs", "md").into_iter().chain(files("src", "rs")) {
        // Of the sources, the comments.
        let is_source = path.extension().is_some_and(|extension| extension == "rs");
        let comments = |line: &&str| !is_source || line.trim_start().starts_with("//");
        let text: Vec<&str> = text.lines().filter(comments).collect();
        texts.push((path.display().to_string(), text.join("\n")));
    }
    let missing: Vec<String> = texts
        .iter()
        .flat_map(|(document, text)| missing(document, text, &tests))
        .collect();
    assert_eq!(missing, [""; 0], "documents name tests that do not exist");
}

#[test]
fn the_safety_model_names_a_test_of_each_law() {
    let names = named("safety.md", &file("docs/safety.md"));
    for law in 1..=6 {
        let start = format!("law_{law}_");
        assert!(
            names
                .iter()
                .any(|name| name.starts_with(&start) && !name.ends_with('*')),
            "law {law}"
        );
    }
}

#[test]
fn a_missing_test_is_found() {
    let tests = BTreeSet::from(["law_1_of_the_tests".to_owned(), "a_replica".to_owned()]);
    let text = "`law_1_of_the_tests`, `law_1_*`, `valid_until`, `redlock_quorum::docs`, `law_2_*`,\n\
                `a_test_that_is_not`\n\
                | `max_ttl` | `a_replica`, `a_b` |";
    assert_eq!(
        missing("failure-modes.md", text, &tests),
        [
            "failure-modes.md: a_b",
            "failure-modes.md: a_test_that_is_not",
            "failure-modes.md: law_2_*"
        ]
    );
    assert_eq!(missing("other.md", "| `a_b` |", &tests), [""; 0]);
}
