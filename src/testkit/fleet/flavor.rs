//! Which servers are installed here.

use std::env;
use std::io;
use std::path::{Path, PathBuf};

/// Where `scripts/install-test-deps` puts Valkey 9, seen from the root of the crate.
const VALKEY9: &str = "target/test-servers/valkey9/valkey-server";

/// The kind of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ServerKind {
    /// `redis-server` on the `PATH`.
    Redis,
    /// `valkey-server` on the `PATH`.
    Valkey,
    /// Valkey 9, which compares natively (`DELIFEQ`): named by the environment variable `REDLOCK_VALKEY9`, or where
    /// `scripts/install-test-deps` puts it.
    Valkey9,
}

impl ServerKind {
    /// Every kind, in the order of preference.
    pub const ALL: [Self; 3] = [Self::Redis, Self::Valkey, Self::Valkey9];
}

/// A kind of server and the program that is one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Flavor {
    kind: ServerKind,
    program: PathBuf,
}

impl Flavor {
    /// A server program at a place of its own.
    pub fn new(kind: ServerKind, program: impl Into<PathBuf>) -> Self {
        let program = program.into();
        Self { kind, program }
    }

    /// The server of this kind, where it is installed.
    #[must_use]
    pub fn find(kind: ServerKind) -> Option<Self> {
        let program = match kind {
            ServerKind::Redis => on_path("redis-server"),
            ServerKind::Valkey => on_path("valkey-server"),
            ServerKind::Valkey9 => valkey9(),
        }?;
        Some(Self { kind, program })
    }

    /// Every server that is installed, in the order of [`ServerKind::ALL`].
    #[must_use]
    pub fn available() -> Vec<Self> {
        ServerKind::ALL.into_iter().filter_map(Self::find).collect()
    }

    /// The first of [`available`](Self::available).
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`] when no server is installed.
    pub fn first() -> io::Result<Self> {
        ServerKind::ALL.into_iter().find_map(Self::find).ok_or_else(|| {
            let advice = "neither redis-server nor valkey-server is installed; scripts/install-test-deps installs them";
            io::Error::new(io::ErrorKind::NotFound, advice)
        })
    }

    /// The kind of server.
    #[must_use]
    pub fn kind(&self) -> ServerKind {
        self.kind
    }

    /// The program that is started.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
}

fn valkey9() -> Option<PathBuf> {
    if let Some(named) = env::var_os("REDLOCK_VALKEY9") {
        return Some(named.into());
    }
    let manifest = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let roots = [manifest, env::current_dir().ok()];
    roots
        .into_iter()
        .flatten()
        .map(|root| root.join(VALKEY9))
        .find(|file| file.is_file())
}
