use super::*;
use crate::error::InvalidRequest;
use crate::resources::Resources;

fn built(urls: &[&str]) -> Result<Redlock, BuildError> {
    Builder::default().nodes(urls.iter().copied()).build()
}

#[test]
fn the_list_of_nodes_is_checked() {
    assert!(matches!(built(&[]), Err(BuildError::NoNodes)));
    let many: Vec<String> = (0..32)
        .map(|node| format!("redis://10.0.0.{node}"))
        .collect();
    assert!(matches!(
        Builder::default().nodes(many).build(),
        Err(BuildError::TooManyNodes { count: 32 })
    ));
    let sockets = ["unix:///run/a.sock", "unix:///run/A.sock"];
    assert!(built(&sockets).is_ok(), "two files");
    for twice in [
        ["redis://a", "redis://A:6379"],
        ["redis://a/1", "redis://user:secret@a/2"],
        ["unix:///run/a.sock", "redis+unix:///run/a.sock?db=1"],
    ] {
        let error = built(&twice).unwrap_err();
        assert!(
            matches!(error, BuildError::DuplicateAddress { .. }),
            "{error}"
        );
        assert!(!error.to_string().contains("secret"));
    }
    assert!(built(&["redis://a", "redis://b:6379", "unix:///run/a.sock"]).is_ok());
}

#[test]
fn a_url_that_cannot_be_used_is_named_by_its_place_and_not_shown() {
    for url in [
        "",
        "http://user:secret@a",
        "redis//secret",
        "redis://a:secret",
        "redis://user:secret@a/x",
    ] {
        let error = built(&["redis://a", url]).unwrap_err();
        assert!(
            matches!(error, BuildError::InvalidUrl { place: 1, .. }),
            "{url}: {error:?}"
        );
        let shown = format!("{error} {error:?}");
        assert!(
            !shown.contains("secret") && !shown.contains('\n'),
            "{shown}"
        );
    }
}

#[test]
fn a_url_without_a_scheme_says_so() {
    let error = built(&["redis://a", "localhost:6379"]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the URL of node 1, counted from 0, cannot be used: it does not begin with redis://, rediss:// or unix://"
    );
    let error = Builder::from_vars(|_| None).build().unwrap_err();
    assert!(error.to_string().contains("REDLOCK_NODES"), "{error}");
}

#[test]
fn settings_are_checked() {
    let ms = Duration::from_millis;
    let builder = || Builder::default().nodes(["redis://a"]);
    assert!(builder().ttl(ms(20)).build().is_ok());
    let century = Duration::from_secs(36_500 * 86_400);
    assert!(builder().ttl(century).max_ttl(century).build().is_ok());
    assert!(
        builder()
            .ttl(ms(61_000))
            .max_ttl(ms(61_000))
            .build()
            .is_ok()
    );
    for (bad, setting) in [
        (builder().ttl(ms(19)), "ttl"),
        (builder().ttl(ms(60_001)), "ttl"),
        (builder().ttl(Duration::from_micros(20_500)), "ttl"),
        (builder().max_ttl(ms(19)), "max_ttl"),
        (builder().max_ttl(Duration::from_secs(u64::MAX)), "max_ttl"),
        (builder().round_timeout(ms(0)), "round_timeout"),
        (builder().prefix("redlock-quorum:fence:"), "prefix"),
        (builder().prefix("x".repeat(513)), "prefix"),
    ] {
        let error = bad.build().unwrap_err();
        assert!(
            matches!(error, BuildError::InvalidSetting { setting: s, .. } if s == setting),
            "{error}"
        );
    }
}

#[test]
fn resources_are_checked_with_their_prefix() {
    let redlock = Builder::default()
        .nodes(["redis://a"])
        .prefix("redlock-")
        .build()
        .unwrap();
    let config = redlock.config();
    let check = |resource: &str| {
        let resources = Resources::one(&config.prefix, resource);
        config.check_resources(&resources).map(|()| resources)
    };
    let keys = check("a").map(|resources| resources.keys().to_vec());
    assert_eq!(keys.as_deref(), Ok(&["redlock-a".into()][..]));
    assert_eq!(check(""), Err(InvalidRequest::EmptyResource));
    assert_eq!(
        check(&"x".repeat(513)),
        Err(InvalidRequest::ResourceTooLong { bytes: 513 })
    );
    assert!(check(&"x".repeat(512)).is_ok());
    assert_eq!(check("quorum:node"), Err(InvalidRequest::ReservedResource));
}

