//! Blocks of entries: front-coded names, differences to the entry before, and a place every 16 entries from which reading can begin. Not here:
//! which block has an entry (`index.rs`), counts of directories (`dirs.rs`).

use std::sync::Arc;

use loligo_types::{Name, Time, limits};

use super::bytes::{Cursor, put_bytes, put_u64, put_zigzag};
use super::{Fault, INLINE_MAX, Item, PAYLOAD_MAX, SLICES_MAX, Section, shown};
use crate::entry::{Attributes, Body, Slice};

/// Entries from one place of beginning to the next.
const RESTART: u64 = 16;

/// Kind of an entry, the low three bits of its first byte. Persisted.
mod kind {
    pub const DIR: u8 = 1;
    pub const SLICES: u8 = 2;
    pub const BYTES: u8 = 3;
    pub const LINK: u8 = 4;
    pub const ZEROS: u8 = 5;
    pub const MASK: u8 = 7;
}

/// Flags in the first byte of an entry. Persisted.
mod flag {
    /// Another directory than that of the entry before.
    pub const DIRECTORY: u8 = 8;
    /// Other mode, owner or group.
    pub const ATTRIBUTES: u8 = 16;
    /// Another time.
    pub const MTIME: u8 = 32;
    /// One slice, of the source of the slice before and behind it.
    pub const NEXT: u8 = 64;
}

/// The part of an entry that the next one may refer to.
#[derive(Clone, Debug, Default)]
struct Before {
    parent: u64,
    name: Vec<u8>,
    attributes: Attributes,
    /// Source and end of the last slice; source 0: there is none.
    slice: (u64, u64),
}

/// A block that is being written.
#[derive(Debug)]
pub(super) struct Builder {
    first: u64,
    count: u64,
    bytes: Vec<u8>,
    restarts: Vec<u16>,
    before: Before,
}

/// A block with its first entry and the last name before it was closed.
pub(super) struct Built {
    pub payload: Vec<u8>,
    pub first: u64,
    pub count: u64,
}

