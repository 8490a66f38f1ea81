//! The handle by which a test owns a server, and does to it what the world would.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use super::link::MemoryLink;
use super::process::Process;
use super::state::State;
use crate::clock::Clock;
use crate::quorum::hold::Command;
use crate::quorum::validity::Moment;
use crate::quorum::vote::{Refusal, Vote};

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
    /// Every key, as with an append-only file that is synced with every write.
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

/// How many commands a server has read, whatever it answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Commands {
    /// Acquires.
    pub acquire: u64,
    /// Extensions.
    pub extend: u64,
    /// Releases.
    pub release: u64,
}

/// The kind of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CommandKind {
    /// `SET key token NX PX ttl`
    Acquire,
    /// Compare, and set a longer ttl.
    Extend,
    /// Compare, and delete.
    Release,
}

/// A line of a server's log: one command that it has read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Executed {
    /// When, on the true clock, counted from the making of the server.
    pub at: Duration,
    /// What was asked for.
    pub kind: CommandKind,
    /// The key of the lock.
    pub key: String,
    /// The token that came with it.
    pub token: String,
    /// What was answered.
    pub vote: Vote,
    /// Whether it changed the key, which with an error the answer does not tell.
    pub took_effect: bool,
}

impl Executed {
    pub(super) fn new(
        at: Duration,
        command: Command,
        key: &str,
        token: &str,
        vote: Vote,
        applied: Option<Vote>,
    ) -> Self {
        let kind = match command {
            Command::Acquire { .. } => CommandKind::Acquire,
            Command::Extend { .. } => CommandKind::Extend,
            Command::Release => CommandKind::Release,
        };
        let took_effect = applied == Some(Vote::Granted);
        Self {
            at,
            kind,
            key: key.into(),
            token: token.into(),
            vote,
            took_effect,
        }
    }
}

impl MemoryServer {
    /// A running, empty server. The seed decides its run ids and the jitter of its links.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let clock = Clock::start();
        let state = Mutex::new(State::new(seed, clock.now()));
        Self {
            shared: Arc::new(Shared {
                seed,
                state,
                clock,
                changed: Arc::default(),
            }),
        }
    }

    /// A new link to this server, for one client.
    #[must_use]
    pub fn link(&self) -> MemoryLink {
        let seed = self.shared.seed;
        let link = self.shared.with(|state, _| {
            let number = u64::try_from(state.link_count())
                .unwrap_or(u64::MAX)
                .wrapping_add(1);
            // An odd constant spreads the seeds of links and servers that are numbered in a row.
            state.add_link(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        });
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

    /// Forgets every key.
    pub fn flush(&self) {
        self.process(|process| process.keys.clear());
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

    /// All keys, in their order.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        self.keys_with(|keys, now| keys.keys(now).map(String::from).collect())
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

    fn keys_with<R>(
        &self,
        look: impl FnOnce(&mut crate::quorum::keyspace::Keyspace, Moment) -> R,
    ) -> R {
        self.shared.with(|state, now| {
            let (keys, now) = state.process.keys_at(now);
            look(keys, now)
        })
    }
}

#[derive(Debug)]
pub(super) struct Shared {
    seed: u64,
    // A std mutex: nothing is awaited and nobody is called back under it.
    state: Mutex<State>,
    clock: Clock,
    /// Something may be due earlier than it was.
    changed: Arc<Notify>,
}

impl Shared {
    pub(super) fn with<R>(&self, look: impl FnOnce(&mut State, Moment) -> R) -> R {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let result = look(&mut state, self.clock.now());
        drop(state);
        self.changed.notify_one();
        result
    }

    /// Sees to it that a task of the present runtime carries messages.
    pub(super) fn drive(self: &Arc<Self>) {
        if !self.with(|state, _| std::mem::replace(&mut state.is_driven, true)) {
            let changed = Arc::clone(&self.changed);
            tokio::spawn(carry(Carrying(Arc::downgrade(self)), changed));
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.changed.notify_one();
    }
}

/// Another task may take over when this one ends with its runtime.
struct Carrying(Weak<Shared>);

impl Drop for Carrying {
    fn drop(&mut self) {
        if let Some(shared) = self.0.upgrade() {
            shared.with(|state, _| state.is_driven = false);
        }
    }
}

/// Carries messages until the server is gone.
async fn carry(carrying: Carrying, changed: Arc<Notify>) {
    loop {
        let next = {
            let Some(shared) = carrying.0.upgrade() else {
                return;
            };
            let mut state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
            state
                .advance(shared.clock.now())
                .map(|next| shared.clock.instant(next))
        };
        match next {
            Some(next) => {
                tokio::select! {
                    biased;
                    () = changed.notified() => {}
                    () = tokio::time::sleep_until(next) => {}
                }
            }
            None => changed.notified().await,
        }
    }
}
