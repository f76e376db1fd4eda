//! Writing a manifest: entries in their order come in, blocks go out. Needs memory for one block of each kind, and eight bytes for each
//! directory whose entries have not come yet. Not here: sorting (`sorter.rs`).

use std::collections::VecDeque;
use std::io::Write;

use super::index::{Root, Row};
use super::trailer::{HEADER_LEN, TRAILER_LEN, header};
use super::{
    CHECKSUM, Fault, Item, SOURCE_NAME_MAX, SOURCES_MAX, Section, Source, Trailer, dirs, entries, index, shown, sources,
};
use crate::entry::{Attributes, Body};
use crate::limits::{BYTES_MAX, ENTRIES_MAX};

/// A manifest that is being written.
#[derive(Debug)]
pub struct Writer<W> {
    out: Output<W>,
    entries: entries::Builder,
    dirs: dirs::Builder,
    sources: sources::Builder,
    /// Index blocks that are being filled: entries, directories, sources.
    index: [index::Builder; 3],
    root: Root,
    totals: Trailer,
    /// Directories whose rows are not written yet, in order; the first one is the directory of the last entry.
    open: VecDeque<u64>,
    /// Entries of the first one, directories among them, and the number of its first entry.
    counted: (u64, u64, u64),
    /// Directory and name of the last entry.
    last: (u64, Vec<u8>),
    /// The same of the last entry of the last block.
    last_of_block: (u64, Vec<u8>),
}

#[derive(Debug)]
struct Output<W> {
    to: W,
    at: u64,
    checksum: u32,
}

impl<W: Write> Output<W> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let offset = self.at;
        self.to.write_all(bytes).map_err(|error| Fault::Io { verb: "written", offset, cause: error.to_string() })?;
        self.at += bytes.len() as u64;
        self.checksum = crc32c::crc32c_append(self.checksum, bytes);
        Ok(())
    }

    /// A block with its checksum; its place.
    fn block(&mut self, payload: &[u8]) -> Result<(u64, u32), Fault> {
        let offset = self.at;
        self.put(payload)?;
        self.put(&crc32c::crc32c(payload).to_le_bytes())?;
        Ok((offset, payload.len() as u32))
    }
}

impl<W: Write> Writer<W> {
    /// Begins a manifest.
    ///
    /// # Errors
    ///
    /// Those of `to`.
    pub fn new(to: W) -> Result<Writer<W>, Fault> {
        let mut out = Output { to, at: 0, checksum: 0 };
        out.put(&header())?;
        Ok(Writer {
            out,
            entries: entries::Builder::new(1),
            dirs: dirs::Builder::new(),
            sources: sources::Builder::new(1),
            index: Default::default(),
            root: Root::default(),
            totals: Trailer::default(),
            open: VecDeque::from([0]),
            counted: (0, 0, 1),
            last: (0, Vec::new()),
            last_of_block: (0, Vec::new()),
        })
    }

    /// Adds a source; its number, from 1. A source comes before the first slice of it.
    ///
    /// # Errors
    ///
    /// Those of the file; a name that is too long, no inode number, a size beyond that of files.
    pub fn source(&mut self, source: &Source) -> Result<u64, Fault> {
        let wrong = |cause| Err(Fault::Entry { name: shown(&source.name), cause });
        if source.name.len() > SOURCE_NAME_MAX {
            return wrong("the path of a source has more than 4095 bytes");
        }
        if source.ino == 0 || source.size > loligo_types::limits::FILE_SIZE_MAX {
            return wrong("a source without an inode number, or larger than a file may be");
        }
        if self.totals.sources == SOURCES_MAX {
            let remedy = "split the tree into several directories";
            return Err(Fault::TooMany { what: "sources", found: SOURCES_MAX + 1, max: SOURCES_MAX, remedy });
        }
        if !self.sources.add(source) {
            self.close_sources()?;
            self.sources.add(source);
        }
        self.totals.sources += 1;
        Ok(self.totals.sources)
    }

    /// Adds an entry; its number. Entries of a directory come together, sorted by name; directories in the order of their numbers.
    ///
    /// # Errors
    ///
    /// Those of the file; an entry out of order, a second one of a name, one in what is no directory, and one that the format cannot hold.
    pub fn add(&mut self, parent: u64, name: &[u8], attributes: Attributes, body: Option<Body>) -> Result<u64, Fault> {
        let index = self.totals.entries + 1;
        let item = Item { index, parent, name: name.into(), attributes, body };
        entries::check_item(name, &item.attributes, item.body.as_ref())?;
        self.check(&item)?;
        while self.open.front() != Some(&parent) {
            self.close_dir()?;
        }
        if !self.entries.add(&item) {
            self.close_entries(Some(&item))?;
            self.entries.add(&item);
        }
        self.totals.entries = index;
        self.counted.0 += 1;
        match &item.body {
            None => {
                self.counted.1 += 1;
                self.totals.dirs += 1;
                self.open.push_back(index);
            }
            Some(Body::Link(_)) => {}
            Some(body) => {
                self.totals.files += 1;
                self.totals.bytes += body.size();
            }
        }
        self.last.0 = parent;
        self.last.1.clear();
        self.last.1.extend_from_slice(name);
        Ok(index)
    }

