//! The public interface as programs are written against it: this compiles, or the contract is broken.

use std::error::Error;
use std::future::{Future, IntoFuture};
use std::time::{Duration, Instant};

use redlock_quorum::{
    Acquire, AcquireAll, AcquireError, AttachError, BuildError, Builder, Drained, ExtendError,
    FencingToken, Guard, GuardSet, Inspection, InvalidRequest, Lease, LossCause, Lost, Owner,
    Redlock, ReleaseError, Released, Renewal, RestartGuard, Tally, Token, UsingError, Wait, redis,
};

use crate::world::{World, ms};

const fn is_shared<T: Clone + Send + Sync + 'static>() {}
const fn is_sent<T: Send + 'static>() {}
const fn is_held<T: Send + Sync + 'static>() {}
const fn is_error<T: Error + Clone + Send + Sync + 'static>() {}

fn travels<T>(future: impl Future<Output = T> + Send + 'static) -> impl Future<Output = T> + Send {
    future
}

#[test]
fn types_can_be_sent_shared_and_cloned_as_promised() {
    is_shared::<Redlock>();
    is_shared::<Lost>();
    is_shared::<Lease>();
    is_shared::<Tally>();
    is_shared::<Token>();
    is_held::<Guard>();
    is_held::<GuardSet>();
    is_held::<Owner>();
    is_sent::<Acquire>();
    is_sent::<AcquireAll>();
    is_sent::<<Acquire as IntoFuture>::IntoFuture>();
    is_sent::<<AcquireAll as IntoFuture>::IntoFuture>();
    is_error::<AcquireError>();
    is_error::<AttachError>();
    is_error::<ExtendError>();
    is_error::<InvalidRequest>();
    is_error::<ReleaseError>();
    is_held::<BuildError>();
    is_error::<UsingError<u32>>();
}

