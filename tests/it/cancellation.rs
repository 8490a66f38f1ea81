//! A dropped acquire leaves nothing behind: whenever it is dropped, and whatever the nodes do.

use std::future::{Future, IntoFuture, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use redlock_quorum::testkit::memory::{CutFate, Effect, Latency};
use redlock_quorum::{Refusal, Wait};

use crate::world::{ONE_WAY, World, ms, warm};

const KEY: &str = "resource";

/// What a node does while the request lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behaviour {
    Grant,
    Held,
    Refused,
    Error,
    Slow,
    Never,
    GrantedButReplyLost,
}

use Behaviour::{Error, Grant, GrantedButReplyLost, Held, Never, Refused, Slow};

const ALL: [Behaviour; 7] = [
    Grant,
    Held,
    Refused,
    Error,
    Slow,
    Never,
    GrantedButReplyLost,
];

fn combinations() -> impl Iterator<Item = [Behaviour; 3]> {
    ALL.into_iter().flat_map(|a| {
        ALL.into_iter()
            .flat_map(move |b| ALL.into_iter().map(move |c| [a, b, c]))
    })
}

fn begin(world: &World, behaviours: [Behaviour; 3]) {
    for ((server, link), behaviour) in world.servers.iter().zip(&world.links).zip(behaviours) {
        match behaviour {
            Grant => {}
            Held => server.set(KEY, "somebody else", None),
            Refused => server.refuse(Some(Refusal::Loading)),
            Error => server.fail_with_error(Some(Effect::Applied)),
            Slow => link.set_latency(Latency::fixed(ms(45)), Latency::fixed(ms(45))),
            Never => link.block_requests(true),
            GrantedButReplyLost => {
                link.block_replies(true);
                let link = link.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(ONE_WAY * 3).await;
                    link.cut(CutFate::Executed);
                    link.block_replies(false);
                });
            }
        }
    }
}

fn heal(world: &World, behaviours: [Behaviour; 3]) {
    for ((server, link), behaviour) in world.servers.iter().zip(&world.links).zip(behaviours) {
        match behaviour {
            Grant | Slow => {}
            Held => server.delete(KEY),
            Refused => server.refuse(None),
            Error => server.fail_with_error(None),
            Never => link.block_requests(false),
            GrantedButReplyLost => link.block_replies(false),
        }
    }
}

/// Runs one scenario: connects, lets the nodes misbehave, drops the request where `drop_it` says,
/// heals, and looks.
async fn scenario<F: Future<Output = bool>>(
    behaviours: [Behaviour; 3],
    wait: Wait,
    drop_it: impl FnOnce(redlock_quorum::Acquiring) -> F,
) -> bool {
    let world = World::new(3);
    let redlock = world.client();
    // Connected, so that what is tested is the acquisition.
    warm(&redlock).await;
    world.is_soon_empty("the warm-up is gone").await;
    begin(&world, behaviours);
    let finished = drop_it(redlock.acquire(KEY).wait(wait).into_future()).await;
    heal(&world, behaviours);
    let context = format!("{behaviours:?}, {wait:?}");
    world.is_soon_empty(&context).await;
    let guard = redlock
        .acquire(KEY)
        .await
        .unwrap_or_else(|error| panic!("{context}: {error}"));
    guard.release().await.unwrap();
    world.is_soon_empty(&context).await;
    // Long enough for a node that was cut off to be back, and its debts paid.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let drained = redlock.close(Duration::from_secs(5)).await;
    assert!(drained.is_complete(), "{context}: {drained:?}");
    finished
}

/// Drops it after so long. Whatever it returned by then is dropped with it.
async fn after(offset: Duration, request: redlock_quorum::Acquiring) -> bool {
    tokio::time::timeout(offset, request).await.is_ok()
}

/// Drops it after so many polls.
async fn after_polls(polls: u32, request: redlock_quorum::Acquiring) -> bool {
    let mut request = pin!(request);
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(false);
        }
        left -= 1;
        match request.as_mut().poll(context) {
            Poll::Ready(_outcome) => Poll::Ready(true),
            // It is dropped now, not at its next wake-up.
            Poll::Pending if left == 0 => Poll::Ready(false),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn a_dropped_acquire_leaves_nothing_at_any_offset() {
    for behaviours in combinations() {
        // Three round trips in twenty steps.
        for step in 0..20 {
            let offset = ONE_WAY * 6 * step / 19;
            scenario(behaviours, Wait::Once, |request| after(offset, request)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_acquire_leaves_nothing_after_any_number_of_polls() {
    for behaviours in combinations() {
        let mut polls = 0;
        while !scenario(behaviours, Wait::Once, |request| {
            after_polls(polls, request)
        })
        .await
        {
            polls += 1;
            assert!(polls < 50, "{behaviours:?}: it does not end");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_waiter_leaves_nothing_between_its_attempts() {
    for behaviours in [
        [Held, Held, Grant],
        [Held, Grant, Never],
        [Refused, Error, Grant],
        [Slow, Held, Held],
    ] {
        for offset in (0..600).step_by(7) {
            scenario(behaviours, Wait::Forever, |request| {
                after(ms(offset), request)
            })
            .await;
        }
    }
}
