//! Looking at a lock without touching it.

use std::sync::Arc;

use futures::future::join_all;
use tokio::sync::oneshot;

use super::{Holder, Inspection, NodeInspection, Sight};
use crate::client::Redlock;
use crate::driver::engine::Engine;
use crate::node::Link;
use crate::node::glance::Glimpse;
use crate::node::reconnect::CONNECT_TIMEOUT;
use crate::quorum::majority::{Key, Majority, Seen, majority};
use crate::quorum::tally::NodeError;
use crate::quorum::validity::{self, Moment};
use crate::quorum::vote::Unsent;
use crate::resources::Resources;

impl Redlock {
    /// Looks at the lock on `resource` on every node, for people and for monitoring: who has it, for
    /// how long yet, and what each node says. Nothing is changed, on the nodes or for other callers.
    ///
    /// It lasts a round time-out at most, and while a new client connects up to 1 s more: whoever has
    /// not answered by then is [`Sight::Unanswered`]. Nodes in quarantine are looked at too. What was
    /// seen may be over when it is told: to do something only if a lock is free,
    /// [`try_acquire`](Self::try_acquire) it. A lock on several resources is seen at each of them.
    ///
    /// A resource that cannot be locked is not looked for: then the inspection lists no node and tells
    /// the [`problem`](Inspection::problem). After [`close`](Self::close) no node can be reached.
    ///
    /// # Cancel safety
    ///
    /// It can be dropped at any time. Nothing is left on the nodes.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(redlock: redlock_quorum::Redlock) {
    /// let inspection = redlock.inspect("invoices").await;
    /// println!("{inspection}");
    /// if let Some(until) = inspection.held_until() {
    ///     println!("{}, at least until {until:?}", inspection.holder());
    /// }
    /// # }
    /// ```
    pub async fn inspect(&self, resource: impl Into<String>) -> Inspection {
        let resource = resource.into();
        let wanted = Resources::one(&self.config().prefix, &resource);
        let checked = self.config().check_resources(&wanted);
        let engine = match checked.and_then(|()| self.engine()) {
            Ok(engine) => engine,
            Err(problem) => {
                return Inspection {
                    resource,
                    holder: Holder::Unknown,
                    held_until: None,
                    nodes: Vec::new(),
                    problem: Some(problem),
                };
            }
        };
        let connected_by = engine.clock().now().after(CONNECT_TIMEOUT);
        engine.introduced(connected_by).await;
        let asked_at = engine.clock().now();
        let limit = asked_at.after(self.config().round_timeout(self.config().ttl));
        let looks = engine.nodes().map(|node| {
            let asked = if engine.is_closed() {
                Err(Unsent::Closed)
            } else {
                engine.look(node, wanted.key())
            };
            answer(&engine, node, asked, limit)
        });
        let answers = join_all(looks.collect::<Vec<_>>()).await;
        conclude(resource, &engine, asked_at, &answers)
    }
}

/// What a node says; or what that says about it, and why, where it is known.
type Answer = Result<Seen, (Sight, Option<Arc<str>>)>;

async fn answer(
    engine: &Engine,
    node: usize,
    asked: Result<oneshot::Receiver<Glimpse>, Unsent>,
    limit: Moment,
) -> Answer {
    let unreachable = |reason| (Sight::Unreachable(reason), engine.standing(node).error);
    let glimpse = tokio::select! {
        biased;
        glimpse = asked.map_err(unreachable)? => glimpse,
        () = engine.sleep_until(limit) => return Err((Sight::Unanswered, None)),
    };
    glimpse.map_or_else(
        // Its connection ended.
        |_dropped| {
            let link = engine.link(node);
            Err(if let Link::Down(reason) = link {
                unreachable(reason)
            } else {
                (Sight::Unanswered, None)
            })
        },
        |glimpse| glimpse.map_err(|error| (Sight::Unanswered, Some(error))),
    )
}

fn conclude(resource: String, engine: &Engine, asked_at: Moment, answers: &[Answer]) -> Inspection {
    let tokens = Tokens::among(answers, engine);
    let seen: Vec<Option<&Seen>> = answers.iter().map(|answer| answer.as_ref().ok()).collect();
    let (holder, ttl) = match majority(&seen) {
        Majority::Token { token, ttl, .. } if tokens.has_ours(token) => (Holder::Ours, ttl),
        Majority::Token { ttl, .. } => (Holder::Another, ttl),
        Majority::Nobody => (Holder::Nobody, None),
        Majority::Split => (Holder::Split, None),
        Majority::Unknown => (Holder::Unknown, None),
    };
    let now = engine.clock().now();
    let held_until = ttl.map(|ttl| {
        // It was read after it was asked for: counted from there it ends too early, if at all.
        let until = validity::valid_until(asked_at, ttl);
        (engine.clock().instant(until).into_std(), until.since(now))
    });
    let mut unnamed = tokens.0.len();
    let mut sight = |key: &Key| {
        let known = key.token.as_deref().and_then(|token| tokens.find(token));
        let (number, ours) = known.unwrap_or_else(|| {
            unnamed = unnamed.saturating_add(1);
            (unnamed, false)
        });
        Sight::Held {
            ours,
            token: number,
            ttl: key.ttl,
        }
    };
    let line = |(node, answer): (&Arc<str>, &Answer)| {
        let (sight, fence, error) = match answer {
            Ok(seen) => (
                seen.key.as_ref().map_or(Sight::Free, &mut sight),
                seen.fence,
                None,
            ),
            Err((sight, error)) => (*sight, None, error.clone()),
        };
        NodeInspection {
            node: Arc::clone(node),
            sight,
            fence,
            error: error.map(|error| NodeError::new(Arc::clone(node), error)),
        }
    };
    Inspection {
        resource,
        holder,
        held_until,
        nodes: engine.names().iter().zip(answers).map(line).collect(),
        problem: None,
    }
}

/// The different tokens that were seen, and whether a lock is held with each.
struct Tokens<'a>(Vec<(&'a str, bool)>);

impl<'a> Tokens<'a> {
    fn among(answers: &'a [Answer], engine: &Engine) -> Self {
        let mut tokens: Vec<(&str, bool)> = Vec::new();
        let keys = answers
            .iter()
            .flatten()
            .filter_map(|seen| seen.key.as_ref());
        for token in keys.filter_map(|key| key.token.as_deref()) {
            if !tokens.iter().any(|&(known, _)| known == token) {
                tokens.push((token, false));
            }
        }
        for cell in engine.living() {
            let is_its = |(token, _): &&mut (&str, bool)| *token == cell.token().as_str();
            if let Some((_, ours)) = tokens.iter_mut().find(is_its) {
                *ours = cell.read(|hold, now| hold.loss(now).is_none());
            }
        }
        Self(tokens)
    }

    /// Its number, and whether it is ours.
    fn find(&self, token: &str) -> Option<(usize, bool)> {
        let place = self.0.iter().position(|&(known, _)| known == token)?;
        let &(_, ours) = self.0.get(place)?;
        Some((place.saturating_add(1), ours))
    }

    fn has_ours(&self, token: &str) -> bool {
        self.find(token).is_some_and(|(_, ours)| ours)
    }
}
