//! The simulated server's calls of the production code for rows ([`loligo_rows`]), and the rows as the checks see them.

use loligo_journal::table::{Meta, Row, decode_row};
use loligo_namespace::{Loaded, Need, Record};
use loligo_rows::{FirstRows, Loader, Pieces, first_rows, put_finished, put_meta};
use loligo_store::{Batch, Durability, Table};
use loligo_types::{Event, Ino, Lsn, Rank, Target, Time};

/// Why rows cannot be read or written, in words.
pub type Result<T> = std::result::Result<T, String>;

/// Few entries at a time, so that directories come in pieces.
const SMALL: Pieces = Pieces { entries: 4, hashes: 4 };

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// The batch that writes these records of a rank.
pub fn batch_of(table: &dyn Table, rank: Rank, records: &[Record]) -> Result<Batch> {
    loligo_rows::batch_of(table, rank, records).map_err(text)
}

/// Makes the root and the head of the table.
pub fn format(table: &dyn Table, key: (u64, u64), now: Time) -> Result<()> {
    let mut batch = first_rows(key, FirstRows { now, mode: 0o755, uid: 0, gid: 0 });
    put_finished(&mut batch);
    table.write(&batch, Durability::Sync).map_err(text)
}

/// Where replay of a rank's journal starts.
pub fn replay_from(table: &dyn Table, rank: Rank) -> Result<Lsn> {
    Ok(loligo_rows::read_values(table, rank).map_err(text)?.replay_from)
}

/// Says where replay of a rank's journal starts, durably; and so is all that was written before.
pub fn put_replay_from(table: &dyn Table, rank: Rank, lsn: Lsn) -> Result<()> {
    let mut batch = Batch::new();
    put_meta(&mut batch, Meta::ReplayFrom, rank, lsn.0);
    table.write(&batch, Durability::Sync).map_err(text)
}

/// Says durably where replay starts, and below which record it leaves out what is said of inodes.
pub fn put_settled(table: &dyn Table, rank: Rank, replay_from: Lsn, table_upto: Lsn) -> Result<()> {
    let mut batch = Batch::new();
    put_meta(&mut batch, Meta::ReplayFrom, rank, replay_from.0);
    put_meta(&mut batch, Meta::TableUpto, rank, table_upto.0);
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

/// Reads the rows that the metadata server needs, directories in small pieces.
pub fn load(table: &dyn Table, key: (u64, u64), needs: &[Need]) -> Result<Vec<Loaded>> {
    Ok(Loader::new(key, SMALL).load(table, needs).map_err(text)?.items)
}
