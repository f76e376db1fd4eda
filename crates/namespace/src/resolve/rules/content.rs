//! Attributes and data of inodes that the owner changed: thing by thing the owner's word counts, and the others' data are kept. A file never
//! gets setuid, setgid or capabilities of one side with data or an owner of the other. Not here: names.

use loligo_types::{ConflictKind, Ino, Inode, Kind, Need};

use super::super::draft::Known;
use super::super::graph::{CAPABILITY, Graph};

const S_ISUID: u16 = 0o4000;
const S_ISGID: u16 = 0o2000;
const S_IXGRP: u16 = 0o010;

/// Of an inode that both changed the owner's word counts, thing by thing.
pub(super) fn attributes(graph: &mut Graph<'_>) -> Result<(), Vec<Need>> {
    let draft = graph.draft;
    for (ino, known) in &draft.known {
        let Some(made) = known.made.as_deref().filter(|_| known.is_changed() && graph.is_there(*ino)) else { continue };
        let Some(now) = graph.before(*ino).filter(|now| now.kind == made.kind) else { continue };
        let mut all = now.clone();
        if set_attributes(&mut all, now, &known.base, made) {
            graph.report(ConflictKind::Attributes, *ino, None);
        }
        graph.inodes.insert(*ino, all);
        if made.kind == Kind::File {
            let written = data(graph, known, now, made);
            privileges(graph, known, (now, made), written);
        }
    }
    graph.check()
}

/// Sets the attributes that the owner set; true if both set the same thing otherwise.
fn set_attributes(all: &mut Inode, now: &Inode, base: &Inode, made: &Inode) -> bool {
    let mut both = false;
    let mut is_set = |owner: bool, others: bool, same: bool| {
        both |= owner && others && !same;
        owner
    };
    // The mode is a part of the ACL: one without the other might permit what neither side did.
    let rights = |inode: &Inode| (inode.mode, inode.acl().cloned());
    if is_set(rights(made) != rights(base), rights(now) != rights(base), rights(now) == rights(made)) {
        all.mode = made.mode;
        if all.acl() != made.acl() {
            all.extra_mut().acl = made.acl().cloned();
        }
    }
    let whose = |inode: &Inode| (inode.uid, inode.gid);
    if is_set(whose(made) != whose(base), whose(now) != whose(base), whose(now) == whose(made)) {
        (all.uid, all.gid) = whose(made);
    }
    let default = Inode::default_acl;
    if is_set(default(made) != default(base), default(now) != default(base), default(now) == default(made)) {
        all.extra_mut().default_acl = default(made).cloned();
    }
    all.change = now.change.wrapping_add(made.change.wrapping_sub(base.change));
    all.ctime = now.ctime.max(made.ctime);
    if made.atime != base.atime {
        all.atime = made.atime;
    }
    if made.mtime != base.mtime {
        // A time that was set counts as it was set; that of names is the later one.
        all.mtime = if made.kind == Kind::Dir { now.mtime.max(made.mtime) } else { made.mtime };
    }
    both
}

/// The content of a file as its size, cuts and place.
fn content(inode: &Inode) -> (u64, u32, bool) {
    (inode.size, inode.cuts, inode.inline)
}

/// True if a file may have been written since it was found so. Times can be set, and be the same by chance, so each change counts for which
/// nothing else is different: a name, the mode, the owner, an ACL, the first xattr, the time of the last access.
pub fn is_written(base: &Inode, now: &Inode) -> bool {
    let named = |inode: &Inode| (inode.parent, inode.place, inode.nlink);
    let changes = now.change.wrapping_sub(base.change);
    let others = [
        named(now) != named(base),
        now.mode != base.mode,
        (now.uid, now.gid) != (base.uid, base.gid),
        now.acl() != base.acl() && now.mode == base.mode,
        now.has_xattrs != base.has_xattrs,
        now.atime != base.atime,
    ];
    let explained = others.into_iter().filter(|differs| *differs).count() as u64;
    content(now) != content(base) || now.mtime != base.mtime || changes > explained
}

