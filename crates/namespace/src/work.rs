//! The working copies of a change: inodes are copied when first touched and become events at the end.

use loligo_types::{Answer, Attr, Event, FsError, FsResult, Ino, Inode, Kind, Place, RStat, Target, Time, limits};

use crate::access;
use crate::ctx::{Change, Ctx};
use crate::rstat;
use crate::tree::{Found, Lookup, Tree};

/// A record that must be in memory is not: [`crate::need`] and the operation disagree.
#[cold]
pub(crate) fn missing(what: &str) -> FsError {
    debug_assert!(false, "{what} must be loaded before an operation is decided");
    FsError::Io
}

/// An inode by number: `Stale` if it is gone.
pub(crate) fn inode_of(tree: &Tree, ino: Ino) -> FsResult<&Inode> {
    match tree.find(ino) {
        Found::Here(inode) => Ok(inode),
        Found::Gone => Err(FsError::Stale),
        Found::Unknown => Err(missing("an inode")),
    }
}

/// A directory that the caller may search: `NotFound` if it is gone.
pub(crate) fn dir_of<'a>(tree: &'a Tree, ctx: &Ctx<'_>, dir: Ino) -> FsResult<&'a Inode> {
    let inode = match tree.find(dir) {
        Found::Here(inode) => inode,
        Found::Gone => return Err(FsError::NotFound),
        Found::Unknown => return Err(missing("a directory")),
    };
    access::check_search(inode, ctx.cred)?;
    Ok(inode)
}

/// The target of a name.
pub(crate) fn entry_of(tree: &Tree, dir: Ino, name: &loligo_types::Name) -> FsResult<Option<Target>> {
    match tree.entry(dir, name) {
        Lookup::Present(target) => Ok(Some(target)),
        Lookup::Absent => Ok(None),
        Lookup::Unknown => Err(missing("an entry")),
    }
}

/// The inode a name points to: `NotFound` if there is none, `Io` if the entry dangles (see fsck).
pub(crate) fn target_of<'a>(tree: &'a Tree, dir: Ino, name: &loligo_types::Name) -> FsResult<&'a Inode> {
    let target = entry_of(tree, dir, name)?.ok_or(FsError::NotFound)?;
    pointed(tree, target.ino)
}

/// The inode an entry points to.
pub(crate) fn pointed(tree: &Tree, ino: Ino) -> FsResult<&Inode> {
    match tree.find(ino) {
        Found::Here(inode) => Ok(inode),
        Found::Gone => Err(FsError::Io),
        Found::Unknown => Err(missing("the inode of an entry")),
    }
}

/// A change in the making.
pub(crate) struct Work<'a> {
    pub tree: &'a Tree,
    pub now: Time,
    events: Vec<Event>,
    /// Boxed, because they become events as they are.
    #[expect(clippy::vec_box)]
    inodes: Vec<Box<Inode>>,
}

