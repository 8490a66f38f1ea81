//! A node that is replaced by a server of another kind, on the same port, while the client runs.

use std::time::Duration;

use redlock_quorum::RestartGuard;
use redlock_quorum::testkit::fleet::{Flavor, Fleet, Options, ServerKind};

use super::nodes::calls;
use crate::support::{
    TWO_RECONNECTS, acquire_everywhere, builder, eventually, eventually_within, lock_keys, ms, run,
    text, warm_up,
};

async fn replaced(old: &Flavor, new: &Flavor) {
    let mut fleet = Fleet::with(old, 3, &Options::new()).unwrap();
    let urls = fleet.urls();
    // Its data is gone with it: only so does it vote again at once.
    let redlock = builder(&urls)
        .restart_guard(RestartGuard::Off)
        .ttl(Duration::from_secs(30))
        .build()
        .unwrap();
    warm_up(&redlock).await;
    let held = acquire_everywhere(&redlock, "held").await;
    for node in 0..3 {
        fleet[node].restart_as(new).unwrap();
        assert_eq!(fleet[node].flavor(), new);
        eventually_within(TWO_RECONNECTS, "it is used again", async || {
            held.extend(ms(50_000)).await.unwrap();
            text(&fleet[node], &["GET", "held"]).as_deref() == Some(held.token().as_str())
        })
        .await;
        let guard = acquire_everywhere(&redlock, "resource").await;
        guard.extend(ms(60_000)).await.unwrap();
        assert!(!guard.release().await.unwrap().already_gone);
        eventually("it is released everywhere", async || {
            fleet.iter().all(|server| lock_keys(server) == ["held"])
        })
        .await;
    }
    assert_eq!(held.loss(), None);
    held.release().await.unwrap();
    assert!(redlock.close(ms(5_000)).await.is_complete());
    for url in &urls {
        let is_native = new.kind() == ServerKind::Valkey9;
        assert_eq!(calls(url, "delifeq") > 0, is_native);
        assert_eq!(calls(url, "evalsha") > 0, !is_native);
    }
}

#[test]
fn a_node_replaced_by_another_version_gets_another_form() {
    run(async {
        let kinds = [ServerKind::Redis, ServerKind::Valkey9].map(Flavor::find);
        let [Some(redis), Some(valkey)] = kinds else {
            eprintln!("skipped: needs Redis and Valkey 9");
            return;
        };
        replaced(&redis, &valkey).await;
        replaced(&valkey, &redis).await;
    });
}
