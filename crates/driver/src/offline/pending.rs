//! Changes that the journals would make to the table: rows counted by kind. Read-only.

use std::collections::BTreeMap;

use loligo_journal::table::{Meta, Row, decode_row, xattr_range};
use loligo_rows::scan;

use super::Offline;
use crate::server::error::Result;

/// Rows of one kind that the table has otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pending {
    /// New, or of another value.
    pub put: u64,
    /// To be removed.
    pub removed: u64,
}

impl Offline {
    /// Number of rows, by kind, in which the table differs from the journals. Empty: the table has everything.
    pub fn pending(&self) -> Result<BTreeMap<&'static str, Pending>> {
        let mut all: BTreeMap<&'static str, Pending> = BTreeMap::new();
        for (key, value) in &self.overlay {
            let there = self.table.get(key)?;
            match (value, &there) {
                (None, Some(old)) => all.entry(kind(key, old)).or_default().removed += 1,
                (Some(value), there) if there.as_ref() != Some(value) => {
                    all.entry(kind(key, value)).or_default().put += 1
                }
                _ => {}
            }
        }
        for ino in &self.swept {
            let range = xattr_range(*ino);
            scan(&*self.table, &range.start, &range.end, &mut |key, old| {
                if !self.overlay.contains_key(key) {
                    all.entry(kind(key, old)).or_default().removed += 1;
                }
                Ok(())
            })?;
        }
        Ok(all)
    }
}

fn kind(key: &[u8], value: &[u8]) -> &'static str {
    match decode_row(key, value) {
        Ok(Row::Inode(_)) => "inode",
        Ok(Row::Entry { .. }) => "entry",
        Ok(Row::Xattr { .. }) => "xattr",
        Ok(Row::Inline { .. }) => "inline",
        Ok(Row::Orphan { .. }) => "orphan",
        Ok(Row::Discard { .. }) => "discard",
        Ok(Row::Route { .. }) => "route",
        Ok(Row::Peer { .. }) => "peer",
        Ok(Row::Session(_)) => "session",
        Ok(Row::Decoupled { .. }) => "decoupled",
        Ok(Row::Note { .. }) => "note",
        Ok(Row::Meta { meta: Meta::NextIno, .. }) => "next_ino",
        Ok(Row::Meta { .. }) => "meta",
        Err(_) => "not understood",
    }
}
