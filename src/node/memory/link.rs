//! The network between one client and one server.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::leash::Leash;
use super::pipe::{Latency, Reply, Request};
use super::shared::Shared;
use super::wire::LinkState;

/// The network between one client and a [`MemoryServer`](super::MemoryServer).
///
/// It is true to TCP: on a living connection nothing is lost in the middle and nothing overtakes.
/// What is blocked is kept, and arrives when the way is free again, even if the client has closed
/// the connection meanwhile. All clones are the same link.
#[derive(Clone, Debug)]
pub struct MemoryLink {
    shared: Arc<Shared>,
    link: usize,
    client: Leash,
}

/// What becomes of the commands that are on the way to the server when a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CutFate {
    /// They arrive, and are executed.
    Executed,
    /// They are lost.
    Lost,
    /// The first few arrive, and the rest is lost: how many, the link's seed decides.
    Either,
}

impl MemoryLink {
    pub(super) fn new(shared: Arc<Shared>, link: usize) -> Self {
        let client = Leash::default();
        Self {
            shared,
            link,
            client,
        }
    }

    pub(super) fn leash(&self) -> Leash {
        self.client.clone()
    }

    /// How long messages sent from now on are on their way; at first no time at all.
    pub fn set_latency(&self, requests: Latency, replies: Latency) {
        self.with(|link| link.set_latency(requests, replies));
    }

    /// Blocks whatever goes to the server, or unblocks it: a black hole.
    pub fn block_requests(&self, block: bool) {
        self.with(|link| link.requests_blocked = block);
    }

    /// Blocks whatever comes from the server, or unblocks it: commands are executed, and nobody
    /// hears of it.
    pub fn block_replies(&self, block: bool) {
        self.with(|link| link.replies_blocked = block);
    }

    /// Parts client and server, or joins them: nothing passes either way, resets included.
    pub fn partition(&self, part: bool) {
        self.with(|link| link.partitioned = part);
    }

    /// Resets the present connection from the middle of the network. Replies on the way are lost.
    pub fn cut(&self, fate: CutFate) {
        self.shared
            .with(|state, now| state.cut(self.link, fate, now));
    }

    /// The client's machine is gone: its connection is cut, and it neither sends nor hears anything
    /// any more. What has been sent goes on.
    pub fn sever(&self, fate: CutFate) {
        self.cut(fate);
        self.with(|link| link.severed = true);
    }

    /// Stops the part of the client that drives this link, as `SIGSTOP` does, or lets it go on:
    /// meanwhile it neither writes nor reads, and what comes waits for it.
    pub fn pause_client(&self, pause: bool) {
        self.client.pause(pause);
    }

    /// Ends the part of the client that drives this link, as the end of its runtime does. The
    /// connection is closed, and nothing is sent any more.
    pub fn end_client(&self) {
        self.client.end();
    }

    /// Keeps whatever is and will be on the way to the server on the present connection, while
    /// newer ones pass: so a straggler is made. `None` without a connection.
    #[must_use]
    pub fn hold_connection(&self) -> Option<HeldConnection> {
        let wire = self.shared.with(|state, _| state.hold(self.link))?;
        Some(HeldConnection {
            shared: Arc::clone(&self.shared),
            wire,
        })
    }

    pub(super) fn connect(&self) -> Connection {
        self.shared.drive();
        let (client, replies) = mpsc::unbounded_channel();
        let wire = self
            .shared
            .with(|state, now| state.open(self.link, client, now));
        Connection {
            shared: Arc::clone(&self.shared),
            wire,
            replies,
        }
    }

    fn with(&self, look: impl FnOnce(&mut LinkState)) {
        self.shared
            .with(|state, _| state.link_mut(self.link).map(look));
    }
}

/// A connection whose requests are kept on the way, for good unless they are delivered.
#[derive(Debug)]
pub struct HeldConnection {
    shared: Arc<Shared>,
    wire: u64,
}

impl HeldConnection {
    /// How many commands are kept. None once the server has closed the connection.
    #[must_use]
    pub fn commands(&self) -> usize {
        self.shared.with(|state, _| state.waiting(self.wire))
    }

    /// Lets them go on after a while, and whatever follows them.
    pub fn deliver_in(&self, after: Duration) {
        self.shared
            .with(|state, now| state.let_go(self.wire, now.after(after)));
    }

    /// Lets them go on now, and whatever follows them.
    pub fn deliver(&self) {
        self.deliver_in(Duration::ZERO);
    }
}

/// The client's end of a connection; dropping it closes it.
#[derive(Debug)]
pub(super) struct Connection {
    shared: Arc<Shared>,
    wire: u64,
    replies: mpsc::UnboundedReceiver<Reply>,
}

impl Connection {
    pub(super) fn send(&self, request: Request) {
        self.shared
            .with(|state, now| state.request(self.wire, request, now));
    }

    pub(super) async fn receive(&mut self) -> Reply {
        self.replies.recv().await.unwrap_or(Reply::Reset)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.with(|state, now| state.close(self.wire, now));
    }
}
