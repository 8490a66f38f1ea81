//! What a node does about a command with a ballot, as a function.
//!
//! The memory node uses it, and the scripts of real nodes are tested against it.

use std::time::Duration;

use super::hold::Command;

/// What stands at a lock's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Nobody,
    Us,
    Another,
}

/// What a node does about a fenced command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ruling {
    pub(crate) answer: Answer,
    pub(crate) lock: Change,
    /// What becomes of C, and that it is remembered anew.
    pub(crate) fence: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Yes,
    Held,
    Stale,
}

/// What becomes of the lock key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    None,
    Set {
        ttl: Duration,
    },
    /// Its ttl grows to this, if it is shorter.
    Renew {
        ttl: Duration,
    },
    Delete,
}

/// The node-side rule; `None`: the command carries no ballot. `fence` is C, 0 where there is none.
pub(crate) fn rule(command: Command, owner: Owner, fence: u64) -> Option<Ruling> {
    let no = |answer| Ruling {
        answer,
        lock: Change::None,
        fence: None,
    };
    let yes = |lock, fence| Ruling {
        answer: Answer::Yes,
        lock,
        fence: Some(fence),
    };
    let number = command.ballot()?.number();
    let higher = number.max(fence);
    Some(match (command, owner) {
        (Command::Acquire { .. }, Owner::Us) if number == fence => Ruling {
            fence: None,
            ..yes(Change::None, fence)
        },
        (Command::Acquire { .. }, Owner::Nobody | Owner::Us)
            if number <= fence && !bug!(AnyBallotAccepted) =>
        {
            no(Answer::Stale)
        }
        (Command::Acquire { ttl, .. }, Owner::Nobody | Owner::Us) => {
            yes(Change::Set { ttl }, number)
        }
        (Command::Extend { ttl, .. } | Command::Heal { ttl, .. }, Owner::Us) => {
            yes(Change::Renew { ttl }, higher)
        }
        (Command::Extend { ttl, .. }, Owner::Nobody) if bug!(FencedExtensionRecreates) => {
            yes(Change::Set { ttl }, higher)
        }
        (Command::Heal { .. }, Owner::Nobody) if number < fence => no(Answer::Stale),
        (Command::Heal { ttl, .. }, Owner::Nobody) => yes(Change::Set { ttl }, number),
        (Command::Acquire { .. } | Command::Heal { .. }, Owner::Another)
        | (Command::Extend { .. }, Owner::Nobody | Owner::Another) => no(Answer::Held),
        (Command::Tombstone { ballot }, owner) => {
            let (answer, lock) = match owner {
                Owner::Us => (Answer::Yes, Change::Delete),
                Owner::Nobody | Owner::Another => (Answer::Held, Change::None),
            };
            Ruling {
                answer,
                lock,
                fence: Some(ballot.tombstone().max(fence)),
            }
        }
        (Command::Release, _) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::ballot::Ballot;
    use super::*;

    const TTL: Duration = Duration::from_secs(10);
    const MEMORY: Duration = Duration::from_secs(600);

    fn ballot(number: u64) -> Ballot {
        Ballot::new(number, MEMORY)
    }

    fn acquire(number: u64) -> Command {
        Command::Acquire {
            ttl: TTL,
            ballot: Some(ballot(number)),
        }
    }

    fn extend(number: u64) -> Command {
        Command::Extend {
            ttl: TTL,
            number: 1,
            ballot: Some(ballot(number)),
        }
    }

    fn heal(number: u64) -> Command {
        Command::Heal {
            ttl: TTL,
            ballot: Some(ballot(number)),
        }
    }

    fn tombstone(number: u64) -> Command {
        Command::Tombstone {
            ballot: ballot(number),
        }
    }

    #[test]
    fn the_rule_as_a_table() {
        use Answer::{Held, Stale, Yes};
        use Owner::{Another, Nobody, Us};
        const SET: Change = Change::Set { ttl: TTL };
        const RENEW: Change = Change::Renew { ttl: TTL };
        const NONE: Change = Change::None;
        let table = [
            // Accepted iff it is larger than C, and nobody else is there.
            (acquire(5), Nobody, 0, Yes, SET, Some(5)),
            (acquire(5), Nobody, 4, Yes, SET, Some(5)),
            (acquire(5), Nobody, 5, Stale, NONE, None),
            (acquire(5), Nobody, 6, Stale, NONE, None),
            (acquire(5), Another, 0, Held, NONE, None),
            (acquire(5), Another, 9, Held, NONE, None),
            // A key of our own is upgraded; the same ballot again is an idempotent yes.
            (acquire(5), Us, 4, Yes, SET, Some(5)),
            (acquire(5), Us, 5, Yes, NONE, None),
            (acquire(5), Us, 6, Stale, NONE, None),
            // An extension proves that the key has been there, and never sets it.
            (extend(5), Us, 5, Yes, RENEW, Some(5)),
            (extend(5), Us, 0, Yes, RENEW, Some(5)),
            (extend(5), Us, 7, Yes, RENEW, Some(7)),
            (extend(5), Nobody, 5, Held, NONE, None),
            (extend(5), Another, 6, Held, NONE, None),
            // A heal only where nothing larger was accepted since.
            (heal(5), Nobody, 0, Yes, SET, Some(5)),
            (heal(5), Nobody, 5, Yes, SET, Some(5)),
            (heal(5), Nobody, 6, Stale, NONE, None),
            (heal(5), Another, 5, Held, NONE, None),
            (heal(5), Us, 5, Yes, RENEW, Some(5)),
            // A tombstone counts whoever is there, and deletes our own key only.
            (tombstone(5), Us, 5, Yes, Change::Delete, Some(6)),
            (tombstone(5), Nobody, 0, Held, NONE, Some(6)),
            (tombstone(5), Another, 9, Held, NONE, Some(9)),
        ];
        for (command, owner, fence, answer, lock, after) in table {
            let expected = Ruling {
                answer,
                lock,
                fence: after,
            };
            let ruling = rule(command, owner, fence);
            assert_eq!(ruling, Some(expected), "{command:?} {owner:?} {fence}");
        }
        assert_eq!(rule(Command::Release, Us, 7), None);
        let plain = Command::Acquire {
            ttl: TTL,
            ballot: None,
        };
        assert_eq!(rule(plain, Nobody, 7), None);
    }
}
