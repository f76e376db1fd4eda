//! Readdir: entries by their hashes, which are the cookies: a position stays good whatever else comes and goes.

use loligo_types::{Answer, DirEntry, FsError, FsResult, Ino, Kind, Lease, limits};

use crate::access::{self, R};
use crate::ctx::{Change, Ctx};
use crate::need::{Need, Wants};
use crate::tree::{Entry, Found, HASH_MAX, Tree};
use crate::work::missing;

/// Extent of an answer from entries in memory.
struct Run<'a> {
    entries: Vec<(u64, &'a Entry)>,
    /// It goes on after this cookie.
    next: u64,
    /// Nothing lies behind the last entry.
    end: bool,
    /// Set when the known entries end before `limit` entries and before the end.
    stuck: bool,
}

/// Entries after `cookie` that are known without a gap, at most `limit` but whole hashes.
fn run(tree: &Tree, dir: Ino, cookie: u64, limit: u32) -> Run<'_> {
    let limit = (limit as usize).clamp(1, limits::READDIR_MAX);
    let none = |end, stuck| Run { entries: Vec::new(), next: cookie, end, stuck };
    if cookie >= HASH_MAX {
        return none(true, false);
    }
    let Some(slot) = tree.dirs.get(dir.0) else {
        let empty = tree.inode(dir).is_some_and(|inode| inode.size == 0);
        return none(empty, !empty);
    };
    let Some(known) = slot.complete.known_until(cookie + 1) else { return none(false, true) };
    // What follows this rank's fragments is another rank's to list.
    let own = tree.own_until(dir, cookie + 1).unwrap_or(cookie);
    let until = known.min(own);
    let mut entries: Vec<(u64, &Entry)> = Vec::new();
    for (hash, group) in slot.entries.range(cookie + 1..=until) {
        if entries.len() >= limit {
            let next = entries.last().map_or(cookie, |(hash, _)| *hash);
            return Run { entries, next, end: false, stuck: false };
        }
        entries.extend(group.entries().iter().filter(|e| e.ino.0 != 0).map(|e| (*hash, e)));
    }
    Run { entries, next: until, end: until >= HASH_MAX, stuck: known < own }
}

pub(crate) fn need(wants: &mut Wants<'_>, dir: Ino, cookie: u64, limit: u32, plus: bool) {
    let Some(inode) = wants.dir(dir).filter(|inode| inode.kind == Kind::Dir) else { return };
    let run = run(wants.tree, inode.ino, cookie, limit);
    if run.stuck {
        // Reading goes on behind what is known, not from the cookie, so that it always gets further.
        let known = wants.tree.dirs.get(dir.0).and_then(|slot| slot.complete.known_until(cookie + 1));
        wants.add(Need::Range { dir, from_hash: known.map_or(cookie + 1, |until| until + 1) });
    } else if plus {
        // Each entry has another inode, so the search for doubles in `add` would only cost time.
        let unknown = run.entries.iter().filter(|(_, e)| matches!(wants.tree.find(e.ino), Found::Unknown));
        let mut inos: Vec<Ino> = unknown.map(|(_, e)| e.ino).collect();
        inos.sort();
        inos.dedup();
        wants.list.extend(inos.into_iter().map(Need::Inode));
    }
}

/// The inodes whose attributes an answer would carry.
pub(crate) fn listed(tree: &Tree, dir: Ino, cookie: u64, limit: u32) -> Vec<Ino> {
    run(tree, dir, cookie, limit).entries.iter().map(|(_, entry)| entry.ino).collect()
}

pub(crate) fn prepare(
    tree: &Tree,
    ctx: &Ctx<'_>,
    dir: Ino,
    cookie: u64,
    limit: u32,
    plus: bool,
    by_handle: bool,
) -> FsResult<Change> {
    let inode = match tree.find(dir) {
        Found::Here(inode) => inode,
        Found::Gone => return Err(FsError::NotFound),
        Found::Unknown => return Err(missing("a directory")),
    };
    if inode.kind != Kind::Dir {
        return Err(FsError::NotDir);
    }
    if !(by_handle && ctx.handle_read) {
        access::check(inode, ctx.cred, R)?;
    }
    let run = run(tree, dir, cookie, limit);
    if run.stuck {
        return Err(missing("a range of entries"));
    }
    let entries = run.entries.iter().map(|(hash, entry)| line(tree, *hash, entry, plus)).collect();
    Ok(Change::only(Answer::Entries { entries, next: run.next, end: run.end }))
}

fn line(tree: &Tree, hash: u64, entry: &Entry, plus: bool) -> DirEntry {
    // What counts of a directory whose fragments are several ranks' is not known here alone.
    let known = tree.inode(entry.ino).filter(|inode| plus && !inode.is_spread());
    let attr = known.map(|inode| inode.attr());
    DirEntry { name: entry.name.to_name(), ino: entry.ino, kind: entry.kind, cookie: hash, attr, lease: Lease::NONE }
}

#[cfg(test)]
mod tests {
    use crate::testing::script::check;

    #[test]
    fn lists_with_read_permission() {
        check(
            "
            0 mkdir /d 711
            0 create /d/a 644
            0 create /d/b 644
            0 create /d/c 644
            0 readdir /d = a b c count=3 end=true
            1000 readdir /d = Access
            0 unlink /d/b
            0 readdir /d = a c count=2
            0 readdir /d/a = NotDir
            ",
        );
    }
}
