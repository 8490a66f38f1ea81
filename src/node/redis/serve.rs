//! Serving requests over one connection.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesOrdered;
use redis::aio::MultiplexedConnection;
use redis::{Pipeline, RedisResult, Value};
use tokio::time::Sleep;

use super::commands::{self, Form};
use super::connection::{Driver, Live};
use super::marker;
use crate::node::breaker::{Breaker, Due};
use crate::node::{Link, Request};
use crate::quorum::hold::Command;
use crate::quorum::ledger::{ConnectionId, News};
use crate::quorum::validity::Moment;
use crate::quorum::vote::Unsent;

/// So many requests go out in one write at most.
const BATCH: usize = 512;

/// A request on the wire, in the form in which it was written.
type Sent = (Request, Form);

/// What is to be written next.
#[derive(Default)]
struct Outgoing {
    new: Vec<Request>,
    /// Written before, by the hash of a script that the server did not know.
    again: Vec<Request>,
}

impl Outgoing {
    fn acquires(&self) -> bool {
        let is_acquire = |request: &Request| matches!(request.command(), Command::Acquire { .. });
        self.new.iter().any(is_acquire)
    }
}

impl Driver {
    /// Serves requests until the connection ends, or until nobody can submit any more.
    pub(super) async fn serve(&mut self, live: Live) {
        let Live {
            id,
            connection,
            closed,
            mut finish_at,
        } = live;
        self.up();
        self.context.observer.on_news(News::Up);
        // Replies come in the order of the pipelines, so the front batch is always the next.
        let mut replies = FuturesOrdered::new();
        // The marker's commands go the same way, one question at a time.
        let mut looks: FuturesOrdered<_> = FuturesOrdered::new();
        let mut unanswered: VecDeque<Vec<Sent>> = VecDeque::new();
        let mut outgoing = Outgoing::default();
        let mut breaker = Breaker::default();
        let mut timer = Timer::new();
        let mut open = true;
        // Did the last write carry the commands of several callers?
        let mut crowded = false;
        let mut vigilant = true;
        let reason: String = loop {
            timer.arm(
                self,
                [
                    breaker.next_deadline(),
                    finish_at,
                    self.vigil.next_deadline(),
                ]
                .into_iter()
                .flatten()
                .min(),
            );
            tokio::select! {
                biased;
                // First: what it says holds for what was written behind it.
                Some(result) = looks.next(), if !looks.is_empty() => match result {
                    Ok(values) => {
                        let values: Vec<Value> = values;
                        let now = self.context.clock.now();
                        self.vigil.on_look(marker::read(&values), now);
                        breaker.on_reply(!unanswered.is_empty(), now);
                        self.up();
                        vigilant = true;
                    }
                    Err(error) => break redis::RedisError::to_string(&error),
                },
                Some(result) = replies.next(), if !replies.is_empty() => match result {
                    Ok(values) => {
                        let sent = unanswered.pop_front().unwrap_or_default();
                        let now = self.context.clock.now();
                        self.answer(sent, values, now, &mut outgoing.again);
                        if breaker.on_reply(!unanswered.is_empty() || !looks.is_empty(), now) {
                            self.up();
                        }
                    }
                    Err(error) => break redis::RedisError::to_string(&error),
                },
                () = self.vigil.chosen(), if self.vigil.awaits_founding() => vigilant = true,
                () = closed.notified() => break "closed by the server".into(),
                () = &mut timer.sleep, if timer.at.is_some() => {
                    let now = self.context.clock.now();
                    let was_due = timer.at.take().unwrap_or(now);
                    if finish_at.is_some_and(|at| at <= now) {
                        finish_at = None;
                        self.finished(Some(id));
                    }
                    match breaker.poll(was_due, now) {
                        Due::Nothing => {}
                        Due::Open => self.link(Link::ReleasesOnly(Unsent::BreakerOpen), Some("no answer".into())),
                        Due::Replace => break "no answer".into(),
                    }
                    if !breaker.is_open() {
                        self.up();
                    }
                    vigilant = true;
                }
                count = self.queue.recv_many(&mut outgoing.new, BATCH), if open => {
                    open = count > 0;
                    if crowded || count > 1 || !unanswered.is_empty() {
                        // Let everybody who is ready submit, so that their commands leave in one
                        // write. A lone caller would only wait for nobody.
                        tokio::task::yield_now().await;
                        while outgoing.new.len() < BATCH && let Ok(request) = self.queue.try_recv() {
                            outgoing.new.push(request);
                        }
                    }
                    crowded = outgoing.new.len() > 1;
                }
            }
            let acquiring = outgoing.acquires();
            if std::mem::take(&mut vigilant) || acquiring {
                let now = self.context.clock.now();
                if let Some(ask) = self.vigil.poll(now, acquiring, &self.context) {
                    looks.push_back(send(connection.clone(), marker::pipeline(&ask)));
                    breaker.on_written(now);
                }
            }
            if let Some((sent, pipeline)) = self.compose(id, &mut outgoing) {
                unanswered.push_back(sent);
                replies.push_back(send(connection.clone(), pipeline));
                breaker.on_written(self.context.clock.now());
            } else if !open && unanswered.is_empty() {
                return;
            }
        };
        // In this order: nothing new comes in, and what is out is answered, before others hear of it.
        self.link(Link::Down(Unsent::NotConnected), Some(reason.clone()));
        let reason: Arc<str> = reason.into();
        drop(replies);
        let unanswered = unanswered.into_iter().flatten().map(|(request, _)| request);
        for request in unanswered.chain(outgoing.again) {
            self.gate.answered(1);
            request.fail(Unsent::NotConnected, Some(Arc::clone(&reason)));
        }
    }

