//! A caller that only has a token and keys.

use std::sync::Arc;

use crate::node::{Caller, Request};
use crate::quorum::hold::{Command, Reply};
use crate::quorum::validity::Moment;
use crate::token::Token;

pub(super) struct Stub(Token, Vec<Box<str>>);

impl Stub {
    pub(super) fn new(bits: u128, keys: &[&str]) -> Arc<Self> {
        let keys = keys.iter().map(|&key| key.into()).collect();
        Arc::new(Self(Token::from_bits(bits), keys))
    }

    pub(super) fn request(self: &Arc<Self>, command: Command) -> Request {
        Request::new(Arc::<Self>::clone(self), 0, command)
    }
}

impl Caller for Stub {
    fn keys(&self) -> &[Box<str>] {
        &self.1
    }

    fn token(&self) -> &Token {
        &self.0
    }

    fn watches(&self) -> bool {
        false
    }

    fn claim(&self, _node: usize, _command: Command) -> bool {
        true
    }

    fn on_reply(self: Arc<Self>, _: usize, _: Command, _: Reply, _: Option<Moment>) {}
}
