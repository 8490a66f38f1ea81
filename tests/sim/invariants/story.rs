//! Histories made by hand, for the checkers' own tests.

use std::sync::OnceLock;
use std::time::Duration;

use redlock_quorum::testkit::memory::CommandKind;
use redlock_quorum::{LossCause, RestartGuard, Vote};

use super::Violation;
use crate::dice::ms;
use crate::history::{
    Event, Execution, Failure, History, LetGo, Op, Origin, Patience, Phase, What,
};
use crate::plan::{Class, Plan};
use crate::trust::{Fenced, Trust};

pub(crate) const TTL: Duration = ms(1000);

/// Three servers; client n is incarnation n; request n of client n has the token "token-n". All times
/// are in milliseconds.
pub(crate) struct Story(History);

impl Story {
    pub(crate) fn new(class: Class) -> Self {
        let plan = Plan {
            class,
            servers: 3,
            clients: 4,
            ..Plan::new(0)
        };
        let trust = Trust {
            guard: RestartGuard::Off,
            max_ttl: ms(10_000),
            founded: true,
            forgets: class == Class::Second,
            skew: Duration::ZERO,
            fenced: vec![Fenced::All; 4],
        };
        let plan = Plan { trust, ..plan };
        Self(History {
            plan,
            events: Vec::new(),
            servers: vec![Vec::new(); 3],
            requests: OnceLock::new(),
        })
    }

    pub(crate) fn event(mut self, at: u64, client: impl Into<Option<usize>>, what: What) -> Self {
        let client = client.into();
        self.0.events.push(Event {
            at: ms(at),
            client,
            what,
        });
        self
    }

    pub(crate) fn asks(self, op: Op, at: u64, patience: Patience) -> Self {
        self.asks_for(op, at, patience, Origin::Fresh)
    }

    pub(crate) fn asks_for(self, op: Op, at: u64, patience: Patience, origin: Origin) -> Self {
        let asked = What::Asked {
            op,
            incarnation: op,
            origin,
            resource: 0,
            ttl: TTL,
            patience,
            round_timeout: ms(100),
            renews: false,
            max_hold: None,
            fenced: false,
        };
        self.event(at, op, asked)
    }

    /// The request that was just made is for these resources, too.
    pub(crate) fn set(mut self, op: Op, others: &[usize]) -> Self {
        let (at, others) = (self.0.events.last().map(|event| event.at), others.to_vec());
        self.0.events.push(Event {
            at: at.unwrap_or_default(),
            client: Some(op),
            what: What::Set { op, others },
        });
        self
    }

    pub(crate) fn acquired(self, op: Op, at: u64, valid_until: u64, holders: usize) -> Self {
        let acquired = What::Acquired {
            op,
            token: format!("token-{op}"),
            fence: None,
            valid_until: ms(valid_until),
            holders,
        };
        self.event(at, op, acquired)
    }

    /// Acquired at once, with the token of another request.
    pub(crate) fn shares(self, op: Op, at: u64, valid_until: u64, origin: Origin) -> Self {
        let (Origin::Nested { outer: of, .. } | Origin::Attached { from: of }) = origin else {
            panic!("a fresh lock is nobody's")
        };
        let acquired = What::Acquired {
            op,
            token: format!("token-{of}"),
            fence: None,
            valid_until: ms(valid_until),
            holders: 3,
        };
        self.asks_for(op, at, Patience::Once, origin)
            .event(at, op, acquired)
    }

    /// Asked for at one time, and acquired at another, with a fencing token.
    pub(crate) fn fenced(self, op: Op, asked: u64, at: u64, until: u64, token: u64) -> Self {
        let mut asks = self.asks(op, asked, Patience::Once);
        if let Some(What::Asked { fenced, .. }) =
            asks.0.events.last_mut().map(|event| &mut event.what)
        {
            *fenced = true;
        }
        let acquired = What::Acquired {
            op,
            token: format!("token-{op}"),
            fence: Some(token),
            valid_until: ms(until),
            holders: 3,
        };
        asks.event(at, op, acquired)
    }

    /// Asked for and acquired at once.
    pub(crate) fn holds(self, op: Op, at: u64, valid_until: u64) -> Self {
        self.asks(op, at, Patience::Once)
            .acquired(op, at, valid_until, 3)
    }

    pub(crate) fn fails(self, op: Op, at: u64, failure: Failure) -> Self {
        let text = String::new();
        self.event(at, op, What::Failed { op, failure, text })
    }

    pub(crate) fn lets_go(self, op: Op, at: u64, how: LetGo) -> Self {
        self.event(at, op, What::LetGo { op, how })
    }

    pub(crate) fn lost(self, op: Op, at: u64, cause: LossCause) -> Self {
        self.event(at, op, What::Lost { op, cause })
    }

    pub(crate) fn phase(self, at: u64, phase: Phase) -> Self {
        self.event(at, None, What::Phase(phase))
    }

    pub(crate) fn paused(self, client: usize, from: u64, to: u64) -> Self {
        let incarnation = client;
        self.event(from, client, What::Paused { incarnation })
            .event(to, client, What::Resumed { incarnation })
    }

    /// The server carried the command out, and it took effect.
    pub(crate) fn did(self, server: usize, at: u64, kind: CommandKind, op: Op) -> Self {
        self.did_with(server, at, kind, op, None)
    }

    /// The same, with a ballot.
    pub(crate) fn did_with(
        mut self,
        server: usize,
        at: u64,
        kind: CommandKind,
        op: Op,
        ballot: Option<u64>,
    ) -> Self {
        self.0.servers[server].push(Execution {
            at: ms(at),
            incarnation: op,
            kind,
            key: Plan::key(0),
            keys: vec![Plan::key(0)],
            token: format!("token-{op}"),
            ballot,
            vote: Vote::Granted,
            took_effect: true,
        });
        self
    }

    pub(crate) fn history(self) -> History {
        self.0
    }

    pub(crate) fn check(self, check: fn(&History) -> Vec<Violation>) -> usize {
        check(&self.0).len()
    }
}
