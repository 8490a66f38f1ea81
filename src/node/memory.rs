//! A server in memory, reached over a network that can be made to fail: for tests.
//!
//! ```text
//!   MemoryNode -> Driver  =  Connection  ->  State: links, wires, sockets  ->  Process: keys, clock
//!   (one client's view)      (one TCP connection)          (one server, shared by all clients)
//! ```

mod driver;
mod leash;
mod link;
mod log;
mod pipe;
mod process;
mod server;
mod shared;
mod state;
#[cfg(test)]
mod tests;
mod wire;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, oneshot};

use self::driver::Driver;
pub use self::link::{CutFate, HeldConnection, MemoryLink};
pub use self::log::{CommandKind, Commands, Executed};
pub use self::pipe::Latency;
pub use self::server::{Effect, MemoryServer, Restart};
use super::gate::Gate;
use super::glance::{Glance, Glances, Glimpse};
use super::vigil::Vigil;
use super::{Context, Link, Node, Request, Standing};
use crate::quorum::trust::amnesia::Guarding;
use crate::quorum::vote::Unsent;

/// One client's view of a [`MemoryServer`].
pub(crate) struct MemoryNode {
    network: MemoryLink,
    gate: Arc<Gate>,
    queue: mpsc::UnboundedSender<Request>,
    glances: Glances,
    /// Taken when the node is started.
    submitted: Mutex<Option<Submitted>>,
    guarding: Guarding,
}

type Submitted = (
    mpsc::UnboundedReceiver<Request>,
    mpsc::UnboundedReceiver<Glance>,
);

impl MemoryNode {
    /// A node that is not connected yet. Each node needs a link of its own.
    pub(crate) fn new(network: &MemoryLink, guarding: Guarding) -> Self {
        let (queue, submitted) = mpsc::unbounded_channel();
        let (glances, asked) = mpsc::unbounded_channel();
        let submitted = Mutex::new(Some((submitted, asked)));
        Self {
            network: network.clone(),
            gate: Arc::new(Gate::new()),
            queue,
            glances,
            submitted,
            guarding,
        }
    }
}

impl Node for MemoryNode {
    fn start(&self, context: Context) {
        let submitted = self
            .submitted
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some((submitted, glances)) = submitted else {
            return;
        };
        let driver = Driver::new(
            self.network.clone(),
            submitted,
            glances,
            Arc::clone(&self.gate),
            Vigil::new(self.guarding, &context),
            context,
        );
        tokio::spawn(self.network.leash().on(Box::pin(driver.run())));
    }

    fn submit(&self, request: Request) -> Result<(), Unsent> {
        self.gate.pass(request, &self.queue)
    }

    fn look(&self, key: &str) -> Result<oneshot::Receiver<Glimpse>, Unsent> {
        self.gate.look(key, &self.glances)
    }

    fn standing(&self) -> Standing {
        self.gate.standing()
    }

    fn link(&self) -> Link {
        self.gate.link()
    }

    fn tells(&self) -> bool {
        self.gate.tells()
    }
}

impl fmt::Debug for MemoryNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryNode")
            .field("standing", &self.standing())
            .finish_non_exhaustive()
    }
}
