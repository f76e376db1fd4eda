//! Scans of the whole table, when a rank is drained and when a directory is decoupled: the meaning of the rows. Reads nothing itself.

use loligo_journal::DecodeError;
use loligo_journal::table::{
    Row, decode_row, key_inode, key_policies_noted, key_xattr, policied_range, prefix_range, split_policied_key,
};
use loligo_namespace::{PIN, SUBTREE, pinned_ranks};
use loligo_types::{Ino, Kind, Rank};

use crate::io::{Page, Scan};

/// Rows looked at in one go.
const ROWS: usize = 2048;

/// Rows: keys and values.
type Rows = Vec<(Vec<u8>, Vec<u8>)>;

impl Scan {
    /// One page of what is looked for on behalf of a rank, from an inode on. `rows`: so many rows at most of the table
    /// between two keys, ascending. `bad`: the error for a row that means nothing.
    pub fn page<E>(
        self,
        rank: Rank,
        from: Ino,
        mut rows: impl FnMut(&[u8], &[u8], usize) -> Result<Rows, E>,
        bad: impl Fn(&[u8], &DecodeError) -> E,
    ) -> Result<Page, E> {
        if self == Scan::Policies {
            let noted = key_policies_noted();
            let behind = [&noted[..], &[0]].concat();
            if !rows(&noted, &behind, 1)?.is_empty() {
                return noted_page(from, rows);
            }
        }
        let (all, start) = match self {
            Scan::Pins | Scan::Policies => (key_xattr(Ino(0), b""), key_xattr(from, b"")),
            Scan::Floating | Scan::Scattered => (key_inode(Ino(0)), key_inode(from)),
        };
        let end = prefix_range(&all[..1]).end;
        let mut limit = ROWS;
        loop {
            let some = rows(&start, &end, limit)?;
            let full = some.len() == limit;
            let mut page = Page::default();
            let mut last = from;
            for (key, value) in &some {
                let row = decode_row(key, value).map_err(|error| bad(key, &error))?;
                let Some((ino, found)) = self.look(rank, row) else { continue };
                last = ino;
                page.found.extend(found.map(|ranks| (ino, ranks)));
            }
            if !full {
                return Ok(page);
            }
            if last > from {
                // Of the last one some rows may be behind the limit.
                page.found.retain(|(ino, _)| *ino < last);
                page.next = Some(last);
                return Ok(page);
            }
            limit *= 2;
        }
    }

    /// The inode that a row is of, and what of it is looked for.
    fn look(self, rank: Rank, row: Row) -> Option<(Ino, Option<Vec<Rank>>)> {
        match (self, row) {
            (Scan::Pins, Row::Xattr { ino, name, value }) => {
                Some((ino, (*name == *PIN).then(|| pinned_ranks(&value)).flatten()))
            }
            (Scan::Policies, Row::Xattr { ino, name, .. }) => Some((ino, (*name == *SUBTREE).then(Vec::new))),
            (Scan::Floating, Row::Inode(inode)) => Some((inode.ino, (inode.place.rank() == Some(rank)).then(Vec::new))),
            (Scan::Scattered, Row::Inode(inode)) => {
                let is_dir = inode.kind == Kind::Dir && inode.nlink > 0 && inode.part_of().is_none();
                Some((inode.ino, (is_dir && inode.ino.zeroth_rank() == Some(rank)).then(Vec::new)))
            }
            _ => None,
        }
    }
}

