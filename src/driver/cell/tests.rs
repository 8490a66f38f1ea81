use std::pin::pin;
use std::time::Duration;

use super::*;
use crate::Redlock;
use crate::testkit::memory::MemoryServer;

/// As if the process had stood still, and its other tasks ran before the watchdog.
#[tokio::test(start_paused = true)]
async fn law_5_a_heal_is_not_written_after_the_loss_whoever_has_noticed_it() {
    let ttl = Duration::from_secs(3);
    let redlock = Redlock::builder()
        .memory_nodes([MemoryServer::new(1).link()])
        .build()
        .unwrap();
    let guard = redlock.acquire("resource").ttl(ttl).await.unwrap();
    let engine = redlock.engine().unwrap();
    let cells = engine.living();
    let [cell] = cells.as_slice() else {
        panic!("one lock")
    };
    let heal = Command::Heal { ttl, ballot: None };
    assert!(cell.claim(0, heal));
    let mut passes = pin!(tokio::time::advance(ttl));
    assert!(futures::poll!(passes.as_mut()).is_pending());
    assert!(!cell.has_ended(), "nobody has noticed");
    assert!(!cell.claim(0, heal));
    drop(guard);
}
