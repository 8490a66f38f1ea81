//! The holds of a history, and how long its processes stood still.

use std::collections::BTreeMap;
use std::time::Duration;

use redlock_quorum::LossCause;

use crate::families::Families;
use crate::history::{Execution, Failure, History, LetGo, Op, Origin, Patience, Phase, What};

/// One request, and the hold that may have come of it.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) op: Op,
    pub(crate) incarnation: usize,
    pub(crate) origin: Origin,
    /// The request that first won the lock that this one is about.
    pub(crate) root: Op,
    /// The first request of this client for that lock: guards of one cell share all.
    pub(crate) cell: Op,
    pub(crate) resource: usize,
    /// It is for a set of resources, and these are the others.
    pub(crate) others: Vec<usize>,
    pub(crate) ttl: Duration,
    pub(crate) patience: Patience,
    pub(crate) round_timeout: Duration,
    pub(crate) renews: bool,
    /// What renewals ask for, unless an extension has asked for another ttl: the first request's.
    pub(crate) renewed_ttl: Duration,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) fenced: bool,
    pub(crate) asked: Duration,
    /// When it returned or was dropped, and how.
    pub(crate) ended: Option<(Duration, End)>,
    pub(crate) hold: Option<Hold>,
}

impl Request {
    pub(crate) fn is_fresh(&self) -> bool {
        self.origin == Origin::Fresh
    }

    pub(crate) fn resources(&self) -> impl Iterator<Item = usize> {
        std::iter::once(self.resource).chain(self.others.iter().copied())
    }

    /// Whether it stands in line.
    pub(crate) fn queues(&self) -> bool {
        self.is_fresh() && self.patience != Patience::Once
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Acquired,
    Failed(Failure),
    Abandoned,
}

#[derive(Clone, Debug)]
pub(crate) struct Hold {
    pub(crate) token: String,
    pub(crate) fence: Option<u64>,
    pub(crate) acquired: Duration,
    /// The latest validity that the caller was told.
    pub(crate) valid_until: Duration,
    /// It may last until here: an extension whose future was dropped may count.
    pub(crate) at_most_until: Duration,
    /// The longest that an extension has asked for.
    pub(crate) longest_ttl: Duration,
    pub(crate) let_go: Option<(Duration, LetGo)>,
    pub(crate) lost: Option<(Duration, LossCause)>,
    /// Detached, and then released by whoever had the lease, or attached it.
    pub(crate) given_up: Option<Duration>,
}

impl Hold {
    /// From its return until here the caller was right to believe that it held the lock; or whoever
    /// has its lease.
    pub(crate) fn certain_end(&self) -> Duration {
        let let_go = self
            .let_go
            .filter(|&(_, how)| !matches!(how, LetGo::Leak | LetGo::Detach))
            .map(|(at, _)| at);
        let lost = self
            .lost
            .filter(|&(_, cause)| cause != LossCause::Detached)
            .map(|(at, _)| at);
        [let_go, lost, self.given_up]
            .into_iter()
            .flatten()
            .fold(self.valid_until, Duration::min)
    }
}

impl History {
    /// All requests, in the order of their numbers. A history that has been looked at must not change.
    pub(crate) fn requests(&self) -> &[Request] {
        self.requests.get_or_init(|| self.read_requests())
    }

    fn read_requests(&self) -> Vec<Request> {
        let mut requests: BTreeMap<Op, Request> = BTreeMap::new();
        let mut families = Families::default();
        for event in &self.events {
            let at = event.at;
            if let &What::Asked {
                op,
                incarnation,
                origin,
                resource,
                ttl,
                patience,
                round_timeout,
                renews,
                max_hold,
                fenced,
            } = &event.what
            {
                let (root, cell) = match origin {
                    Origin::Fresh => (op, op),
                    Origin::Nested { outer, .. } => (requests[&outer].root, requests[&outer].cell),
                    Origin::Attached { from } => (requests[&from].root, op),
                };
                let request = Request {
                    op,
                    incarnation,
                    origin,
                    root,
                    cell,
                    resource,
                    others: Vec::new(),
                    ttl,
                    patience,
                    round_timeout,
                    renews,
                    renewed_ttl: requests.get(&cell).map_or(ttl, |first| first.ttl),
                    max_hold,
                    fenced,
                    asked: at,
                    ended: None,
                    hold: None,
                };
                requests.insert(op, request);
                if root != op {
                    families.join(root, op);
                }
                if let Origin::Nested { free: false, .. } = origin {
                    families.tell(&mut requests, op, at, &What::Extend { op, ttl });
                }
                continue;
            }
            let Some(request) = op_of(&event.what).and_then(|op| requests.get_mut(&op)) else {
                continue;
            };
            match &event.what {
                What::Set { others, .. } => request.others.clone_from(others),
                What::Acquired {
                    token,
                    fence,
                    valid_until,
                    ..
                } => {
                    request.ended = Some((at, End::Acquired));
                    request.hold = Some(Hold {
                        token: token.clone(),
                        fence: *fence,
                        acquired: at,
                        valid_until: *valid_until,
                        at_most_until: *valid_until,
                        longest_ttl: Duration::ZERO,
                        let_go: None,
                        lost: None,
                        given_up: None,
                    });
                }
                What::Failed { failure, .. } => request.ended = Some((at, End::Failed(*failure))),
                What::Abandoned { .. } => request.ended = Some((at, End::Abandoned)),
                what => {
                    if let Some(hold) = &mut request.hold {
                        hold.see(at, what);
                    }
                }
            }
            let op = request.op;
            families.tell(&mut requests, op, at, &event.what);
        }
        requests.into_values().collect()
    }

