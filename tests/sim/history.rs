//! What happened in one seed: written down while it runs, and read by the invariants.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use redlock_quorum::testkit::memory::{CommandKind, Executed};
use redlock_quorum::{LossCause, Vote};
use tokio::time::Instant;

use crate::holds::Request;
use crate::plan::Plan;

/// Numbers a request for a lock, and the hold that may come of it.
pub(crate) type Op = usize;

/// What a caller asked to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    Once,
    For(Duration),
    Forever,
}

/// Where a request's lock comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Fresh,
    /// The owner holds it already. `free`: it asks for no longer ttl.
    Nested {
        outer: Op,
        free: bool,
    },
    /// It was detached from this hold.
    Attached {
        from: Op,
    },
}

/// How a request for a lock failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    Contended,
    NoQuorum,
    TooLate,
    /// The lock to be attached was not there.
    Gone,
    /// The owner's lock was lost.
    Lost,
    Closed,
    Other,
}

/// How an extension failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unextended {
    NoQuorum,
    Lost(LossCause),
    Other,
}

/// How a holder let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LetGo {
    Release,
    /// The release's future was dropped after one poll.
    ReleaseDropped,
    Drop,
    /// Into a lease.
    Detach,
    /// Never: the guard was forgotten.
    Leak,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// All faults are over.
    Healed,
    /// What was owed must be paid by now.
    Settled,
    /// Every resource must be acquirable.
    Serving,
    /// The last ttl of all that was leaked or lost with its client is over.
    Expired,
    End,
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    Asked {
        op: Op,
        incarnation: usize,
        origin: Origin,
        resource: usize,
        ttl: Duration,
        patience: Patience,
        round_timeout: Duration,
        /// Its lock is extended while it is held.
        renews: bool,
        max_hold: Option<Duration>,
        fenced: bool,
    },
    /// The request before is for these resources as well, all or nothing.
    Set {
        op: Op,
        others: Vec<usize>,
    },
    Acquired {
        op: Op,
        token: String,
        /// The fencing token.
        fence: Option<u64>,
        valid_until: Duration,
        /// On how many servers the key was when the request returned.
        holders: usize,
    },
    Failed {
        op: Op,
        failure: Failure,
        text: String,
    },
    /// The request's future was dropped.
    Abandoned {
        op: Op,
    },
    Extend {
        op: Op,
        ttl: Duration,
    },
    Extended {
        op: Op,
        ttl: Duration,
        valid_until: Duration,
    },
    NotExtended {
        op: Op,
        why: Unextended,
    },
    /// The extension's future was dropped: it may count or not.
    ExtendAbandoned {
        op: Op,
        ttl: Duration,
    },
    /// The holder asked the guard.
    Looked {
        op: Op,
        loss: Option<LossCause>,
        valid_until: Duration,
    },
    /// Shortly before the end of validity the key was on so many servers.
    Holders {
        op: Op,
        holders: usize,
    },
    LetGo {
        op: Op,
        how: LetGo,
    },
    Released {
        op: Op,
        already_gone: bool,
        deleted: usize,
        holders: usize,
    },
    Unconfirmed {
        op: Op,
    },
    /// The guard could not be detached: it was lost, or not the only one.
    NotDetached {
        op: Op,
    },
    /// The lease of a detached hold is about to be released, and how that ended.
    Disown {
        op: Op,
    },
    Disowned {
        op: Op,
        confirmed: bool,
        holders: usize,
    },
    /// A section of `using` is still at work.
    Worked {
        op: Op,
    },
    /// The guard's `lost()` resolved.
    Lost {
        op: Op,
        cause: LossCause,
    },
    Close,
    Closed {
        complete: bool,
    },
    /// A process stands still, or goes on.
    Paused {
        incarnation: usize,
    },
    Resumed {
        incarnation: usize,
    },
    /// The client's engine is gone.
    Ended,
    /// The client has been started again, with new links.
    Started {
        incarnation: usize,
    },
    /// Everybody, servers and network included, loses so much time at once.
    Jumped {
        by: Duration,
    },
    Fault {
        what: String,
    },
    /// A server's clock was set back: what it keeps lives longer than it should.
    SetBack {
        server: usize,
    },
    Phase(Phase),
    /// A key stood on a server when all should have been settled.
    Left {
        server: usize,
        key: String,
        token: String,
    },
    /// So many attempts, holds and debts of this client have not settled.
    Unsettled {
        incarnation: usize,
        count: usize,
        ended: bool,
    },
    /// There are so many resources that this client waits for or holds.
    Lines {
        incarnation: usize,
        count: usize,
    },
    /// Somebody else's client has set a resource's key on all servers, or has deleted it.
    Foreign {
        resource: usize,
        holds: bool,
    },
    /// So many connections are open after all clients have ended.
    Connections {
        server: usize,
        count: usize,
    },
    /// So many tasks of clients have not ended after their clients had.
    TasksLeft {
        count: usize,
    },
    /// Somebody waited for something that never came.
    Stuck {
        what: String,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Event {
    /// Since the seed began, on the virtual clock.
    pub(crate) at: Duration,
    pub(crate) client: Option<usize>,
    pub(crate) what: What,
}

/// Everything that the invariants look at.
#[derive(Debug)]
pub(crate) struct History {
    pub(crate) plan: Plan,
    pub(crate) events: Vec<Event>,
    /// What each server has executed, in order.
    pub(crate) servers: Vec<Vec<Execution>>,
    /// What has been read of it.
    pub(crate) requests: OnceLock<Vec<Request>>,
}

/// One command that a server has read.
#[derive(Clone, Debug)]
pub(crate) struct Execution {
    pub(crate) at: Duration,
    /// The incarnation that sent it.
    pub(crate) incarnation: usize,
    pub(crate) kind: CommandKind,
    /// The key of the lock; the first, if it has several.
    pub(crate) key: String,
    pub(crate) keys: Vec<String>,
    pub(crate) token: String,
    pub(crate) ballot: Option<u64>,
    pub(crate) vote: Vote,
    pub(crate) took_effect: bool,
}

impl From<Executed> for Execution {
    fn from(entry: Executed) -> Self {
        Self {
            at: entry.at,
            // Each incarnation makes one link to each server, in its turn.
            incarnation: entry.link,
            kind: entry.kind,
            key: entry.key,
            keys: entry.keys,
            token: entry.token,
            ballot: entry.ballot,
            vote: entry.vote,
            took_effect: entry.took_effect,
        }
    }
}

/// Writes events down as they happen.
#[derive(Clone, Debug)]
pub(crate) struct Recorder(Arc<(Instant, Mutex<Vec<Event>>)>);

impl Recorder {
    pub(crate) fn start() -> Self {
        Self(Arc::new((virtual_now(), Mutex::default())))
    }

    pub(crate) fn now(&self) -> Duration {
        virtual_now() - self.0.0
    }

    pub(crate) fn since_start(&self, instant: std::time::Instant) -> Duration {
        instant.saturating_duration_since(self.0.0.into_std())
    }

    pub(crate) fn instant(&self, at: Duration) -> Instant {
        self.0.0 + at
    }

    pub(crate) fn push(&self, client: impl Into<Option<usize>>, what: What) {
        let (at, client) = (self.now(), client.into());
        self.0.1.lock().unwrap().push(Event { at, client, what });
    }

    pub(crate) fn fault(&self, what: impl fmt::Display) {
        let what = what.to_string();
        self.push(None, What::Fault { what });
    }

    pub(crate) fn take(&self) -> Vec<Event> {
        std::mem::take(&mut *self.0.1.lock().unwrap())
    }
}

#[expect(clippy::disallowed_methods, reason = "the virtual clock of a seed")]
fn virtual_now() -> Instant {
    Instant::now()
}
