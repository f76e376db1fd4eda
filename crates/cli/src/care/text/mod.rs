//! The text of a dump: lines for inodes, entries, xattrs and inline data. Drawn in docs/formats/dump.md.
//!
//! Pure: a line at a time, from and to [`loligo_types::Event`]. Not here: files, checksums of files, the order of lines.

mod acl;
mod escape;
mod head;
mod parse;
mod render;
#[cfg(test)]
mod tests;

pub use head::{Head, Tail};
pub use parse::parse;
pub use render::render;

use loligo_types::Kind;

/// Version of the format.
pub const VERSION: u32 = 1;

/// Name of a kind; persisted.
fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Dir => "dir",
        Kind::Symlink => "symlink",
        Kind::Fifo => "fifo",
        Kind::Socket => "socket",
        Kind::Char => "char",
        Kind::Block => "block",
    }
}

fn kind_of(name: &str) -> Option<Kind> {
    (1..=7).filter_map(Kind::from_code).find(|kind| kind_name(*kind) == name)
}
