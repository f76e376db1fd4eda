//! The path of an inode of a file system that is not served, from its records. Not here: what a server is asked (`look/path.rs`).

use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use loligo_driver::Offline;
use loligo_journal::table::{Row, dir_range, key_inode};
use loligo_types::{Ino, Name, Target};

/// Deeper than any path that a system call takes.
const DEPTH_MAX: usize = 2048;

/// Its path; of a file with several names one of them. `None`: nothing leads to it from the root, or what would cannot be read.
pub fn of(offline: &Offline, ino: Ino) -> Option<PathBuf> {
    let (mut at, mut names) = (ino, Vec::new());
    while at != Ino::ROOT {
        let parent = match offline.get(&key_inode(at)) {
            Ok(Some(Row::Inode(inode))) if inode.nlink > 0 => inode.parent,
            _ => return None,
        };
        names.push(name_in(offline, parent, at)?);
        at = parent;
        if names.len() > DEPTH_MAX {
            return None;
        }
    }
    let mut path = PathBuf::from("/");
    path.extend(names.iter().rev().map(|name| std::ffi::OsStr::from_bytes(name.as_bytes())));
    Some(path)
}

/// An inode for people: its path, if it has one, and its number.
pub fn shown(offline: &Offline, ino: Ino) -> String {
    match of(offline, ino) {
        Some(path) => format!("{} (inode {ino})", path.display().to_string().replace(char::is_control, "?")),
        None => format!("inode {ino}"),
    }
}

fn name_in(offline: &Offline, dir: Ino, of: Ino) -> Option<Name> {
    let mut found = None;
    let visited = offline.rows_in(&dir_range(dir), &mut |(_, row)| match row {
        Ok(Row::Entry { name, target: Target { ino, .. }, .. }) if ino == of => {
            found = Some(name);
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    visited.ok().and(found)
}
