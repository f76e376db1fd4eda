//! Reading a manifest: an entry by number, or by directory and name, with one block of the index and one of entries; pages of listings. Every
//! byte is checked before it is believed. Not here: reading everything (`check.rs`).

use std::sync::Arc;

use super::cache::{Block, Cache};
use super::dirs::Dir;
use super::entries::Entries;
use super::index::{Root, Row};
use super::trailer::{HEADER_LEN, TRAILER_LEN, check_header};
use super::{CHECKSUM, Fault, Item, PAYLOAD_MAX, ReadAt, Section, Source, Trailer, dirs, index, sources};
use crate::entry::{Body, Entry, Slice};

/// Bytes of blocks that a reader keeps by default.
pub const CACHE_BYTES: usize = 8 << 20;

/// An open manifest. It keeps blocks that it has read.
#[derive(Debug)]
pub struct Reader<R> {
    file: R,
    trailer: Trailer,
    root: Root,
    cache: Cache,
    reads: u64,
}

impl<R: ReadAt> Reader<R> {
    /// Opens a manifest of `len` bytes, and keeps at most `cache_bytes` of its blocks, besides the list of the blocks of its index.
    ///
    /// # Errors
    ///
    /// Those of the file; another file, another version, a wrong length or checksum, counts beyond the limits.
    pub fn open(file: R, len: u64, cache_bytes: usize) -> Result<Reader<R>, Fault> {
        if len < (HEADER_LEN + CHECKSUM + TRAILER_LEN) as u64 {
            return Err(Fault::NotManifest("have room for a header and a trailer"));
        }
        let mut header = [0; HEADER_LEN];
        read(&file, 0, &mut header)?;
        check_header(&header)?;
        let mut end = [0; TRAILER_LEN];
        read(&file, len - TRAILER_LEN as u64, &mut end)?;
        let trailer = Trailer::read(&end, len)?;
        let mut reader = Reader { file, trailer, root: Root::default(), cache: Cache::new(cache_bytes), reads: 0 };
        let payload = reader.load(trailer.root_offset, trailer.root_len)?;
        reader.root = Root::read(&payload, trailer.root_offset)?;
        reader.reads = 0;
        Ok(reader)
    }

    /// Totals.
    pub fn trailer(&self) -> &Trailer {
        &self.trailer
    }

    /// Blocks that were read from the file since it was opened.
    pub fn reads(&self) -> u64 {
        self.reads
    }

    /// Bytes of the blocks that are kept, about.
    pub fn cached_bytes(&self) -> usize {
        self.cache.bytes()
    }

    /// The entry with a number, with the counts of a directory. None: there is none.
    ///
    /// # Errors
    ///
    /// Those of the file, and of blocks that are not sound.
    pub fn entry(&mut self, number: u64) -> Result<Option<Entry>, Fault> {
        self.item(number)?.map(|item| self.whole(item)).transpose()
    }

    /// The entry with a number, as it stands. None: there is none. Reads at most two blocks.
    ///
    /// # Errors
    ///
    /// As [`Reader::entry`].
    pub fn item(&mut self, number: u64) -> Result<Option<Item>, Fault> {
        if number == 0 || number > self.trailer.entries {
            return Ok(None);
        }
        let block = self.entries_with(number)?;
        block.from(number)?.next()
    }

    /// The entry of a directory with a name. None: there is none. Reads at most two blocks.
    ///
    /// # Errors
    ///
    /// As [`Reader::entry`].
    pub fn child(&mut self, dir: u64, name: &[u8]) -> Result<Option<Item>, Fault> {
        let is_before = |row: &Row| (row.parent, &*row.key) <= (dir, name);
        let Some(block) = self.block_before(Section::Entries, is_before)? else { return Ok(None) };
        let Block::Entries(block) = block else { return Ok(None) };
        let found = block.find(dir, name)?;
        Ok(found.filter(|item| item.parent == dir && *item.name == *name))
    }

