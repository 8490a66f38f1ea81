use std::time::Duration;

use redis::parse_redis_value;

use super::super::stub::Stub;
use super::*;

const TTL: Duration = Duration::from_secs(1);
const EXTEND: Command = Command::Extend {
    ttl: TTL,
    number: 1,
    ballot: None,
};

fn ladder(server: &str, version: &str) -> Ladder {
    Ladder::new(Origin {
        server,
        version,
        finishes: true,
    })
}

fn request(command: Command) -> Request {
    Stub::new(1, &["k"]).request(command)
}

fn error(line: &str) -> Value {
    parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap()
}

/// The forms that a command gets one after another, if each is refused by this error.
fn forms(ladder: &mut Ladder, command: Command, refusal: &str) -> Vec<Form> {
    let mut forms = vec![ladder.form(&request(command))];
    while let Some(next) = ladder.next(&request(command), *forms.last().unwrap(), &error(refusal)) {
        forms.push(next);
    }
    forms
}

#[test]
fn a_version_chooses_where_to_begin_and_refusals_lead_on() {
    use Form::{DelEx, DelIfEq, Hash, SetIfEq};
    let script_first = [Hash, DelEx, DelIfEq, WATCH];
    let set_first = [SetIfEq, Hash, WATCH];
    let no_set = [Hash, WATCH];
    let unknown = "ERR unknown command 'X', with args beginning with: 'a' ";
    for (server, version, release, extension) in [
        ("redis", "6.2.14", &script_first[..], &no_set[..]),
        ("redis", "7.0.15", &script_first, &no_set),
        ("redis", "8.3.9", &script_first, &no_set),
        ("redis", "8.4.0", &[DelEx, DelIfEq, Hash, WATCH], &set_first),
        (
            "redis",
            "10.0.0",
            &[DelEx, DelIfEq, Hash, WATCH],
            &set_first,
        ),
        ("valkey", "8.0.1", &script_first, &no_set),
        ("valkey", "8.1.0", &script_first, &set_first),
        ("valkey", "9.1.2", &[DelIfEq, Hash, WATCH], &set_first),
        ("valkey", "", &[DelEx, DelIfEq, Hash, WATCH], &set_first),
        ("", "", &[DelEx, DelIfEq, Hash, WATCH], &set_first),
    ] {
        let mut ladder = ladder(server, version);
        assert_eq!(
            forms(&mut ladder, Command::Release, unknown),
            release,
            "{server} {version}"
        );
        assert_eq!(
            forms(&mut ladder, EXTEND, unknown),
            extension,
            "{server} {version}"
        );
        assert_eq!(
            ladder.form(&request(Command::Release)),
            WATCH,
            "it is remembered"
        );
    }
}

#[test]
fn only_what_was_not_applied_leads_on() {
    let leads = |form, line: &str| {
        let mut ladder = ladder("valkey", "9.1.2");
        ladder
            .next(&request(Command::Release), form, &error(line))
            .is_some()
    };
    for line in [
        "ERR unknown command 'DELIFEQ', with args beginning with: 'k' 'v' ",
        "ERR syntax error",
        "NOPERM this user has no permissions to run the 'delifeq' command",
        "NOPERM User ns has no permissions to run the 'delifeq' command",
    ] {
        assert!(leads(Form::DelIfEq, line), "{line}");
        assert!(!leads(WATCH, line), "the last form: {line}");
    }
    for line in [
        "ERR The user executing the script can't run this command or subcommand script: 1, on @user_script:1.",
        "ACL failure in script: User min has no permissions to run the 'incr' command script: on @user_script:1.",
        "ERR ACL failure in script: User min has no permissions to run the 'incr' command script: 1",
        "NOPERM this user has no permissions to run the 'evalsha' command",
    ] {
        assert_eq!(leads(Form::Hash, line), !line.starts_with("ACL"), "{line}");
    }
    for line in [
        "NOPERM this user has no permissions to access one of the keys used as arguments",
        "NOPERM No permissions to access a key",
        "READONLY You can't write against a read only replica.",
        "WRONGTYPE Operation against a key holding the wrong kind of value",
        "BUSY Redis is busy running a script.",
        "ERR something else",
    ] {
        assert!(!leads(Form::DelIfEq, line), "{line}");
        assert!(!leads(Form::Hash, line), "{line}");
    }
}

