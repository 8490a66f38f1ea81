//! What the proxy does to bytes, seen from a real server and from bare sockets.
#![expect(
    clippy::disallowed_methods,
    reason = "delays are measured in real time"
)]

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use redis::Value;
use redlock_quorum::testkit::fleet::{Flavor, Options, Server};
use redlock_quorum::testkit::proxy::{Direction, Fault, Proxy, Scope};

const LONG: Duration = Duration::from_secs(10);
const SHORT: Duration = Duration::from_millis(150);

/// A server behind a proxy.
struct Node {
    server: Server,
    proxy: Proxy,
}

impl Node {
    fn start() -> Self {
        let flavor = Flavor::first().expect("scripts/install-test-deps installs a server");
        let server = Server::start(&flavor, Options::new()).unwrap();
        let proxy = Proxy::start(([127, 0, 0, 1], server.port()).into()).unwrap();
        Self { server, proxy }
    }

    /// A connection that the proxy has accepted for certain, unless it answers nothing.
    fn client(&self) -> Client {
        Client::connect(&self.proxy)
    }

    fn known_client(&self) -> Client {
        let mut client = self.client();
        client.ping().unwrap();
        client
    }

    fn stored(&self, resource: &str) -> Value {
        self.server.command(&["GET", resource]).unwrap()
    }
}

struct Client(TcpStream);

impl Client {
    fn connect(proxy: &Proxy) -> Self {
        let stream = TcpStream::connect(proxy.addr()).unwrap();
        stream.set_nodelay(true).unwrap();
        Self(stream)
    }

    fn send(&mut self, line: &str) {
        self.0.write_all(format!("{line}\r\n").as_bytes()).unwrap();
    }

    fn line(&mut self, patience: Duration) -> io::Result<String> {
        self.0.set_read_timeout(Some(patience)).unwrap();
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            self.0.read_exact(&mut byte)?;
            line.push(byte[0]);
        }
        line.truncate(line.len() - 2);
        Ok(String::from_utf8(line).unwrap())
    }

    fn ask(&mut self, line: &str) -> io::Result<String> {
        self.send(line);
        self.line(LONG)
    }

    fn ping(&mut self) -> io::Result<()> {
        assert_eq!(self.ask("PING")?, "+PONG");
        Ok(())
    }

    fn hears_nothing(&mut self) -> bool {
        matches!(self.line(SHORT), Err(error) if error.kind() == ErrorKind::WouldBlock)
    }

    fn is_reset(&mut self) -> bool {
        matches!(self.line(LONG), Err(error) if error.kind() == ErrorKind::ConnectionReset)
    }
}

fn eventually(what: &str, condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < LONG, "not within 10 s: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn token(text: &str) -> Value {
    Value::BulkString(text.into())
}

#[test]
fn a_proxy_without_faults_passes_everything() {
    let node = Node::start();
    let client = redis::Client::open(node.proxy.url()).unwrap();
    let big = "x".repeat(3_000_000);
    let mut connection = client.get_connection().unwrap();
    redis::cmd("SET")
        .arg("resource")
        .arg(&big)
        .exec(&mut connection)
        .unwrap();
    assert_eq!(
        redis::cmd("GET")
            .arg("resource")
            .query::<String>(&mut connection)
            .unwrap(),
        big
    );
    let stats = node.proxy.stats();
    assert_eq!(
        (stats.accepted, stats.open, stats.swallowed_bytes),
        (1, 1, 0)
    );
    assert!(
        stats.request_bytes > 3_000_000 && stats.reply_bytes > 3_000_000,
        "{stats:?}"
    );
    drop(connection);
    eventually("the connection is closed on both sides", || {
        node.proxy.stats().open == 0
    });
}

#[test]
fn each_direction_is_delayed_and_keeps_its_order() {
    let node = Node::start();
    let mut client = node.known_client();
    for direction in [Direction::Requests, Direction::Replies] {
        node.proxy.delay(direction, SHORT);
        let started = Instant::now();
        for n in 0..20 {
            client.send(&format!("ECHO {n:02}"));
            thread::sleep(Duration::from_millis(2));
        }
        for n in 0..20 {
            assert_eq!(client.line(LONG).unwrap(), "$2");
            assert_eq!(client.line(LONG).unwrap(), format!("{n:02}"));
            assert!(started.elapsed() >= SHORT);
        }
        assert!(
            started.elapsed() < 20 * SHORT,
            "delays run side by side, not one after the other"
        );
        node.proxy.delay(direction, Duration::ZERO);
    }
}

#[test]
fn one_connection_is_delayed_while_others_pass() {
    let node = Node::start();
    let mut open = node.known_client();
    node.proxy
        .inject(Scope::Open, Direction::Requests, Fault::Delay(LONG));
    open.send("SET resource open");

    node.proxy
        .inject(Scope::Next, Direction::Replies, Fault::Hold);
    let mut next = node.client();
    next.send("SET resource next");
    eventually("the request of the next one arrives", || {
        node.stored("resource") == token("next")
    });
    assert!(next.hears_nothing());

    let mut later = node.client();
    assert_eq!(later.ask("SET resource later").unwrap(), "+OK");

    // A shorter delay counts from the arrival of the bytes, not from now.
    node.proxy.inject(
        Scope::Open,
        Direction::Requests,
        Fault::Delay(Duration::from_millis(1)),
    );
    assert_eq!(open.line(LONG).unwrap(), "+OK");
    assert_eq!(node.stored("resource"), token("open"));
    node.proxy
        .inject(Scope::Open, Direction::Replies, Fault::Pass);
    assert_eq!(next.line(LONG).unwrap(), "+OK");
}