/// If the owner wrote a file, it has the owner's data; what others wrote is kept as a file of its own. Returns whether the owner wrote it.
fn data(graph: &mut Graph<'_>, known: &Known, now: &Inode, made: &Inode) -> bool {
    let ino = now.ino;
    let fork = graph.terms.forks.get(&ino).copied();
    let written = match fork {
        // Bytes of objects may have changed while the size did not.
        Some(_) => graph.draft.writes(ino),
        None => graph.draft.inline.contains_key(&ino) || content(made) != content(&known.base),
    };
    if !written {
        return false;
    }
    let others = fork.map_or_else(|| is_written(&known.base, now), |fork| fork.others);
    if fork.is_none() && others && (!now.inline || !graph.draft.inline.contains_key(&ino)) {
        match graph.draft.inline.get(&ino).cloned().flatten() {
            Some(data) => {
                let copy = graph.make(Inode { has_xattrs: false, ..made.clone() });
                graph.data.insert(copy, Some(data));
                graph.data.insert(ino, None);
                if let Some(at) = graph.called(ino, known) {
                    graph.was.insert(copy, at);
                }
            }
            // The owner has only said how long it is: of data that are not there any more.
            None => graph.report(ConflictKind::Data, ino, None),
        }
        return false;
    }
    let kept = fork.and_then(|fork| fork.kept).filter(|_| others);
    if let Some(kept) = kept {
        keep_orphan(graph, kept, known, now);
    }
    if kept.is_none() && others && now.inline && now.size > 0 {
        let Some(data) = graph.tree.inline(now) else {
            graph.needs.insert(Need::Inline(ino));
            return true;
        };
        let copy = graph.make(Inode { has_xattrs: false, ..now.clone() });
        graph.data.insert(copy, Some(data));
        if let Some(at) = graph.called(ino, known) {
            graph.was.insert(copy, at);
        }
    }
    if let Some(all) = graph.edit(ino) {
        (all.size, all.inline, all.mtime) = (made.size, made.inline, made.mtime);
        // Writes of others that they tell of only now do not count any more.
        all.cuts = now.cuts.wrapping_add(u32::from(others || fork.is_some())).max(made.cuts);
    }
    true
}

/// Setuid, setgid and capabilities are for data, an owner and a mode that were there together, on one side: in any directory a write or a chown
/// ends them. `written`: the data are the owner's.
fn privileges(graph: &mut Graph<'_>, known: &Known, (now, made): (&Inode, &Inode), written: bool) {
    let ino = now.ino;
    let others = graph.terms.forks.get(&ino).map_or_else(|| is_written(&known.base, now), |fork| fork.others);
    let Some(all) = graph.find(ino) else { return };
    let is_of = |side: &Inode| (all.uid, all.gid, all.mode, all.acl()) == (side.uid, side.gid, side.mode, side.acl());
    let changed = now.change != known.base.change;
    let is_theirs = !written && is_of(now);
    let is_owners = !others && !changed && is_of(made);
    // A capability that the owner has set is on its side alone, one of others on theirs.
    let sets = graph.draft.xattrs.get(&ino).is_some_and(|xattrs| xattrs.contains_key(CAPABILITY));
    if is_owners || is_theirs && !sets {
        return;
    }
    graph.unprivileged.insert(ino);
    let Some(all) = graph.edit(ino) else { return };
    let mode = all.mode & !S_ISUID & if all.mode & S_IXGRP != 0 { !S_ISGID } else { !0 };
    if all.mode != mode {
        all.mode = mode;
        graph.report(ConflictKind::Attributes, ino, None);
    }
}

/// Data that the owner wrote into files which it may not write any more are kept. All else that was refused is told.
pub(super) fn refused(graph: &mut Graph<'_>) -> Result<(), Vec<Need>> {
    let draft = graph.draft;
    for ino in draft.denied.iter().filter(|ino| !draft.fresh.contains_key(ino)) {
        let Some(data) = draft.denied_data.get(ino).filter(|_| graph.is_there(*ino)) else {
            graph.report(ConflictKind::Denied, *ino, None);
            continue;
        };
        let root = graph.terms.root;
        let (uid, now) = (graph.terms.uid, graph.terms.now);
        let Some(gid) = graph.find(root).map(|root| root.gid) else { break };
        let mut like = Inode::new(Ino(0), Kind::File, 0o600, uid, gid, Ino(0), now);
        (like.size, like.inline) = (data.len() as u64, true);
        let copy = graph.make(like);
        graph.data.insert(copy, Some(data.clone()));
        graph.refused.insert(copy);
        let known = draft.known.get(ino);
        if let Some(at) = known.and_then(|known| graph.called(*ino, known)).or_else(|| graph.name_of(*ino)) {
            graph.was.insert(copy, at);
        }
    }
    graph.check()
}

/// The others' version is kept as a file of its own, an orphan that has it already.
fn keep_orphan(graph: &mut Graph<'_>, kept: Ino, known: &Known, now: &Inode) {
    if let Some(inode) = graph.edit(kept) {
        // They may have changed since it was made.
        let extra = now.acl().cloned();
        (inode.mode, inode.uid, inode.gid, inode.atime, inode.mtime) =
            (now.mode, now.uid, now.gid, now.atime, now.mtime);
        if extra.is_some() || inode.acl().is_some() {
            inode.extra_mut().acl = extra;
        }
    }
    graph.nameless.insert(kept);
    graph.kept.insert(kept);
    if let Some(at) = graph.called(now.ino, known) {
        graph.was.insert(kept, at);
    }
}
