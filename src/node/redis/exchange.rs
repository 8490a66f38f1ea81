//! Requests out, replies in: what one write carries, and what its replies mean.

use redis::{Pipeline, Value};

use super::commands;
use super::connection::Driver;
use super::ladder::{Form, Ladder};
use super::outgoing::{Outgoing, Sent};
use super::sets;
use super::transaction::{self, Next};
use super::watching::{self, Watching};
use crate::quorum::ledger::ConnectionId;
use crate::quorum::validity::Moment;
use crate::quorum::vote::Unsent;

impl Driver {
    /// Claims what is still wanted and makes one pipeline of it.
    pub(super) fn compose(
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
    pub(super) fn answer(
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
            sent.request.blocked(sets::in_way(&sent.request, value));
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
