//! Reading a manifest from its first to its last byte: checksums, order, counts, and that each slice lies in its source. Not here: if the
//! sources are as they were.

use super::bytes::Cursor;
use super::entries::Entries;
use super::index::Row;
use super::reader::read;
use super::trailer::{HEADER_LEN, TRAILER_LEN};
use super::{CHECKSUM, Fault, Item, ReadAt, Reader, Section, dirs, index, shown, sources};
use crate::entry::Body;

/// Bytes that are read at once.
const PIECE: usize = 1 << 20;

impl<R: ReadAt> Reader<R> {
    /// Reads everything, and shows each entry in order.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong; then entries before it have been shown.
    pub fn check(&mut self, mut visit: impl FnMut(&Item)) -> Result<(), Fault> {
        self.check_content()?;
        let mut blocks = Blocks { next: HEADER_LEN as u64 };
        let mut dirs = Vec::new();
        for row in self.rows(Section::Dirs, &mut blocks)? {
            let payload = self.load(row.offset, row.len)?;
            let rows = dirs::read(&payload, row.offset)?;
            let next = dirs.last().map_or(1, |last: &dirs::Dir| last.first + last.entries);
            let is_next = rows.first().is_some_and(|first| first.index == row.first && first.first == next);
            let is_behind = rows.first().map(|row| row.index) > dirs.last().map(|row: &dirs::Dir| row.index);
            if !is_next || !is_behind {
                return Err(wrong(&row, "directories that are not sorted"));
            }
            dirs.extend(rows);
        }
        let mut sizes: Vec<u64> = Vec::new();
        let mut names: Vec<Box<[u8]>> = Vec::new();
        for row in self.rows(Section::Sources, &mut blocks)? {
            let payload = self.load(row.offset, row.len)?;
            let (first, rows) = sources::read(&payload, row.offset)?;
            if first != row.first || first != sizes.len() as u64 + 1 {
                return Err(wrong(&row, "sources that are not numbered in order"));
            }
            sizes.extend(rows.iter().map(|source| source.size));
            names.extend(rows.into_iter().map(|source| source.name));
        }
        let mut found =
            Found { dirs, at: 0, entries: 0, files: 0, bytes: 0, in_dir: (0, 0), last: None, made: vec![0] };
        for row in self.rows(Section::Entries, &mut blocks)? {
            let payload = self.load(row.offset, row.len)?;
            let block = Entries::open(payload, row.offset)?;
            if block.first != row.first || block.first != found.entries + 1 {
                return Err(wrong(&row, "entries that are not numbered in order"));
            }
            if found.last.as_ref().is_some_and(|(parent, name)| (*parent, &**name) >= (row.parent, &*row.key)) {
                return Err(wrong(&row, "the index says that it begins before the block before it ends"));
            }
            let mut items = block.from(block.first)?;
            let mut is_first = true;
            while let Some(item) = items.next()? {
                if std::mem::take(&mut is_first) && (item.parent, &*item.name) < (row.parent, &*row.key) {
                    return Err(wrong(&row, "the index says that it begins behind its first entry"));
                }
                if let Some(Body::Slices(slices)) = &item.body {
                    for slice in slices.iter().filter(|slice| slice.source != 0) {
                        let (number, sources) = (slice.source, sizes.len() as u64);
                        let at = usize::try_from(number - 1).ok().filter(|at| *at < sizes.len());
                        let at = at.ok_or(Fault::NoSource { source_number: number, sources })?;
                        if slice.offset + slice.len > sizes[at] {
                            let (name, offset, len, size) = (shown(&names[at]), slice.offset, slice.len, sizes[at]);
                            return Err(Fault::PastEnd { name, offset, len, size });
                        }
                    }
                }
                found.count(&item)?;
                visit(&item);
            }
            if !items.is_empty() {
                return Err(wrong(&row, "bytes behind its last entry"));
            }
        }
        found.finish(self.trailer())?;
        let sources = sizes.len() as u64;
        same("sources", self.trailer().sources, sources)
    }

    /// The checksum of all that comes before the trailer.
    fn check_content(&self) -> Result<(), Fault> {
        let end = self.trailer().len - TRAILER_LEN as u64;
        let mut checksum = 0;
        let mut piece = vec![0; PIECE.min(end as usize)];
        let mut at = 0;
        while at < end {
            let len = piece.len().min((end - at) as usize);
            read(self.file(), at, &mut piece[..len])?;
            checksum = crc32c::crc32c_append(checksum, &piece[..len]);
            at += len as u64;
        }
        if checksum != self.trailer().content {
            return Err(Fault::Checksum { what: "content", offset: 0 });
        }
        Ok(())
    }

