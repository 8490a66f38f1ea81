//! A relay that understands commands: it can do something just before one of them reaches the server.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::peer;

type Before = dyn Fn(&[String]) + Send + Sync;

pub(super) struct Relay {
    port: u16,
    serving: JoinHandle<()>,
    /// The names of all commands, of each connection.
    seen: Arc<Mutex<Vec<Vec<String>>>>,
}

impl Relay {
    /// In front of the server with this URL.
    pub(super) async fn start(
        url: &str,
        before: impl Fn(&[String]) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let target = url.rsplit_once("127.0.0.1:").unwrap().1.to_owned();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (before, seen_too): (Arc<Before>, _) = (Arc::new(before), Arc::clone(&seen));
        let serving = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let server = TcpStream::connect(format!("127.0.0.1:{target}"))
                    .await
                    .unwrap();
                tokio::spawn(carry(
                    client,
                    server,
                    Arc::clone(&before),
                    Arc::clone(&seen_too),
                ));
            }
        });
        Self {
            port,
            serving,
            seen,
        }
    }

    /// The URL that leads through the relay in place of this one.
    pub(super) fn url(&self, url: &str) -> String {
        let (start, _) = url.rsplit_once(':').unwrap();
        format!("{start}:{}", self.port)
    }

    pub(super) fn seen(&self) -> Vec<Vec<String>> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn carry(
    client: TcpStream,
    server: TcpStream,
    before: Arc<Before>,
    seen: Arc<Mutex<Vec<Vec<String>>>>,
) {
    let connection = {
        let mut seen = seen.lock().unwrap();
        seen.push(Vec::new());
        seen.len() - 1
    };
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let (mut replies, mut to_server) = server.into_split();
    let (requests, mut to_client) = client.into_split();
    tokio::spawn(async move { tokio::io::copy(&mut replies, &mut to_client).await });
    let mut requests = BufReader::new(requests);
    while let Some(words) = peer::read(&mut requests).await {
        before(&words);
        seen.lock().unwrap()[connection].push(words[0].clone());
        let mut command = format!("*{}\r\n", words.len());
        for word in &words {
            command += &format!("${}\r\n{word}\r\n", word.len());
        }
        if to_server.write_all(command.as_bytes()).await.is_err() {
            return;
        }
    }
}