impl Builder {
    pub fn new(first: u64) -> Builder {
        Builder { first, count: 0, bytes: Vec::new(), restarts: Vec::new(), before: Before::default() }
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Appends an entry. False: it has no room, and nothing was done.
    pub fn add(&mut self, item: &Item) -> bool {
        let is_restart = self.count.is_multiple_of(RESTART);
        let fresh = Before::default();
        let start = self.bytes.len();
        put_item(&mut self.bytes, item, if is_restart { &fresh } else { &self.before }, is_restart);
        // Type, two numbers, and the places of beginning.
        let len = 1 + 10 + 10 + self.bytes.len() + 2 * (self.restarts.len() + 1);
        if len > PAYLOAD_MAX {
            self.bytes.truncate(start);
            return false;
        }
        if is_restart {
            self.restarts.push(start as u16);
        }
        let slice = match &item.body {
            Some(Body::Slices(slices)) => slices.last().map(|last| (last.source, last.offset.saturating_add(last.len))),
            _ => None,
        };
        let kept = if is_restart { (0, 0) } else { self.before.slice };
        self.before.parent = item.parent;
        self.before.name.clear();
        self.before.name.extend_from_slice(&item.name);
        self.before.attributes = item.attributes;
        self.before.slice = slice.unwrap_or(kept);
        self.count += 1;
        true
    }

    /// Ends the block; the next one begins behind its last entry.
    pub fn close(&mut self) -> Built {
        let mut payload = vec![Section::Entries as u8];
        put_u64(&mut payload, self.first);
        put_u64(&mut payload, self.count);
        payload.extend_from_slice(&self.bytes);
        self.restarts.iter().for_each(|at| payload.extend_from_slice(&at.to_le_bytes()));
        let built = Built { payload, first: self.first, count: self.count };
        *self = Builder::new(self.first + self.count);
        built
    }
}

fn put_item(out: &mut Vec<u8>, item: &Item, before: &Before, is_restart: bool) {
    let new_dir = is_restart || item.parent != before.parent;
    let (own, old) = (&item.attributes, &before.attributes);
    let next = match &item.body {
        Some(Body::Slices(slices)) => match slices[..] {
            [Slice { source, offset, len }] if source != 0 && source == before.slice.0 => {
                offset.checked_sub(before.slice.1).map(|gap| (gap, len))
            }
            _ => None,
        },
        _ => None,
    };
    let mut first = match &item.body {
        None | Some(Body::Dir { .. }) => kind::DIR,
        Some(Body::Slices(_)) => kind::SLICES,
        Some(Body::Bytes(_)) => kind::BYTES,
        Some(Body::Link(_)) => kind::LINK,
        Some(Body::Zeros(_)) => kind::ZEROS,
    };
    let same = (own.mode, own.uid, own.gid) == (old.mode, old.uid, old.gid);
    let set = |is: bool, flag: u8| if is { flag } else { 0 };
    first |= set(new_dir, flag::DIRECTORY) | set(!same, flag::ATTRIBUTES);
    first |= set(own.mtime != old.mtime, flag::MTIME) | set(next.is_some(), flag::NEXT);
    out.push(first);
    if new_dir {
        // Behind a place of beginning there is none before.
        put_u64(out, item.parent - before.parent);
        put_bytes(out, &item.name);
    } else {
        let shared = item.name.iter().zip(&before.name).take_while(|(own, old)| own == old).count();
        put_u64(out, shared as u64);
        put_bytes(out, &item.name[shared..]);
    }
    if !same {
        put_u64(out, u64::from(own.mode));
        put_u64(out, own.uid.map_or(0, |uid| u64::from(uid) + 1));
        put_u64(out, own.gid.map_or(0, |gid| u64::from(gid) + 1));
    }
    if own.mtime != old.mtime {
        out.push(u8::from(own.mtime.is_some()));
        if let Some(time) = own.mtime {
            put_zigzag(out, time.0.wrapping_sub(old.mtime.unwrap_or_default().0));
        }
    }
    match (&item.body, next) {
        (_, Some((gap, len))) => {
            put_u64(out, gap);
            put_u64(out, len);
        }
        (Some(Body::Slices(slices)), None) => {
            put_u64(out, slices.len() as u64);
            for slice in slices.iter() {
                put_u64(out, slice.source);
                put_u64(out, slice.offset);
                put_u64(out, slice.len);
            }
        }
        (Some(Body::Bytes(bytes) | Body::Link(bytes)), None) => put_bytes(out, bytes),
        (Some(Body::Zeros(size)), None) => put_u64(out, *size),
        (None | Some(Body::Dir { .. }), None) => {}
    }
}

/// Checks what the format cannot express or a reader refuses.
pub(super) fn check_item(name: &[u8], attributes: &Attributes, body: Option<&Body>) -> Result<(), Fault> {
    let is_empty = name.is_empty();
    let checked = Name::check(name);
    let name = || shown(name);
    let wrong = |cause| Err(Fault::Entry { name: name(), cause });
    if let Err(error) = checked {
        let cause = match error {
            loligo_types::FsError::NameTooLong => "it has more than 255 bytes",
            _ if is_empty => "it is empty",
            _ => "`.`, `..`, and names with `/` or NUL are none",
        };
        return Err(Fault::Name { name: name(), cause });
    }
    if attributes.mode > 0o7777 {
        return wrong("its mode has more than 12 bits");
    }
    if attributes.uid == Some(u32::MAX) || attributes.gid == Some(u32::MAX) {
        return wrong("its owner or group is 2^32 - 1, which names nobody");
    }
    match body {
        Some(Body::Slices(slices)) => {
            if slices.len() > SLICES_MAX {
                let remedy = "store its bytes in one piece";
                let (what, found, max) = ("slices of one file", slices.len() as u64, SLICES_MAX as u64);
                return Err(Fault::TooMany { what, found, max, remedy });
            }
            let sum = slices.iter().try_fold(0u64, |sum, slice| {
                slice.offset.checked_add(slice.len).filter(|end| *end <= limits::FILE_SIZE_MAX)?;
                sum.checked_add(slice.len)
            });
            if sum.is_none_or(|sum| sum > limits::FILE_SIZE_MAX) {
                return wrong("its slices are longer than a file may be");
            }
            if slices.iter().any(|slice| slice.source == 0 && slice.offset != 0) {
                return wrong("a slice of zeros has an offset");
            }
        }
        Some(Body::Bytes(bytes)) if bytes.len() > INLINE_MAX => {
            let (found, max, remedy) = (bytes.len() as u64, INLINE_MAX as u64, "store it in a file");
            return Err(Fault::TooMany { what: "bytes of a file in the manifest", found, max, remedy });
        }
        Some(Body::Link(target)) if target.is_empty() || target.len() > limits::SYMLINK_MAX || target.contains(&0) => {
            return wrong("its target is empty, longer than 4095 bytes, or has a NUL");
        }
        Some(Body::Zeros(size)) if *size > limits::FILE_SIZE_MAX => return wrong("it is larger than a file may be"),
        _ => {}
    }
    Ok(())
}

/// A block that was read.
#[derive(Clone, Debug)]
pub(super) struct Entries {
    payload: Arc<[u8]>,
    offset: u64,
    pub first: u64,
    pub count: u64,
    /// Where the entries begin.
    start: usize,
}

impl Entries {
    /// Reads the head of a block.
    pub fn open(payload: Arc<[u8]>, offset: u64) -> Result<Entries, Fault> {
        let mut cursor = Cursor::new(&payload, offset);
        if cursor.u8()? != Section::Entries as u8 {
            return Err(cursor.invalid("it is no block of entries"));
        }
        let first = cursor.u64()?;
        // An entry has at least a first byte and two lengths.
        let count = cursor.count(3)?;
        if first == 0 || first.checked_add(count).is_none_or(|end| end > crate::limits::ENTRIES_MAX + 1) {
            return Err(cursor.invalid("entries with numbers beyond the largest"));
        }
        let start = cursor.at();
        cursor.without_last(2 * count.div_ceil(RESTART) as usize)?;
        Ok(Entries { first, count, start, payload, offset })
    }

