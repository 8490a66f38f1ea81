use std::sync::Arc;

use redis::parse_redis_value;

use super::*;
use crate::node::Caller;
use crate::node::redis::commands;
use crate::quorum::ballot::Ballot;
use crate::quorum::hold::{Command, Reply};
use crate::quorum::validity::Moment;
use crate::token::Token;

const TTL: Duration = Duration::from_secs(1);

/// An attempt that watches.
struct Waiter(Token, [Box<str>; 1]);

impl Caller for Waiter {
    fn keys(&self) -> &[Box<str>] {
        &self.1
    }

    fn token(&self) -> &Token {
        &self.0
    }

    fn watches(&self) -> bool {
        true
    }

    fn claim(&self, _: usize, _: Command) -> bool {
        true
    }

    fn on_reply(self: Arc<Self>, _: usize, _: Command, _: Reply, _: Option<Moment>) {}
}

fn sent(command: Command, form: Form, tells: bool) -> Sent {
    let waiter = Waiter(Token::from_bits(1), ["key".into()]);
    let request = Request::new(Arc::new(waiter), 0, command);
    let watching = Watching::of(&request, tells);
    Sent::new(request, form, watching)
}

fn plain(tells: bool) -> Sent {
    let (ttl, ballot) = (TTL, None);
    sent(Command::Acquire { ttl, ballot }, Form::Plain, tells)
}

fn fenced(form: Form, tells: bool) -> Sent {
    let (ttl, ballot) = (TTL, Some(Ballot::new(7, TTL)));
    sent(Command::Acquire { ttl, ballot }, form, tells)
}

/// The first words of what is written, a line for each command.
fn written(sent: &Sent) -> Vec<String> {
    let mut pipeline = Pipeline::new();
    let command = commands::command(&sent.request, sent.form);
    compose(&mut pipeline, sent, command);
    let words = |cmd: &Cmd| {
        let words = cmd.args_iter().filter_map(|word| {
            let redis::Arg::Simple(word) = word else {
                return None;
            };
            Some(String::from_utf8_lossy(word).into_owned())
        });
        words.take(2).collect::<Vec<_>>().join(" ")
    };
    pipeline.cmd_iter().map(words).collect()
}

/// Replies as they come over the wire.
fn replies(lines: &[&str]) -> Vec<Value> {
    let parsed = |line: &&str| parse_redis_value(line.as_bytes()).unwrap();
    lines.iter().map(parsed).collect()
}

const HELD: &str = "$-1\r\n";
const MISSING: &str = "$-1\r\n";
const OK: &str = "+OK\r\n";
const THEIRS: &str = "$5\r\nother\r\n";
const DENIED: &str = "-NOPERM this user has no permissions\r\n";

/// What an unfenced acquire makes of the replies: its vote, and whether it knows that it does not watch.
fn read(lines: &[&str]) -> (Vote, bool) {
    let (sent, replies) = (plain(lines.len() == 4), replies(lines));
    let (vote, _) = commands::vote(&sent.request, answer(&sent, &replies).unwrap());
    let vote = complete(&sent, vote, &replies);
    (vote, is_refused(&sent, &replies))
}

const fn held(ttl: Option<Duration>) -> Vote {
    Vote::Held { ttl, fence: None }
}

#[test]
fn an_acquire_that_watches_is_written_in_one_piece() {
    let caching = "CLIENT CACHING";
    assert_eq!(
        written(&plain(true)),
        ["SET key", caching, "GET key", "PTTL key"]
    );
    assert_eq!(written(&plain(false)), ["SET key", "PTTL key"]);
    for (form, name) in [(Form::Hash, "EVALSHA"), (Form::Text, "EVAL")] {
        for tells in [true, false] {
            let written = written(&fenced(form, tells));
            let (script, before) = written.split_last().unwrap();
            assert_eq!(script.split(' ').next(), Some(name));
            assert_eq!(before.concat(), if tells { caching } else { "" });
        }
    }
    // Nothing else watches.
    let heal = Command::Heal {
        ttl: TTL,
        ballot: None,
    };
    assert_eq!(written(&sent(heal, Form::Plain, true)), ["SET key"]);
    let release = sent(Command::Release, Form::DelIfEq, true);
    assert_eq!(written(&release), ["DELIFEQ key"]);
}

#[test]
fn a_vote_tells_how_long_the_key_lives() {
    let told = Some(Duration::from_millis(250));
    assert_eq!(read(&[HELD, OK, THEIRS, ":250\r\n"]), (held(told), false));
    assert_eq!(read(&[HELD, OK, THEIRS, ":-1\r\n"]), (held(None), false));
    assert_eq!(read(&[HELD, ":250\r\n"]), (held(told), false));
    let mine = "$32\r\n00000000000000000000000000000001\r\n";
    assert_eq!(read(&[OK, OK, mine, ":999\r\n"]), (Vote::Granted, false));
}

#[test]
fn a_key_that_went_away_meanwhile_is_free_now() {
    let free = (held(Some(Duration::ZERO)), false);
    assert_eq!(read(&[HELD, OK, MISSING, ":-2\r\n"]), free);
    assert_eq!(read(&[HELD, OK, MISSING, DENIED]), free);
    // Somebody has set another one since: it is not watched, but the free key was.
    assert_eq!(read(&[HELD, OK, MISSING, ":250\r\n"]), free);
    assert_eq!(read(&[HELD, OK, THEIRS, ":-2\r\n"]), free);
    assert_eq!(read(&[HELD, ":-2\r\n"]), free);
}

#[test]
fn what_may_not_be_watched_is_voted_on_all_the_same() {
    let told = Some(Duration::from_millis(250));
    let unknown = "-ERR unknown subcommand\r\n";
    for refusal in [DENIED, unknown] {
        for lines in [
            [HELD, refusal, THEIRS, ":250\r\n"],
            [HELD, OK, refusal, ":250\r\n"],
        ] {
            assert_eq!(read(&lines), (held(told), true), "{lines:?}");
        }
    }
    assert_eq!(read(&[HELD, OK, DENIED, DENIED]), (held(None), true));
    assert_eq!(read(&[HELD, OK, THEIRS, DENIED]), (held(None), false));
    let other_type = "-WRONGTYPE Operation against a key\r\n";
    assert_eq!(
        read(&[HELD, OK, other_type, ":250\r\n"]),
        (held(told), false),
        "it was read"
    );
    // Of a server that refuses everything for now this is not known.
    let busy = "-BUSY a script is running\r\n";
    let refused = Vote::Refused(Refusal::Busy);
    assert_eq!(read(&[busy, busy, busy, busy]), (refused, false));
}

#[test]
fn a_script_answers_last_and_watches_by_itself() {
    let sent = fenced(Form::Hash, true);
    let held = "*3\r\n:0\r\n:250\r\n$1\r\n9\r\n";
    for (lines, refused) in [
        ([OK, held], false),
        ([DENIED, held], true),
        ([DENIED, "-NOSCRIPT no such script\r\n"], false),
    ] {
        let replies = replies(&lines);
        assert_eq!(answer(&sent, &replies), replies.last());
        assert_eq!(is_refused(&sent, &replies), refused);
    }
    let replies = replies(&[OK, held]);
    let (vote, _) = commands::vote(&sent.request, answer(&sent, &replies).unwrap());
    assert_eq!(complete(&sent, vote, &replies), vote);
    assert_eq!(vote.fence(), Some(9));
}