#[test]
fn later_connections_only() {
    let node = Node::start();
    let mut open = node.known_client();
    node.proxy.inject(Scope::New, Direction::Both, Fault::Hold);
    let mut later = node.client();
    later.send("PING");
    assert!(later.hears_nothing());
    open.ping().unwrap();
    node.proxy.resume().unwrap();
    assert_eq!(later.line(LONG).unwrap(), "+PONG");
}

#[test]
fn bytes_of_a_closed_connection_arrive_late() {
    let node = Node::start();
    let mut old = node.known_client();
    node.proxy
        .inject(Scope::Open, Direction::Requests, Fault::Hold);
    old.send("SET resource old");
    drop(old);
    let mut new = node.known_client();
    assert_eq!(new.ask("SET resource new").unwrap(), "+OK");
    assert_eq!(new.ask("DEL resource").unwrap(), ":1");
    thread::sleep(SHORT);
    assert_eq!(node.stored("resource"), Value::Nil);
    node.proxy.resume().unwrap();
    eventually("the old bytes arrive", || {
        node.stored("resource") == token("old")
    });
    new.ping().unwrap();
    eventually("the old connection ends", || node.proxy.stats().open == 1);
}

#[test]
fn bytes_of_a_connection_that_was_cut_on_the_clients_side_arrive_late() {
    let node = Node::start();
    let mut old = node.known_client();
    node.proxy
        .inject(Scope::Open, Direction::Requests, Fault::Hold);
    let taken = node.proxy.stats().taken_bytes;
    old.send("SET resource old");
    eventually("the proxy has taken them", || {
        node.proxy.stats().taken_bytes == taken + 18
    });
    node.proxy.cut_clients();
    assert!(old.is_reset());
    node.known_client();
    assert_eq!(node.stored("resource"), Value::Nil);
    node.proxy.resume().unwrap();
    eventually("the old bytes arrive", || {
        node.stored("resource") == token("old")
    });
    eventually("all connections end", || node.proxy.stats().open == 0);
}

#[test]
fn a_black_hole_swallows_and_then_resets() {
    let node = Node::start();
    let mut open = node.known_client();
    node.proxy.black_hole();
    let mut later = node.client();
    for client in [&mut open, &mut later] {
        client.send("SET resource token");
        assert!(client.hears_nothing());
    }
    assert_eq!(node.stored("resource"), Value::Nil);
    let mut silent = node.client();
    node.proxy.resume().unwrap();
    assert!(open.is_reset() && later.is_reset(), "they lost bytes");
    silent.ping().unwrap();
    assert_eq!(node.proxy.stats().swallowed_bytes, 2 * 20);
    node.known_client();
}

#[test]
fn dropped_replies_leave_the_requests_alone() {
    let node = Node::start();
    let mut client = node.known_client();
    node.proxy.drop_replies();
    client.send("SET resource token");
    eventually("the request arrives", || {
        node.stored("resource") == token("token")
    });
    assert!(client.hears_nothing());
    node.proxy.resume().unwrap();
    assert!(client.is_reset());
}

#[test]
fn a_cut_resets_both_sides_and_loses_what_is_held() {
    let node = Node::start();
    let mut client = node.known_client();
    node.proxy
        .inject(Scope::Open, Direction::Requests, Fault::Hold);
    client.send("SET resource token");
    node.proxy.cut();
    assert!(client.is_reset());
    node.proxy.resume().unwrap();
    node.known_client();
    assert_eq!(node.stored("resource"), Value::Nil);
}

#[test]
fn refused_connections_and_back_on_the_same_port() {
    let node = Node::start();
    let mut open = node.known_client();
    node.proxy.refuse();
    let refused = TcpStream::connect(node.proxy.addr()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    open.ping().unwrap();
    node.proxy.resume().unwrap();
    node.known_client();
    open.ping().unwrap();
}

#[test]
fn a_dead_server_is_a_reset_and_a_restarted_one_is_served() {
    let mut node = Node::start();
    let mut open = node.known_client();
    node.server.kill().unwrap();
    assert!(open.line(LONG).is_err());
    assert!(node.client().line(LONG).is_err());
    node.server.restart().unwrap();
    node.known_client();
}

#[test]
fn a_dropped_proxy_resets_its_connections() {
    let Node {
        server: _server,
        proxy,
    } = Node::start();
    let mut client = Client::connect(&proxy);
    client.ping().unwrap();
    let addr = proxy.addr();
    drop(proxy);
    assert!(client.is_reset());
    assert_eq!(
        TcpStream::connect(addr).unwrap_err().kind(),
        ErrorKind::ConnectionRefused
    );
}
