//! The scripts do at a real server what the pure rule says.

use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use redis::{Client, Connection, ConnectionLike, Value};

use super::super::commands;
use super::*;
use crate::node::Caller;
use crate::quorum::ballot::Ballot;
use crate::quorum::hold::Reply;
use crate::quorum::keyspace::Keyspace;
use crate::quorum::validity::Moment;
use crate::testkit::fleet::{Flavor, Options, Server};
use crate::token::Token;

const KEY: &str = "resource";
const FENCE: &str = "redlock-quorum:fence:resource";
const MEMORY: Duration = Duration::from_secs(5000);

struct Owner(Token, [Box<str>; 1]);

impl Caller for Owner {
    fn keys(&self) -> &[Box<str>] {
        &self.1
    }

    fn token(&self) -> &Token {
        &self.0
    }

    fn watches(&self) -> bool {
        false
    }

    fn claim(&self, _node: usize, _command: Command) -> bool {
        true
    }

    fn on_reply(self: Arc<Self>, _: usize, _: Command, _: Reply, _: Option<Moment>) {}
}

fn some_command(random: &mut StdRng) -> Command {
    let ttl = Duration::from_secs(random.random_range(1..=3) * 1000);
    let ballot = Ballot::new(random.random_range(1..8) * 200_000_000_000_001, MEMORY);
    let fenced = Some(ballot);
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
    for text in TEXTS.into_iter().chain([commands::RELEASE_TEXT]) {
        let _hash: String = ask(&mut connection, &["SCRIPT", "LOAD", text]);
    }
    let mut random = StdRng::seed_from_u64(seed);
    let mut keys = Keyspace::default();
    let now = Moment::from_nanos(1_000_000_000_000);
    let owners: Vec<Arc<Owner>> = (1..=3)
        .map(|bits| Arc::new(Owner(Token::from_bits(bits), [KEY.into()])))
        .collect();
    for step in 0..steps {
        // What else happens to a node's keys.
        match random.random_range(0..20) {
            0 => {
                let _deleted: i64 = ask(&mut connection, &["DEL", KEY]);
                keys.delete(KEY);
            }
            1 => {
                let _deleted: i64 = ask(&mut connection, &["DEL", FENCE]);
                keys.delete(FENCE);
            }
            _ => {}
        }
        let command = some_command(&mut random);
        let owner = &owners[usize::try_from(random.next_u32() % 3).unwrap()];
        let request = Request::new(Arc::<Owner>::clone(owner), 0, command);
        let form = if step % 2 == 0 {
            Form::Hash
        } else {
            Form::Text
        };
        let reply = connection.req_command(&commands::command(&request, form));
        let (vote, error) = commands::vote(&request, &reply.unwrap());
        let expected = keys.apply(command, KEY, owner.0.as_str(), now);
        let context = format!("{seed}, step {step}: {command:?}, {error:?}");
        assert_eq!(alike(vote), alike(expected), "{context}");
        for key in [KEY, FENCE] {
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
    let owner = Arc::new(Owner(Token::from_bits(1), [KEY.into()]));
    let request = Request::new(owner, 0, command);
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
