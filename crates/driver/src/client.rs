//! The client that a program uses: calls in, answers out, over a connection to each rank, from any number of threads.
//!
//! What a call means, and everything about sessions, leases and cached data, is in the machine (`loligo_client`); here
//! are its sockets and its threads. A [`Client`] is a library in somebody else's process, used by many threads, so its one
//! machine is behind a lock (held for microseconds, never over a system call that may wait): the thread that submits a
//! call encodes and writes the request itself, and one receiving thread reads, feeds the machine and runs the callbacks
//! outside of the lock. Caches above are told by threads of their own, because the kernel may make them wait for calls
//! that only the receiving thread can answer.

mod batch;
pub(crate) mod calls;
mod core;
mod direct;
mod future;
pub(crate) mod invalidator;
pub(crate) mod keeping;
mod link;
pub(crate) mod outbox;
pub mod path;
mod receiver;
pub mod subtree;
#[cfg(test)]
mod tests;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use loligo_client::{Config, Input};
use loligo_types::msg::{Refusal, Welcome};
use loligo_types::{Cred, FsError, Ino};

use crate::{Address, Identity};

pub use self::batch::Batch;
pub use self::future::CallFuture;
pub use self::path::Fs;
pub use self::subtree::{Subtree, SubtreeOptions};
pub use loligo_client::{Call, CallId, CallResult, Done, Failed, Fallocate, Fh, Unmerged, WalkAt};

use self::core::Shared;

/// Caches above a client, such as the kernel's. Each function returns when they have been told, and may take long.
///
/// `names` and `attr` must not wait for calls of the same client; `data` may.
pub trait Invalidate: Send + Sync {
    /// All entries of directories, present and absent ones. Many at once take hardly longer than one.
    fn names(&self, dirs: &[Ino]);
    /// Attributes, xattrs, symlink target and ACLs of an inode.
    fn attr(&self, ino: Ino);
    /// Attributes and cached data of a file.
    fn data(&self, ino: Ino);
}

/// Options of a connection.
#[derive(Clone, Default)]
pub struct Options {
    /// Name of the client in `loligo status`; cut to 255 bytes.
    pub name: String,
    /// Ask for leases, so that what this client was told may be cached until it is recalled. Give `invalidate`, too, if
    /// there is a cache above the client.
    pub cache: bool,
    /// Ask for leases on names of directories as well (needs `cache`).
    pub cache_names: bool,
    /// Caches above.
    pub invalidate: Option<Arc<dyn Invalidate>>,
    /// Identity of the client to servers that it reaches over TCP, which is then with TLS. Without one such a connection is plain.
    pub identity: Option<Identity>,
    /// The way to the store where the servers have file data, to read and write it there without them; `None`: always through them.
    pub direct: Option<Arc<dyn loligo_store::PathCache>>,
    /// Where what is done in subtrees that are decoupled for this client is kept on this machine's disk, if their policies say so. `None`:
    /// such a policy cannot be carried out.
    pub keep: Option<std::path::PathBuf>,
    /// Everything else about the machine; `name`, `cache` and `cache_names` in it are replaced by those above, and
    /// `client` by a random number, unless it is given.
    pub config: Config,
}

/// Longest name of a client that a server takes, bytes.
const NAME_MAX: usize = 255;

/// The machine's settings of these options.
pub(crate) fn prepare(options: &Options) -> Config {
    let mut config = options.config.clone();
    // A label for people: a longer one is cut, not refused.
    config.name.clone_from(&options.name);
    while config.name.len() > NAME_MAX {
        config.name.pop();
    }
    config.cache = options.cache;
    config.keeps = options.keep.is_some();
    if config.client == 0 {
        // The seeds of the standard library's maps come from the system.
        config.client = RandomState::new().build_hasher().finish();
    }
    config.cache_names = options.cache && options.cache_names;
    config
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The socket could not be opened.
    #[error("cannot connect to {address}: {source}; is the server running there?")]
    Io {
        /// Where.
        address: Address,
        /// Why.
        source: std::io::Error,
    },
    /// The server is not of the file system that the identity is for, or does not take it.
    #[error(
        "no secure connection to {address}: {source}; is a server of the identity's file system there, and is the identity \
         one of those that loligo auth list shows?"
    )]
    Tls {
        /// Where.
        address: Address,
        /// Why.
        source: std::io::Error,
    },
    /// The server said no.
    #[error("the server at {address} refuses: {text}")]
    Refused {
        /// Where.
        address: Address,
        /// Why, as a kind.
        why: Refusal,
        /// Why, in the server's words.
        text: String,
    },
    /// It did not answer in time.
    #[error("the server at {address} does not answer; it may be overloaded, or not a loligo server")]
    Timeout {
        /// Where.
        address: Address,
    },
}

