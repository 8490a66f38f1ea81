//! One throw-away server.
#![expect(
    clippy::disallowed_methods,
    reason = "waiting for a process is measured in real time and blocks"
)]

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use redis::{Client, Connection, RedisResult, Value};
use tempfile::TempDir;

use super::flavor::Flavor;
use super::options::Options;
use super::probe::{self, State};
use super::supervisor::Supervised;
use crate::quorum::own_keys::MARKER;
use crate::quorum::trust::marker;
use crate::testkit::port;

/// How long a server may take until it answers.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long [`Server::connection`] waits for a connection, and for a reply.
const REPLY: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(2);
/// How many ports are tried when others take them first.
const PORTS: usize = 8;

/// A real server with a port and a directory of its own.
///
/// It is killed and its directory removed when it is dropped, and also when the process that owns it ends, `SIGKILL`
/// included.
#[derive(Debug)]
pub struct Server {
    // Before the directory: first the process ends, then its files go.
    process: Option<Supervised>,
    flavor: Flavor,
    options: Options,
    port: u16,
    dir: TempDir,
}

impl Server {
    /// Starts a server on a free port of 127.0.0.1 and returns when it answers, its data loaded.
    ///
    /// It counts as one of a fleet that has been founded, so that clients let it vote at once: the key
    /// `redlock-quorum:node` is written, unless [`Options::unfounded`] says otherwise or the server
    /// does not take it. A [`restart`](Self::restart) writes nothing.
    ///
    /// # Errors
    ///
    /// When the program cannot be started, ends at once (the error shows the end of its log) or does not answer in
    /// ten seconds.
    pub fn start(flavor: &Flavor, options: Options) -> io::Result<Self> {
        let dir = tempfile::Builder::new().prefix("redlock-").tempdir()?;
        let mut server = Self {
            process: None,
            flavor: flavor.clone(),
            options,
            port: 0,
            dir,
        };
        let mut outcome = Ok(());
        for _ in 0..PORTS {
            server.port = port::free()?;
            outcome = server.run();
            match &outcome {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                Ok(()) | Err(_) => break,
            }
        }
        outcome?;
        if !server.options.unfounded {
            // Whoever forbids it has other plans with this server.
            server.found().ok();
        }
        Ok(server)
    }

    /// The server's TCP port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL for a client, with the password if there is one.
    #[must_use]
    pub fn url(&self) -> String {
        let user = self
            .options
            .password
            .as_deref()
            .map(|password| format!(":{}@", percent_encoded(password)));
        format!(
            "redis://{}127.0.0.1:{}",
            user.unwrap_or_default(),
            self.port
        )
    }

    /// The URL of the Unix socket, when [`Options::unix_socket`] asked for one.
    #[must_use]
    pub fn unix_url(&self) -> Option<String> {
        let query = self
            .options
            .password
            .as_deref()
            .map(|password| format!("?pass={}", percent_encoded(password)));
        let socket = self.options.unix_socket.then(|| self.socket())?;
        Some(format!(
            "redis+unix://{}{}",
            socket.display(),
            query.unwrap_or_default()
        ))
    }

