//! A server and two mounts of it, for tests of what one mount sees of the other. Not the tests.

use std::path::PathBuf;

use crate::{Process, Scratch, Thrasher};

/// A server and two mounts; they end in the reverse order of their start.
pub struct Two {
    /// One mount.
    pub a: Process,
    /// The other.
    pub b: Process,
    /// The server.
    pub server: Process,
    /// With several ranks what is used moves between them.
    pub thrasher: Option<Thrasher>,
    /// Where all of it is.
    pub scratch: Scratch,
}

impl Two {
    /// Starts them; `None` where nothing can be mounted.
    pub fn start(name: &str) -> Option<Two> {
        let scratch = Scratch::new(name)?;
        let server = scratch.serve();
        let (a, b) = (scratch.mount("a"), scratch.mount("b"));
        let thrasher = (scratch.ranks() > 1).then(|| scratch.thrash(&["/"]));
        Some(Two { a, b, server, thrasher, scratch })
    }

    /// A name on both mounts.
    pub fn paths(&self, name: &str) -> (PathBuf, PathBuf) {
        (self.a.path().join(name), self.b.path().join(name))
    }

    /// Kills the server, and starts it again.
    pub fn restart(self) -> Two {
        let Two { a, b, server, thrasher, scratch } = self;
        server.kill();
        let server = scratch.serve();
        Two { a, b, server, thrasher, scratch }
    }

    /// Stops them in order.
    pub fn stop(self) {
        drop(self.thrasher);
        self.a.stop();
        self.b.stop();
        self.server.stop();
    }
}
