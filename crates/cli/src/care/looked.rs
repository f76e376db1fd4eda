//! A store for who only looks: whether a server has it or not, it goes on meanwhile. Not here: what is looked for.

use loligo_journal::table::{Meta, decode_meta, key_meta};
use loligo_store::{CheckProgress, Checked, Segment, Segments, StoreError};
use loligo_store_local::LocalCheck;
use loligo_store_rados::RadosCheck;
use loligo_types::{Lsn, Rank};

use crate::at::Store;

/// A store that is looked at.
pub enum Looked {
    /// In a data directory.
    Local(LocalCheck),
    /// In a pool.
    Rados(RadosCheck),
}

impl Looked {
    /// Owns nothing, and keeps nobody from writing.
    pub fn of(store: &Store) -> Result<Looked, StoreError> {
        Ok(match store {
            Store::Local(data) => Looked::Local(LocalCheck::of(data)?),
            Store::Rados { place, .. } => Looked::Rados(RadosCheck::of(place)?),
        })
    }

    /// Checks all of it but the records of journals.
    pub fn run(&self, tell: &mut dyn FnMut(CheckProgress)) -> Result<Checked, StoreError> {
        match self {
            Looked::Local(check) => check.run(tell),
            Looked::Rados(check) => check.run(tell),
        }
    }

    /// The ranks that have a journal.
    pub fn ranks(&self) -> Vec<u32> {
        match self {
            Looked::Local(check) => check.ranks(),
            Looked::Rados(check) => check.ranks(),
        }
    }

    /// The journal of a rank.
    pub fn segments(&self, rank: u32) -> Box<dyn Segments> {
        match self {
            Looked::Local(check) => check.segments(rank),
            Looked::Rados(check) => check.segments(rank),
        }
    }

    /// The mark up to which a rank's journal is known to be durable. A pool keeps no such mark.
    pub fn synced(&self, rank: u32) -> Result<Option<Segment>, StoreError> {
        match self {
            Looked::Local(check) => check.synced(rank),
            Looked::Rados(_) => Ok(None),
        }
    }

    /// Identity of the file system, if it can be read.
    pub fn fs_id(&self) -> Option<[u8; 16]> {
        match self {
            Looked::Local(check) => check.fs_id(),
            Looked::Rados(check) => check.fs_id(),
        }
    }

    /// From which record on a rank's journal has what the table has not. If that cannot be read, the check of the table says so.
    pub fn replay_from(&self, rank: u32) -> Option<Lsn> {
        let key = key_meta(Meta::ReplayFrom, Rank(u16::try_from(rank).ok()?));
        decode_meta(&self.get(&key).ok()??).ok().map(Lsn)
    }

    /// A row of the table, if it can be read.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        match self {
            Looked::Local(check) => check.get(key),
            Looked::Rados(check) => check.get(key),
        }
    }

    /// The table has the row that ends a format. `None`: the row cannot be read.
    pub fn is_formatted(&self) -> Option<bool> {
        let key = key_meta(Meta::Format, Rank::ZERO);
        // The key of the first layout named no rank.
        Some(self.get(&key).ok()?.is_some() || self.get(&key[..2]).ok()?.is_some())
    }
}
