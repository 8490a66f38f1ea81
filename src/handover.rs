//! Locks that were detached: taking them over, and releasing them.

use std::sync::Arc;

use crate::client::Redlock;
use crate::driver::attempt::Attempt;
use crate::driver::cell::{Cell, Mark};
use crate::error::{AttachError, InvalidRequest, ReleaseError};
use crate::guard::Guard;
use crate::guard_set::GuardSet;
use crate::held::{Held, Released, removed};
use crate::lease::Lease;
use crate::node::reconnect::CONNECT_TIMEOUT;
use crate::quorum::ballot;
use crate::quorum::hold::Hold;
use crate::quorum::renewal::Renewal;
use crate::quorum::round::Verdict;
use crate::resources::Resources;
use crate::token::Token;
use crate::unacquired::Unacquired;

impl Redlock {
    /// Takes over a lock that was [detached](Guard::detach), here or in another process: extends it
    /// by one round, for the lease's ttl from now on, and renews it until the guard goes, every third
    /// of that ttl. It lasts a round time-out at most, and while a new client connects up to 1 s more.
    ///
    /// Attaching one lease twice shares the lock: both guards hold it, and it goes with the first.
    /// Let neither extend it by hand to more than the lease's ttl: see [`Lease`].
    ///
    /// # Errors
    ///
    /// [`AttachError`]; each gives the lease back, and leaves the lock as it was. The lease of
    /// several resources is for [`attach_all`](Self::attach_all).
    ///
    /// # Cancel safety
    ///
    /// If dropped, the lock is left as it was, or extended; it ends with its ttl unless the lease
    /// is attached again. Keep a clone of the lease if that is to be possible.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(redlock: redlock_quorum::Redlock, lease: redlock_quorum::Lease) {
    /// match redlock.attach(lease).await {
    ///     Ok(guard) => println!("{} is ours now", guard.resource()),
    ///     Err(error) => println!("{error}; the lease is {:?}", error.clone().into_lease()),
    /// }
    /// # }
    /// ```
    pub async fn attach(&self, lease: Lease) -> Result<Guard, AttachError> {
        if lease.resources().len() > 1 {
            let problem = InvalidRequest::LeaseOfSet;
            return Err(AttachError::InvalidRequest { lease, problem });
        }
        self.take_over(lease).await.map(Guard::share)
    }

    /// Takes over a lock on several resources that was [detached](GuardSet::detach), as
    /// [`attach`](Self::attach) does one on a single resource. The lease of a single one will do: it
    /// is a set of one.
    ///
    /// # Errors
    ///
    /// [`AttachError`]; each gives the lease back, and leaves the lock as it was.
    ///
    /// # Cancel safety
    ///
    /// As for [`attach`](Self::attach).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(redlock: redlock_quorum::Redlock, lease: redlock_quorum::Lease)
    /// # -> Result<(), redlock_quorum::AttachError> {
    /// let guard = redlock.attach_all(lease).await?;
    /// println!("{} resources are ours now", guard.resources().len());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn attach_all(&self, lease: Lease) -> Result<GuardSet, AttachError> {
        self.take_over(lease).await.map(GuardSet::share)
    }

    /// What is in a lease, which may come from anywhere: only what could have been locked.
    fn open(&self, lease: &Lease) -> Result<(Resources, Token), InvalidRequest> {
        let (resources, token) = lease.open()?;
        self.config().check_resources(&resources)?;
        Ok((resources, token))
    }

    async fn take_over(&self, lease: Lease) -> Result<Arc<Held>, AttachError> {
        let checked = self.open(&lease).and_then(|opened| {
            self.config().check_ttl(lease.ttl())?;
            Ok((opened, self.engine()?))
        });
        let ((resources, token), engine) = match checked {
            Ok(checked) => checked,
            Err(problem) => return Err(AttachError::InvalidRequest { lease, problem }),
        };
        let began = engine.clock().now();
        engine.ready(began.after(CONNECT_TIMEOUT)).await;
        if engine.has_ended() {
            return Err(AttachError::Closed { lease });
        }
        let ballot = lease.ballot(ballot::memory(self.config().max_ttl));
        let terms = self
            .config()
            .terms(lease.ttl(), Renewal::default(), ballot, &engine);
        let mark = Mark::new(resources.keys(), token);
        let attempt = Attempt::start(&engine, mark, &terms, Hold::attach);
        let verdict = attempt.verdict().await;
        let how = || {
            let waited = engine.clock().now().since(began);
            Unacquired::new(&resources, attempt.tally(), waited)
        };
        match verdict {
            Some(Verdict::Won) => {
                let cell = attempt.keep();
                engine.queue().hold(&cell);
                Ok(Held::new(cell, resources, self.clone()))
            }
            Some(Verdict::Contended) => Err(AttachError::Gone { lease, how: how() }),
            Some(Verdict::NoQuorum | Verdict::TooLate) => {
                Err(AttachError::NoQuorum { lease, how: how() })
            }
            None => Err(AttachError::Closed { lease }),
        }
    }

    /// Releases a lock that was detached, of [one](Guard::detach) or [several](GuardSet::detach)
    /// resources, on all nodes. Returns when fewer than a quorum of nodes can still hold it; the rest
    /// is settled behind.
    ///
    /// # Errors
    ///
    /// As [`Guard::release`]; and [`ReleaseError::InvalidRequest`] or [`ReleaseError::Closed`] if
    /// nothing was sent.
    ///
    /// # Cancel safety
    ///
    /// If dropped after the nodes have been asked, the lock is released all the same.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(redlock: redlock_quorum::Redlock, lease: redlock_quorum::Lease)
    /// # -> Result<(), redlock_quorum::ReleaseError> {
    /// redlock.release_lease(lease).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn release_lease(&self, lease: Lease) -> Result<Released, ReleaseError> {
        let opened = self.open(&lease);
        let opened = opened.and_then(|opened| Ok((opened, self.engine()?)));
        let ((resources, token), engine) = opened.map_err(ReleaseError::InvalidRequest)?;
        engine
            .ready(engine.clock().now().after(CONNECT_TIMEOUT))
            .await;
        if engine.has_ended() {
            return Err(ReleaseError::Closed);
        }
        let ballot = lease.ballot(ballot::memory(self.config().max_ttl));
        // Where the lease tells no usable ttl, the longest: nobody may have asked for more.
        let (config, ttl) = (self.config(), lease.ttl());
        let ttl = config.check_ttl(ttl).map_or(config.max_ttl, |()| ttl);
        let terms = config.terms(ttl, Renewal::off(), ballot, &engine);
        let mark = Mark::new(resources.keys(), token);
        let cell = Cell::start(&engine, mark, &terms, Hold::disown);
        removed(&cell, None).await
    }
}