#[test]
fn a_client_is_built_without_nodes_or_a_runtime() -> Result<(), BuildError> {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.expect("a runtime");
    let client = redis::Client::open("redis://d:6379").expect("a client");
    let urls = ["redis://a:6379", "unix:///tmp/redis.sock"];
    let redlock: Redlock = Redlock::builder()
        .nodes(urls)
        .nodes(vec![String::from("redis://c:6379")])
        .node_client(client)
        .ttl(Duration::from_secs(10))
        .max_ttl(Duration::from_secs(60))
        .wait(Duration::from_secs(10))
        .prefix("locks:")
        .round_timeout(Duration::from_millis(200))
        .restart_guard(RestartGuard::Observed)
        .persistent_node("redis://c:6379")
        .fenced(false)
        .runtime(runtime.handle().clone())
        .build()?;
    let _from_env: fn() -> Builder = Builder::from_env;
    let _guards = [RestartGuard::Strict, RestartGuard::Off];
    let _ready = redlock.ready(Duration::from_secs(1));
    drop(redlock.clone());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_lock_lives_as_the_contract_says() -> Result<(), Box<dyn Error>> {
    let world = World::new(3);
    let redlock = world.client();
    let renewal = Renewal::every(ms(3000))
        .max_hold(ms(60_000))
        .max_renewals(9);
    let request: Acquire = redlock
        .acquire(String::from("invoices"))
        .ttl(ms(10_000))
        .wait(ms(500))
        .renewal(renewal)
        .fenced();
    let guard: Guard = tokio::spawn(request.into_future()).await??;
    assert_eq!(guard.resource(), "invoices");
    let _token: &Token = guard.token();
    let _tally: Tally = guard.tally();
    let fence: Option<FencingToken> = guard.fencing_token();
    let fence = fence.ok_or("fenced")?;
    let _number: u64 = fence.as_u64();
    assert!(fence <= fence && !fence.to_string().is_empty());
    let until: Instant = guard.valid_until();
    assert_eq!(guard.loss(), None);
    let lost: Lost = guard.lost();
    let watcher = tokio::spawn(lost.clone());
    let longer: Result<Instant, ExtendError> = guard.extend(ms(20_000)).await;
    assert!(longer? > until);
    let released: Result<Released, ReleaseError> = guard.release().await;
    let Released {
        already_gone,
        deleted,
        ..
    } = released?;
    assert!(!already_gone && deleted >= 2);
    assert_eq!(
        (lost.await, watcher.await?),
        (LossCause::Released, LossCause::Released)
    );
    let drained: Drained = redlock.close(ms(1000)).await;
    assert!(drained.is_complete(), "{drained:?}");
    let refused = redlock_is_closed(&world).await;
    assert!(matches!(refused, AcquireError::Closed), "{refused:?}");
    Ok(())
}

async fn redlock_is_closed(world: &World) -> AcquireError {
    let redlock = world.stranger();
    let clone = redlock.clone();
    redlock.close(ms(10)).await;
    clone.try_acquire("invoices").await.expect_err("closed")
}

#[tokio::test(start_paused = true)]
async fn waits_are_durations_once_or_forever() {
    let world = World::new(3);
    let redlock = world.client();
    for wait in [Wait::Once, Wait::For(ms(5)), Wait::Forever, ms(5).into()] {
        let guard = redlock.acquire("invoices").wait(wait).await.unwrap();
        guard.release().await.unwrap();
    }
    let renewals = [Renewal::every_third(), Renewal::off(), Renewal::default()];
    for renewal in renewals {
        let guard = redlock.try_acquire("invoices").renewal(renewal).await;
        guard.unwrap().release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn sections_borrow_the_guard_and_their_surroundings_also_in_a_task() {
    let world = World::new(3);
    let redlock = world.client();
    let (mut seen, name) = (Vec::new(), String::from("invoices"));
    let request = redlock.acquire("invoices");
    let output: Result<usize, UsingError<usize>> = request
        .using(async |guard: &Guard| {
            tokio::task::yield_now().await;
            seen.push(guard.resource().to_owned());
            name.len()
        })
        .await;
    assert_eq!(output.unwrap(), 8);
    assert_eq!(seen, ["invoices"]);

    let request = redlock.acquire("invoices");
    let section = travels(request.using(async move |guard| {
        tokio::task::yield_now().await;
        guard.loss().is_none() && name == guard.resource()
    }));
    assert!(tokio::spawn(section).await.unwrap().unwrap());

    let request = redlock.acquire_all(["b", "a"]);
    let section = travels(request.using(async |set: &GuardSet| {
        tokio::task::yield_now().await;
        set.resources().len()
    }));
    assert_eq!(tokio::spawn(section).await.unwrap().unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn sets_have_what_a_single_lock_has() {
    let world = World::new(3);
    let redlock = world.client();
    let request: AcquireAll = redlock
        .acquire_all(vec![
            String::from("b"),
            String::from("a"),
            String::from("b"),
        ])
        .ttl(ms(10_000))
        .wait(Wait::Forever)
        .renewal(Renewal::every_third())
        .fenced();
    let set: GuardSet = travels(request.into_future()).await.unwrap();
    assert!(set.resources().eq(["a", "b"]));
    let fences = ["a", "b", "c"].map(|resource| set.fencing_token(resource));
    assert!(fences[0].is_some() && fences[1].is_some() && fences[2].is_none());
    let _seen: (&Token, Tally, Instant, Option<LossCause>) =
        (set.token(), set.tally(), set.valid_until(), set.loss());
    let lost: Lost = set.lost();
    set.extend(ms(20_000)).await.unwrap();
    let lease: Lease = set.detach().unwrap();
    assert_eq!(lost.await, LossCause::Detached);
    let set: Result<GuardSet, AttachError> = redlock.attach_all(lease).await;
    let released: Released = set.unwrap().release().await.unwrap();
    assert!(!released.already_gone);
}

#[tokio::test(start_paused = true)]
async fn owners_nest_and_leases_travel() {
    let world = World::new(3);
    let redlock = world.client();
    let owner: Owner = redlock.owner();
    let outer: Guard = owner.acquire("invoices").await.unwrap();
    let inner: Guard = owner.try_acquire("invoices").await.unwrap();
    let inner: Guard = inner.detach().expect_err("nested");
    inner.release().await.unwrap();
    let _set: GuardSet = owner.acquire_all(["x", "y"]).await.unwrap();
    let lease: Lease = outer.detach().unwrap();
    let stranger = world.stranger();
    let guard: Guard = travels({
        let (stranger, lease) = (stranger.clone(), lease.clone());
        async move { stranger.attach(lease).await }
    })
    .await
    .unwrap();
    guard.release().await.unwrap();
    let failed: AttachError = stranger.attach(lease.clone()).await.unwrap_err();
    let lease: Lease = failed.into_lease();
    let released: Result<Released, ReleaseError> = stranger.release_lease(lease).await;
    assert!(released.unwrap().already_gone);
    let inspection: Inspection = stranger.inspect("invoices").await;
    assert!(!format!("{inspection:?}").is_empty());
}

/// `_` because every one of them may grow.
#[test]
#[expect(
    clippy::match_same_arms,
    reason = "variants are named so that they have to exist"
)]
fn errors_and_causes_have_the_variants_that_programs_match() {
    fn of_acquire(error: &AcquireError) -> Option<(Tally, Duration)> {
        match error {
            AcquireError::Contended(how)
            | AcquireError::NoQuorum(how)
            | AcquireError::TooLate(how) => Some((how.tally().clone(), how.waited())),
            AcquireError::InvalidRequest(_) | AcquireError::Lost(_) | AcquireError::Closed => None,
            _ => None,
        }
    }
    fn of_using(error: &UsingError<u8>) -> Option<u8> {
        match error {
            UsingError::Release { output, source: _ } => Some(*output),
            UsingError::Acquire(_) | UsingError::Lost(_) => None,
            _ => None,
        }
    }
    let causes = [
        LossCause::Expired,
        LossCause::Gone,
        LossCause::MaxHold,
        LossCause::Released,
        LossCause::Detached,
        LossCause::Closed,
    ];
    for cause in causes {
        assert!(of_acquire(&AcquireError::Lost(cause)).is_none());
        assert_eq!(of_using(&UsingError::Lost(cause)), None);
    }
    assert!(!AcquireError::Closed.is_contended() && !AcquireError::Closed.is_outage());
}
