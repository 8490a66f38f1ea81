//! What is compared.

use std::error::Error;
use std::future::Future;

pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// Something that takes a lock on a quorum of nodes and gives it back.
pub(crate) trait Contender: Clone + Send + Sync + 'static {
    type Held: Send;

    /// Makes one attempt.
    fn acquire(&self, resource: &str) -> impl Future<Output = Result<Self::Held, Failure>> + Send;

    /// Returns when a quorum of nodes has confirmed it.
    fn release(&self, held: Self::Held) -> impl Future<Output = Result<(), Failure>> + Send;
}
