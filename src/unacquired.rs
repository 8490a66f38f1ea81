//! What is known of a lock that too few nodes granted, or confirmed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::quorum::tally::{NodeError, Tally};
use crate::resources::Resources;

/// What is known of an acquisition, an extension or an attachment that too few nodes agreed to: of
/// which lock, how the last round ended, and how long that took.
///
/// Its `Debug` is one line for people too: it is what they see when `main` returns the error.
#[derive(Clone)]
pub struct Unacquired(Arc<Known>);

struct Known {
    resources: Resources,
    tally: Tally,
    waited: Duration,
}

impl Unacquired {
    pub(crate) fn new(resources: &Resources, tally: Tally, waited: Duration) -> Self {
        Self(Arc::new(Known {
            resources: resources.clone(),
            tally,
            waited,
        }))
    }

    /// What the lock is on: one resource, or those of a set in ascending order.
    #[must_use]
    pub fn resources(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.resources.iter()
    }

    /// The votes of the last round.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.0.tally
    }

    /// How long the request lasted, from its first poll.
    #[must_use]
    pub fn waited(&self) -> Duration {
        self.0.waited
    }

    pub(crate) fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let error = self.tally().first_error();
        error.map(|error: &NodeError| error as _)
    }

    /// The lock's name in an error: on one line, and short for a set too.
    pub(crate) fn lock(&self) -> String {
        let mut resources = self.resources();
        let first = resources.next().unwrap_or_default().escape_debug();
        match resources.len() {
            0 => format!("the lock on {first}"),
            more => format!("the lock on {first} and {more} more"),
        }
    }

    /// How it ended, in an error.
    pub(crate) fn how(&self) -> String {
        let (waited, tally) = (self.waited().as_millis(), self.tally());
        format!("(waited {waited} ms; {tally})")
    }
}

impl fmt::Debug for Unacquired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.lock(), self.how())
    }
}
