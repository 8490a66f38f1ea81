//! Tokens, and where randomness comes from: law 6.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use rand::rngs::{StdRng, SysRng};
use rand::{Rng, TryRng};

/// The proof of ownership that is stored under the lock's key: 128 random bits as 32 hexadecimal
/// characters, fresh for every attempt.
///
/// It proves who owns a lock; it does not order owners. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Token(Arc<str>);

impl Token {
    pub(crate) fn from_bits(bits: u128) -> Self {
        Self(format!("{bits:032x}").into())
    }

    /// A token that was written down: 32 hexadecimal characters, in lower case.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        (text.len() == 32 && text.bytes().all(is_hex)).then(|| Self(text.into()))
    }

    /// The token as it stands on the nodes.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Where tokens and jitter come from.
#[derive(Debug, Default)]
pub(crate) enum Entropy {
    /// The operating system: tokens must not be guessed, and never repeat after a fork.
    #[default]
    Os,
    /// One seed, for runs that can be repeated.
    Seeded(Box<Mutex<StdRng>>),
}

impl Entropy {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self::Seeded(Box::new(Mutex::new(
            <StdRng as rand::SeedableRng>::seed_from_u64(seed),
        )))
    }

    /// A token that was never used before; `None` if the system has no randomness to give.
    pub(crate) fn token(&self) -> Option<Token> {
        let mut bits = [0; 16];
        match self {
            Self::Os => SysRng.try_fill_bytes(&mut bits).ok()?,
            Self::Seeded(rng) => rng
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .fill_bytes(&mut bits),
        }
        Some(Token::from_bits(u128::from_be_bytes(bits)))
    }

    /// A number for jitter, uniform over all of `u64`.
    pub(crate) fn jitter(&self) -> u64 {
        match self {
            Self::Os => rand::rng().next_u64(),
            Self::Seeded(rng) => rng
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .next_u64(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn law_6_tokens_are_32_hex_characters_and_never_repeat() {
        let tokens: HashSet<Token> = (0..10_000).map(|_| Entropy::Os.token().unwrap()).collect();
        assert_eq!(tokens.len(), 10_000);
        for token in &tokens {
            assert_eq!(token.as_str().len(), 32);
            assert!(
                token
                    .as_str()
                    .bytes()
                    .all(|b| b.is_ascii_hexdigit() && !b.is_ascii_uppercase())
            );
        }
    }

    #[test]
    fn debug_does_not_show_the_token() {
        let token = Token::from_bits(0xfeed);
        assert!(!format!("{token:?}").contains("feed"));
    }
}