    /// The entry at a path of names below the root. None: there is none.
    ///
    /// # Errors
    ///
    /// As [`Reader::entry`].
    pub fn resolve<'a>(&mut self, names: impl IntoIterator<Item = &'a [u8]>) -> Result<Option<Item>, Fault> {
        let mut found: Option<Item> = None;
        for name in names {
            let dir = match &found {
                Some(item) if !item.is_dir() => return Ok(None),
                Some(item) => item.index,
                None => 0,
            };
            found = self.child(dir, name)?;
            if found.is_none() {
                return Ok(None);
            }
        }
        Ok(found)
    }

    /// Numbers of entries, and of directories among them, of the root (0) or another directory. None: the number is no directory's.
    ///
    /// # Errors
    ///
    /// As [`Reader::entry`].
    pub fn counts(&mut self, dir: u64) -> Result<Option<(u64, u64)>, Fault> {
        Ok(self.dir(dir)?.map(|row| (row.entries, row.dirs)))
    }

    /// A page of a listing: at most `most` entries of a directory from a place on, from 0.
    ///
    /// # Errors
    ///
    /// As [`Reader::entry`].
    pub fn list(&mut self, dir: u64, from: u64, most: usize) -> Result<Vec<Item>, Fault> {
        let mut items = Vec::new();
        let Some(row) = self.dir(dir)?.filter(|row| from < row.entries) else { return Ok(items) };
        let end = row.first + row.entries;
        let mut next = row.first + from;
        while next < end && items.len() < most {
            let block = self.entries_with(next)?;
            let mut run = block.from(next)?;
            while next < end && items.len() < most {
                let Some(item) = run.next()? else { break };
                if item.parent != dir {
                    return Err(Fault::Count {
                        what: "entries of a directory",
                        expected: row.entries,
                        found: next - row.first,
                    });
                }
                items.push(item);
                next += 1;
            }
        }
        Ok(items)
    }

    /// The place of an entry in the listing of its directory, from 0.
    ///
    /// # Errors
    ///
    /// As [`Reader::entry`].
    pub fn ordinal(&mut self, item: &Item) -> Result<Option<u64>, Fault> {
        Ok(self.dir(item.parent)?.and_then(|row| item.index.checked_sub(row.first)))
    }

    /// A source by its number, from 1.
    ///
    /// # Errors
    ///
    /// As [`Reader::entry`]; [`Fault::NoSource`].
    pub fn source(&mut self, number: u64) -> Result<Source, Fault> {
        let missing = Fault::NoSource { source_number: number, sources: self.trailer.sources };
        let block = self.block_before(Section::Sources, |row| row.first <= number)?;
        let Some(Block::Sources(first, rows)) = block else { return Err(missing) };
        let at = number.checked_sub(first).and_then(|at| usize::try_from(at).ok());
        at.and_then(|at| rows.get(at).cloned()).ok_or(missing)
    }

    /// Checks that a slice lies in its source, and returns that; none for zeros.
    ///
    /// # Errors
    ///
    /// As [`Reader::source`]; [`Fault::PastEnd`].
    pub fn source_of(&mut self, slice: &Slice) -> Result<Option<Source>, Fault> {
        if slice.source == 0 {
            return Ok(None);
        }
        let source = self.source(slice.source)?;
        if slice.offset.checked_add(slice.len).is_none_or(|end| end > source.size) {
            let (name, offset, len, size) = (super::shown(&source.name), slice.offset, slice.len, source.size);
            return Err(Fault::PastEnd { name, offset, len, size });
        }
        Ok(Some(source))
    }

    /// Adds the counts of a directory.
    fn whole(&mut self, item: Item) -> Result<Entry, Fault> {
        let body = match item.body {
            Some(body) => body,
            None => {
                let row = self.dir(item.index)?;
                let row = row.ok_or(Fault::Count { what: "rows of a directory", expected: 1, found: 0 })?;
                Body::Dir { entries: row.entries, dirs: row.dirs }
            }
        };
        Ok(Entry { index: item.index, parent: item.parent, name: item.name, attributes: item.attributes, body })
    }

    fn dir(&mut self, dir: u64) -> Result<Option<Dir>, Fault> {
        let Some(Block::Dirs(rows)) = self.block_before(Section::Dirs, |row| row.first <= dir)? else {
            return Ok(None);
        };
        let found = rows.binary_search_by_key(&dir, |row| row.index).ok().map(|at| rows[at]);
        let is_inside = |row: &Dir| row.first + row.entries <= self.trailer.entries + 1;
        match found {
            Some(row) if !is_inside(&row) => Err(Fault::Count {
                what: "entries",
                expected: self.trailer.entries,
                found: row.first + row.entries - 1,
            }),
            found => Ok(found),
        }
    }

    /// The block that has an entry which there is.
    fn entries_with(&mut self, number: u64) -> Result<Entries, Fault> {
        match self.block_before(Section::Entries, |row| row.first <= number)? {
            Some(Block::Entries(block)) if (block.first..block.first + block.count).contains(&number) => Ok(block),
            _ => Err(Fault::Count { what: "entries", expected: self.trailer.entries, found: number - 1 }),
        }
    }

    /// The last block of a section whose row in the index is before what is looked for.
    fn block_before(&mut self, section: Section, is_before: impl Fn(&Row) -> bool) -> Result<Option<Block>, Fault> {
        let rows = match section {
            Section::Dirs => &self.root.dirs,
            Section::Sources => &self.root.sources,
            _ => &self.root.entries,
        };
        let Some(at) = rows.partition_point(&is_before).checked_sub(1) else { return Ok(None) };
        let row = rows[at].clone();
        let rows = match self.block(&row, None)? {
            Block::Index(rows) => rows,
            _ => return Ok(None),
        };
        let Some(at) = rows.partition_point(&is_before).checked_sub(1) else { return Ok(None) };
        self.block(&rows[at], Some(section)).map(Some)
    }

    /// A block; `section`: of rows, or none of the index.
    fn block(&mut self, row: &Row, section: Option<Section>) -> Result<Block, Fault> {
        if let Some(block) = self.cache.get(row.offset) {
            return Ok(block);
        }
        let payload = self.load(row.offset, row.len)?;
        let offset = row.offset;
        let wrong = |what| Err(Fault::Block { offset, at: 0, what });
        let block = match section {
            None => {
                let section = match payload.get(1) {
                    Some(2) => Section::Dirs,
                    Some(3) => Section::Sources,
                    _ => Section::Entries,
                };
                let rows = index::read(&payload, offset, section)?;
                if rows.first().is_none_or(|first| first.first != row.first) {
                    return wrong("it begins elsewhere than the root says");
                }
                Block::Index(rows.into())
            }
            Some(Section::Dirs) => Block::Dirs(dirs::read(&payload, offset)?.into()),
            Some(Section::Sources) => {
                let (first, rows) = sources::read(&payload, offset)?;
                Block::Sources(first, rows.into())
            }
            Some(_) => Block::Entries(Entries::open(payload, offset)?),
        };
        let first = match &block {
            Block::Entries(entries) => Some(entries.first),
            Block::Dirs(rows) => rows.first().map(|row| row.index),
            Block::Sources(first, _) => Some(*first),
            Block::Index(_) => Some(row.first),
        };
        if first != Some(row.first) {
            return wrong("it begins elsewhere than the index says");
        }
        self.cache.put(offset, block.clone());
        Ok(block)
    }

    /// Bytes of a block, with its checksum checked.
    pub(super) fn load(&mut self, offset: u64, len: u32) -> Result<Arc<[u8]>, Fault> {
        let all = len as usize + CHECKSUM;
        let end = offset.checked_add(all as u64).filter(|end| *end <= self.trailer.len - TRAILER_LEN as u64);
        if len as usize > PAYLOAD_MAX || offset < HEADER_LEN as u64 || end.is_none() {
            return Err(Fault::OutOfBounds { offset, len: all as u64 });
        }
        let mut bytes = vec![0; all];
        read(&self.file, offset, &mut bytes)?;
        self.reads += 1;
        let checksum: Option<&[u8; CHECKSUM]> = bytes.last_chunk();
        let payload = &bytes[..len as usize];
        if checksum != Some(&crc32c::crc32c(payload).to_le_bytes()) {
            return Err(Fault::Checksum { what: "block", offset });
        }
        Ok(payload.into())
    }

    pub(super) fn file(&self) -> &R {
        &self.file
    }

    pub(super) fn root(&self) -> &Root {
        &self.root
    }
}

pub(super) fn read(file: &(impl ReadAt + ?Sized), offset: u64, into: &mut [u8]) -> Result<(), Fault> {
    file.read_at(offset, into).map_err(|error| Fault::Io { verb: "read", offset, cause: error.to_string() })
}
