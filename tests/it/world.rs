//! Memory nodes, a client, and conditions to wait for.

use std::time::Duration;

use redlock_quorum::testkit::memory::{Latency, MemoryLink, MemoryServer};
use redlock_quorum::{Acquire, Builder, Guard, Redlock, Renewal};

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// One way between client and node.
pub(crate) const ONE_WAY: Duration = ms(10);

pub(crate) struct World {
    pub(crate) servers: Vec<MemoryServer>,
    pub(crate) links: Vec<MemoryLink>,
}

impl World {
    pub(crate) fn new(nodes: u64) -> Self {
        Self::of((0..nodes).map(MemoryServer::new).collect())
    }

    pub(crate) fn of(servers: Vec<MemoryServer>) -> Self {
        let links = servers.iter().map(link).collect();
        Self { servers, links }
    }

    /// A client over the links of this world; the ttl is so long that nothing expires by itself.
    pub(crate) fn builder(&self) -> Builder {
        let ttl = Duration::from_secs(60);
        Redlock::builder()
            .memory_nodes(self.links.iter().cloned())
            .seed(7)
            .ttl(ttl)
    }

    pub(crate) fn client(&self) -> Redlock {
        self.builder().build().unwrap()
    }

    /// A second client, over links of its own.
    pub(crate) fn stranger(&self) -> Redlock {
        self.another(8)
    }

    /// One of several clients, over links of its own; the seed must be its own, too.
    pub(crate) fn another(&self, seed: u64) -> Redlock {
        let links = self.servers.iter().map(link);
        Self::client_of(links, seed)
    }

    /// The same, over links on which not every message takes the same time.
    pub(crate) fn unsteady(&self, seed: u64) -> Redlock {
        let unsteady = |server| {
            let link = link(server);
            let latency = Latency::fixed(ms(8)).with_jitter(ms(4));
            link.set_latency(latency, latency);
            link
        };
        Self::client_of(self.servers.iter().map(unsteady), seed)
    }

    fn client_of(links: impl Iterator<Item = MemoryLink>, seed: u64) -> Redlock {
        let builder = Redlock::builder().memory_nodes(links);
        builder.seed(seed).build().unwrap()
    }

    pub(crate) fn keys(&self) -> Vec<Vec<String>> {
        self.servers.iter().map(MemoryServer::keys).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.servers.iter().all(|server| server.keys().is_empty())
    }

    pub(crate) async fn is_soon_empty(&self, what: &str) {
        soon(what, || self.is_empty()).await;
    }
}

pub(crate) fn link(server: &MemoryServer) -> MemoryLink {
    let link = server.link();
    link.set_latency(Latency::fixed(ONE_WAY), Latency::fixed(ONE_WAY));
    link
}

/// Takes and releases a lock: from then on the nodes are connected.
pub(crate) async fn warm(redlock: &Redlock) {
    let guard = redlock.acquire("warm").await.unwrap();
    guard.release().await.unwrap();
}

/// A lock that lasts for this ttl, and is not renewed.
pub(crate) async fn unrenewed(request: Acquire, ttl: Duration) -> Guard {
    request.ttl(ttl).renewal(Renewal::off()).await.unwrap()
}

/// Waits for what must come within ten virtual seconds.
pub(crate) async fn soon(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..1000 {
        if condition() {
            return;
        }
        tokio::time::sleep(ms(10)).await;
    }
    panic!("this did not come: {what}");
}
