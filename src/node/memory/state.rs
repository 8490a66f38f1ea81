//! A server, its sockets, and the networks between it and its clients, as one state machine.
//!
//! Nothing here waits: [`State::advance`] does what is due and says when to come back.

mod faults;
mod telling;

use std::collections::BTreeMap;

use tokio::sync::mpsc;

use super::pipe::{Arrival, Identity, Reply, Request};
use super::process::Process;
use super::wire::{LinkState, ServerEnd, Wire};
use crate::quorum::trust::amnesia::Ask;
use crate::quorum::validity::Moment;

#[derive(Debug)]
pub(super) struct State {
    pub(super) process: Process,
    links: Vec<LinkState>,
    wires: BTreeMap<u64, Wire>,
    next_wire: u64,
    /// Numbers messages, so that those which arrive together have an order.
    next_number: u64,
    /// Somebody takes care that `advance` is called in time.
    pub(super) is_driven: bool,
}

/// What is due next.
#[derive(Clone, Copy, Debug)]
enum Next {
    Request,
    Reply,
}

impl State {
    pub(super) fn new(seed: u64, now: Moment) -> Self {
        Self {
            process: Process::new(seed, now),
            links: Vec::new(),
            wires: BTreeMap::new(),
            next_wire: 0,
            next_number: 0,
            is_driven: false,
        }
    }

    pub(super) fn add_link(&mut self) -> usize {
        let seed = self.process.entropy.jitter();
        self.links.push(LinkState::new(seed));
        self.links.len().saturating_sub(1)
    }

    pub(super) fn link_mut(&mut self, link: usize) -> Option<&mut LinkState> {
        self.links.get_mut(link)
    }

    /// A client begins to connect.
    pub(super) fn open(
        &mut self,
        link: usize,
        client: mpsc::UnboundedSender<Reply>,
        now: Moment,
    ) -> u64 {
        self.next_wire = self.next_wire.saturating_add(1);
        let wire = self.next_wire;
        self.wires.insert(wire, Wire::new(link, client));
        self.request(wire, Request::Connect, now);
        wire
    }

    /// A client writes.
    pub(super) fn request(&mut self, wire: u64, request: Request, now: Moment) {
        let number = self.number();
        let Some(wire) = self.wires.get_mut(&wire) else {
            return;
        };
        let Some(link) = self.links.get(wire.link) else {
            return;
        };
        if wire.client.is_some() && wire.server != ServerEnd::Closed && !link.severed {
            wire.requests.push(
                request,
                now.after(link.request_latency.draw(&link.entropy)),
                number,
            );
        }
    }

    /// A client closes its end. What is on the way goes on.
    pub(super) fn close(&mut self, wire: u64, now: Moment) {
        self.request(wire, Request::Close, now);
        if let Some(open) = self.wires.get_mut(&wire) {
            open.client = None;
            open.replies.truncate(0);
            if !open.is_open() {
                self.wires.remove(&wire);
            }
        }
    }

    /// Does what is due. Returns when something is due next.
    pub(super) fn advance(&mut self, now: Moment) -> Option<Moment> {
        loop {
            let ((due, _), wire, what) = self.next()?;
            if due > now {
                return Some(due);
            }
            match what {
                Next::Request => self.arrive(wire, now),
                Next::Reply => self.deliver(wire),
            }
        }
    }

    fn next(&self) -> Option<(Arrival, u64, Next)> {
        let mut first: Option<(Arrival, u64, Next)> = None;
        for (&id, wire) in &self.wires {
            let Some(link) = self.links.get(wire.link) else {
                continue;
            };
            let request = wire
                .next_request()
                .filter(|_| !link.partitioned && !link.requests_blocked);
            let reply = wire
                .replies
                .next_arrival()
                .filter(|_| !link.partitioned && !link.replies_blocked);
            for (arrival, what) in [(request, Next::Request), (reply, Next::Reply)] {
                if let Some(arrival) = arrival
                    && first.is_none_or(|(earliest, ..)| arrival < earliest)
                {
                    first = Some((arrival, id, what));
                }
            }
        }
        first
    }