    /// The process id, while the server is running.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Supervised::pid)
    }

    /// What kind of server this is.
    #[must_use]
    pub fn flavor(&self) -> &Flavor {
        &self.flavor
    }

    /// The directory with the server's data and its log.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Kills the server with `SIGKILL`, frozen or not, and returns when it is gone. Does nothing when it is down.
    ///
    /// # Errors
    ///
    /// When the process cannot be signalled.
    pub fn kill(&mut self) -> io::Result<()> {
        self.process.take().map_or(Ok(()), Supervised::kill)
    }

    /// Starts the server again on the same port, after killing it if it is still running. With
    /// [`Options::durable`] it has its data again, else it comes back empty.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn restart(&mut self) -> io::Result<()> {
        self.kill()?;
        let started = Instant::now();
        loop {
            match self.run() {
                Err(error)
                    if error.kind() == io::ErrorKind::AddrInUse && started.elapsed() < PATIENCE =>
                {
                    thread::sleep(PAUSE);
                }
                outcome => return outcome,
            }
        }
    }

    /// Starts a server of another flavour on the same port, with the same options, after killing this one.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn restart_as(&mut self, flavor: &Flavor) -> io::Result<()> {
        self.kill()?;
        self.flavor = flavor.clone();
        self.restart()
    }

    /// Stops the process with `SIGSTOP` and returns when it stands still: the kernel still accepts connections and
    /// bytes for it.
    ///
    /// # Errors
    ///
    /// When the server is down.
    pub fn freeze(&self) -> io::Result<()> {
        self.running()?.freeze()
    }

    /// Lets a frozen process go on with `SIGCONT`.
    ///
    /// # Errors
    ///
    /// When the server is down.
    pub fn thaw(&self) -> io::Result<()> {
        self.running()?.thaw()
    }

    /// Runs one command over a connection of its own and returns the reply.
    ///
    /// # Errors
    ///
    /// The server's error, or that of the connection. On a frozen server it takes a few seconds to time out.
    pub fn command(&self, words: &[&str]) -> RedisResult<Value> {
        let (name, arguments) = words.split_first().unwrap_or((&"PING", &[]));
        redis::cmd(name)
            .arg(arguments)
            .query(&mut self.connection()?)
    }

    /// Opens a blocking connection.
    ///
    /// # Errors
    ///
    /// When there is no connection within a few seconds. Replies time out after two seconds as well.
    pub fn connection(&self) -> RedisResult<Connection> {
        let connection = Client::open(self.url())?.get_connection_with_timeout(REPLY)?;
        connection.set_read_timeout(Some(REPLY))?;
        Ok(connection)
    }

    fn found(&self) -> RedisResult<Value> {
        let info: String = redis::from_redis_value(self.command(&["INFO", "server"])?)?;
        let run_id = info.lines().find_map(|line| line.strip_prefix("run_id:"));
        let marker = marker::founded(run_id.unwrap_or_default().trim());
        self.command(&["SET", MARKER, &marker, "NX"])
    }

    fn running(&self) -> io::Result<&Supervised> {
        self.process
            .as_ref()
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotConnected, "the server is down"))
    }

    fn socket(&self) -> PathBuf {
        self.dir().join("socket")
    }

    fn log(&self) -> PathBuf {
        self.dir().join("log")
    }

    /// Starts the process and waits until it answers; `AddrInUse` when another one has the port.
    fn run(&mut self) -> io::Result<()> {
        let log = File::create(self.log())?;
        let line = self.options.command_line(self.port, &self.socket());
        let mut process = Supervised::start(self.flavor.program(), &line, self.dir(), &log)?;
        let started = Instant::now();
        loop {
            if process.has_ended()? {
                return Err(self.failure("ended at once"));
            }
            let answer = probe::ask(
                port::local(self.port),
                self.options.password.as_deref(),
                process.pid(),
            );
            match answer {
                Ok(State::Up) => break,
                Ok(State::Foreign) => return Err(io::ErrorKind::AddrInUse.into()),
                Ok(State::Loading) | Err(_) if started.elapsed() < PATIENCE => thread::sleep(PAUSE),
                Ok(State::Loading) | Err(_) => return Err(self.failure("does not answer")),
            }
        }
        self.process = Some(process);
        Ok(())
    }

    fn failure(&self, what: &str) -> io::Error {
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        let kind = if log.contains("Address already in use") {
            io::ErrorKind::AddrInUse
        } else {
            io::ErrorKind::Other
        };
        let start = log.char_indices().rev().nth(1000).map_or(0, |(at, _)| at);
        let end = log.get(start..).unwrap_or_default().trim_end();
        io::Error::new(
            kind,
            format!(
                "{} {what}; its log ends with:\n{end}",
                self.flavor.program().display()
            ),
        )
    }
}

/// Everything but letters and digits escaped, as a part of a URL.
fn percent_encoded(text: &str) -> String {
    let escape = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}
