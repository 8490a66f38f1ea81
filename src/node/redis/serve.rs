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

use super::commands;
use super::connection::{Driver, Live};
use super::glancing;
use super::ladder::{Form, Ladder};
use super::marker;
use super::outgoing::{Outgoing, Sent};
use super::transaction::{self, Next};
use super::watching::{self, Watching};
use crate::node::Link;
use crate::node::breaker::{Breaker, Due};
use crate::quorum::ledger::{ConnectionId, News};
use crate::quorum::validity::Moment;
use crate::quorum::vote::Unsent;

/// So many requests go out in one write at most.
const BATCH: usize = 512;

impl Driver {
    /// Serves requests until the connection ends, or until nobody can submit any more.
    pub(super) async fn serve(&mut self, live: Live) {
        let Live {
            id,
            connection,
            pushes,
            mut finish_at,
            mut ladder,
            tells,
        } = live;
        self.tells(tells);
        self.up();
        self.context.observer.on_news(News::Up);
        // Replies come in the order of the pipelines, so the front batch is always the next.
        let mut replies = FuturesOrdered::new();
        // The marker's commands go the same way, one question at a time.
        let mut looks: FuturesOrdered<_> = FuturesOrdered::new();
        // So do glances, each with whoever asked.
        let mut glances: FuturesOrdered<_> = FuturesOrdered::new();
        let mut unanswered: VecDeque<Vec<Sent>> = VecDeque::new();
        let mut outgoing = Outgoing::default();
        let mut breaker = Breaker::default();
        let mut timer = Timer::new();
        let mut open = true;
        let mut glances_turn = false;
        // Did the last write carry the commands of several callers?
        let mut crowded = false;
        // The vigil is to be polled, as soon as something may be written.
        let mut vigilant = false;
        let reason: String = loop {
            timer.arm(
                self,
                [
                    breaker.next_deadline(),
                    finish_at,
                    self.vigil.next_deadline().filter(|_| !vigilant),
                ]
                .into_iter()
                .flatten()
                .min(),
            );
            let mut asked = None;
            let may_be_inside = ladder.has_transactions() && !unanswered.is_empty();
            let is_outside = !may_be_inside && !outgoing.is_inside();
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
                        let values: Vec<Value> = values;
                        let sent = unanswered.pop_front().unwrap_or_default();
                        let now = self.context.clock.now();
                        if !self.answer(sent, &values, now, &mut outgoing, &mut ladder) {
                            break "left inside a transaction".into();
                        }
                        if ladder.has_transactions() {
                            self.needs_transactions();
                        }
                        let still_out = !unanswered.is_empty() || self.vigil.is_asking();
                        if breaker.on_reply(still_out, now) {
                            self.up();
                        }
                    }
                    Err(error) => break redis::RedisError::to_string(&error),
                },
                Some(result) = glances.next(), if !glances.is_empty() => match result {
                    Ok(()) => {
                        let still_out = !unanswered.is_empty() || self.vigil.is_asking();
                        if breaker.on_reply(still_out || !glances.is_empty(), self.context.clock.now()) {
                            self.up();
                        }
                    }
                    Err(error) => break redis::RedisError::to_string(&error),
                },
                () = self.vigil.chosen(), if self.vigil.awaits_founding() => vigilant = true,
                () = pushes.flushed.notified() => {}
                () = pushes.closed.notified() => break "closed by the server".into(),
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
                count = self.queue.recv_many(&mut outgoing.new, BATCH), if open && outgoing.new.is_empty() => {
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
                // Last, behind what was submitted before; and not into a transaction.
                Some(glance) = self.glances.recv(), if is_outside => asked = Some(glance),
            }
            // Whoever acquires because of it comes behind the look.
            if pushes.take_flush() {
                self.vigil.on_flushed();
                vigilant = true;
            }
            let is_between = unanswered.is_empty() && glances.is_empty() && !outgoing.is_inside();
            if ladder.has_transactions() && is_between {
                // Transactions and glances take turns: neither shall keep the other out.
                glances_turn = !glances_turn;
                if glances_turn {
                    asked = asked.or_else(|| self.glances.try_recv().ok());
                }
            }
            if let Some(glance) = asked.take_if(|glance| !glance.is_given_up()) {
                glances.push_back(glancing::look(connection.clone(), glance));
                breaker.on_written(self.context.clock.now());
            }
            if ladder.has_transactions() && !(unanswered.is_empty() && glances.is_empty()) {
                // A transaction is alone on its connection while it lasts.
                continue;
            }
            if !outgoing.is_inside() {
                let acquiring = outgoing.acquires();
                if std::mem::take(&mut vigilant) || acquiring {
                    let now = self.context.clock.now();
                    if let Some(ask) = self.vigil.poll(now, acquiring, &self.context) {
                        looks.push_back(send(connection.clone(), marker::pipeline(&ask)));
                        breaker.on_written(now);
                    }
                }
            }
            if let Some((sent, pipeline)) = self.compose(id, &mut outgoing, &ladder) {
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
        let sent = unanswered.into_iter().flatten().chain(outgoing.again);
        let sent = sent.map(|sent| sent.request);
        for request in sent.chain(outgoing.new) {
            self.gate.answered(1);
            request.fail(Unsent::NotConnected, Some(Arc::clone(&reason)));
        }
    }

