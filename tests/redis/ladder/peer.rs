//! A server as Redis 8.4 would be, as far as this client asks: it knows `DELEX` and `SET .. IFEQ`, and
//! lets nobody run scripts.
#![expect(clippy::disallowed_methods, reason = "its keys expire in real time")]

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

pub(super) struct Peer {
    port: u16,
    serving: JoinHandle<()>,
}

impl Peer {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(Mutex::new(State {
            run_id: format!("{port:040}"),
            ..State::default()
        }));
        let serving = tokio::spawn(async move {
            for id in 1.. {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, id, Arc::clone(&state)));
            }
        });
        Self { port, serving }
    }

    pub(super) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

#[derive(Default)]
struct State {
    run_id: String,
    keys: HashMap<String, (String, Option<Instant>)>,
    /// How often each command was carried out.
    calls: BTreeMap<String, u64>,
}

async fn serve(stream: TcpStream, id: u64, state: Arc<Mutex<State>>) {
    let mut stream = BufReader::new(stream);
    while let Some(words) = read(&mut stream).await {
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let reply = state.lock().unwrap().reply(id, &words);
        if stream.write_all(reply.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// One command; `None` at the end of the stream.
pub(super) async fn read(stream: &mut (impl AsyncBufRead + Unpin)) -> Option<Vec<String>> {
    let count = number(stream, '*').await?;
    let mut words = Vec::new();
    for _ in 0..count {
        let mut word = vec![0; number(stream, '$').await? + 2];
        stream.read_exact(&mut word).await.ok()?;
        words.push(String::from_utf8(word).unwrap().trim_end().to_owned());
    }
    Some(words)
}

async fn number(stream: &mut (impl AsyncBufRead + Unpin), sign: char) -> Option<usize> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    line.trim_end().strip_prefix(sign)?.parse().ok()
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

const OK: &str = "+OK\r\n";
const NIL: &str = "$-1\r\n";

impl State {
    fn reply(&mut self, id: u64, words: &[&str]) -> String {
        let name = words[0].to_ascii_uppercase();
        *self.calls.entry(name.to_lowercase()).or_default() += 1;
        let now = Instant::now();
        self.keys
            .retain(|_, (_, end)| end.is_none_or(|end| end > now));
        let number = |number: i64| format!(":{number}\r\n");
        match (name.as_str(), &words[1..]) {
            ("HELLO", _) => hello(id),
            ("CLIENT", ["KILL", ..]) => number(0),
            ("CLIENT", _) => OK.to_owned(),
            ("INFO", ["server"]) => bulk(&format!("run_id:{}\r\n", self.run_id)),
            ("INFO", ["commandstats"]) => {
                let line =
                    |(name, calls)| format!("cmdstat_{name}:calls={calls},failed_calls=0\r\n");
                bulk(&self.calls.iter().map(line).collect::<String>())
            }
            ("INFO", _) => bulk(""),
            ("TIME", _) => format!("*2\r\n{}{}", bulk("1"), bulk("0")),
            ("GET", [key]) => self
                .keys
                .get(*key)
                .map_or_else(|| NIL.to_owned(), |(value, _)| bulk(value)),
            ("PTTL", [key]) => number(match self.keys.get(*key) {
                None => -2,
                Some((_, None)) => -1,
                Some((_, Some(end))) => i64::try_from((*end - now).as_millis()).unwrap(),
            }),
            ("PEXPIRE", [key, ttl]) => number(self.keys.get_mut(*key).map_or(0, |entry| {
                entry.1 = Some(now + millis(ttl));
                1
            })),
            ("KEYS", _) => {
                let keys: String = self.keys.keys().map(|key| bulk(key)).collect();
                format!("*{}\r\n{keys}", self.keys.len())
            }
            ("DEL", keys) => {
                let gone = keys.iter().filter(|key| self.keys.remove(**key).is_some());
                number(i64::try_from(gone.count()).unwrap())
            }
            ("DELEX", [key, "IFEQ", value]) => {
                let is_equal = self.is(key, value);
                if is_equal {
                    self.keys.remove(*key);
                }
                number(i64::from(is_equal))
            }
            ("SET", [key, value, conditions @ ..]) => {
                let (may, end) = match conditions {
                    [] => (true, None),
                    ["NX"] => (!self.keys.contains_key(*key), None),
                    ["NX", "PX", ttl] => (!self.keys.contains_key(*key), Some(now + millis(ttl))),
                    ["IFEQ", old, "PX", ttl] => (self.is(key, old), Some(now + millis(ttl))),
                    _ => return "-ERR syntax error\r\n".to_owned(),
                };
                if may {
                    self.keys
                        .insert((*key).to_owned(), ((*value).to_owned(), end));
                }
                if may { OK } else { NIL }.to_owned()
            }
            ("SCRIPT" | "EVAL" | "EVALSHA", _) => {
                *self.calls.entry(name.to_lowercase()).or_default() -= 1;
                format!("-NOPERM User default has no permissions to run the '{name}' command\r\n")
            }
            _ => format!("-ERR unknown command '{name}', with args beginning with: \r\n"),
        }
    }

    fn is(&self, key: &str, value: &str) -> bool {
        self.keys.get(key).is_some_and(|(found, _)| found == value)
    }
}

fn hello(id: u64) -> String {
    let mut reply = format!("%6\r\n{}:3\r\n{}:{id}\r\n", bulk("proto"), bulk("id"));
    for (field, value) in [
        ("server", "redis"),
        ("version", "8.4.0"),
        ("mode", "standalone"),
        ("role", "master"),
    ] {
        reply += &bulk(field);
        reply += &bulk(value);
    }
    reply
}

fn millis(text: &str) -> Duration {
    Duration::from_millis(text.parse().unwrap())
}