    /// All rows of a section's index.
    fn rows(&mut self, section: Section, blocks: &mut Blocks) -> Result<Vec<Row>, Fault> {
        let root = self.root();
        let tops = match section {
            Section::Dirs => root.dirs.clone(),
            Section::Sources => root.sources.clone(),
            _ => root.entries.clone(),
        };
        let mut all: Vec<Row> = Vec::new();
        for top in tops {
            let payload = self.load(top.offset, top.len)?;
            let rows = index::read(&payload, top.offset, section)?;
            let first = rows.first();
            if first.is_none_or(|first| (first.first, first.parent, &first.key) != (top.first, top.parent, &top.key)) {
                return Err(wrong(&top, "it begins elsewhere than the root says"));
            }
            if all.last().is_some_and(|last| first.is_some_and(|first| last.first >= first.first)) {
                return Err(wrong(&top, "blocks that are not sorted"));
            }
            all.extend(rows);
        }
        // Blocks of one section follow each other: none is used twice.
        blocks.next = HEADER_LEN as u64;
        for row in &all {
            if row.offset < blocks.next {
                return Err(wrong(row, "it lies over another block"));
            }
            blocks.next = row.offset + u64::from(row.len) + CHECKSUM as u64;
        }
        Ok(all)
    }
}

/// End of the last block that was seen.
struct Blocks {
    next: u64,
}

/// Sums of what was read.
struct Found {
    dirs: Vec<dirs::Dir>,
    /// The row of the directory whose entries come.
    at: usize,
    entries: u64,
    files: u64,
    bytes: u64,
    /// Entries of that directory, and directories among them.
    in_dir: (u64, u64),
    last: Option<(u64, Box<[u8]>)>,
    /// Numbers of the directories, in order.
    made: Vec<u64>,
}

impl Found {
    fn count(&mut self, item: &Item) -> Result<(), Fault> {
        let name = || shown(&item.name);
        if self.last.as_ref().is_some_and(|(parent, name)| (*parent, &**name) >= (item.parent, &*item.name)) {
            return Err(Fault::Unsorted { index: item.index, name: name() });
        }
        while self.dirs.get(self.at).is_some_and(|dir| dir.index < item.parent) {
            self.leave()?;
        }
        if self.dirs.get(self.at).is_none_or(|dir| dir.index != item.parent) {
            return Err(Fault::NoDirectory { name: name(), parent: item.parent });
        }
        self.entries += 1;
        self.in_dir.0 += 1;
        match &item.body {
            None => {
                self.in_dir.1 += 1;
                self.made.push(item.index);
            }
            Some(Body::Link(_)) => {}
            Some(body) => {
                self.files += 1;
                self.bytes = self.bytes.saturating_add(body.size());
            }
        }
        self.last = Some((item.parent, item.name.clone()));
        Ok(())
    }

    /// All entries of the directory have come.
    fn leave(&mut self) -> Result<(), Fault> {
        let dir = self.dirs[self.at];
        same("entries of a directory", dir.entries, self.in_dir.0)?;
        same("directories in a directory", dir.dirs, self.in_dir.1)?;
        (self.at, self.in_dir) = (self.at + 1, (0, 0));
        Ok(())
    }

    fn finish(mut self, trailer: &super::Trailer) -> Result<(), Fault> {
        while self.at < self.dirs.len() {
            self.leave()?;
        }
        same("directories", trailer.dirs + 1, self.made.len() as u64)?;
        same("rows of directories", self.made.len() as u64, self.dirs.len() as u64)?;
        let differs = self.made.iter().zip(&self.dirs).find(|(made, row)| **made != row.index);
        if let Some((made, row)) = differs {
            return Err(Fault::Count { what: "as the number of a directory", expected: row.index, found: *made });
        }
        same("entries", trailer.entries, self.entries)?;
        same("files", trailer.files, self.files)?;
        same("bytes", trailer.bytes, self.bytes)
    }
}

fn same(what: &'static str, expected: u64, found: u64) -> Result<(), Fault> {
    if expected == found { Ok(()) } else { Err(Fault::Count { what, expected, found }) }
}

fn wrong(row: &Row, what: &'static str) -> Fault {
    Cursor::new(&[], row.offset).invalid(what)
}
