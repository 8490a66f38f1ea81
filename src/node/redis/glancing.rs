//! Glances at keys, as Redis commands.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Pipeline, RedisResult, Value};

use crate::node::glance::{Glance, Glimpse};
use crate::quorum::majority::{Key, Seen};
use crate::quorum::own_keys::fence_key;

/// Asks, and answers; an error means that the connection is of no use.
pub(super) async fn look(mut connection: MultiplexedConnection, glance: Glance) -> RedisResult<()> {
    let pipeline = pipeline(glance.key());
    let count = pipeline.len();
    let replies = connection.send_packed_commands(&pipeline, 0, count).await?;
    glance.answer(read(&replies));
    Ok(())
}

/// The key twice: between the two its ttl is that of the token, if the token is the same.
fn pipeline(key: &str) -> Pipeline {
    let mut pipeline = Pipeline::with_capacity(4);
    pipeline.cmd("GET").arg(key);
    pipeline.cmd("PTTL").arg(key);
    pipeline.cmd("GET").arg(key);
    pipeline.cmd("GET").arg(fence_key(key));
    pipeline
}

fn read(replies: &[Value]) -> Glimpse {
    let [first, ttl, value, fence] = replies else {
        return Err(unexpected());
    };
    let key = if *value == Value::Nil {
        None
    } else if first == value {
        let (token, ttl) = (token(value)?, left(ttl)?);
        Some(Key { token, ttl })
    } else {
        return Err(changed());
    };
    // Where fence keys are denied, there are no fenced locks.
    let fence = bytes(fence).and_then(|fence| str::from_utf8(fence).ok());
    let fence = fence.and_then(|fence| fence.parse().ok());
    Ok(Seen { key, fence })
}

/// The value of a key that is there; `None`: it is of another type.
fn token(value: &Value) -> Result<Option<Box<str>>, Arc<str>> {
    if let Some(value) = bytes(value) {
        // Whatever others write, different values stay different.
        return Ok(Some(value.escape_ascii().to_string().into()));
    }
    let is_of_another_type =
        matches!(value, Value::ServerError(error) if error.code() == "WRONGTYPE");
    if is_of_another_type {
        Ok(None)
    } else {
        Err(explain(value))
    }
}

/// How long a key that is there still lives; `None`: for ever.
fn left(ttl: &Value) -> Result<Option<Duration>, Arc<str>> {
    let Value::Int(ttl) = ttl else {
        return Err(explain(ttl));
    };
    match u64::try_from(*ttl) {
        Ok(millis) => Ok(Some(Duration::from_millis(millis))),
        Err(_negative) if *ttl == -1 => Ok(None),
        Err(_gone) => Err(changed()),
    }
}

fn bytes(reply: &Value) -> Option<&[u8]> {
    let Value::BulkString(bytes) = reply else {
        return None;
    };
    Some(bytes)
}

fn changed() -> Arc<str> {
    "the key changed while it was looked at".into()
}

fn unexpected() -> Arc<str> {
    "unexpected reply".into()
}

fn explain(reply: &Value) -> Arc<str> {
    let Value::ServerError(error) = reply else {
        return unexpected();
    };
    let details = error.details().unwrap_or_default();
    let line = format!("{} {details}", error.code());
    line.trim_end().replace(['\r', '\n'], " ").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    fn seen(first: Value, ttl: i64, value: Value) -> String {
        let glimpse = read(&[first, Value::Int(ttl), value, bulk("17")]);
        match glimpse {
            Ok(Seen { key: None, fence }) => format!("free {fence:?}"),
            Ok(Seen { key: Some(key), .. }) => format!("{:?} {:?}", key.token, key.ttl),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_ttl_belongs_to_the_token_that_stood_there_before_and_after() {
        const CHANGED: &str = "the key changed while it was looked at";
        assert_eq!(seen(bulk("a"), 17, bulk("a")), r#"Some("a") Some(17ms)"#);
        assert_eq!(seen(bulk("a"), -1, bulk("a")), r#"Some("a") None"#);
        assert_eq!(seen(bulk("a"), 0, bulk("a")), r#"Some("a") Some(0ns)"#);
        assert_eq!(seen(bulk("a"), -2, Value::Nil), "free Some(17)");
        assert_eq!(seen(bulk("a"), 17, Value::Nil), "free Some(17)");
        assert_eq!(seen(Value::Nil, -2, Value::Nil), "free Some(17)");
        assert_eq!(seen(bulk("a"), 17, bulk("b")), CHANGED);
        assert_eq!(seen(Value::Nil, 17, bulk("b")), CHANGED);
        assert_eq!(seen(bulk("a"), -2, bulk("a")), CHANGED);
        assert_eq!(seen(bulk("a"), -2, Value::Okay), CHANGED);
        assert_eq!(read(&[]), Err("unexpected reply".into()));
    }

    #[test]
    fn values_that_are_no_text_stay_different() {
        let value = |byte| Value::BulkString(vec![byte]);
        assert_eq!(
            seen(value(255), 1, value(255)),
            r#"Some("\\xff") Some(1ms)"#
        );
        assert_ne!(
            seen(value(255), 1, value(255)),
            seen(value(254), 1, value(254))
        );
    }
}