    /// The requests that became holds.
    pub(crate) fn holds(&self) -> impl Iterator<Item = (&Request, &Hold)> {
        let requests = self.requests().iter();
        requests.filter_map(|request| Some((request, request.hold.as_ref()?)))
    }

    /// The same, by their numbers.
    pub(crate) fn requests_by_op(&self) -> BTreeMap<Op, &Request> {
        let requests = self.requests().iter();
        requests.map(|request| (request.op, request)).collect()
    }

    /// The place of each grant among all.
    pub(crate) fn grants_in_order(&self) -> BTreeMap<Op, usize> {
        let granted = self.events.iter().filter_map(|event| match event.what {
            What::Acquired { op, .. } => Some(op),
            _ => None,
        });
        granted.zip(0..).collect()
    }

    /// What was carried out for each token, with the server.
    pub(crate) fn by_token(&self) -> BTreeMap<&str, Vec<(usize, &Execution)>> {
        let mut tokens: BTreeMap<&str, Vec<(usize, &Execution)>> = BTreeMap::new();
        for (server, log) in self.servers.iter().enumerate() {
            for entry in log {
                tokens
                    .entry(&entry.token)
                    .or_default()
                    .push((server, entry));
            }
        }
        tokens
    }

    /// For how long between two moments this process stood still.
    pub(crate) fn stalled(&self, process: usize, from: Duration, to: Duration) -> Duration {
        let mut sum = Duration::ZERO;
        let mut add = |began: Duration, ended: Duration| {
            sum += ended.min(to).saturating_sub(began.max(from));
        };
        let mut paused = None;
        for event in &self.events {
            match event.what {
                What::Jumped { by } => add(event.at, event.at + by),
                What::Paused { incarnation } if incarnation == process => {
                    paused = paused.or(Some(event.at));
                }
                What::Resumed { incarnation } if incarnation == process => {
                    if let Some(began) = paused.take() {
                        add(began, event.at);
                    }
                }
                What::Phase(Phase::Healed) => {
                    if let Some(began) = paused.take() {
                        add(began, event.at);
                    }
                }
                _ => {}
            }
        }
        sum
    }

    /// The moment of a phase.
    pub(crate) fn phase(&self, phase: Phase) -> Option<Duration> {
        self.events
            .iter()
            .find(|event| matches!(event.what, What::Phase(this) if this == phase))
            .map(|event| event.at)
    }
}

impl Hold {
    pub(crate) fn see(&mut self, at: Duration, what: &What) {
        match *what {
            What::Extended { valid_until, .. }
            | What::Looked { valid_until, .. }
            | What::Acquired { valid_until, .. } => {
                self.valid_until = self.valid_until.max(valid_until);
                self.at_most_until = self.at_most_until.max(valid_until);
            }
            // Also if it fails: what is confirmed while its future is being dropped counts.
            What::Extend { ttl, .. } | What::ExtendAbandoned { ttl, .. } => {
                self.at_most_until = self.at_most_until.max(at + ttl);
                self.longest_ttl = self.longest_ttl.max(ttl);
            }
            What::LetGo { how, .. } => self.let_go = Some((at, how)),
            What::Disown { .. } => self.given_up = self.given_up.or(Some(at)),
            What::Lost { cause, .. } => self.lost = self.lost.or(Some((at, cause))),
            _ => {}
        }
    }
}

fn op_of(what: &What) -> Option<Op> {
    match *what {
        What::Acquired { op, .. }
        | What::Set { op, .. }
        | What::Failed { op, .. }
        | What::Abandoned { op }
        | What::Extend { op, .. }
        | What::Extended { op, .. }
        | What::NotExtended { op, .. }
        | What::ExtendAbandoned { op, .. }
        | What::Looked { op, .. }
        | What::Holders { op, .. }
        | What::LetGo { op, .. }
        | What::Disown { op }
        | What::NotDetached { op }
        | What::Released { op, .. }
        | What::Unconfirmed { op }
        | What::Lost { op, .. } => Some(op),
        _ => None,
    }
}
