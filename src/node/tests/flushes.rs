//! A node that tells of a flush is looked at without delay.

use super::rig::{Client, KEY, Master, Told, acquire};
use crate::node::Link;
use crate::quorum::trust::amnesia::RestartGuard;
use crate::quorum::vote::{Unsent, Vote};

const QUARANTINED: Told = Told::Link(Link::Quarantined { decided: true }, true);

async fn guarded(master: &Master) -> Client {
    let mut client = Client::start(1, master, RestartGuard::Observed, "");
    client.hears(&Told::Link(Link::Up, true)).await;
    client
}

/// An idle client looks at a marker with its next acquire, not by itself: so it was the flush.
#[tokio::test]
async fn a_flush_that_is_told_quarantines_without_any_acquire() {
    for master in Master::all() {
        let mut client = guarded(&master).await;
        master.flush();
        client.hears(&Told::Touched(None)).await;
        client.hears(&QUARANTINED).await;
        let refused = client.tries(KEY, acquire(0), false).await;
        assert_eq!(refused, Err(Unsent::Quarantined));
    }
}

/// A flush wakes those who wait, and what it has made them forget must not be granted again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_acquires_because_of_a_flush_is_not_granted() {
    for master in Master::all() {
        let mut client = guarded(&master).await;
        master.set("somebody", None);
        client.watches(acquire(0)).await;
        master.flush();
        client.hears(&Told::Touched(None)).await;
        let tried = client.tries(KEY, acquire(0), true).await;
        assert!(!matches!(tried, Ok(Vote::Granted)), "{tried:?}");
        client.hears(&QUARANTINED).await;
    }
}
