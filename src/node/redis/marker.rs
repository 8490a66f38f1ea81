//! The marker, and the settings that all clients share, as Redis commands.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Pipeline, RedisError, Value, from_redis_value};

use crate::quorum::own_keys::{MARKER, config_key};
use crate::quorum::trust::amnesia::{Ask, Guarding};
use crate::quorum::trust::marker::{Look, Sighting};

/// What the builder knows and a driver needs for it.
#[derive(Clone, Debug)]
pub(crate) struct Marking {
    pub(crate) guarding: Guarding,
    config_key: Arc<str>,
    config: Arc<str>,
}

impl Marking {
    pub(crate) fn new(guarding: Guarding, prefix: &str, nodes: usize, max_ttl: Duration) -> Self {
        Self {
            guarding,
            config_key: config_key(prefix).into(),
            config: format!("{nodes}|{}", max_ttl.as_millis()).into(),
        }
    }

    /// With the introduction: the settings, the marker, the time.
    pub(super) fn introduce(&self, pipeline: &mut Pipeline) {
        pipeline.cmd("GET").arg(&*self.config_key);
        look(pipeline);
    }

    /// The settings of another client of these nodes, if they are not ours; leaves ours where there
    /// are none.
    pub(super) async fn compare(
        &self,
        connection: &mut MultiplexedConnection,
        found: Option<&Value>,
    ) -> Result<Option<String>, RedisError> {
        let mut config = found.and_then(text);
        if found == Some(&Value::Nil) {
            let mut pipeline = Pipeline::with_capacity(2);
            let set = pipeline.cmd("SET").arg(&*self.config_key);
            set.arg(&*self.config).arg("NX");
            pipeline.cmd("GET").arg(&*self.config_key);
            let replies = connection.send_packed_commands(&pipeline, 0, 2).await?;
            config = replies.last().and_then(text);
        }
        Ok(config.filter(|config| **config != *self.config))
    }

    pub(super) fn ours(&self) -> &str {
        &self.config
    }
}

fn look(pipeline: &mut Pipeline) {
    pipeline.cmd("GET").arg(MARKER);
    pipeline.cmd("TIME");
}

pub(super) fn pipeline(ask: &Ask) -> Pipeline {
    let mut pipeline = Pipeline::with_capacity(3);
    if let Ask::Write {
        marker,
        only_if_missing,
    } = ask
    {
        let set = pipeline.cmd("SET").arg(MARKER).arg(marker);
        if *only_if_missing {
            set.arg("NX");
        }
    }
    look(&mut pipeline);
    pipeline
}

/// What the last replies of a pipeline tell about the marker.
pub(super) fn read(replies: &[Value]) -> Look {
    let Some((before, [marker, time])) = replies.split_last_chunk::<2>() else {
        return Look {
            sighting: Sighting::Unreadable,
            server_time: None,
        };
    };
    let sighting = if is_error(marker, "NOPERM") || before.iter().any(|it| is_error(it, "NOPERM")) {
        Sighting::Denied
    } else if *marker == Value::Nil {
        Sighting::Missing
    } else if is_error(marker, "WRONGTYPE") {
        // A key of another type is no marker: it will be replaced.
        Sighting::Found("".into())
    } else {
        text(marker).map_or(Sighting::Unreadable, |text| Sighting::Found(text.into()))
    };
    let server_time = from_redis_value::<(u64, u64)>(time.clone()).ok();
    Look {
        sighting,
        server_time: server_time
            .map(|(seconds, micros)| seconds.saturating_mul(1000).saturating_add(micros / 1000)),
    }
}

fn is_error(reply: &Value, code: &str) -> bool {
    matches!(reply, Value::ServerError(error) if error.code() == code)
}

fn text(reply: &Value) -> Option<String> {
    matches!(reply, Value::BulkString(_) | Value::SimpleString(_))
        .then(|| from_redis_value(reply.clone()).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn replies_are_read_from_the_end() {
        let time = Value::Array(vec![bulk("1764511200"), bulk("123456")]);
        let look = read(&[Value::Okay, bulk("a|0"), time.clone()]);
        assert_eq!(look.sighting, Sighting::Found("a|0".into()));
        assert_eq!(look.server_time, Some(1_764_511_200_123));
        assert_eq!(read(&[Value::Nil, time]).sighting, Sighting::Missing);
        let look = read(&[Value::Nil, Value::Nil]);
        assert_eq!((look.sighting, look.server_time), (Sighting::Missing, None));
        assert_eq!(read(&[]).sighting, Sighting::Unreadable);
    }
}
