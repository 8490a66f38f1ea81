//! What a server says without being asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redis::{PushInfo, PushKind, Value};
use tokio::sync::Notify;

use crate::builder::RESERVED;
use crate::node::Observer;

/// What the driver of a connection is told of its pushes.
#[derive(Debug, Default)]
pub(super) struct Pushes {
    /// The server has closed the connection, also when no request is out.
    pub(super) closed: Notify,
    /// There is a flush to take.
    pub(super) flushed: Notify,
    was_flushed: AtomicBool,
}

impl Pushes {
    /// Takes the pushes, in the task that reads the connection: nothing here may take long.
    pub(super) fn receiver(
        self: &Arc<Self>,
        observer: Arc<dyn Observer>,
    ) -> impl Fn(PushInfo) -> Result<(), ()> + Send + Sync + use<> {
        let told = Arc::clone(self);
        move |push| {
            if push.kind == PushKind::Disconnection {
                told.closed.notify_one();
            } else if push.kind == PushKind::Invalidate {
                told.invalidated(&push.data, &*observer);
            }
            Ok(())
        }
    }

    /// Was the server flushed since the last call? Whoever has heard of it finds it true.
    pub(super) fn take_flush(&self) -> bool {
        self.was_flushed.swap(false, Ordering::Acquire)
    }

    fn invalidated(&self, data: &[Value], observer: &dyn Observer) {
        match data {
            [Value::Nil] => {
                self.was_flushed.store(true, Ordering::Release);
                self.flushed.notify_one();
                observer.on_touched(None);
            }
            [Value::Array(keys)] => {
                for key in keys.iter().filter_map(name) {
                    observer.on_touched(Some(key));
                }
            }
            _ => {}
        }
    }
}

/// The key of a lock. A fenced acquire reads a key of our own as well, which nobody waits for.
fn name(key: &Value) -> Option<&str> {
    let Value::BulkString(bytes) = key else {
        return None;
    };
    let key = std::str::from_utf8(bytes).ok()?;
    (!key.starts_with(RESERVED)).then_some(key)
}
