//! A node that tells of a flush is looked at without delay.

use super::rig::{Client, Master, Told, acquire};
use crate::node::Link;
use crate::quorum::trust::amnesia::RestartGuard;

/// An idle client looks at a marker with its next acquire, not by itself: so it was the flush.
#[tokio::test]
async fn a_flush_that_is_told_quarantines_without_any_acquire() {
    for master in Master::all() {
        let mut client = Client::start(1, &master, RestartGuard::Observed, "");
        client.hears(&Told::Link(Link::Up, true)).await;
        master.flush();
        client.hears(&Told::Touched(None)).await;
        let quarantined = |decided| Told::Link(Link::Quarantined { decided }, true);
        client.hears(&quarantined(true)).await;
        let refused = client.refused(acquire(0));
        assert_eq!(refused, Some(crate::quorum::vote::Unsent::Quarantined));
    }
}
