//! A section that runs while a lock is held.

use std::cell::Cell;
use std::time::Duration;

use futures::FutureExt;
use redlock_quorum::{LossCause, UsingError};

use crate::world::{World, ms};

#[tokio::test(start_paused = true)]
async fn the_section_runs_under_the_lock_and_its_output_comes_back() {
    let world = World::new(3);
    let (ours, theirs) = (world.client(), world.stranger());
    let mut log = Vec::new();
    let output = ours
        .acquire("a")
        .using(async |guard| {
            assert_eq!(guard.resource(), "a");
            assert!(theirs.try_acquire("a").await.unwrap_err().is_contended());
            log.push("done");
            7
        })
        .await;
    assert!(matches!(output, Ok(7)));
    assert_eq!(log, ["done"]);
    world.is_soon_empty("the lock is released").await;
}

#[tokio::test(start_paused = true)]
async fn a_section_ends_where_it_is_when_the_lock_is_lost() {
    let world = World::new(3);
    let redlock = world.client();
    let steps = Cell::new(0);
    let outcome = redlock
        .acquire("a")
        .ttl(ms(3000))
        .using(async |_| {
            loop {
                if steps.get() == 20 {
                    for link in &world.links {
                        link.partition(true);
                    }
                }
                tokio::time::sleep(ms(100)).await;
                steps.set(steps.get() + 1);
            }
        })
        .await;
    let outcome: Result<(), UsingError<()>> = outcome;
    assert!(matches!(outcome, Err(UsingError::Lost(LossCause::Expired))));
    assert!((35..55).contains(&steps.get()), "{}", steps.get());
}

/// It never looks up from its work, so nothing can drop it.
#[tokio::test(start_paused = true)]
async fn law_5_a_section_that_ends_after_the_loss_is_told_so() {
    let world = World::new(3);
    let redlock = world.client();
    let outcome = redlock
        .acquire("a")
        .ttl(ms(3000))
        .using(async |guard| {
            let mut passes = std::pin::pin!(tokio::time::advance(ms(3000)));
            assert!(futures::poll!(passes.as_mut()).is_pending());
            assert_eq!(guard.loss(), Some(LossCause::Expired));
        })
        .await;
    assert!(
        matches!(outcome, Err(UsingError::Lost(LossCause::Expired))),
        "{outcome:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_section_goes_on_while_an_extension_is_slow() {
    let world = World::new(3);
    let outcome = world
        .client()
        .acquire("a")
        .ttl(ms(3000))
        .using(async |guard| {
            let mut longest = Duration::ZERO;
            for round in 0..100 {
                if round % 10 == 5 {
                    world.servers.iter().for_each(|server| server.freeze());
                }
                if round % 10 == 8 {
                    world.servers.iter().for_each(|server| server.thaw());
                }
                let before = crate::life::now();
                tokio::time::sleep(ms(100)).await;
                longest = longest.max(crate::life::now() - before);
            }
            (longest, guard.loss())
        })
        .await;
    let (longest, loss) = outcome.unwrap();
    assert!(longest <= ms(101), "{longest:?}");
    assert_eq!(loss, None);
}

#[tokio::test(start_paused = true)]
async fn a_section_that_did_not_begin_is_told_from_one_that_did() {
    let world = World::new(3);
    let _guard = world.stranger().acquire("a").await.unwrap();
    let outcome = world
        .client()
        .try_acquire("a")
        .using(async |_| unreachable!("it does not begin"))
        .await;
    assert!(matches!(outcome, Err::<(), _>(UsingError::Acquire(error)) if error.is_contended()));
}

#[tokio::test(start_paused = true)]
async fn the_output_is_kept_if_the_release_is_not_confirmed() {
    let world = World::new(3);
    let outcome = world
        .client()
        .acquire("a")
        .using(async |_| {
            world.links.iter().for_each(|link| link.partition(true));
            "output"
        })
        .await;
    let Err(UsingError::Release { output, source }) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(output, "output");
    assert!(source.to_string().contains("not confirmed"));
}

#[tokio::test(start_paused = true)]
async fn a_panic_releases_and_goes_on() {
    let world = World::new(3);
    let redlock = world.client();
    let section = redlock
        .acquire("a")
        .using(async |_| -> () { panic!("of the section") });
    let panicked = std::panic::AssertUnwindSafe(section).catch_unwind().await;
    assert!(panicked.is_err());
    world.is_soon_empty("the lock is released").await;
}

#[tokio::test(start_paused = true)]
async fn a_using_can_be_spawned_and_dropped() {
    let world = World::new(3);
    let redlock = world.client();
    let task = tokio::spawn(async move {
        redlock
            .acquire("a")
            .using(async |_| std::future::pending::<()>().await)
            .await
    });
    tokio::time::sleep(ms(500)).await;
    assert!(!world.is_empty());
    task.abort();
    world.is_soon_empty("the lock is released").await;
}
