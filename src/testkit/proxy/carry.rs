//! Carries the bytes of the proxy's connections.
//!
//! Each direction of a connection is a reader, which takes everything that arrives and notes when, and a writer, which
//! passes it on as the fault of the moment says. Between them is a queue: so a sender may be gone long before its bytes
//! arrive. Both sockets close with a reset unless the end of the stream was passed on first.
#![expect(
    clippy::disallowed_methods,
    reason = "a delay runs in real time, from the arrival of the bytes"
)]

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::Fault;
use super::gate::{Gate, Ticket};

const CHUNK: usize = 16 * 1024;

/// Serves until the proxy is closed.
pub(super) async fn serve(gate: Arc<Gate>, target: SocketAddr) {
    while let Some(accepted) = poll_fn(|context| gate.poll_accept(context)).await {
        let Ok((client, ticket)) = accepted else {
            // Out of descriptors, most likely: give the connections that are open time to end.
            sleep(Duration::from_millis(10)).await;
            continue;
        };
        let gate = Arc::clone(&gate);
        tokio::spawn(async move {
            let id = ticket.id;
            // An error is a reset, which both sides have seen by now.
            carry(client, target, ticket, &gate).await.ok();
            gate.forget(id);
        });
    }
}

/// Why a connection ends with a reset.
enum Broken {
    /// Cut by the proxy's owner, or bytes were swallowed and the fault is over.
    Reset,
    /// The receiver takes no more bytes.
    Write,
}

impl From<io::Error> for Broken {
    fn from(_: io::Error) -> Self {
        Self::Write
    }
}

async fn carry(
    client: TcpStream,
    target: SocketAddr,
    ticket: Ticket,
    gate: &Gate,
) -> Result<(), Broken> {
    let Ticket {
        faults,
        mut cut,
        mut cut_clients,
        ..
    } = ticket;
    client.set_zero_linger()?;
    let server = tokio::select! {
        biased;
        _ = cut.changed() => return Err(Broken::Reset),
        server = TcpStream::connect(target) => server?,
    };
    server.set_zero_linger()?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let (to_client, to_server) = (Writer(Some(to_client)), Writer(Some(to_server)));
    let (counters, mut clients_gone) = (&gate.counters, cut_clients.clone());

    let requests = async {
        let (queue, mut queued) = unbounded_channel();
        let taking = async {
            tokio::select! {
                biased;
                _ = cut_clients.changed() => {}
                () = take(from_client, queue, Some(&counters.taken_bytes)) => {}
            }
            Ok(())
        };
        let lane = Lane {
            fault: faults.requests,
            passed: &counters.request_bytes,
            swallowed: &counters.swallowed_bytes,
        };
        tokio::try_join!(taking, lane.pass(&mut queued, to_server)).map(drop)
    };
    let replies = async {
        let (queue, mut queued) = unbounded_channel();
        let taking = async {
            take(from_server, queue, None).await;
            Ok(())
        };
        let lane = Lane {
            fault: faults.replies,
            passed: &counters.reply_bytes,
            swallowed: &counters.swallowed_bytes,
        };
        let passing = async {
            let passed = tokio::select! {
                biased;
                _ = clients_gone.changed() => Err(Broken::Write),
                passed = lane.pass(&mut queued, to_client) => passed,
            };
            match passed {
                // The client has gone; its requests may still be on their way, so the server is heard out.
                Err(Broken::Write) => while queued.recv().await.is_some() {},
                other => return other,
            }
            Ok(())
        };
        tokio::try_join!(taking, passing).map(drop)
    };
    tokio::select! {
        biased;
        _ = cut.changed() => Err(Broken::Reset),
        done = async { tokio::try_join!(requests, replies) } => done.map(drop),
    }
}

/// Some bytes, none for the end of the stream, and when they arrived.
struct Chunk {
    arrived: Instant,
    bytes: Vec<u8>,
}

impl Chunk {
    fn now(bytes: Vec<u8>) -> Self {
        Self {
            arrived: Instant::now(),
            bytes,
        }
    }

    fn is_end(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// Takes what arrives, up to the end of the stream; a reset is an end, too.
async fn take(mut from: OwnedReadHalf, queue: UnboundedSender<Chunk>, taken: Option<&AtomicU64>) {
    loop {
        let mut bytes = Vec::with_capacity(CHUNK);
        if from.read_buf(&mut bytes).await.is_err() {
            bytes.clear();
        }
        let chunk = Chunk::now(bytes);
        if let Some(taken) = taken {
            count(taken, &chunk);
        }
        let end = chunk.is_end();
        if queue.send(chunk).is_err() || end {
            return;
        }
    }
}

/// The writing half of a socket, which does not end the stream when it is dropped.
struct Writer(Option<OwnedWriteHalf>);

impl Writer {
    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.0 {
            Some(half) => half.write_all(bytes).await,
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    async fn end(mut self) -> io::Result<()> {
        match self.0.take() {
            Some(mut half) => half.shutdown().await,
            None => Ok(()),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(half) = self.0.take() {
            half.forget();
        }
    }
}

/// The writing part of one direction.
struct Lane<'a> {
    fault: watch::Receiver<Fault>,
    passed: &'a AtomicU64,
    swallowed: &'a AtomicU64,
}

impl Lane<'_> {
    /// Passes on what is queued as the fault of the moment says, until the end of the stream.
    async fn pass(
        mut self,
        queued: &mut UnboundedReceiver<Chunk>,
        mut to: Writer,
    ) -> Result<(), Broken> {
        let mut lossy = false;
        let mut waiting: Option<Chunk> = None;
        loop {
            let fault = *self.fault.borrow_and_update();
            if lossy && fault != Fault::Swallow {
                return Err(Broken::Reset);
            }
            let Some(chunk) = waiting.take() else {
                tokio::select! {
                    biased;
                    _ = self.fault.changed() => {}
                    chunk = queued.recv() => waiting = Some(chunk.unwrap_or_else(|| Chunk::now(Vec::new()))),
                }
                continue;
            };
            let due = match fault {
                Fault::Pass => true,
                Fault::Delay(by) => self.is_due(chunk.arrived + by).await,
                Fault::Swallow if !chunk.is_end() => {
                    lossy = true;
                    count(self.swallowed, &chunk);
                    continue;
                }
                Fault::Hold | Fault::Swallow => self.is_never_due().await,
            };
            if !due {
                waiting = Some(chunk);
            } else if chunk.is_end() {
                return Ok(to.end().await?);
            } else {
                to.write(&chunk.bytes).await?;
                count(self.passed, &chunk);
            }
        }
    }

    /// Waits for an instant; false when the fault changed first.
    async fn is_due(&mut self, at: Instant) -> bool {
        tokio::select! {
            biased;
            _ = self.fault.changed() => false,
            () = sleep_until(at) => true,
        }
    }

    /// Waits for another fault.
    async fn is_never_due(&mut self) -> bool {
        // The gate keeps the sender while the connection is carried.
        self.fault.changed().await.is_err()
    }
}

fn count(counter: &AtomicU64, chunk: &Chunk) {
    counter.fetch_add(
        u64::try_from(chunk.bytes.len()).unwrap_or(u64::MAX),
        Ordering::Relaxed,
    );
}