impl<'a> Work<'a> {
    /// Nothing changed yet.
    pub fn new(tree: &'a Tree, now: Time) -> Work<'a> {
        Work { tree, now, events: Vec::with_capacity(4), inodes: Vec::with_capacity(2) }
    }

    /// The working copy of an inode, made from the tree at first, without a mark that it changed.
    pub fn quiet(&mut self, inode: &Inode) -> &mut Inode {
        let at = match self.inodes.iter().position(|i| i.ino == inode.ino) {
            Some(at) => at,
            None => {
                self.inodes.push(Box::new(inode.clone()));
                self.inodes.len() - 1
            }
        };
        &mut self.inodes[at]
    }

    /// The working copy of an inode that changes: its ctime and change counter move.
    pub fn edit(&mut self, inode: &Inode) -> &mut Inode {
        let now = self.now;
        let copy = self.quiet(inode);
        // `inode` is as the tree has it, so that one change counts once however often it is edited.
        copy.change = inode.change.wrapping_add(1);
        copy.ctime = now;
        copy
    }

    /// The working copy of a directory whose entries change.
    pub fn edit_dir(&mut self, dir: &Inode) -> &mut Inode {
        let now = self.now;
        let copy = self.edit(dir);
        copy.mtime = now;
        copy
    }

    /// Adds an event.
    pub fn event(&mut self, event: Event) {
        self.events.push(event);
    }

    /// Adds a new inode that `dir` counts.
    pub fn add_inode(&mut self, mut inode: Inode, dir: &Inode) {
        let parent = self.quiet(dir);
        rstat::enter(parent, &mut inode);
        self.inodes.push(Box::new(inode));
    }

    /// Adds a new inode that nobody counts.
    pub fn add_uncounted(&mut self, inode: Inode) {
        self.inodes.push(Box::new(inode));
    }

    /// The attributes of an inode with the changes so far.
    pub fn attr(&self, inode: &Inode) -> Attr {
        self.tree.attr_of(self.inodes.iter().find(|i| i.ino == inode.ino).map_or(inode, |copy| copy))
    }

    /// Takes the inode out of the sums of whichever directory counts it.
    pub fn uncount(&mut self, inode: &Inode) {
        let Found::Here(counter) = self.tree.find(inode.parent) else {
            let copy = self.quiet(inode);
            copy.accounted = RStat::default();
            copy.parent = Ino(0);
            return;
        };
        let mut copy = std::mem::replace(self.quiet(inode), placeholder(inode.ino));
        rstat::leave(self.quiet(counter), &mut copy);
        *self.quiet(inode) = copy;
    }

    /// Makes `dir` the one that counts the inode.
    pub fn count_in(&mut self, inode: &Inode, dir: &Inode) {
        let mut copy = std::mem::replace(self.quiet(inode), placeholder(inode.ino));
        rstat::enter(self.quiet(dir), &mut copy);
        *self.quiet(inode) = copy;
    }

    /// One name of `victim` goes; `primary`: the one that it is embedded with. With its last name an inode becomes an
    /// orphan if it is open, or is gone.
    pub fn drop_link(&mut self, victim: &Inode, primary: bool, ctx: &Ctx<'_>) {
        let floating = Place::floating(self.tree.owner(victim.ino));
        if victim.kind == Kind::Dir && (ctx.route_version)(victim.ino).is_some() {
            self.event(Event::RouteGone(victim.ino));
        }
        let parts: Vec<_> = self.tree.all_parts(victim.ino).filter_map(Inode::part_of).collect();
        for rank in parts {
            self.event(Event::PartGone { dir: victim.ino, rank });
        }
        let copy = self.edit(victim);
        if copy.is_spread() {
            // It is empty, and its parts end.
            copy.end_spread();
            copy.size = 0;
        }
        copy.nlink = if copy.kind == Kind::Dir { 0 } else { copy.nlink.saturating_sub(1) };
        if primary || copy.nlink == 0 {
            copy.place = floating;
        }
        if copy.nlink > 0 {
            return;
        }
        self.uncount(victim);
        if (ctx.open_count)(victim.ino) > 0 {
            self.event(Event::Orphan(victim.ino));
        } else {
            self.inodes.retain(|inode| inode.ino != victim.ino);
            let mut events = std::mem::take(&mut self.events);
            crate::reap::gone(victim, &mut events);
            self.events = events;
        }
    }

    /// All parts of a directory whose fragments are several ranks' get the attributes that it has now. `at`: its time of
    /// modification was set, and none of theirs counts any more.
    pub fn copy_to_parts(&mut self, dir: &Inode, at: bool) {
        if !dir.is_spread() {
            return;
        }
        let parts: Vec<Inode> = self.tree.all_parts(dir.ino).cloned().collect();
        let newest = parts.iter().map(|part| part.mtime).max();
        let copy = self.quiet(dir);
        if !at {
            copy.mtime = newest.map_or(copy.mtime, |newest| newest.max(copy.mtime));
        }
        let copy = copy.clone();
        for mut part in parts {
            copy.copy_to_part(&mut part);
            self.events.push(Event::Inode(Box::new(part)));
        }
    }

    /// The finished change.
    pub fn finish(self, answer: Answer, origin_ino: Ino) -> Change {
        let mut events = self.events;
        events.extend(self.inodes.into_iter().map(Event::Inode));
        Change { events, answer, origin_ino, origin_value: 0 }
    }

    /// The finished change with the attributes of an inode as its answer.
    pub fn finish_with(self, inode: &Inode) -> Change {
        let answer = Answer::Entry(self.attr(inode));
        self.finish(answer, inode.ino)
    }
}

fn placeholder(ino: Ino) -> Inode {
    Inode::new(ino, Kind::File, 0, 0, 0, Ino(0), Time(0))
}

/// One sub-directory more or less, within what can be held.
pub(crate) fn subdirs(dir: &mut Inode, delta: i32) {
    if dir.is_spread() {
        dir.nlink = dir.nlink.wrapping_add_signed(delta);
        return;
    }
    dir.nlink = dir.nlink.saturating_add_signed(delta).clamp(2, limits::DIR_NLINK_MAX);
}
