//! The server's process: its clock, its keys, its moods.

use std::sync::Arc;
use std::time::Duration;

use super::log::{Commands, Executed};
use super::server::{Effect, Restart};
use crate::quorum::hold::Command;
use crate::quorum::keyspace::{Keyspace, Watcher};
use crate::quorum::majority::Seen;
use crate::quorum::own_keys::MARKER;
use crate::quorum::trust::amnesia::Ask;
use crate::quorum::trust::marker::{self, Look, Sighting};
use crate::quorum::validity::Moment;
use crate::quorum::vote::{Refusal, Vote};
use crate::quorum::waiting::InWay;
use crate::token::Entropy;

/// What an acquire asks for beside the lock.
#[derive(Clone, Copy, Debug)]
pub(super) enum Watching {
    Nothing,
    /// How long the key lives.
    Ttl,
    /// The same, and to be told when it changes.
    Changes(Watcher),
}

#[derive(Debug)]
pub(super) struct Process {
    pub(super) keys: Keyspace,
    clock: ServerClock,
    /// For what the server chooses: run ids, and the seeds of its links.
    pub(super) entropy: Entropy,
    /// 40 hexadecimal characters, new with every start.
    pub(super) run_id: Arc<str>,
    /// They begin anew with every start, as a real server's do.
    next_client_id: u64,
    pub(super) is_running: bool,
    pub(super) is_frozen: bool,
    pub(super) is_replica: bool,
    pub(super) is_cluster: bool,
    pub(super) denies_client_kill: bool,
    pub(super) denies_info: bool,
    pub(super) denies_marker: bool,
    pub(super) denies_tracking: bool,
    pub(super) refusal: Option<Refusal>,
    pub(super) failure: Option<Effect>,
    pub(super) commands: Commands,
    pub(super) log: Option<Vec<Executed>>,
    began: Moment,
}

impl Process {
    pub(super) fn new(seed: u64, now: Moment) -> Self {
        let entropy = Entropy::seeded(seed);
        Self {
            keys: Keyspace::default(),
            clock: ServerClock {
                true_anchor: now,
                anchor: now,
                ppm: 0,
                offset_millis: 0,
            },
            run_id: run_id(&entropy),
            entropy,
            next_client_id: 1,
            is_running: true,
            is_frozen: false,
            is_replica: false,
            is_cluster: false,
            denies_client_kill: false,
            denies_info: false,
            denies_marker: false,
            denies_tracking: false,
            refusal: None,
            failure: None,
            commands: Commands::default(),
            log: None,
            began: now,
        }
    }

    pub(super) const fn clock_mut(&mut self) -> &mut ServerClock {
        &mut self.clock
    }

    /// The keys, with what the server takes the time to be.
    pub(super) fn keys_at(&mut self, now: Moment) -> (&mut Keyspace, Moment) {
        let now = self.clock.read(now);
        (&mut self.keys, now)
    }

    /// A new connection's client id; `None` if nobody listens. A frozen process's kernel accepts.
    pub(super) const fn accept(&mut self) -> Option<u64> {
        if !self.is_running {
            return None;
        }
        let id = self.next_client_id;
        self.next_client_id = id.saturating_add(1);
        Some(id)
    }

    pub(super) const fn crash(&mut self) {
        self.is_running = false;
        self.is_frozen = false;
    }

    pub(super) fn start(&mut self, how: Restart) {
        if how == Restart::Empty {
            self.keys.clear();
        }
        self.run_id = run_id(&self.entropy);
        self.next_client_id = 1;
        self.is_running = true;
    }

    /// Founds it, as the first client of a new fleet does.
    pub(super) fn found(&mut self) {
        let marker = marker::founded(&self.run_id);
        let now = Moment::default();
        self.keys.set(MARKER, &marker, None, now);
    }

    pub(super) fn told_run_id(&self) -> Option<Arc<str>> {
        (!self.denies_info).then(|| Arc::clone(&self.run_id))
    }

    /// What is asked about the marker.
    pub(super) fn answer(&mut self, ask: &Ask, now: Moment) -> Look {
        let (denied, now) = (self.denies_marker, self.clock.read(now));
        if let Ask::Write {
            marker,
            only_if_missing,
        } = ask
            && !denied
            && !self.is_replica
            && !(*only_if_missing && self.keys.get(MARKER, now).is_some())
        {
            self.keys.set(MARKER, marker, None, now);
        }
        let sighting = match self.keys.get(MARKER, now) {
            _ if denied => Sighting::Denied,
            Some(marker) => Sighting::Found(marker.into()),
            None => Sighting::Missing,
        };
        let millis = now.since(Moment::default()).as_millis();
        Look {
            sighting,
            server_time: u64::try_from(millis).ok(),
        }
    }