    /// Bytes that it takes in memory.
    pub fn bytes(&self) -> usize {
        self.payload.len()
    }

    /// Its entries from the place of beginning with this number on.
    fn behind_restart(&self, restart: u64) -> Result<Items<'_>, Fault> {
        let cursor = Cursor::new(&self.payload, self.offset);
        let (cursor, table) = cursor.without_last(2 * self.count.div_ceil(RESTART) as usize)?;
        let place = table.chunks_exact(2).nth(restart as usize).and_then(|place| place.try_into().ok());
        let place = place.map(u16::from_le_bytes).ok_or_else(|| cursor.invalid("a restart that is not there"))?;
        let cursor = cursor.jump(self.start + usize::from(place))?;
        let next = self.first + restart * RESTART;
        Ok(Items { cursor, next, first: self.first, end: self.first + self.count, before: Before::default() })
    }

    /// All entries from the one with this number on.
    pub fn from(&self, index: u64) -> Result<Items<'_>, Fault> {
        let mut items = self.behind_restart(index.saturating_sub(self.first) / RESTART)?;
        while items.next < index {
            items.next()?;
        }
        Ok(items)
    }

    /// The first entry with at least this directory and name. None: all are less.
    pub fn find(&self, parent: u64, name: &[u8]) -> Result<Option<Item>, Fault> {
        let (mut low, mut high) = (0, self.count.div_ceil(RESTART));
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let item = self.behind_restart(middle)?.next()?;
            let is_before = item.is_some_and(|item| (item.parent, &*item.name) <= (parent, name));
            if is_before { low = middle } else { high = middle }
        }
        let mut items = self.behind_restart(low)?;
        while let Some(item) = items.next()? {
            if (item.parent, &*item.name) >= (parent, name) {
                return Ok(Some(item));
            }
        }
        Ok(None)
    }
}

/// Entries of a block in order.
pub(super) struct Items<'a> {
    cursor: Cursor<'a>,
    next: u64,
    first: u64,
    end: u64,
    before: Before,
}

