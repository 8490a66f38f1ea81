//! A TCP proxy in front of one node, with faults that can be changed while bytes flow.
//!
//! A [`Proxy`] runs in a thread of its own: blocking clients may use it, and a paused tokio clock does not touch it.
//! A [`Fault`] is injected into a [`Direction`] of the connections in a [`Scope`]. Within one direction of one
//! connection bytes never overtake each other, and none are lost from the middle of the stream: once
//! [`Fault::Swallow`] has taken some, nothing more passes, and when that fault ends the connection is reset. Else a
//! client could take the reply to one command for that to another, which no network does.
//!
//! # Examples
//!
//! Bytes that are left on a dead connection and arrive late, after newer ones:
//!
//! ```
//! use redlock_quorum::testkit::fleet::Fleet;
//! use redlock_quorum::testkit::proxy::{Direction, Fault, Proxy, Scope};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let fleet = Fleet::start(1)?;
//! let proxy = Proxy::start(([127, 0, 0, 1], fleet[0].port()).into())?;
//! let client = redis::Client::open(proxy.url())?;
//!
//! let mut old = client.get_connection()?;
//! proxy.inject(Scope::Open, Direction::Requests, Fault::Hold);
//! old.send_packed_command(&redis::cmd("SET").arg("resource").arg("late").get_packed_command())?;
//! drop(old);
//!
//! let mut new = client.get_connection()?;
//! redis::cmd("SET").arg("resource").arg("new").exec(&mut new)?;
//! proxy.resume()?; // and now "late" overwrites "new"
//! # Ok(())
//! # }
//! ```

mod carry;
mod gate;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime::Builder;

use self::gate::Gate;
use crate::testkit::port;

/// What happens to the bytes of one direction of a connection. A change takes effect at once, also for bytes that
/// have been delayed or held so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Nothing: bytes pass.
    #[default]
    Pass,
    /// Bytes, and the end of the stream, pass this long after they arrived.
    Delay(Duration),
    /// Bytes, and the end of the stream, are kept until another fault is injected. They get through then even if the
    /// sender has gone.
    Hold,
    /// Bytes vanish. The other side does not see the end of the stream either.
    Swallow,
}

/// Which way bytes flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Direction {
    /// From the client to the server.
    Requests,
    /// From the server to the client.
    Replies,
    /// Both ways.
    Both,
}

/// Which connections a fault is injected into.
///
/// A connection exists for the proxy once it has accepted it, which a round trip over it proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scope {
    /// Those that are open now and all later ones.
    All,
    /// Those that are open now.
    Open,
    /// The next one only.
    Next,
    /// All later ones.
    New,
}

/// What a [`Proxy`] has seen so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Connections accepted.
    pub accepted: u64,
    /// Connections that are open now, or whose bytes are still on their way to the server.
    pub open: usize,
    /// Bytes that clients have sent and the proxy has taken, whatever becomes of them: after
    /// [`cut_clients`](Proxy::cut_clients) these still reach the server.
    pub taken_bytes: u64,
    /// Bytes that reached the server.
    pub request_bytes: u64,
    /// Bytes that reached the clients.
    pub reply_bytes: u64,
    /// Bytes that vanished.
    pub swallowed_bytes: u64,
}

/// A TCP proxy on 127.0.0.1 in front of one server. Its connections are reset when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    gate: Arc<Gate>,
    addr: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Starts a proxy for the server at `target`, on a free port of 127.0.0.1. A client whose connection cannot be
    /// continued to the server is reset.
    ///
    /// # Errors
    ///
    /// When no port can be bound or the thread cannot be started.
    pub fn start(target: SocketAddr) -> io::Result<Self> {
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()?;
        let listener = port::listen()?;
        let addr = listener.local_addr()?;
        let gate = Arc::new(Gate::new(listener, runtime.handle().clone())?);
        let serving = Arc::clone(&gate);
        let thread = thread::Builder::new()
            .name("redlock-proxy".to_owned())
            .spawn(move || runtime.block_on(carry::serve(serving, target)))?;
        Ok(Self {
            gate,
            addr,
            thread: Some(thread),
        })
    }

    /// Where the proxy listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The URL for a client.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.addr)
    }

    /// Injects a fault, in place of the one there was.
    pub fn inject(&self, scope: Scope, direction: Direction, fault: Fault) {
        self.gate.inject(scope, direction, fault);
    }

    /// Delays one direction of all connections, later ones included.
    pub fn delay(&self, direction: Direction, by: Duration) {
        self.inject(Scope::All, direction, Fault::Delay(by));
    }

    /// Accepts everything and passes nothing on, as behind a firewall that drops packets.
    pub fn black_hole(&self) {
        self.inject(Scope::All, Direction::Both, Fault::Swallow);
    }

    /// Lets requests through to the server and loses its replies.
    pub fn drop_replies(&self) {
        self.inject(Scope::All, Direction::Replies, Fault::Swallow);
    }

    /// Resets all open connections, on both sides. Bytes on their way are lost.
    pub fn cut(&self) {
        self.gate.cut();
    }

    /// Resets all open connections on the clients' side only. What the clients had sent still reaches the server,
    /// when the faults let it.
    pub fn cut_clients(&self) {
        self.gate.cut_clients();
    }

    /// Refuses new connections, as a port without a listener does. Open ones stay.
    pub fn refuse(&self) {
        self.gate.refuse();
    }

    /// Ends all faults: everything passes again, new connections are accepted, and connections that lost bytes are
    /// reset.
    ///
    /// # Errors
    ///
    /// When the proxy refused connections and its port is now somebody else's.
    pub fn resume(&self) -> io::Result<()> {
        self.inject(Scope::All, Direction::Both, Fault::Pass);
        self.gate.listen(self.addr)
    }

    /// What the proxy has seen so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.gate.stats()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.gate.close();
        if let Some(thread) = self.thread.take() {
            // A panic in there has been reported by the thread itself.
            thread.join().ok();
        }
    }
}
