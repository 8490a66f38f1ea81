//! What a throw-away server is started with.

use std::path::Path;

/// What a [`Server`](super::Server) is started with. By default: no persistence, no password, no Unix socket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use]
pub struct Options {
    durable: bool,
    pub(super) password: Option<String>,
    pub(super) unix_socket: bool,
    pub(super) unfounded: bool,
    arguments: Vec<String>,
}

impl Options {
    /// The default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps the data over a kill and a restart: an append-only file, synced to disk before every reply.
    pub fn durable(mut self) -> Self {
        self.durable = true;
        self
    }

    /// Asks for a password.
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Listens on a Unix socket as well.
    pub fn unix_socket(mut self) -> Self {
        self.unix_socket = true;
        self
    }

    /// Leaves out the marker that says that this server belongs to a fleet that has been founded: to a
    /// client it is as a server that nobody has used yet.
    pub fn unfounded(mut self) -> Self {
        self.unfounded = true;
        self
    }

    /// Adds a command-line argument of the server, after all others.
    pub fn argument(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// What the server is called with.
    pub(super) fn command_line(&self, port: u16, socket: &Path) -> Vec<String> {
        let port = port.to_string();
        let appendonly = if self.durable { "yes" } else { "no" };
        let mut line: Vec<String> = [
            "--bind",
            "127.0.0.1",
            "--port",
            &port,
            "--save",
            "",
            "--appendonly",
            appendonly,
        ]
        .map(str::to_owned)
        .into();
        let mut add = |name: &str, value: &str| line.extend([name.to_owned(), value.to_owned()]);
        if self.durable {
            add("--appendfsync", "always");
        }
        if let Some(password) = &self.password {
            add("--requirepass", password);
        }
        if self.unix_socket {
            add("--unixsocket", &socket.to_string_lossy());
        }
        line.extend_from_slice(&self.arguments);
        line
    }
}