/// A connected client; clones share it. When the last clone is dropped, what is buffered is written back in the
/// background; [`Client::stop`] waits for that.
#[derive(Clone)]
pub struct Client {
    owner: Arc<Owner>,
}

/// Ends the threads when nobody can call any more.
struct Owner {
    shared: Arc<Shared>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.feed(Input::Stop);
    }
}

impl Client {
    /// The time by which what was promised for a time ends, milliseconds. It goes on while the machine sleeps.
    pub(crate) fn now_ms(&self) -> u64 {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        u64::try_from(time.tv_sec).unwrap_or(0) * 1000 + u64::try_from(time.tv_nsec).unwrap_or(0) / 1_000_000
    }

    /// Connects, and waits until the server has said welcome.
    pub fn connect(address: &Address, options: Options) -> Result<Client, ConnectError> {
        let shared = Shared::start(address.clone(), options)?;
        let client = Client { owner: Arc::new(Owner { shared }) };
        client.owner.shared.wait_ready()?;
        Ok(client)
    }

    /// Submits a call; `done` gets its result, on some thread of the client or, if the answer was at hand, on this one.
    /// It must not wait for other calls of this client.
    pub fn submit(&self, cred: &Arc<Cred>, call: Call, done: impl FnOnce(CallResult) + Send + 'static) {
        self.owner.shared.submit(cred, call, Box::new(done));
    }

    /// A number for [`Client::submit_as`], of no other call.
    pub fn number(&self) -> CallId {
        self.owner.shared.number()
    }

    /// The same as [`Client::submit`], with a number by which [`Client::interrupt`] knows the call.
    pub fn submit_as(
        &self,
        number: CallId,
        cred: &Arc<Cred>,
        call: Call,
        done: impl FnOnce(CallResult) + Send + 'static,
    ) {
        self.owner.shared.submit_as(number, cred, call, Box::new(done));
    }

    /// Nobody waits any more for a call: it ends with `Interrupted`, if it has not ended. What was sent for it may be done, or be done later, as
    /// after a time-out; never twice. `unserved`: only if it waits for a server to which there is no connection.
    pub fn interrupt(&self, number: CallId, unserved: bool) {
        self.owner.shared.feed(Input::Interrupt { id: number, unserved });
    }

    /// Makes a call and waits for the result.
    pub fn call(&self, cred: &Arc<Cred>, call: Call) -> CallResult {
        self.owner.shared.call(cred, call)
    }

    /// Submits a call now; the future gives its result. Needs no runtime of any kind.
    pub fn call_async(&self, cred: &Arc<Cred>, call: Call) -> CallFuture {
        let (future, done) = CallFuture::new();
        self.owner.shared.submit(cred, call, done);
        future
    }

    /// Collects calls that are sent with one write.
    pub fn batch(&self) -> Batch<'_> {
        Batch::new(&self.owner.shared)
    }

    /// Paths for programs: open, read, write, and so on, in the name of `cred`.
    pub fn fs(&self, cred: Arc<Cred>) -> Fs {
        Fs::new(self.clone(), cred)
    }

    /// Where journals of subtrees are kept on this machine's disk, if their policies say so.
    fn keep_dir(&self) -> Option<&std::path::Path> {
        self.owner.shared.keep.as_deref()
    }

    /// The last welcome of the server to this client.
    pub fn welcome(&self) -> Welcome {
        self.owner.shared.welcome()
    }

    /// A program has decoupled a subtree by itself: here it is told that it may have been taken from it.
    fn watch_subtree(&self, root: loligo_types::Ino, doubt: &Arc<std::sync::atomic::AtomicBool>) {
        self.owner.shared.lock().watch_subtree(root, doubt);
    }

    /// Writes everything back, gives everything back, and ends the session. Later calls fail with `Unavailable`.
    /// `Unavailable` if that took longer than `limit`: what was not written back by then is lost.
    pub fn stop(&self, limit: Duration) -> Result<(), FsError> {
        self.owner.shared.stop(limit)
    }

    /// Changes of directories that are decoupled by `loligo.subtree` and that were not merged. After [`Client::stop`] they are only in what was
    /// kept of them.
    pub fn unmerged(&self) -> Vec<Unmerged> {
        self.owner.shared.unmerged()
    }
}