    fn check(&self, item: &Item) -> Result<(), Fault> {
        let name = || shown(&item.name);
        let too_many = |what, max| {
            let remedy = "split the tree into several directories";
            Err(Fault::TooMany { what, found: max + 1, max, remedy })
        };
        if item.index > 1 {
            match (item.parent, &*item.name).cmp(&(self.last.0, &self.last.1)) {
                std::cmp::Ordering::Less => return Err(Fault::Unsorted { index: item.index, name: name() }),
                std::cmp::Ordering::Equal => return Err(Fault::Duplicate { path: name() }),
                std::cmp::Ordering::Greater => {}
            }
        }
        if self.open.binary_search(&item.parent).is_err() {
            return Err(Fault::NoDirectory { name: name(), parent: item.parent });
        }
        if item.index > ENTRIES_MAX {
            return too_many("entries", ENTRIES_MAX);
        }
        if let Some(Body::Slices(slices)) = &item.body
            && let Some(wrong) = slices.iter().find(|slice| slice.source > self.totals.sources)
        {
            return Err(Fault::NoSource { source_number: wrong.source, sources: self.totals.sources });
        }
        let size = item.body.as_ref().filter(|body| !matches!(body, Body::Link(_))).map_or(0, Body::size);
        if self.totals.bytes.checked_add(size).is_none_or(|bytes| bytes > BYTES_MAX) {
            return too_many("bytes of all files", BYTES_MAX);
        }
        Ok(())
    }

    /// Ends the manifest: its trailer, and the file it went to.
    ///
    /// # Errors
    ///
    /// Those of the file; a tree that is too large for one manifest.
    pub fn finish(mut self) -> Result<(Trailer, W), Fault> {
        while !self.open.is_empty() {
            self.close_dir()?;
        }
        if !self.entries.is_empty() {
            self.close_entries(None)?;
        }
        if !self.dirs.is_empty() {
            self.close_dirs()?;
        }
        if !self.sources.is_empty() {
            self.close_sources()?;
        }
        for section in 0..3 {
            if !self.index[section].is_empty() {
                self.close_index(section)?;
            }
        }
        let remedy = "split the tree into several directories";
        let too_large = Fault::TooMany { what: "blocks", found: self.out.at >> 16, max: self.out.at >> 17, remedy };
        let root = self.root.to_bytes().ok_or(too_large)?;
        let (root_offset, root_len) = self.out.block(&root)?;
        let (content, len) = (self.out.checksum, self.out.at + TRAILER_LEN as u64);
        let trailer = Trailer { root_offset, root_len, content, len, ..self.totals };
        self.out.put(&trailer.to_bytes())?;
        debug_assert!(self.out.at >= (HEADER_LEN + CHECKSUM + TRAILER_LEN) as u64);
        Ok((trailer, self.out.to))
    }

    /// All entries of the first open directory have come.
    fn close_dir(&mut self) -> Result<(), Fault> {
        let Some(index) = self.open.pop_front() else { return Ok(()) };
        let (entries, dirs, first) = self.counted;
        let dir = dirs::Dir { index, first, entries, dirs };
        if !self.dirs.add(&dir) {
            self.close_dirs()?;
            self.dirs.add(&dir);
        }
        self.counted = (0, 0, first + entries);
        Ok(())
    }

    fn close_entries(&mut self, next: Option<&Item>) -> Result<(), Fault> {
        let built = self.entries.close();
        debug_assert!(built.count > 0 && next.is_none_or(|next| next.index == built.first + built.count));
        let (offset, len) = self.out.block(&built.payload)?;
        let (parent, key) = std::mem::take(&mut self.last_of_block);
        self.last_of_block = match next {
            None => (0, Vec::new()),
            // The shortest name that is behind the last one of this block.
            Some(next) if next.parent == self.last.0 => {
                let shared = next.name.iter().zip(&self.last.1).take_while(|(own, old)| own == old).count();
                (next.parent, next.name[..=shared].to_vec())
            }
            Some(next) => (next.parent, Vec::new()),
        };
        self.put_row(0, Row { offset, len, first: built.first, parent, key: key.into() })
    }

    fn close_dirs(&mut self) -> Result<(), Fault> {
        let (payload, first) = self.dirs.close();
        let (offset, len) = self.out.block(&payload)?;
        self.put_row(1, Row { offset, len, first, parent: 0, key: Box::default() })
    }

    fn close_sources(&mut self) -> Result<(), Fault> {
        let (payload, first) = self.sources.close();
        let (offset, len) = self.out.block(&payload)?;
        self.put_row(2, Row { offset, len, first, parent: 0, key: Box::default() })
    }

    fn put_row(&mut self, section: usize, row: Row) -> Result<(), Fault> {
        if !self.index[section].add(&row) {
            self.close_index(section)?;
            self.index[section].add(&row);
        }
        Ok(())
    }

    fn close_index(&mut self, section: usize) -> Result<(), Fault> {
        let code = [Section::Entries, Section::Dirs, Section::Sources][section];
        let (payload, first) = self.index[section].close(code);
        let (offset, len) = self.out.block(&payload)?;
        let rows = [&mut self.root.entries, &mut self.root.dirs, &mut self.root.sources];
        rows[section].push(Row { offset, len, ..first });
        Ok(())
    }
}
