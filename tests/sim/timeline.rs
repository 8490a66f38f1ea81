//! A history as a person reads it.

use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::history::{Event, Execution, History, Origin, What};

/// All lines, in the order of time: what the callers saw, what went wrong, what servers executed.
pub(crate) fn lines(history: &History) -> Vec<String> {
    let lines = timed(history).into_iter();
    lines.map(|(at, line)| stamped(at, &line)).collect()
}

/// The lines between two moments that have to do with one of these words (tokens, keys), and all
/// faults.
pub(crate) fn about(
    history: &History,
    words: &[String],
    between: RangeInclusive<Duration>,
) -> Vec<String> {
    timed(history)
        .into_iter()
        .filter(|(at, _)| between.contains(at))
        .filter(|(_, line)| {
            let is_process = |name: &&str| line.contains(name);
            line.starts_with('*')
                || ["Paused", "Resumed", "Ended"].iter().any(is_process)
                || words.iter().any(|word| line.contains(word.as_str()))
        })
        .map(|(at, line)| stamped(at, &line))
        .collect()
}

fn stamped(at: Duration, line: &str) -> String {
    format!("{:>10.3}  {line}", at.as_secs_f64())
}

fn timed(history: &History) -> Vec<(Duration, String)> {
    let events = history.events.iter();
    let mut lines: Vec<(Duration, String)> = events.map(|event| (event.at, line(event))).collect();
    for (server, log) in history.servers.iter().enumerate() {
        lines.extend(log.iter().map(|entry| (entry.at, executed(server, entry))));
    }
    lines.sort_by_key(|&(at, _)| at);
    lines
}

fn executed(server: usize, entry: &Execution) -> String {
    let applied = match (entry.took_effect, entry.vote) {
        (true, redlock_quorum::Vote::Unknown) => ", applied",
        _ => "",
    };
    let ballot = entry.ballot;
    let ballot = ballot.map_or_else(String::new, |ballot| format!(" ({ballot})"));
    format!(
        "  server {server}  <- link {}: {:?} {} {}{ballot}: {}{applied}",
        entry.incarnation,
        entry.kind,
        entry.keys.join("+"),
        short(&entry.token),
        entry.vote
    )
}

/// The first characters of a token: enough to tell them apart.
pub(crate) fn short(token: &str) -> &str {
    token.get(..8).unwrap_or(token)
}

fn line(event: &Event) -> String {
    let mut line = match event.client {
        Some(client) => format!("client {client}  "),
        None => "* ".to_owned(),
    };
    let s = |at: &Duration| at.as_secs_f64();
    let written = match &event.what {
        What::Asked {
            op,
            resource,
            ttl,
            patience,
            renews,
            max_hold,
            origin,
            fenced,
            ..
        } => {
            let keep = match (renews, max_hold) {
                (false, _) => "not renewed".to_owned(),
                (true, None) => "renewed".to_owned(),
                (true, Some(limit)) => format!("renewed for {limit:?}"),
            };
            let origin = match origin {
                Origin::Fresh => String::new(),
                shared => format!(", {shared:?}"),
            };
            let fenced = if *fenced { ", fenced" } else { "" };
            write!(
                line,
                "#{op} asks for r{resource}, ttl {ttl:?}, {patience:?}, {keep}{fenced}{origin}"
            )
        }
        What::Acquired {
            op,
            token,
            fence,
            valid_until,
            holders,
        } => {
            let fence = fence.map_or_else(String::new, |fence| format!(" ({fence})"));
            write!(
                line,
                "#{op} HOLDS {}{fence} until {:.3}, the key is on {holders}",
                short(token),
                s(valid_until)
            )
        }
        What::Failed { op, text, .. } => write!(line, "#{op} failed: {text}"),
        What::Abandoned { op } => write!(line, "#{op} dropped the request"),
        What::Extend { op, ttl } => write!(line, "#{op} extends by {ttl:?}"),
        What::Extended {
            op, valid_until, ..
        } => write!(line, "#{op} extended until {:.3}", s(valid_until)),
        What::NotExtended { op, why } => write!(line, "#{op} not extended: {why:?}"),
        What::ExtendAbandoned { op, .. } => write!(line, "#{op} dropped the extension"),
        What::Looked {
            op,
            loss,
            valid_until,
        } => write!(
            line,
            "#{op} looks: loss {loss:?}, valid until {:.3}",
            s(valid_until)
        ),
        What::Holders { op, holders } => {
            write!(line, "#{op} is about to end, its key is on {holders}")
        }
        What::LetGo { op, how } => write!(line, "#{op} lets go: {how:?}"),
        What::Released {
            op,
            already_gone,
            deleted,
            holders,
        } => write!(
            line,
            "#{op} released: already gone {already_gone}, deleted {deleted}, the key is on {holders}"
        ),
        What::Unconfirmed { op } => write!(line, "#{op} release not confirmed"),
        What::Lost { op, cause } => write!(line, "#{op} LOST: {cause}"),
        What::Started { incarnation } => write!(line, "started as link {incarnation}"),
        What::Fault { what } => write!(line, "{what}"),
        What::Left { server, key, token } => {
            write!(line, "left on server {server}: {key} {}", short(token))
        }
        other => write!(line, "{other:?}"),
    };
    written.expect("a string takes all");
    line
}
