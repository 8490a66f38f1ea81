//! What errors say.

use redlock_quorum::{AcquireError, Redlock, Renewal, UsingError};

use crate::world::{World, ms, soon, warm};

async fn refused(redlock: &Redlock, resources: &[&str]) -> AcquireError {
    let request = redlock.acquire_all(resources.iter().copied());
    let outcome = request.wait(redlock_quorum::Wait::Once).await;
    outcome.expect_err("it is not granted")
}

#[tokio::test(start_paused = true)]
async fn an_error_says_which_lock_and_how_each_node_voted() {
    let world = World::new(3);
    let (ours, theirs) = (
        world.builder().prefix("p:").build().unwrap(),
        world.another(8),
    );
    let guard = theirs.acquire("p:invoices").await.unwrap();
    soon("all votes are in", || guard.tally().pending() == 0).await;
    let error = ours.try_acquire("invoices").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the lock on invoices is held by somebody else (waited 60 ms; 0 of 3 granted, quorum 2: \
         memory:0 held, memory:1 held, memory:2 held)"
    );
    let AcquireError::Contended(how) = error else {
        panic!("{error}");
    };
    assert!(how.resources().eq(["invoices"]));
    let error = refused(&ours, &["pens", "invoices", "paper"]).await;
    let text = error.to_string();
    assert!(
        text.starts_with("the lock on invoices and 2 more is held by somebody else (waited"),
        "{text}"
    );
    let error = ours.try_acquire("invoices").using(async |_| ()).await;
    let Err(UsingError::Acquire(error)) = error else {
        panic!("{error:?}");
    };
    assert!(
        error
            .to_string()
            .starts_with("the lock on invoices is held"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_outage_says_for_which_lock() {
    let world = World::new(3);
    let redlock = world.client();
    warm(&redlock).await;
    let request = redlock.acquire("invoices").renewal(Renewal::off());
    let guard = request.await.unwrap();
    let lease = redlock.acquire("paper").await.unwrap().detach().unwrap();
    world.links.iter().for_each(|link| link.partition(true));
    tokio::time::sleep(ms(2500)).await;
    let said = |error: &dyn std::error::Error| {
        let text = error.to_string();
        text.split(" (").next().unwrap_or_default().to_owned()
    };
    let error = redlock.try_acquire("a\nb").await.unwrap_err();
    assert_eq!(said(&error), r"too few nodes answered for the lock on a\nb");
    let error = guard.extend(ms(60_000)).await.unwrap_err();
    assert_eq!(
        said(&error),
        "too few nodes confirmed the extension of the lock on invoices"
    );
    let error = redlock.attach(lease).await.unwrap_err();
    assert_eq!(said(&error), "too few nodes answered for the lock on paper");
}

#[tokio::test(start_paused = true)]
async fn an_error_that_main_returns_can_be_read() {
    let world = World::new(3);
    let redlock = world.client();
    let guard = redlock.acquire("a").await.unwrap();
    let error = redlock.try_acquire("a").await.unwrap_err();
    let shown = format!("{error:?}");
    assert!(
        shown.starts_with("Contended(the lock on a (waited 20 ms; 0 of 3 granted, quorum 2: "),
        "{shown}"
    );
    drop(guard);
}
