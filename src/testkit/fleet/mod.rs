//! Throw-away servers: real `redis-server` and `valkey-server` processes on 127.0.0.1.
//!
//! A [`Server`] has its own port and its own directory, and can be killed, restarted, frozen and thawed. It ends when
//! it is dropped, and also when the process that owns it ends in whatever way, `SIGKILL` included. A [`Fleet`] is
//! several of them, the independent masters of a quorum.
//!
//! Starting and waiting block the calling thread for some tens of milliseconds: fine in a test, also in an
//! asynchronous one.
//!
//! ```
//! # fn main() -> std::io::Result<()> {
//! use redlock_quorum::testkit::fleet::Fleet;
//!
//! let mut fleet = Fleet::start(3)?;
//! println!("{:?}", fleet.urls());
//! fleet[0].freeze()?;
//! fleet[1].restart()?;
//! # Ok(())
//! # }
//! ```

mod flavor;
mod options;
mod probe;
mod server;
mod supervisor;

use std::io;
use std::ops::{Index, IndexMut};
use std::slice::{Iter, IterMut};
use std::thread;

pub use flavor::{Flavor, ServerKind};
pub use options::Options;
pub use server::Server;

/// Several independent servers, the nodes of a quorum that has been founded: see [`Server::start`].
///
/// `fleet[i]` is its i-th [`Server`]; indexing panics when there is no such server, as a slice does.
#[derive(Debug)]
pub struct Fleet {
    servers: Vec<Server>,
}

impl Fleet {
    /// Starts `n` servers of the first flavour that is installed, without persistence.
    ///
    /// # Errors
    ///
    /// When no server is installed, or one of them does not come up.
    pub fn start(n: usize) -> io::Result<Self> {
        Self::with(&Flavor::first()?, n, &Options::default())
    }

    /// Starts `n` servers of one flavour, all with the same options.
    ///
    /// # Errors
    ///
    /// When one of the servers does not come up; the others are ended then.
    pub fn with(flavor: &Flavor, n: usize, options: &Options) -> io::Result<Self> {
        let servers = thread::scope(|scope| {
            let starting: Vec<_> = (0..n)
                .map(|_| scope.spawn(|| Server::start(flavor, options.clone())))
                .collect();
            starting
                .into_iter()
                .map(|one| {
                    one.join()
                        .unwrap_or_else(|_| Err(io::Error::other("starting a server panicked")))
                })
                .collect::<io::Result<_>>()
        })?;
        Ok(Self { servers })
    }

    /// The URLs of all servers, in order.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.iter().map(Server::url).collect()
    }

    /// How many servers there are, running or not.
    #[must_use]
    pub fn len(&self) -> usize {
        self.servers.len()
    }

    /// Whether there is no server at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// The servers, in order.
    pub fn iter(&self) -> Iter<'_, Server> {
        self.servers.iter()
    }

    /// The servers, in order, to be killed and restarted.
    pub fn iter_mut(&mut self) -> IterMut<'_, Server> {
        self.servers.iter_mut()
    }
}

#[expect(
    clippy::indexing_slicing,
    reason = "indexing panics as a slice's does, and says so"
)]
impl Index<usize> for Fleet {
    type Output = Server;

    fn index(&self, index: usize) -> &Server {
        &self.servers[index]
    }
}

#[expect(
    clippy::indexing_slicing,
    reason = "indexing panics as a slice's does, and says so"
)]
impl IndexMut<usize> for Fleet {
    fn index_mut(&mut self, index: usize) -> &mut Server {
        &mut self.servers[index]
    }
}

impl<'a> IntoIterator for &'a Fleet {
    type Item = &'a Server;
    type IntoIter = Iter<'a, Server>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a> IntoIterator for &'a mut Fleet {
    type Item = &'a mut Server;
    type IntoIter = IterMut<'a, Server>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}