/// A page of directories with policies, as the table has noted them.
fn noted_page<E>(from: Ino, mut rows: impl FnMut(&[u8], &[u8], usize) -> Result<Rows, E>) -> Result<Page, E> {
    let range = policied_range(from);
    let some = rows(&range.start, &range.end, ROWS)?;
    let found: Vec<Ino> = some.iter().filter_map(|(key, _)| split_policied_key(key)).collect();
    let next = found.last().filter(|_| some.len() == ROWS).map(|last| Ino(last.0 + 1));
    Ok(Page { found: found.into_iter().map(|ino| (ino, Vec::new())).collect(), next })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use loligo_journal::table::{encode_inode, encode_note, encode_xattr, key_inode_of, key_policied};
    use loligo_types::{Inode, Place, Time};

    use super::*;

    fn scan(what: Scan, table: &BTreeMap<Vec<u8>, Vec<u8>>) -> Vec<(Ino, Vec<Rank>)> {
        let (mut found, mut from) = (Vec::new(), Ino(0));
        loop {
            let rows = |start: &[u8], end: &[u8], limit: usize| -> Result<Rows, String> {
                let range = table.range(start.to_vec()..end.to_vec()).take(limit);
                Ok(range.map(|(key, value)| (key.clone(), value.clone())).collect())
            };
            let page = what.page(Rank(1), from, rows, |_, error| error.to_string()).expect("good rows");
            found.extend(page.found);
            match page.next {
                Some(next) => from = next,
                None => return found,
            }
        }
    }

    #[test]
    fn directories_whose_number_names_the_rank_are_found() {
        let plain = Ino(1000);
        let [ours, others] = [1, 2].map(|rank| plain.scattered(Rank(rank)).expect("it fits"));
        let dir = |ino| Inode::new(ino, Kind::Dir, 0o755, 0, 0, Ino(1), Time(0));
        let orphan =
            Inode { place: Place::floating(Rank(1)), nlink: 0, ..dir(Ino(1002).scattered(Rank(1)).expect("it fits")) };
        let part = dir(Ino(1003).scattered(Rank(1)).expect("it fits")).new_part(Rank(2));
        let rows = [dir(plain), dir(ours), dir(others), orphan.clone(), part];
        let table = rows.iter().map(|inode| (key_inode_of(inode), encode_inode(inode))).collect();
        assert_eq!(scan(Scan::Scattered, &table), [(ours, Vec::new())]);
        assert_eq!(scan(Scan::Floating, &table), [(orphan.ino, Vec::new())]);
    }

    #[test]
    fn directories_with_policies_are_found_by_their_notes_and_in_a_table_without_notes_by_their_xattrs() {
        let mut table = BTreeMap::new();
        let count = 2 * ROWS as u64 + 5;
        for n in 0..count {
            table.insert(key_xattr(Ino(1000 + n), SUBTREE), encode_xattr(b""));
            table.insert(key_xattr(Ino(1000 + n), b"user.a"), encode_xattr(b""));
        }
        let all: Vec<_> = (0..count).map(|n| (Ino(1000 + n), Vec::new())).collect();
        assert_eq!(scan(Scan::Policies, &table), all);
        table.insert(key_policies_noted(), encode_note(&[]));
        assert_eq!(scan(Scan::Policies, &table), []);
        for (ino, _) in &all {
            table.insert(key_policied(*ino), encode_note(&[]));
        }
        assert_eq!(scan(Scan::Policies, &table), all);
    }

    #[test]
    fn all_pins_and_all_files_that_live_by_themselves_are_found_once() {
        let mut table = BTreeMap::new();
        let (mut pins, mut files) = (Vec::new(), Vec::new());
        for n in 0..3 * ROWS as u64 {
            let ino = Ino(1000 + n);
            let mut inode = Inode::new(ino, Kind::File, 0o644, 0, 0, Ino(1), Time(0));
            if n % 700 == 5 {
                inode.place = Place::floating(Rank((n % 2) as u16));
                files.extend((n % 2 == 1).then_some((ino, Vec::new())));
            }
            table.insert(key_inode(ino), encode_inode(&inode));
            let many = if n == 77 { ROWS as u64 + 10 } else { 1 };
            for x in 0..many {
                table.insert(key_xattr(ino, format!("loligo.a{x}").as_bytes()), encode_xattr(b"9"));
            }
            if n % 500 == 77 {
                table.insert(key_xattr(ino, PIN), encode_xattr(b"1,3"));
                pins.push((ino, vec![Rank(1), Rank(3)]));
            }
        }
        assert_eq!(scan(Scan::Pins, &table), pins);
        assert_eq!(scan(Scan::Floating, &table), files);
        assert!(!pins.is_empty() && !files.is_empty());
    }
}