impl Items<'_> {
    /// The next one. It is sound by itself, and comes behind the one before it if that is not behind a place of beginning.
    pub fn next(&mut self) -> Result<Option<Item>, Fault> {
        if self.next == self.end {
            return Ok(None);
        }
        let is_restart = (self.next - self.first).is_multiple_of(RESTART);
        if is_restart {
            self.before = Before::default();
        }
        let item = self.take(is_restart)?;
        self.next += 1;
        Ok(Some(item))
    }

    /// True if no bytes are left behind the last entry.
    pub fn is_empty(&self) -> bool {
        self.next == self.end && self.cursor.is_empty()
    }

    fn take(&mut self, is_restart: bool) -> Result<Item, Fault> {
        let first = self.cursor.u8()?;
        let has = |flag: u8| first & flag != 0;
        if first & 0x80 != 0 || is_restart && !has(flag::DIRECTORY) {
            return Err(self.cursor.invalid("a first byte that no entry has"));
        }
        self.take_name(has(flag::DIRECTORY), is_restart)?;
        if has(flag::ATTRIBUTES) {
            self.take_attributes()?;
        }
        if has(flag::MTIME) {
            let old = self.before.attributes.mtime.unwrap_or_default();
            self.before.attributes.mtime = match self.cursor.u8()? {
                0 => None,
                1 => Some(Time(old.0.wrapping_add(self.cursor.zigzag()?))),
                _ => return Err(self.cursor.invalid("a time that is none")),
            };
        }
        let body = self.take_body(first & kind::MASK, has(flag::NEXT))?;
        let (name, attributes) = (self.before.name.as_slice().into(), self.before.attributes);
        let item = Item { index: self.next, parent: self.before.parent, name, attributes, body };
        check_item(&item.name, &attributes, item.body.as_ref())
            .map_err(|_| self.cursor.invalid("an entry outside of the bounds"))?;
        Ok(item)
    }

    fn take_name(&mut self, new_dir: bool, is_restart: bool) -> Result<(), Fault> {
        let before = &mut self.before;
        if !new_dir {
            let shared = self.cursor.u64()?;
            if shared > before.name.len() as u64 {
                return Err(self.cursor.invalid("a name that shares more than there is"));
            }
            let shared = shared as usize;
            let rest = self.cursor.bytes(limits::NAME_MAX)?;
            // Behind the shared bytes the name goes on, or has a greater byte than the one before it.
            let is_greater = match (rest.first(), before.name.get(shared)) {
                (Some(own), Some(old)) => own > old,
                (Some(_), None) => true,
                (None, _) => false,
            };
            if !is_greater {
                return Err(self.cursor.invalid("names that are not sorted"));
            }
            before.name.truncate(shared);
            before.name.extend_from_slice(rest);
            return Ok(());
        }
        let distance = self.cursor.u64()?;
        let parent = before.parent.checked_add(distance).filter(|parent| *parent < self.next);
        let parent = parent.ok_or_else(|| self.cursor.invalid("a directory that does not come before its entry"))?;
        if distance == 0 && !is_restart {
            return Err(self.cursor.invalid("another directory that is the same"));
        }
        before.parent = parent;
        before.name = self.cursor.bytes(limits::NAME_MAX)?.to_vec();
        Ok(())
    }

    fn take_attributes(&mut self) -> Result<(), Fault> {
        let mode = self.cursor.u64()?;
        let mut id = || -> Result<Option<u32>, Fault> {
            let number = self.cursor.u64()?;
            let Some(id) = number.checked_sub(1) else { return Ok(None) };
            u32::try_from(id).map(Some).map_err(|_| self.cursor.invalid("an owner of more than 32 bits"))
        };
        let (uid, gid) = (id()?, id()?);
        let mode = u16::try_from(mode).map_err(|_| self.cursor.invalid("a mode of more than 12 bits"))?;
        let mtime = self.before.attributes.mtime;
        self.before.attributes = Attributes { mode, uid, gid, mtime };
        Ok(())
    }

    fn take_body(&mut self, kind: u8, is_next: bool) -> Result<Option<Body>, Fault> {
        if is_next && (kind != kind::SLICES || self.before.slice.0 == 0) {
            return Err(self.cursor.invalid("a slice behind none"));
        }
        Ok(Some(match kind {
            kind::DIR => return Ok(None),
            kind::SLICES if is_next => {
                let (source, end) = self.before.slice;
                let gap = self.cursor.u64()?;
                let len = self.cursor.u64()?;
                let offset = end.checked_add(gap);
                let offset = offset.ok_or_else(|| self.cursor.invalid("a slice beyond the largest file"))?;
                self.before.slice.1 = offset.saturating_add(len);
                Body::Slices([Slice { source, offset, len }].into())
            }
            kind::SLICES => {
                let count = self.cursor.u64()?;
                if count > SLICES_MAX as u64 || count > (self.cursor.left() / 3) as u64 {
                    return Err(self.cursor.invalid("more slices than it can have"));
                }
                let mut slices = Vec::with_capacity(count as usize);
                for _ in 0..count {
                    let (source, offset, len) = (self.cursor.u64()?, self.cursor.u64()?, self.cursor.u64()?);
                    slices.push(Slice { source, offset, len });
                }
                if let Some(last) = slices.last() {
                    self.before.slice = (last.source, last.offset.saturating_add(last.len));
                }
                Body::Slices(slices.into())
            }
            kind::BYTES => Body::Bytes(self.cursor.bytes(INLINE_MAX)?.into()),
            kind::LINK => Body::Link(self.cursor.bytes(limits::SYMLINK_MAX)?.into()),
            kind::ZEROS => Body::Zeros(self.cursor.u64()?),
            _ => return Err(self.cursor.invalid("a kind that no entry has")),
        }))
    }
}
