//! Computed xattrs under `loligo.`: text, read-only, not listed.

use loligo_types::{Inode, Kind};

use crate::frag::FragConfig;

/// Prefix of computed names.
pub const PREFIX: &[u8] = b"loligo.";

/// The value of a computed xattr; `None` if this inode has none of that name.
pub fn value(inode: &Inode, name: &[u8], config: FragConfig) -> Option<String> {
    let is_dir = inode.kind == Kind::Dir;
    if is_dir && name == b"loligo.dir.placement" {
        return Some(inode.places_dirs().name().to_owned());
    }
    let number = match name.strip_prefix(PREFIX)? {
        b"ino" => inode.ino.0 as i64,
        b"entries" if is_dir => inode.size as i64,
        b"rentries" if is_dir => inode.rstat().entries,
        b"rbytes" if is_dir => inode.rstat().bytes,
        b"dir.frags" if is_dir => 1 << inode.frag_bits,
        b"dir.frag_entries" if is_dir => i64::try_from(config.split_entries).unwrap_or(i64::MAX),
        b"layout.object_size" if inode.kind == Kind::File => i64::from(inode.layout().object_size),
        _ => return None,
    };
    Some(number.to_string())
}
