//! Connections, and the networks that they cross.

use std::collections::VecDeque;

use tokio::sync::mpsc;

use super::link::CutFate;
use super::pipe::{Arrival, Latency, Pipe, Reply, Request};
use crate::quorum::backoff::scale;
use crate::quorum::validity::Moment;
use crate::token::Entropy;

/// The network between one client and the server.
#[derive(Debug)]
pub(super) struct LinkState {
    pub(super) entropy: Entropy,
    pub(super) request_latency: Latency,
    pub(super) reply_latency: Latency,
    pub(super) requests_blocked: bool,
    pub(super) replies_blocked: bool,
    pub(super) partitioned: bool,
    /// Nothing is sent any more; what was sent goes on.
    pub(super) severed: bool,
}

impl LinkState {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            entropy: Entropy::seeded(seed),
            request_latency: Latency::default(),
            reply_latency: Latency::default(),
            requests_blocked: false,
            replies_blocked: false,
            partitioned: false,
            severed: false,
        }
    }

    /// Of `messages` on the way, so many of the first survive a cut.
    pub(super) fn survivors(&self, messages: usize, fate: CutFate) -> usize {
        match fate {
            CutFate::Executed => messages,
            CutFate::Lost => 0,
            CutFate::Either => {
                let outcomes = u64::try_from(messages)
                    .unwrap_or(u64::MAX)
                    .saturating_add(1);
                usize::try_from(scale(self.entropy.jitter(), outcomes)).unwrap_or(messages)
            }
        }
    }

    pub(super) fn set_latency(&mut self, requests: Latency, replies: Latency) {
        self.request_latency = requests;
        self.reply_latency = replies;
    }
}

/// Are the requests of a connection kept on the way?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    No,
    Forever,
    Until(Moment),
}

/// The server's end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerEnd {
    /// The server does not know of it yet.
    Awaited,
    Open {
        client_id: u64,
    },
    /// What arrives is thrown away.
    Closed,
}

/// One TCP connection.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) link: usize,
    pub(super) requests: Pipe<Request>,
    pub(super) hold: Hold,
    /// In the socket buffer of a frozen server.
    pub(super) unread: VecDeque<Request>,
    /// When the first of the unread arrived.
    pub(super) unread_since: u64,
    pub(super) server: ServerEnd,
    /// It is told when a key changes that it watches.
    pub(super) tracks: bool,
    pub(super) replies: Pipe<Reply>,
    /// `None` once the client's end is closed.
    pub(super) client: Option<mpsc::UnboundedSender<Reply>>,
}

impl Wire {
    pub(super) const fn new(link: usize, client: mpsc::UnboundedSender<Reply>) -> Self {
        Self {
            link,
            requests: Pipe::new(),
            hold: Hold::No,
            unread: VecDeque::new(),
            unread_since: 0,
            server: ServerEnd::Awaited,
            tracks: false,
            replies: Pipe::new(),
            client: Some(client),
        }
    }

    pub(super) const fn is_open(&self) -> bool {
        matches!(self.server, ServerEnd::Open { .. })
    }

    /// When the next request arrives, if nothing else holds it up.
    pub(super) fn next_request(&self) -> Option<Arrival> {
        let (due, number) = self.requests.next_arrival()?;
        match self.hold {
            Hold::No => Some((due, number)),
            Hold::Forever => None,
            Hold::Until(at) => Some((due.max(at), number)),
        }
    }

    /// Nothing that was sent and has not been executed will be.
    pub(super) fn close_server(&mut self) {
        self.server = ServerEnd::Closed;
        self.unread.clear();
        self.requests.truncate(0);
    }
}