    fn deliver(&mut self, wire: u64) {
        let Some(wire) = self.wires.get_mut(&wire) else {
            return;
        };
        if let (Some(reply), Some(client)) = (wire.replies.pop(), &wire.client) {
            // A client that does not listen any more is about to close its end.
            drop(client.send(reply));
        }
    }

    /// The first request on the way reaches the server's machine.
    fn arrive(&mut self, id: u64, now: Moment) {
        let number = self.number();
        let Some(wire) = self.wires.get_mut(&id) else {
            return;
        };
        let Some(request) = wire.requests.pop() else {
            return;
        };
        if matches!(request, Request::Connect) {
            match self.process.accept() {
                Some(client_id) => {
                    wire.server = ServerEnd::Open { client_id };
                    self.reply(id, Reply::Accepted, now);
                }
                None => {
                    wire.close_server();
                    self.reply(id, Reply::ConnectionRefused, now);
                }
            }
        } else if self.process.is_frozen {
            if wire.unread.is_empty() {
                wire.unread_since = number;
            }
            wire.unread.push_back(request);
        } else {
            self.execute(id, request, now);
        }
    }

    /// The server reads a request.
    fn execute(&mut self, id: u64, request: Request, now: Moment) {
        let Some(&Wire {
            link,
            server: ServerEnd::Open { client_id },
            ..
        }) = self.wires.get(&id)
        else {
            return;
        };
        let reply = match request {
            Request::Connect => return,
            Request::Introduce => Reply::Identity(Identity {
                tells: self.track(id),
                run_id: self.process.told_run_id(),
                look: self.process.answer(&Ask::Look, now),
                client_id,
                is_replica: self.process.is_replica,
                is_cluster: self.process.is_cluster,
            }),
            Request::KillClient(_) if self.process.denies_client_kill => Reply::KillDenied,
            Request::KillClient(victim) => {
                self.kill(victim, now);
                Reply::Killed
            }
            Request::Marker(ask) => Reply::Marker(self.process.answer(&ask, now)),
            Request::Glance(key) => Reply::Seen(self.process.look(&key, now)),
            Request::Command {
                command,
                keys,
                token,
                watches,
            } => {
                let watching = self.watching(id, watches);
                let (vote, error) = self
                    .process
                    .execute(link, command, &keys, &token, watching, now);
                let in_way = self.process.in_way(command, &keys, &token, now);
                Reply::Vote(vote, error, in_way)
            }
            Request::Close => {
                self.close_server(id);
                return;
            }
        };
        self.reply(id, reply, now);
        self.tell(Some(id), now);
    }

    fn kill(&mut self, client_id: u64, now: Moment) {
        let is_victim = |wire: &Wire| wire.server == ServerEnd::Open { client_id };
        if let Some(id) = self
            .wires
            .iter()
            .find(|(_, wire)| is_victim(wire))
            .map(|(&id, _)| id)
        {
            self.reply(id, Reply::Reset, now);
            self.close_server(id);
        }
    }

    fn close_server(&mut self, id: u64) {
        self.process.keys.watch_no_more(id);
        if let Some(wire) = self.wires.get_mut(&id) {
            wire.close_server();
            if wire.client.is_none() {
                self.wires.remove(&id);
            }
        }
    }

    fn reply(&mut self, wire: u64, reply: Reply, now: Moment) {
        let number = self.number();
        let Some(wire) = self.wires.get_mut(&wire) else {
            return;
        };
        let Some(link) = self.links.get(wire.link) else {
            return;
        };
        if wire.client.is_some() {
            wire.replies.push(
                reply,
                now.after(link.reply_latency.draw(&link.entropy)),
                number,
            );
        }
    }

    const fn number(&mut self) -> u64 {
        self.next_number = self.next_number.saturating_add(1);
        self.next_number
    }

    /// How many commands on this connection have not reached the server.
    pub(super) fn waiting(&self, wire: u64) -> usize {
        let is_command = |request: &&Request| matches!(request, Request::Command { .. });
        self.wires
            .get(&wire)
            .map_or(0, |wire| wire.requests.iter().filter(is_command).count())
    }

    pub(super) fn connections(&self) -> usize {
        self.wires.values().filter(|wire| wire.is_open()).count()
    }
}
