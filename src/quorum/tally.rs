//! The tally: all votes of a round, and how they are shown.

use std::fmt;
use std::sync::Arc;

use super::vote::Vote;

/// What went wrong at one node, in one line without secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{node}: {message}")]
pub struct NodeError {
    node: Arc<str>,
    message: Arc<str>,
}

impl NodeError {
    pub(crate) const fn new(node: Arc<str>, message: Arc<str>) -> Self {
        Self { node, message }
    }

    /// Without the node's name.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }
}

/// All votes of one round, node by node.
///
/// A vote that was still on its way when the round was decided shows as pending; it is looked
/// after by the client, whatever it turns out to be.
#[derive(Clone, Debug)]
pub struct Tally {
    votes: Vec<NodeVote>,
    quorum: usize,
}

/// One node's line in a [`Tally`].
#[derive(Clone, Debug)]
pub struct NodeVote {
    node: Arc<str>,
    vote: Option<Vote>,
    error: Option<NodeError>,
}

impl NodeVote {
    /// The node's address, without user and password.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Its vote; `None` while it is pending.
    #[must_use]
    pub const fn vote(&self) -> Option<Vote> {
        self.vote
    }

    /// What went wrong there, where something did.
    #[must_use]
    pub const fn error(&self) -> Option<&NodeError> {
        self.error.as_ref()
    }
}

/// Its vote, and what went wrong, without the node's name.
impl fmt::Display for NodeVote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.vote {
            Some(vote) => vote.fmt(f)?,
            None => f.write_str("pending")?,
        }
        match &self.error {
            Some(error) => write!(f, " ({})", error.message),
            None => Ok(()),
        }
    }
}

impl Tally {
    pub(crate) fn new(
        names: &[Arc<str>],
        votes: impl IntoIterator<Item = (Option<Vote>, Option<Arc<str>>)>,
        quorum: usize,
    ) -> Self {
        let votes = names
            .iter()
            .zip(votes)
            .map(|(node, (vote, message))| NodeVote {
                node: Arc::clone(node),
                vote,
                error: message.map(|message| NodeError::new(Arc::clone(node), message)),
            })
            .collect();
        Self { votes, quorum }
    }

    /// How many grants make a quorum.
    #[must_use]
    pub const fn quorum(&self) -> usize {
        self.quorum
    }

    /// The nodes in the order in which they were configured, with their votes.
    #[must_use]
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = &NodeVote> {
        self.votes.iter()
    }

    /// How many nodes granted.
    #[must_use]
    pub fn granted(&self) -> usize {
        self.count(|vote| vote == Some(Vote::Granted))
    }

    /// At how many nodes somebody else was in the way (`Held` or `Stale`).
    #[must_use]
    pub fn contended(&self) -> usize {
        self.count(|vote| vote.is_some_and(Vote::is_contention))
    }

    /// How many votes were still on their way.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.count(|vote| vote.is_none())
    }

    /// The first node's error, in the order of the nodes.
    #[must_use]
    pub fn first_error(&self) -> Option<&NodeError> {
        self.votes.iter().find_map(NodeVote::error)
    }

    fn count(&self, which: impl Fn(Option<Vote>) -> bool) -> usize {
        self.votes.iter().filter(|line| which(line.vote)).count()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of {} granted, quorum {}",
            self.granted(),
            self.votes.len(),
            self.quorum
        )?;
        for (place, line) in self.votes.iter().enumerate() {
            f.write_str(if place == 0 { ": " } else { ", " })?;
            write!(f, "{} {line}", line.node)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::vote::Unsent;
    use super::*;

    #[test]
    fn a_tally_is_one_readable_line() {
        let names: Vec<Arc<str>> = ["a:1", "b:2", "c:3"].map(Arc::from).into();
        let votes = [
            (Some(Vote::Granted), None),
            (None, None),
            (
                Some(Vote::Unsent(Unsent::NotConnected)),
                Some(Arc::from("connection refused")),
            ),
        ];
        let tally = Tally::new(&names, votes, 2);
        assert_eq!(
            tally.to_string(),
            "1 of 3 granted, quorum 2: a:1 granted, b:2 pending, c:3 unsent, not connected \
             (connection refused)"
        );
        let lines: Vec<String> = tally.nodes().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "granted",
                "pending",
                "unsent, not connected (connection refused)"
            ]
        );
        assert_eq!(
            tally.first_error().map(ToString::to_string).as_deref(),
            Some("c:3: connection refused")
        );
    }
}