#[test]
fn an_unknown_script_is_sent_as_text_and_no_step_down() {
    let mut ladder = ladder("redis", "7.0.15");
    let unknown = error("NOSCRIPT No matching script. Please use EVAL.");
    let next = ladder.next(&request(Command::Release), Form::Hash, &unknown);
    assert_eq!(next, Some(Form::Text));
    assert_eq!(ladder.form(&request(Command::Release)), Form::Hash);
    let denied = error("NOPERM this user has no permissions to run the 'eval' command");
    let next = ladder.next(&request(Command::Release), Form::Text, &denied);
    assert_eq!(next, Some(Form::DelEx));
}

#[test]
fn many_refusals_at_one_time_are_one_step() {
    let mut ladder = ladder("valkey", "9.1.2");
    let refused = error("NOPERM User a has no permissions to run the 'delifeq' command");
    for _ in 0..5 {
        let next = ladder.next(&request(Command::Release), Form::DelIfEq, &refused);
        assert_eq!(next, Some(Form::Hash));
    }
    assert!(!ladder.has_transactions());
    let refused = error("NOPERM User a has no permissions to run the 'evalsha' command");
    let next = ladder.next(&request(Command::Release), Form::Hash, &refused);
    assert_eq!(next, Some(WATCH));
    assert!(ladder.has_transactions());
    assert_eq!(
        ladder.form(&request(EXTEND)),
        Form::SetIfEq,
        "one does not lead the other on"
    );
}

#[test]
fn a_form_that_shortens_needs_connections_that_are_finished() {
    let origin = |finishes| Origin {
        server: "valkey",
        version: "9.1.2",
        finishes,
    };
    assert!(Ladder::new(origin(true)).may_shorten());
    let mut careful = Ladder::new(origin(false));
    assert!(!careful.may_shorten());
    let denied = "NOPERM User a has no permissions to run the 'evalsha' command";
    assert_eq!(forms(&mut careful, EXTEND, denied), [Form::Hash, WATCH]);
}

#[test]
fn a_retry_is_never_in_a_form_that_shortens() {
    for server in ["redis", "valkey", ""] {
        for version in ["7.0.15", "8.1.0", "9.0.0", "?"] {
            let mut ladder = ladder(server, version);
            let forms = forms(&mut ladder, EXTEND, "ERR syntax error");
            assert!(!forms[1..].contains(&Form::SetIfEq), "{forms:?}");
        }
    }
}

#[test]
fn a_set_has_scripts_only_and_leads_nobody_on() {
    let mut ladder = ladder("redis", "8.4.0");
    let set = Stub::new(1, &["x", "y"]);
    let unknown = error("NOSCRIPT No matching script. Please use EVAL.");
    let denied = error("NOPERM this user has no permissions to run the 'eval' command");
    for command in [
        Command::Acquire {
            ttl: TTL,
            ballot: None,
        },
        EXTEND,
        Command::Release,
    ] {
        let set = set.request(command);
        assert_eq!(ladder.form(&set), Form::Hash, "{command:?}");
        let next = ladder.next(&set, Form::Hash, &unknown);
        assert_eq!(next, Some(Form::Text), "{command:?}");
        for form in [Form::Hash, Form::Text] {
            assert_eq!(ladder.next(&set, form, &denied), None, "{command:?}");
        }
    }
    assert_eq!(ladder.form(&request(Command::Release)), Form::DelEx);
    assert_eq!(ladder.form(&request(EXTEND)), Form::SetIfEq);
}
