//! The scripts do at a real server what the pure rule says.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use redis::{Client, Connection, ConnectionLike, Value};

use super::super::stub::Stub;
use super::super::{commands, scripts, sets};
use super::*;
use crate::quorum::ballot::Ballot;
use crate::quorum::keyspace::Keyspace;
use crate::quorum::validity::Moment;
use crate::quorum::waiting::InWay;
use crate::testkit::fleet::{Flavor, Options, Server};

/// So many of these are the keys of a lock; they have fences, as many.
const KEYS: [&str; 3] = ["x", "y", "z"];
const MEMORY: Duration = Duration::from_secs(5000);

fn fence(key: &str) -> String {
    format!("redlock-quorum:fence:{key}")
}

fn some_command(random: &mut StdRng) -> Command {
    let ttl = Duration::from_secs(random.random_range(1..=3) * 1000);
    let ballot = Ballot::new(random.random_range(1..8) * 200_000_000_000_001, MEMORY);
    let fenced = random.random_bool(0.7).then_some(ballot);
    match random.random_range(0..9) {
        0..4 => Command::Acquire {
            ttl,
            ballot: fenced,
        },
        4 => Command::Extend {
            ttl,
            number: 1,
            ballot: fenced,
        },
        5..7 => Command::Heal {
            ttl,
            ballot: fenced,
        },
        7 => Command::Release,
        _ => Command::Tombstone { ballot },
    }
}

/// The keys outlive the test: a minute more or less is the same.
fn about(ttl: Option<Duration>) -> Option<u64> {
    ttl.map(|ttl| (ttl.as_secs() + 300) / 1000)
}

fn alike(vote: Vote) -> (Vote, Option<u64>) {
    if let Vote::Held { ttl, fence } = vote {
        (Vote::Held { ttl: None, fence }, about(ttl))
    } else {
        (vote, None)
    }
}

fn ask<T: redis::FromRedisValue>(connection: &mut Connection, words: &[&str]) -> T {
    let mut cmd = redis::cmd(words[0]);
    cmd.arg(&words[1..]);
    cmd.query(connection).unwrap()
}

fn play(flavor: &Flavor, seed: u64, steps: usize) {
    let server = Server::start(flavor, Options::new()).unwrap();
    let mut connection = Client::open(server.url())
        .unwrap()
        .get_connection()
        .unwrap();
    for script in scripts::ALL {
        let _hash: String = ask(&mut connection, &["SCRIPT", "LOAD", script.text()]);
    }
    let mut random = StdRng::seed_from_u64(seed);
    let mut keys = Keyspace::default();
    let now = Moment::from_nanos(1_000_000_000_000);
    let all: Vec<String> = KEYS
        .map(String::from)
        .into_iter()
        .chain(KEYS.map(fence))
        .collect();
    for step in 0..steps {
        // What else happens to a node's keys.
        if random.random_bool(0.1) {
            let key = &all[random.random_range(0..all.len())];
            let _deleted: i64 = ask(&mut connection, &["DEL", key]);
            keys.delete(key);
        }
        if random.random_bool(0.05) {
            let key = KEYS[random.random_range(0..KEYS.len())];
            let _set: String = ask(&mut connection, &["SET", key, "for ever"]);
            keys.set(key, "for ever", None, now);
        }
        let command = some_command(&mut random);
        let (first, last) = (random.random_range(0..3), random.random_range(1..=3));
        let lock = &KEYS[first.min(last - 1)..last];
        let token = random.random_range(1..=3);
        let request = Stub::new(token, lock).request(command);
        let form = if step % 2 == 0 {
            Form::Hash
        } else {
            Form::Text
        };
        let reply = connection.req_command(&commands::command(&request, form));
        let reply = reply.unwrap();
        let (vote, error) = commands::vote(&request, &reply);
        let expected = keys.apply(command, lock, request.token(), now);
        let context = format!("{seed}, step {step}: {command:?} {lock:?}, {error:?}");
        assert_eq!(alike(vote), alike(expected), "{context}");
        let is_acquire = matches!(command, Command::Acquire { .. });
        if is_acquire && lock.len() > 1 && matches!(vote, Vote::Held { .. }) {
            let in_way = keys.in_way(lock, request.token(), now);
            let told = sets::in_way(&request, &reply);
            let alike = |in_way: Vec<InWay>| -> Vec<_> {
                let one = |key: InWay| (key.place, about(key.ttl));
                in_way.into_iter().map(one).collect()
            };
            assert_eq!(alike(told), alike(in_way), "{context}");
        }
        for key in &all {
            let value: Option<String> = ask(&mut connection, &["GET", key]);
            assert_eq!(value.as_deref(), keys.get(key, now), "{context}");
            let left: i64 = ask(&mut connection, &["PTTL", key]);
            let left = u64::try_from(left).ok().map(Duration::from_millis);
            assert_eq!(about(left), about(keys.ttl(key, now)), "{context}");
        }
    }
}

#[test]
fn real_nodes_follow_the_pure_rule_of_ballots() {
    for flavor in Flavor::available() {
        for seed in 0..3 {
            play(&flavor, seed, 1500);
        }
    }
}

#[test]
fn replies_that_nobody_gives_are_no_votes() {
    let ballot = Some(Ballot::new(5, MEMORY));
    let command = Command::Acquire {
        ttl: MEMORY,
        ballot,
    };
    let request = Stub::new(1, &["x"]).request(command);
    for reply in [
        Value::Okay,
        Value::Nil,
        Value::Int(2),
        Value::Array(vec![Value::Int(-1), Value::Nil]),
        Value::Array(vec![Value::Int(0), Value::Int(5)]),
    ] {
        assert_eq!(vote(&request, &reply), None, "{reply:?}");
    }
}
