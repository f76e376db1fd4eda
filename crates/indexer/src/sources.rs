//! The files that lists and references name. Not here: opening them, which the caller does as the user.

use std::collections::BTreeMap;

use loligo_schema::Slice;
use loligo_schema::manifest::Source;

use crate::fault::Cause;

/// A source that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its number in the manifest, from 1.
    pub number: u64,
    /// Its size, bytes.
    pub size: u64,
}

/// Finds sources by path.
pub trait Sources {
    /// The file at a path, with a number of its own.
    ///
    /// # Errors
    ///
    /// That it is not there, is no regular file, cannot be read by the user, or lies in another file system: as a text with the remedy.
    fn find(&mut self, path: &[u8]) -> Result<Found, String>;
}

/// Sources in the order in which they were named, each once.
#[derive(Debug)]
pub struct Table<L> {
    look: L,
    numbers: BTreeMap<Vec<u8>, u64>,
    sources: Vec<Source>,
}

impl<L: FnMut(&[u8]) -> Result<Source, String>> Table<L> {
    /// `look` opens a file as the user, and tells its number, size and change counter.
    pub fn new(look: L) -> Table<L> {
        Table { look, numbers: BTreeMap::new(), sources: Vec::new() }
    }

    /// All sources, in the order of their numbers.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }
}

impl<L: FnMut(&[u8]) -> Result<Source, String>> Sources for Table<L> {
    fn find(&mut self, path: &[u8]) -> Result<Found, String> {
        if let Some(number) = self.numbers.get(path) {
            return Ok(Found { number: *number, size: self.sources[*number as usize - 1].size });
        }
        let source = (self.look)(path)?;
        // Two paths of one file are one source.
        let known = self.sources.iter().position(|known| known.ino == source.ino);
        let number = known.unwrap_or(self.sources.len()) as u64 + 1;
        let size = source.size;
        self.numbers.insert(path.to_vec(), number);
        if known.is_none() {
            self.sources.push(source);
        }
        Ok(Found { number, size })
    }
}

/// A part of a file, checked against its size. Without a length: all from the offset on.
pub(crate) fn slice(sources: &mut dyn Sources, path: &[u8], offset: u64, len: Option<u64>) -> Result<Slice, Cause> {
    let name = || String::from_utf8_lossy(path).into_owned();
    let found = sources.find(path).map_err(|cause| Cause::Source { name: name(), cause })?;
    let len = len.unwrap_or(found.size.saturating_sub(offset));
    if offset.checked_add(len).is_none_or(|end| end > found.size) {
        return Err(Cause::PastEnd { name: name(), offset, len, size: found.size });
    }
    Ok(Slice { source: found.number, offset, len })
}
