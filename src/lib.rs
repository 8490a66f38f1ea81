//! A Redlock quorum client for Rust.

mod builder;
mod client;
mod clock;
mod driver;
mod error;
mod guard;
mod node;
mod quorum;
mod request;
pub mod telemetry;
#[cfg(feature = "testkit")]
pub mod testkit;
mod token;

pub use redis;

pub use self::builder::Builder;
pub use self::client::{Drained, Redlock};
pub use self::error::{
    AcquireError, BuildError, ExtendError, InvalidRequest, ReleaseError, Unacquired, UsingError,
};
pub use self::guard::{Guard, Lost, Released};
pub use self::quorum::hold::LossCause;
pub use self::quorum::renewal::Renewal;
pub use self::quorum::vote::{NodeError, NodeVote, Refusal, Tally, Unsent, Vote};
pub use self::request::{Acquire, Acquiring, Wait};
pub use self::token::Token;
