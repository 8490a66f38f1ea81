//! Settings that have been checked, and what follows from them for a request.

use std::time::Duration;

use crate::driver::engine::Engine;
use crate::error::{BuildError, InvalidRequest};
use crate::quorum::ballot::Ballot;
use crate::quorum::hold::Terms;
use crate::quorum::own_keys::RESERVED;
use crate::quorum::renewal::Renewal;
use crate::quorum::validity;
use crate::request::Wait;
use crate::resources::Resources;

pub(crate) const SHORTEST_TTL: Duration = Duration::from_millis(20);
pub(crate) const MOST_NODES: usize = 31;
/// In bytes, as is the prefix.
pub(crate) const LONGEST_RESOURCE: usize = 512;
pub(crate) const MOST_RESOURCES: usize = 64;
const DAY: u64 = 86_400;

/// About a hundred years: times counted in nanoseconds stay exact with it, and what servers are asked
/// to remember for longer still is in their range.
pub(crate) const LONGEST_TTL: Duration = Duration::from_secs(36_500 * DAY);

/// Settings that have been checked.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) ttl: Duration,
    pub(crate) max_ttl: Duration,
    pub(crate) wait: Wait,
    pub(crate) prefix: String,
    pub(crate) round_timeout: Option<Duration>,
    pub(crate) fenced: bool,
}

impl Config {
    pub(crate) fn check(&self) -> Result<(), BuildError> {
        let invalid =
            |setting, problem: String| Err(BuildError::InvalidSetting { setting, problem });
        if self.max_ttl < SHORTEST_TTL || !is_whole_millis(self.max_ttl) {
            return invalid(
                "max_ttl",
                format!("is {:?}: whole milliseconds, at least 20ms", self.max_ttl),
            );
        }
        if self.max_ttl > LONGEST_TTL {
            let days = LONGEST_TTL.as_secs() / DAY;
            return invalid(
                "max_ttl",
                format!("is {:?}: at most {days} days", self.max_ttl),
            );
        }
        if let Err(problem) = self.check_ttl(self.ttl) {
            return invalid("ttl", format!("cannot be used: {problem}"));
        }
        if self.round_timeout.is_some_and(|timeout| timeout.is_zero()) {
            return invalid("round_timeout", "is zero".into());
        }
        if self.prefix.len() > LONGEST_RESOURCE {
            return invalid("prefix", format!("has more than {LONGEST_RESOURCE} bytes"));
        }
        if self.prefix.starts_with(RESERVED) {
            return invalid(
                "prefix",
                format!("begins with {RESERVED}, which is reserved"),
            );
        }
        Ok(())
    }

    pub(crate) fn check_ttl(&self, ttl: Duration) -> Result<(), InvalidRequest> {
        if ttl < SHORTEST_TTL {
            Err(InvalidRequest::TtlTooShort { ttl })
        } else if ttl > self.max_ttl {
            Err(InvalidRequest::TtlTooLong {
                ttl,
                max_ttl: self.max_ttl,
            })
        } else if is_whole_millis(ttl) {
            Ok(())
        } else {
            Err(InvalidRequest::TtlNotWholeMillis { ttl })
        }
    }

    /// May these resources be locked?
    pub(crate) fn check_resources(&self, resources: &Resources) -> Result<(), InvalidRequest> {
        match resources.keys().len() {
            0 => return Err(InvalidRequest::NoResources),
            1..=MOST_RESOURCES => {}
            count => return Err(InvalidRequest::TooManyResources { count }),
        }
        for (resource, key) in resources.iter().zip(&**resources.keys()) {
            match resource.len() {
                0 => return Err(InvalidRequest::EmptyResource),
                bytes if bytes > LONGEST_RESOURCE => {
                    return Err(InvalidRequest::ResourceTooLong { bytes });
                }
                _ if key.starts_with(RESERVED) => return Err(InvalidRequest::ReservedResource),
                _ => {}
            }
        }
        Ok(())
    }

    /// What a lock of this ttl is asked for with.
    pub(crate) fn terms(
        &self,
        ttl: Duration,
        renewal: Renewal,
        ballot: Option<Ballot>,
        engine: &Engine,
    ) -> Terms {
        let (round_timeout, jitter) = (self.round_timeout(ttl), engine.entropy().jitter());
        Terms {
            ttl,
            round_timeout,
            renewal,
            jitter,
            ballot,
        }
    }

    /// How long a round for this ttl waits for votes.
    pub(crate) fn round_timeout(&self, ttl: Duration) -> Duration {
        self.round_timeout.map_or_else(
            || validity::round_timeout(ttl),
            |timeout| timeout.min(ttl / 2),
        )
    }
}

const fn is_whole_millis(duration: Duration) -> bool {
    duration.subsec_nanos().is_multiple_of(1_000_000)
}