#[test]
fn round_timeouts_follow_the_ttl() {
    let ms = Duration::from_millis;
    let timeout = |ttl: u64, explicit: Option<u64>| {
        let mut builder = Builder::default().nodes(["redis://a"]);
        if let Some(explicit) = explicit {
            builder = builder.round_timeout(ms(explicit));
        }
        builder
            .build()
            .unwrap()
            .config()
            .round_timeout(ms(ttl))
            .as_millis()
    };
    assert_eq!(
        [20, 80, 400, 5_000, 60_000].map(|ttl| timeout(ttl, None)),
        [10, 40, 50, 500, 1000]
    );
    assert_eq!(
        [20, 80, 60_000].map(|ttl| timeout(ttl, Some(200))),
        [10, 40, 200]
    );
}

#[test]
fn the_environment_is_read_and_its_faults_are_told() {
    let env = |pairs: &'static [(&str, &str)]| {
        Builder::from_vars(move |name| {
            pairs
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).to_owned())
        })
    };
    let redlock = env(&[
        ("REDLOCK_NODES", "redis://a, redis://b ,"),
        ("REDLOCK_TTL", "3s"),
        ("REDLOCK_MAX_TTL", "30s"),
        ("REDLOCK_WAIT", "250ms"),
        ("REDLOCK_PREFIX", "p:"),
        ("REDLOCK_ROUND_TIMEOUT", "70ms"),
        ("REDLOCK_FENCED", "true"),
        ("REDLOCK_RESTART_GUARD", " Strict"),
    ]);
    assert_eq!(redlock.restart_guard, RestartGuard::Strict);
    let redlock = redlock.build().unwrap();
    let config = redlock.config();
    assert_eq!(
        (config.ttl, config.max_ttl),
        (Duration::from_secs(3), Duration::from_secs(30))
    );
    assert_eq!(
        (config.wait, config.prefix.as_str()),
        (Wait::For(Duration::from_millis(250)), "p:")
    );
    assert_eq!(config.round_timeout, Some(Duration::from_millis(70)));
    assert!(config.fenced && !built(&["redis://a"]).unwrap().config().fenced);
    let error = env(&[("REDLOCK_NODES", "redis://a"), ("REDLOCK_FENCED", "maybe")]).build();
    assert!(error.unwrap_err().to_string().contains("REDLOCK_FENCED"));
    let error = env(&[("REDLOCK_NODES", "redis://a"), ("REDLOCK_TTL", "soon")])
        .build()
        .unwrap_err();
    assert!(
        error.to_string().starts_with("REDLOCK_TTL cannot be read"),
        "{error}"
    );
    let error = env(&[
        ("REDLOCK_NODES", "redis://a"),
        ("REDLOCK_RESTART_GUARD", "on"),
    ])
    .build()
    .unwrap_err();
    let told = "REDLOCK_RESTART_GUARD is none of observed, strict and off";
    assert_eq!(error.to_string(), told);
}

#[test]
fn a_persistent_node_is_found_by_its_address_or_added() {
    let marked = |persistent: &[&str]| {
        let builder = Builder::default().nodes(["redis://a", "redis://user:secret@b:7000/2"]);
        let mut builder = persistent
            .iter()
            .fold(builder, |builder, url| builder.persistent_node(*url));
        let names = builder.mark_persistent();
        names.map(|names| (names.into_iter().collect::<Vec<_>>(), builder.nodes.len()))
    };
    assert_eq!(marked(&[]).unwrap(), (vec![], 2));
    let found = marked(&["redis://A:6379/", "redis://b:7000"]).unwrap();
    assert_eq!(found, (vec!["a:6379".into(), "b:7000".into()], 2));
    let added = marked(&["redis://c", "redis://c"]).unwrap();
    assert_eq!(added, (vec!["c:6379".into()], 3));
    let error = marked(&["http://user:secret@a"]).unwrap_err();
    assert!(
        matches!(error, BuildError::InvalidUrl { place: 2, .. }),
        "{error:?}"
    );
    assert!(!error.to_string().contains("secret"));
}
