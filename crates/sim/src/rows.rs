//! Rows of the table for the simulated server: checkpoints in, loads out. The counterpart of the driver's threads.

use std::sync::Arc;

use loligo_journal::table::{
    Meta, Row, TABLE_VERSION, decode_entry, decode_inline, decode_inode, decode_meta, decode_row, decode_xattr,
    dir_range_from, encode_decoupled, encode_discard, encode_entry, encode_inline, encode_inode, encode_meta,
    encode_note, encode_orphan, encode_peer, encode_route, encode_session, encode_xattr, entry_hash, key_decoupled,
    key_discard, key_entry, key_inline, key_inode, key_inode_of, key_meta, key_orphan, key_part, key_peer,
    key_policied, key_policies_noted, key_route, key_session, key_xattr, split_entry_key, split_xattr_key, xattr_range,
};
use loligo_namespace::{Loaded, Need, Record, SUBTREE, Tree, hash63};
use loligo_store::{Batch, Durability, Table};
use loligo_types::{Event, Ino, Lsn, Rank, Target, Time};

/// Why rows cannot be read or written, in words.
pub type Result<T> = std::result::Result<T, String>;

/// Entries read at a time from a directory: few, so that directories come in pieces.
const RANGE_ENTRIES: usize = 3;

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Adds what one event of a rank says of its row.
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
        | Event::Merge { .. } => batch,
    };
}

/// The batch that writes these records of a rank.
pub fn batch_of(table: &dyn Table, rank: Rank, records: &[Record]) -> Result<Batch> {
    let mut batch = Batch::new();
    for record in records {
        put_event(&mut batch, &record.event, record.hash, rank);
        if let (true, Event::InodeGone(ino)) = (record.sweep, &record.event) {
            batch.delete(key_policied(*ino));
            let range = xattr_range(*ino);
            for (key, _) in table.scan(&range.start, &range.end, usize::MAX).map_err(text)? {
                batch.delete(key);
            }
        }
    }
    Ok(batch)
}

/// Makes the root and the head of the table.
pub fn format(table: &dyn Table, key: (u64, u64), now: Time) -> Result<()> {
    let mut batch = Batch::new();
    let mut next = Ino(Ino::FIRST.0 + 1);
    for event in Tree::format(now, 0o755, 0, 0) {
        match &event {
            Event::Entry { name, .. } => put_event(&mut batch, &event, hash63(key, name.as_bytes()), Rank::ZERO),
            Event::NextIno(ino) => next = next.max(*ino),
            _ => put_event(&mut batch, &event, 0, Rank::ZERO),
        }
    }
    batch.put(key_meta(Meta::NextIno, Rank::ZERO), encode_meta(next.0));
    batch.put(key_meta(Meta::ReplayFrom, Rank::ZERO), encode_meta(1));
    batch.put(key_meta(Meta::Format, Rank::ZERO), encode_meta(TABLE_VERSION));
    batch.put(key_policies_noted(), encode_note(&[]));
    table.write(&batch, Durability::Sync).map_err(text)
}

/// Where replay of a rank's journal starts.
pub fn replay_from(table: &dyn Table, rank: Rank) -> Result<Lsn> {
    let value = table.get(&key_meta(Meta::ReplayFrom, rank)).map_err(text)?;
    Ok(Lsn(value.map(|v| decode_meta(&v)).transpose().map_err(text)?.unwrap_or(1).max(1)))
}

/// Says where replay of a rank's journal starts, durably; and so is all that was written before.
pub fn put_replay_from(table: &dyn Table, rank: Rank, lsn: Lsn) -> Result<()> {
    let mut batch = Batch::new();
    batch.put(key_meta(Meta::ReplayFrom, rank), encode_meta(lsn.0));
    table.write(&batch, Durability::Sync).map_err(text)
}

/// Says durably where replay starts, and below which record it leaves out what is said of inodes.
pub fn put_settled(table: &dyn Table, rank: Rank, replay_from: Lsn, table_upto: Lsn) -> Result<()> {
    let mut batch = Batch::new();
    batch.put(key_meta(Meta::ReplayFrom, rank), encode_meta(replay_from.0));
    batch.put(key_meta(Meta::TableUpto, rank), encode_meta(table_upto.0));
    table.write(&batch, Durability::Sync).map_err(text)
}

/// All rows.
pub fn all_rows(table: &dyn Table) -> Result<Vec<Row>> {
    let rows = table.scan(&[], &[], usize::MAX).map_err(text)?;
    rows.iter().map(|(key, value)| decode_row(key, value).map_err(|e| format!("row {key:02x?}: {e}"))).collect()
}

