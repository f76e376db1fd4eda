//! Events as changes of table rows, for checkpoints, formatting and tools. Decides nothing.

use loligo_journal::table::{
    Meta, encode_discard, encode_entry, encode_inline, encode_inode, encode_meta, encode_orphan, encode_session,
    encode_xattr, key_discard, key_entry, key_inline, key_inode, key_meta, key_orphan, key_session, key_xattr,
    xattr_range,
};
use loligo_namespace::Record;
use loligo_store::{Batch, Table};
use loligo_types::{Event, Ino};

use super::error::Result;

/// Rows read at a time when all xattrs of an inode go.
const SWEEP_ROWS: usize = 1024;

/// Adds what one event says of its row. `hash`: that of the name in an `Entry` or `EntryGone`. An `InodeGone` removes
/// the inode's row only; see [`sweep`] for its xattrs.
pub(crate) fn put_event(batch: &mut Batch, event: &Event, hash: u64) {
    match event {
        Event::Inode(inode) => batch.put(key_inode(inode.ino), encode_inode(inode)),
        Event::InodeGone(ino) => batch.delete(key_inode(*ino)),
        Event::Entry { dir, name, ino, kind } => batch.put(key_entry(*dir, hash, name), encode_entry(*ino, *kind)),
        Event::EntryGone { dir, name } => batch.delete(key_entry(*dir, hash, name)),
        Event::Xattr { ino, name, value } => batch.put(key_xattr(*ino, name), encode_xattr(value)),
        Event::XattrGone { ino, name } => batch.delete(key_xattr(*ino, name)),
        Event::Inline { ino, data } => batch.put(key_inline(*ino), encode_inline(data)),
        Event::InlineGone(ino) => batch.delete(key_inline(*ino)),
        Event::Orphan(ino) => batch.put(key_orphan(*ino), encode_orphan()),
        Event::OrphanGone(ino) => batch.delete(key_orphan(*ino)),
        Event::Discard { ino, from, object_size } => batch.put(key_discard(*ino), encode_discard(*from, *object_size)),
        Event::DiscardGone(ino) => batch.delete(key_discard(*ino)),
        Event::Session(session) => batch.put(key_session(session.id), encode_session(session)),
        Event::SessionGone(id) => batch.delete(key_session(*id)),
        Event::NextIno(ino) => batch.put(key_meta(Meta::NextIno), encode_meta(ino.0)),
    };
}

/// Adds a single value.
pub(crate) fn put_meta(batch: &mut Batch, meta: Meta, value: u64) {
    batch.put(key_meta(meta), encode_meta(value));
}

/// The batch that writes these records.
pub(crate) fn batch_of(table: &dyn Table, records: &[Record]) -> Result<Batch> {
    let mut batch = Batch::new();
    for record in records {
        put_event(&mut batch, &record.event, record.hash);
        if let (true, Event::InodeGone(ino)) = (record.sweep, &record.event) {
            sweep(table, *ino, &mut batch)?;
        }
    }
    Ok(batch)
}

/// Adds the removal of all xattr rows of an inode.
fn sweep(table: &dyn Table, ino: Ino, batch: &mut Batch) -> Result<()> {
    let range = xattr_range(ino);
    let mut start = range.start;
    loop {
        let rows = table.scan(&start, &range.end, SWEEP_ROWS)?;
        let more = rows.len() == SWEEP_ROWS;
        for (key, _) in rows {
            start.clone_from(&key);
            start.push(0);
            batch.delete(key);
        }
        if !more {
            return Ok(());
        }
    }
}
