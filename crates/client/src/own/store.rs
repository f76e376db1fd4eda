//! The journal of a subtree that is decoupled for this client, on its way into the store ("global persist", Cudele §6.2): written into an object of
//! its own, synced, and then registered at the rank. What is not registered is nothing. The same as the client library does
//! (`subtree/store.rs` in the driver), without waiting. Not here: the form of the journal ([`loligo_subtree::Growing`]).

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use loligo_subtree::{Growing, Sink};
use loligo_types::limits::DATA_OP_MAX;
use loligo_types::{DataError, Ino};

/// Pieces that are on their way at once.
pub(crate) const IN_FLIGHT: usize = 4;
/// It is begun anew so often because the rank began a new life.
pub(crate) const STORE_TRIES: u32 = 8;

/// A write of the journal to the store.
#[derive(Debug)]
pub(crate) struct Store {
    pub ino: Ino,
    /// As it is when all of this is durable.
    pub form: Growing,
    pub queue: VecDeque<(u64, Arc<[u8]>)>,
    /// The life of the subtree in which it was begun.
    pub life: u64,
    /// Changes that are in it then.
    pub changes: u64,
    /// The object that counted before.
    pub old: Option<Ino>,
    pub failed: Option<DataError>,
    /// Data requests that were not answered.
    pub left: usize,
    pub at: At,
}

/// The stage of the write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum At {
    Writes,
    Syncs,
    /// The rank is told how much of it counts.
    Registers,
}

impl Store {
    /// True if the next answer of the rank is to the registration.
    pub fn registers(&self) -> bool {
        self.at == At::Registers
    }
}

/// Pieces of what is to be written.
pub(crate) struct Pieces {
    pub offset: u64,
    pub queue: VecDeque<(u64, Arc<[u8]>)>,
}

impl Sink for Pieces {
    type Error = io::Error;

    fn take(&mut self, bytes: Vec<u8>) -> io::Result<()> {
        for piece in bytes.chunks(DATA_OP_MAX) {
            self.queue.push_back((self.offset, piece.into()));
            self.offset += piece.len() as u64;
        }
        Ok(())
    }
}
