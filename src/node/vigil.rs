//! What a node's driver keeps of its trust: the decisions are the core's, the waking is done here.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::{Context, Link};
use crate::quorum::hold::Command;
use crate::quorum::trust::amnesia::{Ask, Guarding, Trust};
use crate::quorum::trust::founding::Founding;
use crate::quorum::trust::marker::Look;
use crate::quorum::validity::Moment;
use crate::quorum::vote::Vote;

/// What all nodes of a client share to find out whether they are all new.
#[derive(Debug)]
pub(crate) struct Founders {
    // A std mutex: nothing is awaited and nobody is called back under it.
    state: Mutex<Founding>,
    /// One for each node: it is to be polled.
    chosen: Box<[Notify]>,
}

impl Founders {
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            state: Mutex::new(Founding::new(nodes)),
            chosen: (0..nodes).map(|_| Notify::new()).collect(),
        }
    }

    fn state(&self) -> MutexGuard<'_, Founding> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self, founds: bool) {
        if founds {
            self.chosen.iter().for_each(Notify::notify_one);
        }
    }
}

/// Watches one node for its driver.
#[derive(Debug)]
pub(crate) struct Vigil {
    trust: Trust,
    founders: Arc<Founders>,
    node: usize,
}

impl Vigil {
    pub(crate) fn new(guarding: Guarding, context: &Context) -> Self {
        Self {
            trust: Trust::new(context.node, guarding),
            founders: Arc::clone(&context.founders),
            node: context.node,
        }
    }

    /// The marker was asked for at `asked_at`, with everything else.
    pub(crate) fn on_introduced(
        &mut self,
        run_id: Option<Arc<str>>,
        look: Look,
        asked_at: Moment,
        now: Moment,
    ) {
        let mut founding = self.founders.state();
        let founds = self
            .trust
            .on_introduced(run_id, look, asked_at, now, &mut founding);
        drop(founding);
        self.founders.wake(founds);
    }

    pub(crate) fn on_look(&mut self, look: Look, now: Moment) {
        let mut founding = self.founders.state();
        let founds = self.trust.on_look(look, now, &mut founding);
        drop(founding);
        self.founders.wake(founds);
    }

    /// The node says that it was flushed: poll again.
    pub(crate) const fn on_flushed(&mut self) {
        self.trust.on_flushed();
    }

    pub(crate) fn on_away(&mut self) {
        self.trust.on_away(&mut self.founders.state());
    }

    /// What is to be asked now; `acquiring`: ahead of an acquire that is about to be written.
    pub(crate) fn poll(&mut self, now: Moment, acquiring: bool, context: &Context) -> Option<Ask> {
        let needed = || acquiring || context.observer.is_busy();
        let chosen = || self.founders.state().take(self.node);
        self.trust.poll(now, needed, chosen)
    }

    pub(crate) fn next_deadline(&self) -> Option<Moment> {
        self.trust.next_deadline()
    }

    pub(crate) const fn is_asking(&self) -> bool {
        self.trust.is_asking()
    }

    pub(crate) const fn awaits_founding(&self) -> bool {
        self.trust.awaits_founding()
    }

    /// Comes when the fleet is to be founded.
    pub(crate) async fn chosen(&self) {
        match self.founders.chosen.get(self.node) {
            Some(chosen) => chosen.notified().await,
            None => std::future::pending().await,
        }
    }

    pub(crate) fn is_denied(&self) -> bool {
        self.trust.is_denied()
    }

    /// The link of a connection that answers, and why it does not take everything.
    pub(crate) fn link(&self, now: Moment) -> (Link, Option<String>) {
        if self.trust.is_trusted(now) {
            (Link::Up, None)
        } else {
            let decided = !self.trust.is_undecided();
            (Link::Quarantined { decided }, Some(self.trust.reason()))
        }
    }

    /// May this command be written to it?
    pub(crate) fn admits(&self, command: Command, now: Moment) -> bool {
        !matches!(command, Command::Acquire { .. }) || self.trust.is_trusted(now)
    }

    /// A grant of a node that has turned out to be forgetful meanwhile is none.
    pub(crate) fn vouch(
        &self,
        command: Command,
        vote: Vote,
        error: Option<Arc<str>>,
        now: Moment,
    ) -> (Vote, Option<Arc<str>>) {
        if vote == Vote::Granted && !self.admits(command, now) {
            (Vote::Unknown, Some(self.trust.reason().into()))
        } else {
            (vote, error)
        }
    }
}
