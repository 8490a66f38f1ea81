//! What a server says without being asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redis::{PushInfo, PushKind, Value};
use tokio::sync::Notify;

use crate::node::Observer;
use crate::quorum::own_keys::RESERVED;

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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use redis::parse_redis_value;

    use super::*;
    use crate::quorum::ledger::News;

    #[derive(Default)]
    struct Ear(Mutex<Vec<Option<String>>>);

    impl Observer for Ear {
        fn on_news(&self, _: News) {}

        fn on_link(&self) {}

        fn on_touched(&self, key: Option<&str>) {
            self.0.lock().unwrap().push(key.map(String::from));
        }

        fn is_busy(&self) -> bool {
            false
        }
    }

    /// What is told of a push, and whether it is a flush.
    fn told(push: &[u8]) -> (Vec<Option<String>>, bool) {
        let (pushes, ear) = (Arc::new(Pushes::default()), Arc::new(Ear::default()));
        let receiver = pushes.receiver(Arc::<Ear>::clone(&ear));
        let Value::Push { kind, data } = parse_redis_value(push).unwrap() else {
            panic!("a push")
        };
        receiver(PushInfo { kind, data }).unwrap();
        let told = std::mem::take(&mut *ear.0.lock().unwrap());
        (told, pushes.take_flush())
    }

    #[test]
    fn each_key_is_told_and_a_flush_once() {
        let keys = b">2\r\n$10\r\ninvalidate\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n";
        let both = ["a", "b"].map(|key| Some(key.to_owned()));
        assert_eq!(told(keys), (both.to_vec(), false));
        let flush = b">2\r\n$10\r\ninvalidate\r\n_\r\n";
        assert_eq!(told(flush), (vec![None], true));
    }

    #[test]
    fn what_is_no_key_of_a_lock_is_not_told() {
        let others =
            b">2\r\n$10\r\ninvalidate\r\n*2\r\n$2\r\n\xff\xfe\r\n$17\r\nredlock-quorum:xy\r\n";
        assert_eq!(told(others), (vec![], false));
        let message = b">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nb\r\n";
        assert_eq!(told(message), (vec![], false));
    }
}