    /// Claims what is still wanted and makes one pipeline of it.
    fn compose(
        &self,
        id: ConnectionId,
        outgoing: &mut Outgoing,
        ladder: &Ladder,
    ) -> Option<(Vec<Sent>, Pipeline)> {
        if std::mem::take(&mut outgoing.leave) {
            let mut pipeline = Pipeline::with_capacity(1);
            transaction::leave(&mut pipeline);
            return Some((Vec::new(), pipeline));
        }
        let mut sent: Vec<Sent> = Vec::new();
        let now = self.context.clock.now();
        let tells = self.gate.tells();
        while sent.is_empty() && !(outgoing.new.is_empty() && outgoing.again.is_empty()) {
            let (again, new) = outgoing.next(ladder);
            sent.reserve(again.saturating_add(new));
            sent.extend(outgoing.again.drain(..again));
            for request in outgoing.new.drain(..new) {
                if !self.vigil.admits(request.command(), now) {
                    self.gate.answered(1);
                    request.fail(Unsent::Quarantined, self.gate.standing().error);
                    continue;
                }
                let form = ladder.form(&request);
                let watching = Watching::of(&request, tells);
                match request.claim(id) {
                    Some(request) => sent.push(Sent::new(request, form, watching)),
                    None => self.gate.answered(1),
                }
            }
        }
        if sent.is_empty() {
            return None;
        }
        let mut pipeline = Pipeline::with_capacity(sent.len());
        for sent in &mut sent {
            let before = pipeline.len();
            match sent.form {
                Form::Watch(_) => transaction::watch(&mut pipeline, &sent.request),
                Form::Change(_) => transaction::change(&mut pipeline, &sent.request),
                form @ (Form::Plain
                | Form::DelEx
                | Form::DelIfEq
                | Form::SetIfEq
                | Form::Hash
                | Form::Text) => {
                    let command = commands::command(&sent.request, form);
                    watching::compose(&mut pipeline, sent, command);
                }
            }
            sent.replies = pipeline.len().saturating_sub(before);
        }
        Some((sent, pipeline))
    }

    /// Hands out the replies of one pipeline. Returns whether the connection is of further use.
    fn answer(
        &mut self,
        mut sent: Vec<Sent>,
        values: &[Value],
        now: Moment,
        outgoing: &mut Outgoing,
        ladder: &mut Ladder,
    ) -> bool {
        match sent.last() {
            None => return transaction::has_left(values.last()),
            Some(last) if last.form.is_transaction() => {
                // It was alone.
                let sent = sent.pop();
                return sent.is_none_or(|sent| self.answer_half(sent, values, now, outgoing));
            }
            Some(_) => {}
        }
        let mut rest = values;
        for mut sent in sent {
            let replies;
            (replies, rest) = rest.split_at(sent.replies.min(rest.len()));
            let value = watching::answer(&sent, replies).unwrap_or(&Value::Nil);
            let command = sent.request.command();
            if let Some(form) = ladder.next(&sent.request, sent.form, value)
                && sent.request.is_wanted()
            {
                sent.form = form;
                outgoing.again.push_back(sent);
                continue;
            }
            if watching::is_refused(&sent, replies) {
                self.tells(false);
            }
            let (vote, error) = commands::vote(&sent.request, value);
            let vote = watching::complete(&sent, vote, replies);
            self.gate.answered(1);
            let (vote, error) = self.vigil.vouch(command, vote, error, now);
            sent.request.answer(vote, error, now);
        }
        true
    }

    /// The replies to one half of a transaction.
    fn answer_half(
        &self,
        mut sent: Sent,
        values: &[Value],
        now: Moment,
        outgoing: &mut Outgoing,
    ) -> bool {
        let (next, tries, has_left) = match sent.form {
            Form::Change(tries) => {
                let next = transaction::on_changed(&sent.request, tries, values);
                (next, tries, transaction::has_left(values.last()))
            }
            Form::Watch(tries) => {
                let next = transaction::on_watched(&sent.request, values);
                (next, tries, true)
            }
            Form::Plain | Form::DelEx | Form::DelIfEq | Form::SetIfEq | Form::Hash | Form::Text => {
                return true;
            }
        };
        match next {
            Next::Change => {
                sent.form = Form::Change(tries);
                outgoing.again.push_front(sent);
            }
            Next::Again(tries) => {
                sent.form = Form::Watch(tries);
                outgoing.again.push_front(sent);
            }
            Next::Vote {
                vote,
                error,
                inside,
            } => {
                outgoing.leave = inside;
                self.gate.answered(1);
                sent.request.answer(vote, error, now);
            }
        }
        has_left
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
