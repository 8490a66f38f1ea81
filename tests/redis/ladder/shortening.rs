//! `SET .. IFEQ .. PX` may shorten a ttl: an old one must not arrive after a newer extension.
#![expect(clippy::disallowed_methods, reason = "reconnects take real time")]

use std::time::{Duration, Instant};

use redlock_quorum::testkit::fleet::{Flavor, Options, Server, ServerKind};
use redlock_quorum::testkit::proxy::{Direction, Fault, Proxy, Scope};
use redlock_quorum::{ExtendError, Guard, Renewal};

use super::nodes::at;
use crate::support::{builder, eventually, ms, run};

const ROUND: Duration = Duration::from_millis(700);

/// A lock on one Valkey 9 whose extension, of 12 s, is stuck on a connection that the client has lost.
struct Stuck {
    guard: Guard,
    proxy: Proxy,
    server: Server,
    /// Just before the connection was lost.
    cut: Instant,
}

impl Stuck {
    async fn start(before_the_cut: &[&str]) -> Option<Self> {
        let Some(flavor) = Flavor::find(ServerKind::Valkey9) else {
            eprintln!("skipped: no Valkey 9");
            return None;
        };
        let server = Server::start(&flavor, Options::new()).unwrap();
        at(
            &server.url(),
            &["ACL", "SETUSER", "locker", "on", ">secret", "~*", "+@all"],
        );
        let proxy = Proxy::start(([127, 0, 0, 1], server.port()).into()).unwrap();
        let url = proxy.url().replace("redis://", "redis://locker:secret@");
        let redlock = builder([url])
            .ttl(Duration::from_secs(10))
            .round_timeout(ROUND)
            .build()
            .unwrap();
        let request = redlock.acquire("resource").renewal(Renewal::off());
        let guard = request.await.unwrap();
        proxy.inject(Scope::Open, Direction::Requests, Fault::Hold);
        match guard.extend(ms(12_000)).await {
            Err(ExtendError::NoQuorum(_)) => {}
            other => panic!("{other:?}"),
        }
        at(&server.url(), before_the_cut);
        let cut = Instant::now();
        proxy.cut_clients();
        Some(Self {
            guard,
            proxy,
            server,
            cut,
        })
    }

    /// Extends over a new connection, then lets through what was stuck. How long does the key last?
    async fn extended(&self) -> i64 {
        eventually("it is extended", async || {
            self.guard.extend(ms(40_000)).await.is_ok()
        })
        .await;
        self.proxy.resume().unwrap();
        tokio::time::sleep(ms(100)).await;
        self.ttl()
    }

    fn ttl(&self) -> i64 {
        redis::from_redis_value(at(&self.server.url(), &["PTTL", "resource"])).unwrap()
    }
}

#[test]
fn an_old_extension_does_not_shorten_a_newer_one() {
    run(async {
        let Some(stuck) = Stuck::start(&["PING"]).await else {
            return;
        };
        let ttl = stuck.extended().await;
        assert!(ttl > 35_000, "{ttl}");

        // It would, if its connection were let live: as a naive client would have it.
        let token = stuck.guard.token().as_str();
        let client = redis::Client::open(stuck.proxy.url()).unwrap();
        let mut old = client.get_connection().unwrap();
        stuck
            .proxy
            .inject(Scope::Open, Direction::Requests, Fault::Hold);
        let mut set = redis::cmd("SET");
        set.arg("resource")
            .arg(token)
            .arg("IFEQ")
            .arg(token)
            .arg("PX")
            .arg(12_000);
        old.send_packed_command(&set.get_packed_command()).unwrap();
        drop(old);
        stuck.proxy.resume().unwrap();
        eventually("it is shortened", async || stuck.ttl() <= 12_000).await;
    });
}

#[test]
fn where_kill_is_denied_meanwhile_the_next_connection_waits() {
    run(async {
        let denied = &["ACL", "SETUSER", "locker", "-client|kill"];
        let Some(stuck) = Stuck::start(denied).await else {
            return;
        };
        let extended = eventually("it is extended", async || {
            stuck.guard.extend(ms(40_000)).await.is_ok()
        });
        extended.await;
        let took = stuck.cut.elapsed();
        assert!(took >= ROUND, "{took:?}");
    });
}
