//! What is asked on a new connection before the first vote.

use std::collections::HashMap;
use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{Pipeline, RedisError, Value, cmd, from_redis_value};

use super::ladder::{Ladder, Origin};
use super::marker::{self, Marking};
use super::scripts;
use super::watching;
use crate::quorum::trust::marker::{Look, Sighting};
use crate::quorum::vote::Unsent;

/// What a server says about itself.
#[derive(Debug)]
pub(super) struct Facts {
    /// This connection's id at the server.
    pub(super) client_id: Option<i64>,
    /// Changes with every start of the server; `None` where `INFO` is denied.
    pub(super) run_id: Option<Arc<str>>,
    /// Keys may be evicted under memory pressure.
    pub(super) evicts: bool,
    pub(super) look: Look,
    /// Settings in which this client differs from others.
    pub(super) differs: Option<String>,
    role: String,
    mode: String,
    server: String,
    version: String,
    /// `CLIENT KILL` is allowed.
    kills: bool,
    /// It tells when a key changes that was watched.
    pub(super) tells: bool,
}

impl Facts {
    /// Where to begin in finding the forms of this server.
    pub(super) fn ladder(&self) -> Ladder {
        Ladder::new(Origin {
            server: &self.server,
            version: &self.version,
            finishes: self.kills && self.client_id.is_some() && self.run_id.is_some(),
        })
    }

    /// A server that is no independent master must not vote.
    pub(super) fn fitness(&self) -> Result<(), Unsent> {
        if !matches!(self.mode.as_str(), "" | "standalone") {
            Err(Unsent::Cluster)
        } else if !matches!(self.role.as_str(), "" | "master") {
            Err(Unsent::Replica)
        } else {
            Ok(())
        }
    }
}

impl Default for Facts {
    fn default() -> Self {
        Self {
            client_id: None,
            run_id: None,
            evicts: false,
            look: Look {
                sighting: Sighting::Unreadable,
                server_time: None,
            },
            differs: None,
            role: String::new(),
            mode: String::new(),
            server: String::new(),
            version: String::new(),
            kills: false,
            tells: false,
        }
    }
}

/// Asks a server who it is, and loads the scripts, and reads its marker. A denied
/// command leaves its fact unknown.
pub(super) async fn introduce(
    connection: &mut MultiplexedConnection,
    marking: &Marking,
) -> Result<Facts, RedisError> {
    let mut pipeline = Pipeline::with_capacity(13);
    pipeline.add_command(cmd("HELLO"));
    pipeline.cmd("INFO").arg("server");
    pipeline.cmd("INFO").arg("memory");
    for script in scripts::ALL {
        pipeline.cmd("SCRIPT").arg("LOAD").arg(script.text());
    }
    // No connection has this id: it only tells whether we may.
    pipeline.cmd("CLIENT").arg("KILL").arg("ID").arg(i64::MAX);
    watching::begin(&mut pipeline);
    let introduction = pipeline.len();
    marking.introduce(&mut pipeline);
    let mut replies = connection
        .send_packed_commands(&pipeline, 0, pipeline.len())
        .await?;
    let marked = replies.split_off(introduction.min(replies.len()));
    let mut facts = Facts {
        look: marker::read(marked.get(1..).unwrap_or_default()),
        differs: marking.compare(connection, marked.first()).await?,
        ..Facts::default()
    };
    let mut replies = replies.into_iter();
    // In the older protocol a server agrees as well, and never tells; this one it has accepted.
    facts.tells = matches!(replies.next_back(), Some(Value::Okay));
    facts.kills = matches!(replies.next_back(), Some(Value::Int(0)));
    if let Some(hello) = replies.next() {
        let hello: HashMap<String, Value> = from_redis_value(hello)?;
        let text = |field: &str| {
            hello
                .get(field)
                .and_then(|v| from_redis_value(v.clone()).ok())
        };
        facts.client_id = hello
            .get("id")
            .and_then(|v| from_redis_value(v.clone()).ok());
        facts.role = text("role").unwrap_or_default();
        facts.mode = text("mode").unwrap_or_default();
        facts.server = text("server").unwrap_or_default();
        facts.version = text("version").unwrap_or_default();
    }
    if let Some(server) = replies
        .next()
        .and_then(|info| from_redis_value::<String>(info).ok())
    {
        facts.run_id = field(&server, "run_id").map(Arc::from);
    }
    if let Some(memory) = replies
        .next()
        .and_then(|info| from_redis_value::<String>(info).ok())
    {
        let policy = field(&memory, "maxmemory_policy").unwrap_or("noeviction");
        facts.evicts = policy != "noeviction" && field(&memory, "maxmemory") != Some("0");
    }
    Ok(facts)
}

/// Sees to it that nothing more is executed of what old connections of ours carried. Returns
/// whether the server confirmed it for each of them.
pub(super) async fn kill(
    connection: &mut MultiplexedConnection,
    old: &[i64],
) -> Result<bool, RedisError> {
    let mut pipeline = Pipeline::with_capacity(old.len());
    for id in old {
        pipeline.cmd("CLIENT").arg("KILL").arg("ID").arg(id);
    }
    let replies = connection
        .send_packed_commands(&pipeline, 0, pipeline.len())
        .await?;
    // 1: it was there and is not any more; 0: it was gone already.
    Ok(replies
        .iter()
        .all(|reply| matches!(reply, Value::Int(0 | 1))))
}

fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .map(str::trim_end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let info = "# Server\r\nrun_id_x:1\r\nrun_id:abc\r\n";
        assert_eq!(field(info, "run_id"), Some("abc"));
        assert_eq!(field(info, "run"), None);
    }

    #[test]
    fn only_a_standalone_master_is_fit() {
        let facts = |role: &str, mode: &str| Facts {
            role: role.into(),
            mode: mode.into(),
            ..Facts::default()
        };
        assert_eq!(facts("master", "standalone").fitness(), Ok(()));
        assert_eq!(
            facts("replica", "standalone").fitness(),
            Err(Unsent::Replica)
        );
        assert_eq!(facts("slave", "standalone").fitness(), Err(Unsent::Replica));
        assert_eq!(facts("master", "cluster").fitness(), Err(Unsent::Cluster));
        assert_eq!(facts("master", "sentinel").fitness(), Err(Unsent::Cluster));
    }
}
