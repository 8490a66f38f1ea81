//! This crate, by its public interface.

use std::time::Duration;

use redlock_quorum::{Drained, Guard, Redlock};

use crate::contender::{Contender, Failure};

#[derive(Clone)]
pub(crate) struct Ours {
    redlock: Redlock,
}

impl Ours {
    pub(crate) fn new(urls: &[String]) -> Result<Self, Failure> {
        let redlock = Redlock::builder().nodes(urls).build()?;
        Ok(Self { redlock })
    }

    pub(crate) async fn close(self) -> Drained {
        self.redlock.close(Duration::from_secs(2)).await
    }
}

impl Contender for Ours {
    type Held = Guard;

    async fn acquire(&self, resource: &str) -> Result<Guard, Failure> {
        Ok(self.redlock.try_acquire(resource).await?)
    }

    async fn release(&self, guard: Guard) -> Result<(), Failure> {
        if guard.release().await?.already_gone {
            return Err("the lock was gone before its release".into());
        }
        Ok(())
    }
}
