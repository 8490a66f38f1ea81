//! Replies, what they say about the server's memory, and what comes unasked.

use super::Driver;
use crate::node::breaker::Breaker;
use crate::node::memory::link::Connection;
use crate::node::memory::pipe::{self, Reply};
use crate::quorum::bug;
use crate::quorum::validity::Moment;

impl Driver {
    /// The next reply of a connection that is not in use yet.
    pub(super) async fn reply(&mut self, connection: &mut Connection) -> Reply {
        loop {
            let reply = connection.receive().await;
            let Reply::Touched(key) = reply else {
                return reply;
            };
            self.touched(key.as_deref());
        }
    }

    fn touched(&mut self, key: Option<&str>) {
        if key.is_none() {
            self.vigil.on_flushed();
        }
        if !bug!(WakeUpLost) {
            self.context.observer.on_touched(key);
        }
    }

    /// Takes the reply to what was written first.
    pub(super) fn hear(&mut self, reply: Reply, breaker: &mut Breaker, now: Moment) {
        let answered = match reply {
            Reply::Touched(key) => return self.touched(key.as_deref()),
            Reply::Marker(look) => {
                self.vigil.on_look(look, now);
                None
            }
            Reply::Vote(vote, error, in_way) => {
                let request = self.unanswered.pop_front();
                request.map(|request| {
                    request.blocked(in_way);
                    (request, vote, error)
                })
            }
            Reply::Seen(seen) => {
                self.glimpse(seen);
                None
            }
            Reply::Accepted
            | Reply::ConnectionRefused
            | Reply::Identity(_)
            | Reply::Killed
            | Reply::KillDenied
            | Reply::Reset => None,
        };
        let still_out = !(self.unanswered.is_empty() && self.glanced.is_empty());
        let still_out = still_out || self.vigil.is_asking();
        breaker.on_reply(still_out, now);
        self.up();
        if let Some((request, vote, error)) = answered {
            self.gate.answered(1);
            let (vote, error) = self.vigil.vouch(request.command(), vote, error, now);
            request.answer(vote, error, now);
        }
    }

    /// Asks about the marker, if that is due.
    pub(super) fn look(&mut self, acquiring: bool, connection: &Connection, breaker: &mut Breaker) {
        let now = self.context.clock.now();
        if let Some(ask) = self.vigil.poll(now, acquiring, &self.context) {
            connection.send(pipe::Request::Marker(ask));
            breaker.on_written(now);
        }
    }

    /// The link of a connection that answers, as far as the node is trusted.
    pub(super) fn up(&self) {
        let (link, reason) = self.vigil.link(self.context.clock.now());
        self.link(link, reason.as_deref());
    }
}
