//! The xattr records of one inode as the cache holds them. No permissions, no ACLs (those are in the inode).

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

pub use loligo_types::XattrPair;

/// One xattr; `None`: known to be absent.
pub struct XattrSlot {
    /// The value.
    pub value: Option<Arc<[u8]>>,
    /// See [`super::flag`].
    pub flags: Cell<u8>,
}

/// The xattrs of an inode.
#[derive(Default)]
pub struct XattrSet {
    /// By name.
    pub items: BTreeMap<Arc<[u8]>, XattrSlot>,
    /// Every present one is in `items`.
    pub complete: bool,
}

/// Cost of an xattr in the cache, bytes.
pub fn xattr_bytes(name: &[u8], value: Option<&Arc<[u8]>>) -> usize {
    96 + name.len() + value.map_or(0, |value| value.len())
}

impl XattrSet {
    /// Cost of the set in the cache, bytes.
    pub fn heap_bytes(&self) -> usize {
        self.items.iter().map(|(name, slot)| xattr_bytes(name, slot.value.as_ref())).sum::<usize>() + 64
    }

    /// True if any item has any of the flag bits.
    pub fn any(&self, bits: u8) -> bool {
        self.items.values().any(|slot| slot.flags.get() & bits != 0)
    }
}
