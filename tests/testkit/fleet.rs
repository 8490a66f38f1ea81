//! Servers come up, obey, and end with their owner.
#![expect(
    clippy::disallowed_methods,
    reason = "processes are waited for in real time"
)]

use std::env;
use std::fs;
use std::io::{self, BufRead as _, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use redis::Value;
use redlock_quorum::testkit::fleet::{Flavor, Fleet, Options, Server, ServerKind};

/// Set in the process that [`a_server_ends_with_its_killed_owner`] starts to own a server.
const OWNER: &str = "REDLOCK_TEST_OWNER";

fn redis() -> Flavor {
    Flavor::first().expect("scripts/install-test-deps installs a server")
}

fn server(options: Options) -> Server {
    Server::start(&redis(), options).expect("a server starts")
}

/// Whether the process is gone, or is a zombie that its new parent has not reaped yet.
fn is_dead(pid: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return true;
    };
    stat.rsplit(')')
        .next()
        .is_some_and(|rest| rest.trim_start().starts_with('Z'))
}

fn eventually(what: &str, condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(
            started.elapsed() < Duration::from_secs(10),
            "not within 10 s: {what}"
        );
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn every_installed_flavor_starts() {
    let flavors = Flavor::available();
    assert!(!flavors.is_empty());
    for flavor in flavors {
        let server = Server::start(&flavor, Options::new()).expect("the flavor starts");
        let info: String = redis::cmd("INFO")
            .arg("server")
            .query(&mut server.connection().unwrap())
            .unwrap();
        let valkey = info.contains("valkey_version:");
        assert_eq!(valkey, flavor.kind() != ServerKind::Redis, "{flavor:?}");
        assert_eq!(
            info.contains("valkey_version:9."),
            flavor.kind() == ServerKind::Valkey9,
            "{flavor:?}"
        );
    }
}

#[test]
fn a_restart_without_persistence_forgets() {
    let mut server = server(Options::new());
    let port = server.port();
    server.command(&["SET", "resource", "token"]).unwrap();
    server.restart().unwrap();
    assert_eq!(server.port(), port);
    assert_eq!(server.command(&["GET", "resource"]).unwrap(), Value::Nil);
}

#[test]
fn a_durable_server_keeps_its_data_over_a_kill() {
    let mut server = server(Options::new().durable());
    server.command(&["SET", "resource", "token"]).unwrap();
    server.kill().unwrap();
    assert_eq!(server.pid(), None);
    assert!(server.connection().is_err());
    assert_eq!(
        server.freeze().unwrap_err().kind(),
        io::ErrorKind::NotConnected
    );
    server.restart().unwrap();
    assert_eq!(
        server.command(&["GET", "resource"]).unwrap(),
        Value::BulkString(b"token".into())
    );
}

#[test]
fn a_frozen_server_accepts_and_answers_after_the_thaw() {
    let server = server(Options::new());
    server.freeze().unwrap();
    server.freeze().unwrap();
    assert!(TcpStream::connect(("127.0.0.1", server.port())).is_ok());
    assert!(server.command(&["PING"]).unwrap_err().is_timeout());
    server.thaw().unwrap();
    assert_eq!(
        server.command(&["PING"]).unwrap(),
        Value::SimpleString("PONG".into())
    );
}

#[test]
fn a_frozen_server_can_be_killed_and_restarted() {
    let mut server = server(Options::new());
    server.freeze().unwrap();
    server.kill().unwrap();
    server.kill().unwrap();
    server.restart().unwrap();
    server.command(&["PING"]).unwrap();
}

#[test]
fn passwords_and_unix_sockets_are_part_of_the_urls() {
    let server = server(Options::new().password("p@ss:/?#%é").unix_socket());
    server.command(&["SET", "resource", "token"]).unwrap();
    let client = redis::Client::open(server.unix_url().unwrap()).unwrap();
    let token: String = redis::cmd("GET")
        .arg("resource")
        .query(&mut client.get_connection().unwrap())
        .unwrap();
    assert_eq!(token, "token");

    let bare = redis::Client::open(format!("redis://127.0.0.1:{}", server.port())).unwrap();
    let refused = redis::cmd("GET")
        .arg("resource")
        .query::<String>(&mut bare.get_connection().unwrap());
    assert_eq!(refused.unwrap_err().code(), Some("NOAUTH"));
}

#[test]
fn arguments_reach_the_server() {
    let server = server(
        Options::new()
            .argument("--maxmemory-policy")
            .argument("noeviction"),
    );
    let policy: Vec<String> = redis::cmd("CONFIG")
        .arg("GET")
        .arg("maxmemory-policy")
        .query(&mut server.connection().unwrap())
        .unwrap();
    assert_eq!(policy, ["maxmemory-policy", "noeviction"]);
}

#[test]
fn a_server_that_cannot_start_says_why() {
    let error = Server::start(&redis(), Options::new().argument("--no-such-option")).unwrap_err();
    assert!(error.to_string().contains("no-such-option"), "{error}");
    let missing = Flavor::new(ServerKind::Redis, "/nowhere/redis-server");
    assert!(Server::start(&missing, Options::new()).is_err());
}

#[test]
fn a_fleet_is_independent_servers() {
    let options = Options::new().unfounded();
    let mut fleet = Fleet::with(&redis(), 3, &options).unwrap();
    assert_eq!(fleet.len(), 3);
    assert_eq!(fleet.urls().len(), 3);
    fleet[1].command(&["SET", "resource", "token"]).unwrap();
    assert_eq!(fleet[0].command(&["DBSIZE"]).unwrap(), Value::Int(0));
    fleet[2].kill().unwrap();
    assert_eq!(fleet[1].command(&["DBSIZE"]).unwrap(), Value::Int(1));
}

#[test]
fn a_fleet_is_founded_and_a_restarted_server_is_not() {
    let mut fleet = Fleet::start(2).unwrap();
    let marker = |server: &Server| server.command(&["GET", "redlock-quorum:node"]).unwrap();
    for server in &fleet {
        let Value::BulkString(marker) = marker(server) else {
            panic!("there is a marker");
        };
        assert!(marker.len() == 42 && marker.ends_with(b"|0"), "{marker:?}");
    }
    fleet[0].restart().unwrap();
    assert_eq!(marker(&fleet[0]), Value::Nil);
}

#[test]
fn a_dropped_server_leaves_nothing() {
    let server = server(Options::new());
    let (pid, dir) = (server.pid().unwrap(), server.dir().to_owned());
    server.freeze().unwrap();
    drop(server);
    assert!(is_dead(pid));
    assert!(!dir.exists());
}

#[test]
fn a_server_ends_with_its_killed_owner() {
    if env::var_os(OWNER).is_some() {
        own_a_frozen_server();
    }
    let mut owner = Command::new(env::current_exe().unwrap())
        .args([
            "--exact",
            "fleet::a_server_ends_with_its_killed_owner",
            "--nocapture",
        ])
        .env(OWNER, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(owner.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok);
    let told = lines
        .into_iter()
        .find_map(|line| line.split_once("owned:").map(|(_, told)| told.to_owned()));
    let told = told.expect("the owner tells of its server");
    let (pid, dir) = told.split_once(':').unwrap();
    let (pid, dir) = (pid.parse().unwrap(), Path::new(dir));
    assert!(!is_dead(pid) && dir.exists());

    owner.kill().unwrap();
    owner.wait().unwrap();
    eventually("the server is dead", || is_dead(pid));
    eventually("its directory is gone", || !dir.exists());
}

fn own_a_frozen_server() -> ! {
    let server = server(Options::new());
    server.freeze().unwrap();
    println!("owned:{}:{}", server.pid().unwrap(), server.dir().display());
    loop {
        thread::park();
    }
}
