//! Events as changes of table rows, for checkpoints, the first rows of a file system, and tools. Decides nothing.

use loligo_journal::table::{
    Meta, encode_decoupled, encode_discard, encode_entry, encode_inline, encode_inode, encode_meta, encode_note,
    encode_orphan, encode_peer, encode_route, encode_session, encode_xattr, key_decoupled, key_discard, key_entry,
    key_inline, key_inode, key_inode_of, key_meta, key_orphan, key_part, key_peer, key_policied, key_route,
    key_session, key_xattr, xattr_range,
};
use loligo_namespace::{Record, SUBTREE};
use loligo_store::{Batch, Table};
use loligo_types::{Event, Ino, Rank, Target};

use crate::error::Result;

/// Rows read at a time when all xattrs of an inode go.
const SWEEP_ROWS: usize = 1024;

/// Adds what one event of a rank says of its row. `hash`: that of the name in an `Entry` or `EntryGone`. An `InodeGone`
/// removes the inode's row only; see [`sweep`] for its xattrs. A `Route` of version 0, which no line of the map has,
/// removes its row. What only the journal holds (letters, what departed, what comes to be merged) and what only memory can tell (which routes a
/// `RouteGone` means; checkpoints name each) is no row.
pub fn put_event(batch: &mut Batch, event: &Event, hash: u64, rank: Rank) {
    match event {
        Event::Inode(inode) => batch.put(key_inode_of(inode), encode_inode(inode)),
        Event::InodeGone(ino) => batch.delete(key_inode(*ino)),
        Event::Entry { dir, name, ino, kind, remote } => {
            let target = Target { ino: *ino, kind: *kind, remote: *remote };
            batch.put(key_entry(*dir, hash, name), encode_entry(target))
        }
        Event::EntryGone { dir, name } => batch.delete(key_entry(*dir, hash, name)),
        Event::Xattr { ino, name, value } => {
            if **name == *SUBTREE {
                batch.put(key_policied(*ino), encode_note(&[]));
            }
            batch.put(key_xattr(*ino, name), encode_xattr(value))
        }
        Event::XattrGone { ino, name } => {
            if **name == *SUBTREE {
                batch.delete(key_policied(*ino));
            }
            batch.delete(key_xattr(*ino, name))
        }
        Event::Inline { ino, data } => batch.put(key_inline(*ino), encode_inline(data)),
        Event::InlineGone(ino) => batch.delete(key_inline(*ino)),
        Event::Orphan(ino) => batch.put(key_orphan(*ino), encode_orphan(rank)),
        Event::OrphanGone(ino) => batch.delete(key_orphan(*ino)),
        Event::Discard { ino, from, object_size } => {
            batch.put(key_discard(*ino), encode_discard(rank, *from, *object_size))
        }
        Event::DiscardGone(ino) => batch.delete(key_discard(*ino)),
        Event::Session(session) => batch.put(key_session(session.id), encode_session(session)),
        Event::SessionGone(id) => batch.delete(key_session(*id)),
        Event::NextIno(ino) => batch.put(key_meta(Meta::NextIno, rank), encode_meta(ino.0)),
        Event::Route(route) if route.version == 0 => batch.delete(key_route(rank, route.dir, route.frag)),
        Event::Route(route) => batch.put(key_route(rank, route.dir, route.frag), encode_route(route)),
        Event::Peer(peer) => batch.put(key_peer(rank, peer.rank), encode_peer(peer)),
        Event::PartGone { dir, rank } => batch.delete(key_part(*rank, *dir)),
        Event::Decoupled(record) => batch.put(key_decoupled(record.dir), encode_decoupled(rank, record)),
        Event::DecoupledGone(dir) => batch.delete(key_decoupled(*dir)),
        Event::RouteGone(_)
        | Event::Letter { .. }
        | Event::Departed(_)
        | Event::DepartedFrag { .. }
        | Event::MergePart { .. }
        | Event::Merge { .. }
        | Event::Data { .. }
        | Event::DataInPlace { .. }
        | Event::Pad { .. }
        | Event::InlinePatch(_) => batch,
    };
}

/// Adds a single value of a rank; those of the whole file system are rank 0's.
pub fn put_meta(batch: &mut Batch, meta: Meta, rank: Rank, value: u64) {
    batch.put(key_meta(meta, rank), encode_meta(value));
}

/// The batch that writes these records of a rank.
pub fn batch_of(table: &dyn Table, rank: Rank, records: &[Record]) -> Result<Batch> {
    let mut batch = Batch::new();
    for record in records {
        put_event(&mut batch, &record.event, record.hash, rank);
        if let (true, Event::InodeGone(ino)) = (record.sweep, &record.event) {
            sweep(table, *ino, &mut batch)?;
        }
    }
    Ok(batch)
}

/// Adds the removal of all xattr rows of an inode.
fn sweep(table: &dyn Table, ino: Ino, batch: &mut Batch) -> Result<()> {
    batch.delete(key_policied(ino));
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
