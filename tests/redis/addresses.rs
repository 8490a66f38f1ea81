//! The ways to name a node, and that no secret gets out.

use std::time::Duration;

use redis::Client;
use redlock_quorum::testkit::fleet::{Fleet, Options};
use redlock_quorum::{BuildError, Redlock};

use crate::support::{
    acquire_everywhere, ask, builder, flavor, fleet, ms, released_everywhere, run, server, soon,
    text, warm_up,
};

const PASSWORD: &str = "p@ss:w/o?rd #%";
const SECRET: &str = "sesame-open-42";

async fn works(redlock: &Redlock) {
    warm_up(redlock).await;
    let guard = acquire_everywhere(redlock, "resource").await;
    guard.extend(ms(30_000)).await.unwrap();
    assert!(!guard.release().await.unwrap().already_gone);
}

#[test]
fn unix_sockets() {
    run(async {
        for options in [Options::new(), Options::new().password(PASSWORD)] {
            let fleet = Fleet::with(&flavor(), 3, &options.unix_socket()).unwrap();
            let urls = fleet.iter().map(|server| server.unix_url().unwrap());
            works(&builder(urls).build().unwrap()).await;
            released_everywhere(&fleet, 0).await;
        }
    });
}

#[test]
fn a_password() {
    run(async {
        let fleet = Fleet::with(&flavor(), 3, &Options::new().password(PASSWORD)).unwrap();
        works(&builder(fleet.urls()).build().unwrap()).await;
        released_everywhere(&fleet, 0).await;
    });
}

async fn works_as_a_user_with(rules: &str) -> Fleet {
    let fleet = fleet(3);
    for server in &fleet {
        let mut words = vec!["ACL", "SETUSER", "locker"];
        words.extend(rules.split(' '));
        ask(server, &words);
    }
    let urls = fleet
        .iter()
        .map(|server| format!("redis://locker:secret@127.0.0.1:{}", server.port()));
    let redlock = builder(urls).prefix("locks:").build().unwrap();
    works(&redlock).await;
    released_everywhere(&fleet, 0).await;
    fleet
}

/// A user who may do what a lock needs and no more: scripts cannot be loaded, only sent.
#[test]
fn a_user_with_few_rights() {
    run(async {
        let rules = "on >secret ~locks:* ~redlock-quorum:* +set +get +del +pttl +pexpire +eval \
                     +evalsha +time +info";
        let fleet = works_as_a_user_with(rules).await;
        let settings = text(&fleet[0], &["GET", "redlock-quorum:config:locks:"]);
        assert_eq!(settings.as_deref(), Some("3|60000"));
    });
}

/// Without a marker there is no quarantine, and that is all.
#[test]
fn a_user_with_fewer_rights() {
    run(async {
        let rules = "on >secret ~locks:* +set +get +del +pttl +pexpire +eval +evalsha";
        works_as_a_user_with(rules).await;
    });
}

#[test]
fn a_database() {
    run(async {
        let fleet = fleet(3);
        let urls: Vec<_> = fleet.urls().iter().map(|url| format!("{url}/3")).collect();
        let redlock = builder(urls.clone()).build().unwrap();
        works(&redlock).await;
        let guard = acquire_everywhere(&redlock, "resource").await;
        for (server, url) in fleet.iter().zip(&urls) {
            assert_eq!(
                text(server, &["GET", "resource"]),
                None,
                "not in database 0"
            );
            let mut connection = Client::open(url.as_str())
                .unwrap()
                .get_connection()
                .unwrap();
            let token: String = redis::cmd("GET")
                .arg("resource")
                .query(&mut connection)
                .unwrap();
            assert_eq!(token, guard.token().as_str());
        }
        guard.release().await.unwrap();
        released_everywhere(&fleet, 0).await;
    });
}

#[test]
fn ready_clients() {
    run(async {
        let fleet = fleet(3);
        let mut builder = builder([fleet[0].url()]);
        for server in fleet.iter().skip(1) {
            builder = builder.node_client(Client::open(server.url()).unwrap());
        }
        works(&builder.build().unwrap()).await;
        released_everywhere(&fleet, 0).await;
    });
}

/// Everything that might be printed of a client whose passwords are all wrong, or not even part of
/// a URL.
#[test]
fn passwords_and_tokens_are_never_shown() {
    run(async {
        let mut shown = Vec::new();
        let server = server(Options::new().password("another"));
        let url = format!("redis://:{SECRET}@127.0.0.1:{}", server.port());
        let builder = builder([url.clone()]);
        shown.push(format!("{builder:?} {builder:#?}"));
        let redlock = builder.build().unwrap();
        shown.push(format!("{redlock:?}"));
        for _ in 0..2 {
            let request = redlock.try_acquire("resource");
            shown.push(format!("{request:?}"));
            let error = soon(request).await.unwrap_err();
            shown.push(format!("{redlock:?} {error:?} {error:#?} {error}"));
            let mut source = std::error::Error::source(&error);
            while let Some(next) = source {
                shown.push(format!("{next:?} {next}"));
                source = next.source();
            }
        }
        for url in [
            format!("redis://:{SECRET}@127.0.0.1:port"),
            format!("http://:{SECRET}@127.0.0.1"),
            format!("redis://:{SECRET}@127.0.0.1/no-number"),
            format!("{SECRET} {SECRET}"),
        ] {
            let error = Redlock::builder().nodes([url]).build().unwrap_err();
            assert!(matches!(error, BuildError::InvalidUrl { place: 0, .. }));
            shown.push(format!("{error:?} {error}"));
        }
        let twice = Redlock::builder().nodes([url.clone(), url]).build();
        shown.push(format!("{:?}", twice.unwrap_err()));
        for text in shown {
            assert!(!text.contains(SECRET), "{text}");
        }

        let fleet = fleet(1);
        let redlock = crate::support::builder(fleet.urls()).build().unwrap();
        let guard = redlock.try_acquire("resource").await.unwrap();
        let token = guard.token().as_str().to_owned();
        let lost = guard.lost();
        let text = format!(
            "{redlock:?} {guard:?} {lost:?} {:?} {}",
            guard.tally(),
            guard.tally()
        );
        assert!(!text.contains(&token), "{text}");
        guard.release().await.unwrap();
        redlock.close(Duration::from_secs(5)).await;
    });
}
