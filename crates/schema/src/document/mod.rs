//! The document of a directory whose entries are computed: the value of its extended attribute `loligo.policy.schema`. Reading one is in
//! `read.rs`, its TOML values in `toml.rs`. Not here: who may set one, where it is kept, what is changed over the computed entries.

mod args;
mod formula;
mod read;
#[cfg(test)]
mod tests;
mod value;

use std::sync::Arc;

use loligo_types::Time;

pub use args::Given;

use crate::entry::{Attributes, Body, Entry};
use crate::fault::{Cause, Fault};
use crate::formula::{Formula, Place, Totals};

/// Name of the extended attribute.
pub const XATTR: &str = "loligo.policy.schema";
/// Version of the document that is read here.
pub const VERSION: u64 = 1;

/// Handling of changes below the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlay {
    /// They are refused: the tree is read-only.
    None,
    /// They are kept over the computed entries.
    Upper,
}

/// Attributes of entries that say nothing themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// Permission bits of files.
    pub file_mode: u16,
    /// Permission bits of directories.
    pub dir_mode: u16,
    /// Owner; none: that of the directory.
    pub uid: Option<u32>,
    /// Group; none: that of the directory.
    pub gid: Option<u32>,
    /// Time of the last change; none: when the document was set.
    pub mtime: Option<Time>,
}

impl Default for Defaults {
    fn default() -> Defaults {
        Defaults { file_mode: 0o644, dir_mode: 0o755, uid: None, gid: None, mtime: None }
    }
}

/// A path of a formula with the attributes of its entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// The path.
    pub path: String,
    /// Attributes.
    pub attributes: Attributes,
    /// Bytes of each file.
    pub size: u64,
    /// The bytes; none: zeros.
    pub contents: Option<Arc<[u8]>>,
}

/// A formula: a tree of paths with arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// The tree.
    pub tree: Formula,
    /// Its paths, in the order of the document.
    pub templates: Vec<Template>,
}

/// A program that computes entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// Its text, in Luau.
    pub text: String,
    /// Values that it is given.
    pub args: Vec<(String, Given)>,
    /// Most entries: their numbers are at most this.
    pub entries: u64,
}

/// A manifest that lists the entries, in a file of the same file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointer {
    /// Inode number of the manifest.
    pub ino: u64,
    /// Its change counter when the document was set: another one means other bytes.
    pub change: u64,
    /// Its length, bytes.
    pub bytes: u64,
    /// The checksum in its trailer.
    pub checksum: u32,
}

/// The rule by which entries are computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Generator {
    /// From paths with arguments.
    Formula(Paths),
    /// By a program.
    Code(Code),
    /// From a manifest.
    Pointer(Pointer),
}

impl Generator {
    /// Its name in a document.
    pub fn kind(&self) -> &'static str {
        match self {
            Generator::Formula(_) => "formula",
            Generator::Code(_) => "code",
            Generator::Pointer(_) => "pointer",
        }
    }
}

/// A document that makes sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Handling of changes.
    pub overlay: Overlay,
    /// Attributes of entries that say nothing themselves.
    pub defaults: Defaults,
    /// The rule.
    pub generator: Generator,
}

impl Document {
    /// Reads a document: TOML, at most 4 KiB.
    ///
    /// # Errors
    ///
    /// The first fault, with line and column; its text names the key, the cause and the remedy.
    pub fn parse(text: &str) -> Result<Document, Fault> {
        read::read(text).map_err(|flaw| flaw.in_text(text))
    }

    /// The same of bytes that may be anything.
    ///
    /// # Errors
    ///
    /// As [`Document::parse`]; [`Cause::NoText`] if the bytes are no UTF-8.
    pub fn parse_bytes(bytes: &[u8]) -> Result<Document, Fault> {
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let good = bytes.split_at(error.valid_up_to()).0;
            Fault::new(Cause::NoText, &String::from_utf8_lossy(good), good.len())
        })?;
        Document::parse(text)
    }

    /// Totals of the tree, if the document alone tells them: those of a manifest are in its trailer, those of a program are not known.
    pub fn totals(&self) -> Option<Totals> {
        match &self.generator {
            Generator::Formula(paths) => Some(paths.tree.totals()),
            Generator::Code(_) | Generator::Pointer(_) => None,
        }
    }
}

impl Defaults {
    /// Attributes of a directory that says nothing itself.
    pub fn of_dir(&self) -> Attributes {
        Attributes { mode: self.dir_mode, uid: self.uid, gid: self.gid, mtime: self.mtime }
    }

    /// Attributes of a file that says nothing itself.
    pub fn of_file(&self) -> Attributes {
        Attributes { mode: self.file_mode, ..self.of_dir() }
    }
}

impl Paths {
    /// The entry at a place. `defaults` are those of the document.
    pub fn entry(&self, place: &Place, defaults: &Defaults) -> Entry {
        let template = self.tree.path_of(place).map(|path| &self.templates[path]);
        let attributes = template.map_or_else(|| defaults.of_dir(), |template| template.attributes);
        let body = match template.filter(|_| self.tree.kind(place) == loligo_types::Kind::File) {
            None => Body::Dir { entries: self.tree.len(place), dirs: self.tree.dirs_in(place) },
            Some(Template { contents: Some(bytes), .. }) => Body::Bytes(bytes.clone()),
            Some(template) => Body::Zeros(template.size),
        };
        let name = self.tree.name(place).into();
        Entry { index: place.index, parent: place.parent, name, attributes, body }
    }
}