/// The rows with what all ranks have counted of directories put together.
pub fn counted(rows: &[Row]) -> Vec<Row> {
    let is_part = |row: &Row| matches!(row, Row::Inode(inode) if inode.part_of().is_some());
    let mut all: Vec<Row> = rows.iter().filter(|row| !is_part(row)).cloned().collect();
    for row in &mut all {
        let Row::Inode(inode) = row else { continue };
        let ino = inode.ino;
        for row in rows.iter().filter(|row| is_part(row)) {
            if let Row::Inode(part) = row
                && part.ino == ino
            {
                inode.add_part(part);
            }
        }
        inode.end_spread();
    }
    all
}

/// The event that would make a row, for fsck.
pub fn event_of(row: Row) -> Option<Event> {
    Some(match row {
        Row::Inode(inode) => Event::Inode(inode),
        Row::Entry { dir, name, target: Target { ino, kind, remote }, .. } => {
            Event::Entry { dir, name, ino, kind, remote }
        }
        Row::Xattr { ino, name, value } => Event::Xattr { ino, name, value },
        Row::Inline { ino, data } => Event::Inline { ino, data },
        Row::Orphan { ino, .. } => Event::Orphan(ino),
        Row::Discard { ino, from, object_size, .. } => Event::Discard { ino, from, object_size },
        Row::Decoupled { record, .. } => Event::Decoupled(record),
        Row::Session(session) => Event::Session(session),
        Row::Meta { meta: Meta::NextIno, value, .. } => Event::NextIno(Ino(value)),
        Row::Meta { .. } | Row::Route { .. } | Row::Peer { .. } | Row::Note { .. } => return None,
    })
}

/// Reads what the metadata server needs, directories in small pieces.
pub fn load(table: &dyn Table, key: (u64, u64), needs: &[Need]) -> Result<Vec<Loaded>> {
    load_pieces(table, key, needs, RANGE_ENTRIES)
}

/// The same with so many entries of a directory at a time.
pub fn load_pieces(table: &dyn Table, key: (u64, u64), needs: &[Need], entries: usize) -> Result<Vec<Loaded>> {
    let mut items = Vec::new();
    for need in needs {
        items.push(match need {
            Need::Inode(ino) => {
                let value = table.get(&key_inode(*ino)).map_err(text)?;
                let inode = value.map(|v| decode_inode(*ino, &v)).transpose().map_err(text)?;
                Loaded::Inode(*ino, inode.map(Box::new))
            }
            Need::Entry { dir, name } => {
                let value = table.get(&key_entry(*dir, hash63(key, name.as_bytes()), name)).map_err(text)?;
                let found = value.map(|v| decode_entry(&v)).transpose().map_err(text)?;
                Loaded::Entry { dir: *dir, name: name.clone(), found }
            }
            Need::Inline(ino) => {
                let value = table.get(&key_inline(*ino)).map_err(text)?;
                Loaded::Inline(*ino, value.map(|v| decode_inline(&v)).transpose().map_err(text)?)
            }
            Need::Xattrs(ino) => {
                let range = xattr_range(*ino);
                let rows = table.scan(&range.start, &range.end, usize::MAX).map_err(text)?;
                let mut xattrs = Vec::new();
                for (key, value) in &rows {
                    let value = decode_xattr(value).map_err(text)?;
                    xattrs.extend(split_xattr_key(key).map(|(_, name)| (Arc::from(name), value)));
                }
                Loaded::Xattrs(*ino, xattrs)
            }
            Need::Range { dir, from_hash } => load_range(table, *dir, *from_hash, entries)?,
            Need::Hashes { dir, from_hash } => hashes_of(key, load_range(table, *dir, *from_hash, entries)?),
            Need::Parts(_) => continue,
        });
    }
    Ok(items)
}

/// The hashes of a range of entries.
pub fn hashes_of(key: (u64, u64), range: Loaded) -> Loaded {
    let Loaded::Range { dir, from_hash, upto_hash, entries } = range else { return range };
    let mut hashes: Vec<u64> = entries.iter().map(|(name, _)| hash63(key, name.as_bytes())).collect();
    hashes.dedup();
    Loaded::Hashes { dir, from_hash, upto_hash, hashes }
}

fn load_range(table: &dyn Table, dir: Ino, from_hash: u64, most: usize) -> Result<Loaded> {
    let range = dir_range_from(dir, from_hash);
    let mut rows = table.scan(&range.start, &range.end, usize::MAX).map_err(text)?;
    let mut upto_hash = u64::MAX;
    if rows.len() > most {
        let last = entry_hash(&rows[most - 1].0).unwrap_or(u64::MAX);
        rows.retain(|(key, _)| entry_hash(key).is_some_and(|hash| hash <= last));
        upto_hash = last;
    }
    let mut entries = Vec::new();
    for (key, value) in &rows {
        let target = decode_entry(value).map_err(text)?;
        let (_, _, name) = split_entry_key(key).ok_or("an entry's key makes no sense")?;
        entries.push((name, target));
    }
    Ok(Loaded::Range { dir, from_hash, upto_hash, entries })
}
