//! The single values and the small tables of a rank, as it reads them when it starts. Read-only; the journal is
//! [`crate::replay`]'s.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use loligo_journal::table::{
    KeyRange, Meta, Row, TABLE_VERSION, decode_meta, decode_row, key_decoupled, key_discard, key_meta, key_orphan,
    key_route, key_session, part_range, peer_range, prefix_range, route_range,
};
use loligo_namespace::Loaded;
use loligo_store::Table;
use loligo_types::{Frag, Ino, Lsn, Rank, Route, SessionId, TableMeta};

use crate::error::{Error, Result, bad_row};

/// Rows read at a time.
const SCAN_ROWS: usize = 1024;

/// The single values of a rank and, the last three, of the whole file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// No inode number from here on was ever given out by this rank.
    pub next_ino: Ino,
    /// The first record of its journal that the table may lack.
    pub replay_from: Lsn,
    /// The table has all that records below this say of inodes.
    pub table_upto: Lsn,
    /// The last server stopped in order.
    pub clean: bool,
    /// The data epoch of the last server; 0: there was none.
    pub data_epoch: u64,
    /// The number of ranks.
    pub ranks: u32,
}

impl Head {
    /// The data epoch of the next server: a new one, unless the last stopped in order.
    pub fn next_data_epoch(&self) -> u64 {
        if self.clean && self.data_epoch > 0 { self.data_epoch } else { self.data_epoch.wrapping_add(1).max(1) }
    }
}

/// Reads the single values of a rank, which may be a new one; refuses a table without a file system or of another layout.
pub fn read_head(table: &dyn Table, rank: Rank) -> Result<Head> {
    check_layout(table)?;
    read_values(table, rank)
}

/// The single values of a rank, be the file system finished or not.
pub fn read_values(table: &dyn Table, rank: Rank) -> Result<Head> {
    let get = |meta: Meta, rank: Rank| -> Result<Option<u64>> {
        let key = key_meta(meta, rank);
        let value = table.get(&key)?;
        value.map(|v| decode_meta(&v)).transpose().map_err(|e| bad_row(&key, &e))
    };
    Ok(Head {
        next_ino: Ino(get(Meta::NextIno, rank)?.unwrap_or(Ino::first_of(rank).0)),
        replay_from: Lsn(get(Meta::ReplayFrom, rank)?.unwrap_or(1).max(1)),
        table_upto: Lsn(get(Meta::TableUpto, rank)?.unwrap_or(0)),
        clean: get(Meta::Clean, Rank::ZERO)? == Some(1),
        data_epoch: get(Meta::DataEpoch, Rank::ZERO)?.unwrap_or(0),
        ranks: get(Meta::Ranks, Rank::ZERO)?.and_then(|ranks| u32::try_from(ranks).ok()).unwrap_or(1).max(1),
    })
}

/// Refuses a table without a file system, or of another layout than this program's.
pub fn check_layout(table: &dyn Table) -> Result<()> {
    // The key of a later layout, whatever it is; that of the first one, which had no ranks, named no rank.
    let key = key_meta(Meta::Format, Rank::ZERO);
    let (key, value) = match table.get(&key)? {
        Some(value) => (key, Some(value)),
        None => (key[..2].to_vec(), table.get(&key[..2])?),
    };
    let Some(value) = value else {
        let is_copy = table.get(&key_meta(Meta::Copying, Rank::ZERO))?.is_some();
        return Err(if is_copy { Error::UnfinishedCopy } else { Error::NotFormatted });
    };
    // All layouts have the number as a version byte and a number; that of the first one is one byte long.
    let found = match value[..] {
        [1, found] => u64::from(found),
        _ => decode_meta(&value).map_err(|e| bad_row(&key, &e))?,
    };
    match found.cmp(&TABLE_VERSION) {
        Ordering::Less => Err(Error::OlderTable { found, known: TABLE_VERSION }),
        Ordering::Greater => Err(Error::NewerTable { found, known: TABLE_VERSION }),
        Ordering::Equal => Ok(()),
    }
}

