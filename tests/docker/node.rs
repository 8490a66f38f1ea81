//! One node in a container, on a port of 127.0.0.1.
#![expect(
    clippy::disallowed_methods,
    reason = "containers are waited for in real time"
)]

use std::collections::HashMap;
use std::env;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use redis::{Client, RedisResult};
use testcontainers::bollard::models::{HostConfig, PortBinding};
use testcontainers::core::IntoContainerPort as _;
use testcontainers::core::client::docker_client_instance;
use testcontainers::runners::AsyncRunner as _;
use testcontainers::{ContainerAsync, GenericImage, ImageExt as _};
use tokio::time::{sleep, timeout};

const PORT: u16 = 6379;
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a command may take before the node counts as unreachable.
const REPLY: Duration = Duration::from_secs(2);

pub(crate) fn image() -> String {
    env::var("REDLOCK_REDIS_IMAGE").unwrap_or_else(|_| "redis:8".to_owned())
}

/// Whether a container engine answers; tells when none does.
pub(crate) async fn engine_answers() -> bool {
    let answer = match docker_client_instance().await {
        Ok(engine) => engine
            .ping()
            .await
            .map(drop)
            .map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    if let Err(error) = &answer {
        eprintln!("skipped: no container engine answers ({error})");
    }
    answer.is_ok()
}

/// A node that keeps its data over a stop and a start. It is removed when it is dropped.
pub(crate) struct Node {
    container: ContainerAsync<GenericImage>,
    port: u16,
}

impl Node {
    pub(crate) async fn start() -> Self {
        let image = image();
        let (name, tag) = image
            .rsplit_once(':')
            .filter(|(_, tag)| !tag.contains('/'))
            .unwrap_or((&image, "latest"));
        let port = free_port();
        let started = GenericImage::new(name, tag)
            .with_exposed_port(PORT.tcp())
            .with_cmd([
                "redis-server",
                "--save",
                "",
                "--appendonly",
                "yes",
                "--appendfsync",
                "always",
            ])
            .with_label(
                "redlock-quorum.run",
                env::var("REDLOCK_TEST_RUN").unwrap_or_default(),
            )
            .with_host_config_modifier(move |host| publish(host, port))
            .start()
            .await;
        let container = started.unwrap_or_else(|error| {
            panic!(
                "cannot start a container of {image}: {error}\nwithout a registry, run scripts/build-test-image and \
                 set REDLOCK_REDIS_IMAGE=redlock-quorum/redis:test"
            )
        });
        let node = Self { container, port };
        node.until_it_answers().await;
        node
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Freezes all processes of the container: the engine still accepts connections for it.
    pub(crate) async fn pause(&self) {
        self.container
            .pause()
            .await
            .expect("the container is paused");
    }

    pub(crate) async fn unpause(&self) {
        self.container
            .unpause()
            .await
            .expect("the container goes on");
    }

    /// Ends the server at once, as a crash does.
    pub(crate) async fn stop(&self) {
        self.container
            .stop_with_timeout(Some(0))
            .await
            .expect("the container stops");
    }

    pub(crate) async fn start_again(&self) {
        self.container
            .start()
            .await
            .expect("the container starts again");
        self.until_it_answers().await;
    }

    /// Runs one command over a connection of its own.
    pub(crate) async fn command(&self, words: &[&str]) -> RedisResult<redis::Value> {
        let exchange = async {
            let mut connection = Client::open(self.url())?
                .get_multiplexed_async_connection()
                .await?;
            redis::cmd(words[0])
                .arg(&words[1..])
                .query_async(&mut connection)
                .await
        };
        let late = |_| Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into());
        timeout(REPLY, exchange).await.unwrap_or_else(late)
    }

    async fn until_it_answers(&self) {
        let started = Instant::now();
        while let Err(error) = self.command(&["PING"]).await {
            assert!(
                started.elapsed() < PATIENCE,
                "the node does not answer: {error}"
            );
            sleep(Duration::from_millis(20)).await;
        }
    }
}

/// A port that is the same after a stop and a start, so it is chosen here and not by the engine; and
/// from below those that the kernel gives to outgoing connections, lest one takes it meanwhile.
fn free_port() -> u16 {
    let ports = std::iter::repeat_with(|| rand::random_range(16_384..32_768_u16));
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    ports.take(64).find(is_free).expect("some port is free")
}

fn publish(host: &mut HostConfig, port: u16) {
    let binding = PortBinding {
        host_ip: Some("127.0.0.1".to_owned()),
        host_port: Some(port.to_string()),
    };
    host.publish_all_ports = Some(false);
    host.port_bindings = Some(HashMap::from([(
        format!("{PORT}/tcp"),
        Some(vec![binding]),
    )]));
}
