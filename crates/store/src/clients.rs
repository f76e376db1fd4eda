//! Clients that reach file data by themselves, beside the servers: how a server keeps one out, and how a client gets there. Not which file
//! a client may touch when: its servers' leases say that.

use std::sync::Arc;

use crate::{Blobs, Result};

/// The server's side.
pub trait Clients: Send + Sync {
    /// Where the objects with file data are, as [`PathCache::open`] takes it; at most 255 bytes.
    fn place(&self) -> String;

    /// When this returns, nothing that a client with one of these addresses has sent, or sends, takes effect: whatever it is that somebody
    /// else writes or reads from now on, also over a connection that knows nothing of this. It stays so for longer than a client can sleep.
    fn shut_out(&self, addresses: &[String]) -> Result<()>;
}

/// The client's side: a way to stores of one kind.
pub trait PathCache: Send + Sync {
    /// Makes a connection of its own. Blocks.
    fn open(&self, place: &str) -> Result<Arc<dyn Way>>;
}

/// A connection of a client. Once it was shut out everything ends with [`crate::StoreError::Fenced`], and only another one helps.
pub trait Way: Send + Sync {
    /// By what [`Clients::shut_out`] knows it.
    fn address(&self) -> &str;

    /// The objects.
    fn blobs(&self) -> &dyn Blobs;
}