/// Reads what of the tables that are held in memory as a whole is a rank's: sessions, orphans, discards, what it has put
/// down of the subtree map, how far its letters have come, its parts of directories, the inode counter.
pub fn read_small(table: &dyn Table, rank: Rank, head: &Head, load: &mut dyn FnMut(Loaded)) -> Result<()> {
    load(Loaded::NextIno(head.next_ino));
    let all = |key: Vec<u8>| prefix_range(&key[..1]);
    let of_all = [all(key_orphan(Ino(0))), all(key_discard(Ino(0))), all(key_decoupled(Ino(0)))];
    let own = [sessions_of(rank), route_range(rank), peer_range(rank), part_range(rank)];
    for range in of_all.into_iter().chain(own) {
        scan(table, &range.start, &range.end, &mut |key, value| {
            match decode_row(key, value).map_err(|e| bad_row(key, &e))? {
                Row::Session(session) => load(Loaded::Session(session)),
                Row::Orphan { ino, rank: of } if of == rank => load(Loaded::Orphan(ino)),
                Row::Discard { ino, rank: of, from, object_size } if of == rank => {
                    load(Loaded::Discard { ino, from, object_size });
                }
                Row::Decoupled { rank: of, record } if of == rank => load(Loaded::Decoupled(record)),
                Row::Route { route, .. } => load(Loaded::Route(route)),
                Row::Peer { peer, .. } => load(Loaded::Peer(peer)),
                Row::Inode(part) => load(Loaded::Inode(part.ino, Some(part))),
                _ => {}
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// The same as what a metadata server starts from, with what all ranks have put down of the subtree map.
pub fn read_meta(table: &dyn Table, rank: Rank, head: &Head) -> Result<TableMeta> {
    let mut meta = TableMeta { table_upto: head.table_upto, other_routes: read_routes(table)?, ..TableMeta::default() };
    read_small(table, rank, head, &mut |loaded| match loaded {
        Loaded::NextIno(ino) => meta.next_ino = ino,
        Loaded::Session(session) => meta.sessions.push(session),
        Loaded::Orphan(ino) => meta.orphans.push(ino),
        Loaded::Discard { ino, from, object_size } => meta.discards.push((ino, from, object_size)),
        Loaded::Decoupled(record) => meta.decoupled.push(*record),
        Loaded::Route(route) => meta.routes.push(route),
        Loaded::Peer(peer) => meta.peers.push(peer),
        Loaded::Inode(_, Some(part)) => meta.parts.push(*part),
        _ => {}
    })?;
    Ok(meta)
}

/// The sessions at a rank: its number is the first two bytes of theirs.
fn sessions_of(rank: Rank) -> KeyRange {
    prefix_range(&key_session(SessionId::new(rank, Lsn(0)))[..3])
}

/// The subtree map as all ranks together have put it down: of each fragment the newest line, ascending.
pub fn read_routes(table: &dyn Table) -> Result<Vec<Route>> {
    let range = prefix_range(&key_route(Rank::ZERO, Ino(0), Frag::WHOLE)[..1]);
    let mut newest: BTreeMap<(Ino, Frag), Route> = BTreeMap::new();
    scan(table, &range.start, &range.end, &mut |key, value| {
        if let Row::Route { route, .. } = decode_row(key, value).map_err(|e| bad_row(key, &e))? {
            let known = newest.entry((route.dir, route.frag)).or_insert(route);
            if known.version < route.version {
                *known = route;
            }
        }
        Ok(())
    })?;
    Ok(newest.into_values().collect())
}

/// Sees a key and its value.
pub type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<()>;

/// Visits all rows of a range in order, in bounded memory.
pub fn scan(table: &dyn Table, start: &[u8], end: &[u8], visit: Visit<'_>) -> Result<()> {
    let mut start = start.to_vec();
    loop {
        let rows = table.scan(&start, end, SCAN_ROWS)?;
        for (key, value) in &rows {
            visit(key, value)?;
        }
        match rows.last() {
            Some((key, _)) if rows.len() == SCAN_ROWS => {
                start.clone_from(key);
                start.push(0);
            }
            _ => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use loligo_journal::table::encode_meta;
    use loligo_store::mem::MemDisk;
    use loligo_store::{Backend, Batch, Durability, Identity};
    use loligo_types::{Event, PeerRecord, Seq, SessionRecord};

    use super::*;
    use crate::write::{put_event, put_meta};

    fn table() -> Arc<dyn Table> {
        MemDisk::new(Identity::new([1; 16], [2; 16])).open().expect("it is not open").table()
    }

    fn write(table: &dyn Table, fill: impl FnOnce(&mut Batch)) {
        let mut batch = Batch::new();
        fill(&mut batch);
        table.write(&batch, Durability::Sync).expect("memory has room");
    }

    fn route(dir: u64, rank: u16, version: u64) -> Route {
        Route { dir: Ino(dir), frag: Frag::WHOLE, rank: Rank(rank), version }
    }

    #[test]
    fn another_layout_is_refused_by_name() {
        let refused = |table: &dyn Table| read_head(table, Rank::ZERO).expect_err("refused").to_string();
        let empty = table();
        assert!(refused(&*empty).contains("no file system"));
        let newer = table();
        write(&*newer, |batch| put_meta(batch, Meta::Format, Rank::ZERO, TABLE_VERSION + 1));
        assert!(refused(&*newer).contains("use a newer version"));
        // As the first layout had it: no rank in the key, values of version 1.
        let older = table();
        write(&*older, |batch| _ = batch.put(vec![b'M', 1], vec![1, 1]));
        let text = refused(&*older);
        assert!(text.contains("has layout 1") && text.contains("load the dump"), "{text}");
        write(&*older, |batch| _ = batch.put(key_meta(Meta::Format, Rank::ZERO), encode_meta(1)));
        assert!(refused(&*older).contains("has layout 1"));
    }

    #[test]
    fn each_rank_has_its_own_counters_and_shares_the_rest() {
        let table = table();
        write(&*table, |batch| {
            put_meta(batch, Meta::Format, Rank::ZERO, TABLE_VERSION);
            put_meta(batch, Meta::Ranks, Rank::ZERO, 2);
            put_meta(batch, Meta::DataEpoch, Rank::ZERO, 5);
            put_meta(batch, Meta::ReplayFrom, Rank(1), 77);
            put_meta(batch, Meta::NextIno, Rank::ZERO, 300);
        });
        let zero = read_head(&*table, Rank::ZERO).expect("a head");
        assert_eq!((zero.next_ino, zero.replay_from), (Ino(300), Lsn(1)));
        let one = read_head(&*table, Rank(1)).expect("a head");
        assert_eq!((one.next_ino, one.replay_from), (Ino::first_of(Rank(1)), Lsn(77)));
        assert_eq!((one.clean, one.data_epoch, one.ranks), (false, 5, 2));
    }

    #[test]
    fn a_rank_reads_its_own_small_records_and_the_map_of_all() {
        let table = table();
        let session = |rank| SessionRecord {
            id: SessionId::new(Rank(rank), Lsn(9)),
            name: Box::default(),
            client: 3,
            local: false,
            uid: 0,
            answered: Seq(0),
            done: Vec::new(),
            grants: loligo_types::InoGrants::default(),
            addresses: Vec::new(),
        };
        write(&*table, |batch| {
            put_meta(batch, Meta::Format, Rank::ZERO, TABLE_VERSION);
            for rank in [0u16, 1, 256] {
                let number = u64::from(rank);
                for event in [
                    Event::Session(session(rank)),
                    Event::Orphan(Ino(300 + number)),
                    Event::Discard { ino: Ino(600 + number), from: 0, object_size: 4096 },
                    Event::Route(route(1000, rank, 1 + number)),
                    Event::Route(route(2000 + number, rank, 1)),
                    Event::Peer(PeerRecord { rank: Rank(7), sent: number, acked: 0, received: 0 }),
                ] {
                    put_event(batch, &event, 0, Rank(rank));
                }
            }
        });
        let head = read_head(&*table, Rank(1)).expect("a head");
        let mut seen = Vec::new();
        read_small(&*table, Rank(1), &head, &mut |item| seen.push(item)).expect("good rows");
        let want = [
            Loaded::NextIno(Ino::first_of(Rank(1))),
            Loaded::Orphan(Ino(301)),
            Loaded::Discard { ino: Ino(601), from: 0, object_size: 4096 },
            Loaded::Session(session(1)),
            Loaded::Route(route(1000, 1, 2)),
            Loaded::Route(route(2001, 1, 1)),
            Loaded::Peer(PeerRecord { rank: Rank(7), sent: 1, acked: 0, received: 0 }),
        ];
        assert_eq!(format!("{seen:?}"), format!("{want:?}"));
        let map = read_routes(&*table).expect("good rows");
        assert_eq!(map, [route(1000, 256, 257), route(2000, 0, 1), route(2001, 1, 1), route(2256, 256, 1)]);
        write(&*table, |batch| put_event(batch, &Event::Route(route(1000, 0, 0)), 0, Rank(256)));
        assert_eq!(read_routes(&*table).expect("good rows")[0], route(1000, 1, 2), "version 0 removes the row");
    }
}