    /// Claims what is still wanted and makes one pipeline of it.
    fn compose(&self, id: ConnectionId, outgoing: &mut Outgoing) -> Option<(Vec<Sent>, Pipeline)> {
        if outgoing.new.is_empty() && outgoing.again.is_empty() {
            return None;
        }
        let mut sent: Vec<Sent> = outgoing
            .again
            .drain(..)
            .map(|request| (request, Form::Text))
            .collect();
        let now = self.context.clock.now();
        for request in outgoing.new.drain(..) {
            if !self.vigil.admits(request.command(), now) {
                self.gate.answered(1);
                request.fail(Unsent::Quarantined, self.gate.standing().error);
                continue;
            }
            match request.claim(id) {
                Some(request) => sent.push((request, Form::Hash)),
                None => self.gate.answered(1),
            }
        }
        if sent.is_empty() {
            return None;
        }
        let mut pipeline = Pipeline::with_capacity(sent.len());
        for (request, form) in &sent {
            pipeline.add_command(commands::command(request, *form));
        }
        Some((sent, pipeline))
    }

    /// Hands out the replies of one pipeline.
    fn answer(&self, sent: Vec<Sent>, values: Vec<Value>, now: Moment, again: &mut Vec<Request>) {
        for ((request, form), value) in sent.into_iter().zip(values) {
            if form == Form::Hash && commands::is_unknown_script(&value) {
                again.push(request);
                continue;
            }
            let (vote, error) = commands::vote(&request, &value);
            self.gate.answered(1);
            let (vote, error) = self.vigil.vouch(request.command(), vote, error, now);
            request.answer(vote, error, now);
        }
    }
}

async fn send(
    mut connection: MultiplexedConnection,
    pipeline: Pipeline,
) -> RedisResult<Vec<Value>> {
    let count = pipeline.len();
    connection.send_packed_commands(&pipeline, 0, count).await
}

/// A timer that is moved rarely: a deadline that moves back is found to be early when it comes.
struct Timer {
    sleep: Pin<Box<Sleep>>,
    at: Option<Moment>,
}

impl Timer {
    fn new() -> Self {
        Self {
            sleep: Box::pin(tokio::time::sleep(Duration::ZERO)),
            at: None,
        }
    }

    fn arm(&mut self, driver: &Driver, next: Option<Moment>) {
        if let Some(next) = next
            && self.at.is_none_or(|at| next < at)
        {
            self.at = Some(next);
            self.sleep
                .as_mut()
                .reset(driver.context.clock.instant(next));
        }
    }
}
