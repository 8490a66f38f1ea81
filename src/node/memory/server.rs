//! The handle by which a test owns a server, and does to it what the world would.

use std::sync::Arc;
use std::time::Duration;

use super::link::MemoryLink;
use super::log::{Commands, Executed};
use super::process::Process;
use super::shared::Shared;
use super::state::State;
use crate::quorum::keyspace::Keyspace;
use crate::quorum::own_keys::MARKER;
use crate::quorum::validity::Moment;
use crate::quorum::vote::Refusal;

/// An independent master in memory, for any number of clients: each reaches it over a
/// [`MemoryLink`] of its own.
///
/// Clients observe what they would observe of a real server behind TCP, faults included. Under a
/// paused clock on a current-thread runtime every run with the same seeds is the same run.
///
/// Make it inside the runtime whose clock it shall follow. All clones are the same server.
#[derive(Clone, Debug)]
pub struct MemoryServer {
    shared: Arc<Shared>,
}

/// What a restarted server still knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Restart {
    /// Every key, the marker included, as with an append-only file that is synced with every write.
    KeepData,
    /// Nothing.
    Empty,
}

/// What a command whose answer is an error has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// All that it should.
    Applied,
    /// Nothing.
    NotApplied,
}

impl MemoryServer {
    /// A running, empty server, one of a fleet that has been founded: it votes at once. The seed
    /// decides its run ids and the jitter of its links.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let server = Self::unfounded(seed);
        server.process(Process::found);
        server
    }

    /// A running server that no client has ever used: it has no marker yet. Clients treat it as
    /// [`RestartGuard`](crate::RestartGuard) says.
    #[must_use]
    pub fn unfounded(seed: u64) -> Self {
        Self {
            shared: Arc::new(Shared::new(seed)),
        }
    }

    /// A new link to this server, for one client.
    #[must_use]
    pub fn link(&self) -> MemoryLink {
        let link = self.shared.with(|state, _| state.add_link());
        MemoryLink::new(Arc::clone(&self.shared), link)
    }

    /// Stops the process, as `SIGSTOP` does: connections stay, new ones are accepted, and what
    /// arrives piles up unread.
    pub fn freeze(&self) {
        self.process(|process| process.is_frozen = process.is_running);
    }

    /// Lets the process go on, as `SIGCONT` does: what has piled up is executed now, one
    /// connection after the other, each in its order. A ttl counts from here.
    pub fn thaw(&self) {
        self.shared.with(State::thaw);
    }

    /// Kills the process: its connections are reset, what it has not read is lost, and connecting
    /// is refused until [`MemoryServer::restart`].
    pub fn crash(&self) {
        self.shared.with(State::crash);
    }

    /// Starts the process again, after a crash if it is running, with a new run id.
    pub fn restart(&self, how: Restart) {
        self.shared.with(|state, now| state.restart(how, now));
    }

    /// From now on every command of a lock is answered with this refusal and changes nothing.
    /// Handshakes pass.
    pub fn refuse(&self, refusal: Option<Refusal>) {
        self.process(|process| process.refusal = refusal);
    }

    /// From now on every command of a lock is answered with an error that does not tell what the
    /// command has done.
    pub fn fail_with_error(&self, effect: Option<Effect>) {
        self.process(|process| process.failure = effect);
    }

    /// Sets the server's clock so many milliseconds before, or if negative behind, the true one.
    /// The difference that its rate has made is added.
    pub fn set_clock_offset(&self, millis: i64) {
        self.process(|process| process.clock_mut().set_offset(millis));
    }

    /// From now on the server's clock gains so many parts in a million, or loses them.
    pub fn set_clock_rate(&self, parts_per_million: i32) {
        self.shared
            .with(|state, now| state.process.clock_mut().set_rate(parts_per_million, now));
    }

    /// Forgets every key, and the marker.
    pub fn flush(&self) {
        self.shared.with(State::flush);
    }

    /// Deletes a key.
    pub fn delete(&self, key: &str) {
        self.keys_with(|keys, _| keys.delete(key));
    }

    /// What stands at a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<String> {
        self.keys_with(|keys, now| keys.get(key, now).map(String::from))
    }

    /// How long a key still lives; `None` if it is not there or has no ttl.
    #[must_use]
    pub fn ttl(&self, key: &str) -> Option<Duration> {
        self.keys_with(|keys, now| keys.ttl(key, now))
    }

    /// All keys, in their order, but for the marker `redlock-quorum:node`.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        self.keys_with(|keys, now| {
            let others = keys.keys(now).filter(|&key| key != MARKER);
            others.map(String::from).collect()
        })
    }

    /// Sets a key as somebody else's client would, whatever was there.
    pub fn set(&self, key: &str, value: &str, ttl: Option<Duration>) {
        self.keys_with(|keys, now| keys.set(key, value, ttl, now));
    }

    /// How many commands it has read since it was made.
    #[must_use]
    pub fn commands(&self) -> Commands {
        self.process(|process| process.commands)
    }

    /// Begins a log of all commands that are read, or ends it.
    pub fn keep_log(&self, keep: bool) {
        self.process(|process| process.log = keep.then(Vec::new));
    }

    /// Takes what has been logged since the last call.
    #[must_use]
    pub fn take_log(&self) -> Vec<Executed> {
        self.process(|process| process.log.as_mut().map(std::mem::take).unwrap_or_default())
    }

    /// How many connections are open at the server's end.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.with(|state, _| state.connections())
    }

    /// Whether its clients may not use `CLIENT KILL`.
    pub fn deny_client_kill(&self, deny: bool) {
        self.process(|process| process.denies_client_kill = deny);
    }

    /// Whether its clients may not use `INFO`: then they do not know its run id.
    pub fn deny_info(&self, deny: bool) {
        self.process(|process| process.denies_info = deny);
    }

    /// Whether its clients may not touch the marker.
    pub fn deny_marker(&self, deny: bool) {
        self.process(|process| process.denies_marker = deny);
    }

    /// Whether its clients may not use `CLIENT TRACKING`, over connections that are made from now on:
    /// then they are not told of releases.
    pub fn deny_tracking(&self, deny: bool) {
        self.process(|process| process.denies_tracking = deny);
    }

    /// Makes it a replica, which says so in handshakes and refuses to write, or a master.
    pub fn set_replica(&self, is_replica: bool) {
        self.process(|process| process.is_replica = is_replica);
    }

    /// Whether it says in handshakes that it is part of a cluster.
    pub fn set_cluster(&self, is_cluster: bool) {
        self.process(|process| process.is_cluster = is_cluster);
    }

    /// The id of the present process, or of the last one.
    #[must_use]
    pub fn run_id(&self) -> String {
        self.process(|process| process.run_id.to_string())
    }

    /// Is the process there, frozen or not?
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.process(|process| process.is_running)
    }

    fn process<R>(&self, look: impl FnOnce(&mut Process) -> R) -> R {
        self.shared.with(|state, _| look(&mut state.process))
    }

    fn keys_with<R>(&self, look: impl FnOnce(&mut Keyspace, Moment) -> R) -> R {
        self.shared.with(|state, now| {
            let (keys, server_time) = state.process.keys_at(now);
            let seen = look(keys, server_time);
            state.tell(None, now);
            seen
        })
    }
}