    /// What stands at a key, for whoever only looks.
    pub(super) fn look(&mut self, key: &str, now: Moment) -> Seen {
        let (keys, now) = self.keys_at(now);
        keys.look(key, now)
    }

    pub(super) fn execute(
        &mut self,
        link: usize,
        command: Command,
        keys: &[Box<str>],
        token: &str,
        watching: Watching,
        now: Moment,
    ) -> (Vote, Option<Arc<str>>) {
        let count = match command {
            Command::Acquire { .. } => &mut self.commands.acquire,
            Command::Heal { .. } => &mut self.commands.heal,
            Command::Extend { .. } => &mut self.commands.extend,
            Command::Release | Command::Tombstone { .. } => &mut self.commands.release,
        };
        *count = count.saturating_add(1);
        let refusal = self
            .refusal
            .or_else(|| self.is_replica.then_some(Refusal::ReadOnly));
        let (vote, applied, error) = match (refusal, self.failure) {
            (Some(refusal), _) => (Vote::Refused(refusal), false, Some(refusal.code())),
            (None, Some(effect)) => (
                Vote::Unknown,
                effect == Effect::Applied,
                Some("ERR as it was told"),
            ),
            (None, None) => (Vote::Granted, true, None),
        };
        let server_time = self.clock.read(now);
        let applied = applied.then(|| self.keys.apply(command, keys, token, server_time));
        let vote = match applied.filter(|_| error.is_none()) {
            Some(vote) => self.watch(watching, keys, vote, server_time),
            None => vote,
        };
        if let Some(log) = &mut self.log {
            log.push(Executed::new(
                now.since(self.began),
                link,
                command,
                keys,
                token,
                vote,
                applied,
            ));
        }
        (vote, error.map(Arc::from))
    }

    /// The keys of a set that are in the way of an acquire.
    pub(super) fn in_way(
        &mut self,
        command: Command,
        keys: &[Box<str>],
        token: &str,
        now: Moment,
    ) -> Vec<InWay> {
        if keys.len() < 2 || !matches!(command, Command::Acquire { .. }) {
            return Vec::new();
        }
        let server_time = self.clock.read(now);
        self.keys.in_way(keys, token, server_time)
    }

    /// Completes the vote on an acquire that watches.
    fn watch(
        &mut self,
        watching: Watching,
        keys: &[Box<str>],
        vote: Vote,
        server_time: Moment,
    ) -> Vote {
        match watching {
            Watching::Nothing => return vote,
            Watching::Ttl => {}
            Watching::Changes(watcher) => {
                for key in keys {
                    self.keys.watch(key, watcher, server_time);
                }
            }
        }
        let (Vote::Held { fence, .. }, [key]) = (vote, keys) else {
            // A set's is told with every vote.
            return vote;
        };
        let ttl = self.keys.ttl(key, server_time);
        Vote::Held { ttl, fence }
    }
}

/// The server's own clock: what ttls are measured with.
#[derive(Debug)]
pub(super) struct ServerClock {
    true_anchor: Moment,
    anchor: Moment,
    ppm: i32,
    offset_millis: i64,
}

impl ServerClock {
    pub(super) fn read(&self, now: Moment) -> Moment {
        let offset = Duration::from_millis(self.offset_millis.unsigned_abs());
        let steady = self.steady(now);
        if self.offset_millis < 0 {
            steady.before(offset)
        } else {
            steady.after(offset)
        }
    }

    pub(super) const fn set_offset(&mut self, millis: i64) {
        self.offset_millis = millis;
    }

    pub(super) fn set_rate(&mut self, ppm: i32, now: Moment) {
        self.anchor = self.steady(now);
        self.true_anchor = now;
        self.ppm = ppm;
    }

    fn steady(&self, now: Moment) -> Moment {
        self.anchor
            .after(at_rate(now.since(self.true_anchor), self.ppm))
    }
}

fn run_id(entropy: &Entropy) -> Arc<str> {
    let mut id = format!(
        "{:016x}{:016x}{:016x}",
        entropy.jitter(),
        entropy.jitter(),
        entropy.jitter()
    );
    id.truncate(40);
    id.into()
}

/// How far apart two moments on the true clock are on a clock that gains `ppm` parts per million.
fn at_rate(elapsed: Duration, ppm: i32) -> Duration {
    let rate = u128::try_from(1_000_000_i64.saturating_add(i64::from(ppm))).unwrap_or(0);
    let nanos = elapsed.as_nanos().saturating_mul(rate) / 1_000_000;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
