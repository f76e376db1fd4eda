//! Rules for each pair of things that the owner and others did: the one table of `docs/subtree-policies.md`, as code.
//!
//! In this order: attributes and data; names that the owner took; names that it gave; what both named anew; then whatever has no name
//! gets one or goes; last, directories that were moved into each other.

use loligo_types::limits::{DEPTH_MAX, NAME_MAX};
use loligo_types::{ConflictKind, Ino, Inode, Kind, Name, Need};

use super::CONFLICTS;
use super::draft::Known;
use super::graph::Graph;

/// Rounds in which what has no name gets one: each gives a name for good but where it takes one.
const ROUNDS_MAX: usize = 4;
/// So many directories above something come back with it.
const BACK_MAX: usize = 64;

pub(super) fn carry_out(graph: &mut Graph<'_>) -> Result<(), Vec<Need>> {
    gather(graph)?;
    attributes(graph)?;
    take_names(graph)?;
    give_names(graph)?;
    named_by_both(graph)?;
    swap(graph)?;
    for _ in 0..ROUNDS_MAX {
        homes(graph)?;
        loops(graph)?;
        if graph.nameless.is_empty() {
            break;
        }
    }
    graph.check()
}

/// Has all loaded that is spoken of, at once.
fn gather(graph: &mut Graph<'_>) -> Result<(), Vec<Need>> {
    let draft = graph.draft;
    graph.before(graph.terms.root);
    for ino in draft.speaks_of() {
        if graph.is_there(ino) {
            graph.before(ino);
        }
    }
    for (dir, name) in draft.names.keys() {
        if graph.is_there(*dir)
            && let Some(target) = graph.entry(*dir, name)
            && let Some(inode) = graph.find(target.ino).cloned()
            && inode.parent.0 != 0
        {
            graph.find(inode.parent);
        }
    }
    graph.check()
}

/// Of an inode that both changed the owner's word counts, thing by thing.
fn attributes(graph: &mut Graph<'_>) -> Result<(), Vec<Need>> {
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
            data(graph, known, now, made);
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
    if is_set(made.mode != base.mode, now.mode != base.mode, now.mode == made.mode) {
        all.mode = made.mode;
    }
    let whose = |inode: &Inode| (inode.uid, inode.gid);
    if is_set(whose(made) != whose(base), whose(now) != whose(base), whose(now) == whose(made)) {
        (all.uid, all.gid) = whose(made);
    }
    if is_set(made.acl() != base.acl(), now.acl() != base.acl(), now.acl() == made.acl()) {
        all.extra_mut().acl = made.acl().cloned();
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

/// True if a file may have been written since it was found so. Times can be set, and be the same by chance, so each change counts but
/// that one by which it got another name or lost its name.
pub fn is_written(base: &Inode, now: &Inode) -> bool {
    let named = |inode: &Inode| (inode.parent, inode.place, inode.nlink);
    let changes = now.change.wrapping_sub(base.change);
    content(now) != content(base) || now.mtime != base.mtime || changes > u64::from(named(now) != named(base))
}

/// If the owner wrote a file, it has the owner's data; what others wrote is kept as a file of its own.
fn data(graph: &mut Graph<'_>, known: &Known, now: &Inode, made: &Inode) {
    let ino = now.ino;
    let fork = graph.terms.forks.get(&ino).copied();
    let written = match fork {
        // Bytes of objects may have changed while the size did not.
        Some(_) => graph.draft.writes(ino),
        None => graph.draft.inline.contains_key(&ino) || content(made) != content(&known.base),
    };
    if !written {
        return;
    }
    let others = fork.map_or_else(|| is_written(&known.base, now), |fork| fork.others);
    if let Some(kept) = fork.and_then(|fork| fork.kept).filter(|_| others && !now.inline) {
        keep_objects(graph, kept, known, now);
    } else if fork.is_none() && others && !now.inline {
        // It lies in objects, and stays what it is; the owner's version becomes another file in its place.
        let owners = graph.make(Inode { has_xattrs: false, ..made.clone() });
        graph.data.insert(owners, graph.draft.inline.get(&ino).cloned().flatten());
        graph.data.insert(ino, None);
        graph.inodes.insert(ino, now.clone());
        graph.swaps.push((ino, owners));
        return;
    }
    if fork.is_none() && others && !graph.draft.inline.contains_key(&ino) {
        // The owner has only said how long it is: of data that are not there any more.
        graph.report(ConflictKind::Data, ino, None);
        return;
    }
    if others && now.inline && now.size > 0 {
        let Some(data) = graph.tree.inline(now) else {
            graph.needs.insert(Need::Inline(ino));
            return;
        };
        let copy = graph.make(Inode { has_xattrs: false, ..now.clone() });
        graph.data.insert(copy, Some(data));
        if let Some((_, name)) = graph.name_of(ino) {
            graph.was.insert(copy, name);
        }
    }
    if let Some(all) = graph.edit(ino) {
        (all.size, all.inline, all.mtime) = (made.size, made.inline, made.mtime);
        // What others wrote before, and tell of only now, does not count any more.
        all.cuts = now.cuts.wrapping_add(u32::from(others || fork.is_some())).max(made.cuts);
    }
}

/// The others' version of objects is kept as a file of its own, which has these already.
fn keep_objects(graph: &mut Graph<'_>, kept: Ino, known: &Known, now: &Inode) {
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
    let name = graph.name_of(now.ino).or_else(|| known.at.clone());
    if let Some((_, name)) = name {
        graph.was.insert(kept, name);
    }
}

/// Names that the owner took: from what it knew, not from what others put there since.
fn take_names(graph: &mut Graph<'_>) -> Result<(), Vec<Need>> {
    let draft = graph.draft;
    for ((dir, name), _) in draft.names.iter().filter(|(_, ino)| ino.is_none()) {
        if !graph.is_there(*dir) {
            continue;
        }
        if let Some(target) = graph.entry(*dir, name)
            && let Some(known) = draft.known.get(&target.ino)
            && (known.made.is_none() || known.is_changed())
        {
            graph.take_name(*dir, name);
        }
    }
    graph.check()
}

/// Names that the owner gave: whatever has them loses them.
fn give_names(graph: &mut Graph<'_>) -> Result<(), Vec<Need>> {
    let draft = graph.draft;
    for ((dir, name), ino) in &draft.names {
        let Some(ino) = *ino else { continue };
        let known = draft.known.get(&ino);
        let is_gone = known.is_some_and(|known| known.made.is_none());
        // The name that it had before: that it still has it is nothing that the owner did.
        let primary = (*dir, Some(graph.tree.hash(name)));
        let had = known.is_some_and(|known| (known.base.parent, known.base.place.hash()) == primary);
        if had || is_gone || ino == graph.terms.root || !graph.is_there(ino) {
            continue;
        }
        let Some(kind) = graph.find(ino).map(|inode| inode.kind) else { continue };
        let is_dir = graph.is_there(*dir) && graph.find(*dir).is_some_and(|dir| dir.kind == Kind::Dir);
        if !is_dir {
            // The directory is gone for good.
            if !graph.is_named(ino) {
                graph.nameless.insert(ino);
                graph.was.entry(ino).or_insert_with(|| name.clone());
            }
            continue;
        }
        match graph.entry(*dir, name) {
            Some(target) if target.ino == ino => continue,
            Some(_) => _ = graph.take_name(*dir, name),
            None => {}
        }
        if kind == Kind::Dir
            && graph.is_named(ino)
            && let Some((dir, name)) = graph.name_of(ino)
        {
            // It has one name; that is another one than the owner knew.
            if !draft.names.contains_key(&(dir, name.clone())) {
                graph.report(ConflictKind::Moved, ino, None);
            }
            graph.take_name(dir, &name);
        }
        graph.check()?;
        if draft.known.contains_key(&ino) && graph.find(ino).is_some_and(|inode| inode.nlink == 0) {
            let was_orphan = graph.before(ino).is_some_and(|before| before.nlink == 0);
            if was_orphan {
                graph.report(ConflictKind::Returned, ino, None);
            }
        }
        graph.give_name(*dir, name, ino);
    }
    graph.check()
}

/// Ends the names that others gave anew to inodes which the owner removed or named anew. A file that has several names keeps those that
/// either side gave it.
fn named_by_both(graph: &mut Graph<'_>) -> Result<(), Vec<Need>> {
    let draft = graph.draft;
    for (ino, known) in &draft.known {
        if !graph.is_there(*ino) || *ino == graph.terms.root {
            continue;
        }
        let Some(now) = graph.before(*ino).filter(|now| now.nlink > 0) else { continue };
        let surplus = match now.kind {
            Kind::Dir => known.made.is_none(),
            _ => {
                let after = graph.find(*ino).map_or(0, |inode| inode.nlink);
                let meant = known.made.as_ref().map_or(0, |made| made.nlink);
                now.nlink == 1 && known.base.nlink == 1 && after > meant
            }
        };
        if surplus
            && graph.is_named(*ino)
            && let Some((dir, name)) = graph.name_of(*ino)
            && draft.names.get(&(dir, name.clone())) != Some(&Some(*ino))
        {
            graph.take_name(dir, &name);
            if known.made.is_some() {
                graph.report(ConflictKind::Moved, *ino, None);
            }
        }
    }
    graph.check()
}

/// The owner's versions of files take the places of those that cannot be copied.
fn swap(graph: &mut Graph<'_>) -> Result<(), Vec<Need>> {
    for (ino, owners) in graph.swaps.clone() {
        let mut place = graph.name_of(ino);
        if place.is_none() {
            // The owner has renamed it.
            let names = graph.draft.names.iter();
            let mut of_it = names.filter(|(_, to)| **to == Some(ino)).map(|(at, _)| at.clone());
            place = of_it.find(|(dir, name)| graph.entry(*dir, name).is_some_and(|target| target.ino == ino));
        }
        let place = place.or_else(|| graph.draft.known.get(&ino).and_then(|known| known.at.clone()));
        if let Some((dir, name)) = place {
            if graph.entry(dir, &name).is_some_and(|target| target.ino == ino) {
                graph.take_name(dir, &name);
            }
            graph.was.insert(owners, name.clone());
            let is_free = graph.entry(dir, &name).is_none();
            if is_free && graph.is_named(dir) {
                graph.give_name(dir, &name, owners);
            }
        }
        if !graph.is_named(ino) {
            graph.nameless.insert(ino);
        }
    }
    graph.check()
}

/// Whatever has no name gets one, or is gone.
fn homes(graph: &mut Graph<'_>) -> Result<(), Vec<Need>> {
    let draft = graph.draft;
    // Of some the owner knows that they have no name: they are held for its programs, who have them open, and stay so. What it has fetched
    // without a name and does not know that of, others have removed while it had the name.
    let known_as_orphans = graph.terms.open_orphans;
    let stays_so = |ino: &Ino, known: &Known| {
        known_as_orphans.contains(ino)
            && known.at.is_none()
            && known.base.nlink == 0
            && known.made.as_ref().is_some_and(|made| made.nlink == 0)
    };
    for (ino, _) in draft.known.iter().filter(|(ino, known)| known.is_changed() && !stays_so(ino, known)) {
        if graph.is_there(*ino) && graph.find(*ino).is_some_and(|inode| inode.nlink == 0) {
            graph.nameless.insert(*ino);
        }
    }
    // What the owner has comes first: others' things make room for it.
    let mut all: Vec<Ino> = graph.nameless.iter().copied().collect();
    all.sort_by_key(|ino| (!draft.known.contains_key(ino) && !draft.fresh.contains_key(ino), *ino));
    for ino in all {
        home(graph, ino, 0);
        graph.check()?;
    }
    Ok(())
}

/// Gives something its place.
fn home(graph: &mut Graph<'_>, ino: Ino, depth: usize) {
    if !graph.nameless.contains(&ino) || ino == graph.terms.root || depth > BACK_MAX {
        return;
    }
    let Some(inode) = graph.find(ino).cloned() else {
        graph.nameless.remove(&ino);
        return;
    };
    let draft = graph.draft;
    let before = if graph.is_made(ino) { None } else { graph.before(ino) };
    let was_orphan = before.is_some_and(|before| before.nlink == 0);
    let known = draft.known.get(&ino);
    if let Some(Known { base, made: None, .. }) = known {
        let is_empty = inode.kind != Kind::Dir || inode.size == 0;
        if was_orphan && is_empty {
            // Both have removed it.
            graph.nameless.remove(&ino);
        } else if is_empty && before.is_some_and(|before| before.change == base.change) {
            graph.nameless.remove(&ino);
            graph.gone.insert(ino);
        } else {
            keep(graph, ino, ConflictKind::Removed);
        }
        return;
    }
    let swapped = graph.swaps.iter().any(|(others, _)| *others == ino);
    if !swapped
        && let Some((dir, name)) = known.and_then(|known| known.at.clone())
        && at_home(graph, ino, dir, &name, depth)
    {
        graph.report(if was_orphan { ConflictKind::Returned } else { ConflictKind::Moved }, ino, None);
        return;
    }
    let kind = match known {
        _ if swapped || graph.data.contains_key(&ino) || graph.kept.contains(&ino) => ConflictKind::Data,
        _ if was_orphan => ConflictKind::Returned,
        _ if draft.fresh.contains_key(&ino) => ConflictKind::Homeless,
        _ => ConflictKind::Name,
    };
    keep(graph, ino, kind);
}

/// Puts something where the owner found it, if that is still there and the owner has put nothing else there.
fn at_home(graph: &mut Graph<'_>, ino: Ino, dir: Ino, name: &Name, depth: usize) -> bool {
    let draft = graph.draft;
    if !graph.is_there(dir) || draft.names.contains_key(&(dir, name.clone())) {
        return false;
    }
    // Others may have removed the directory, too.
    let Some(parent) = graph.find(dir).cloned() else { return false };
    if parent.kind != Kind::Dir {
        return false;
    }
    if dir != graph.terms.root && (parent.nlink == 0 || graph.nameless.contains(&dir)) {
        if draft.known.get(&dir).is_none_or(|known| known.made.is_none()) {
            return false;
        }
        if let Some(parent) = graph.edit(dir) {
            parent.nlink = parent.nlink.max(2);
        }
        graph.nameless.insert(dir);
        home(graph, dir, depth + 1);
        if !graph.is_named(dir) {
            return false;
        }
        if !graph.nameless.contains(&ino) {
            return true;
        }
    }
    match graph.entry(dir, name) {
        None => {}
        // Two that were found under the same name at different times: the first stays.
        Some(target) if draft.known.get(&target.ino).is_some_and(|known| known.at == Some((dir, name.clone()))) => {
            return false;
        }
        Some(target) => {
            graph.take_name(dir, name);
            graph.give_name(dir, name, ino);
            home(graph, target.ino, depth + 1);
            return true;
        }
    }
    graph.give_name(dir, name, ino);
    true
}

/// Keeps something in the directory of conflicts.
fn keep(graph: &mut Graph<'_>, ino: Ino, kind: ConflictKind) {
    let Some(dir) = conflicts(graph) else { return };
    let known = graph.draft.known.get(&ino).and_then(|known| known.at.as_ref());
    let was = graph.was.get(&ino).or(known.map(|(_, name)| name)).cloned();
    let label = was.map_or_else(|| format!("inode-{}", ino.0).into_bytes(), |name| name.as_bytes().to_vec());
    for number in 1..=u32::MAX {
        let name = numbered(&label, &format!("~{}-{number}", graph.terms.merge));
        if graph.names.get(&(dir, name.clone())).is_some_and(Option::is_some) || graph.entry(dir, &name).is_some() {
            continue;
        }
        graph.report(kind, ino, Some(&name));
        graph.give_name(dir, &name, ino);
        return;
    }
}

/// The directory of conflicts, made if there is none.
fn conflicts(graph: &mut Graph<'_>) -> Option<Ino> {
    let root = graph.terms.root;
    for number in 0..=u32::MAX {
        let name = match number {
            0 => numbered(CONFLICTS, ""),
            _ => numbered(CONFLICTS, &format!("~{number}")),
        };
        match graph.entry(root, &name) {
            Some(target) if target.kind == Kind::Dir => return Some(target.ino),
            Some(_) => {}
            None if !graph.needs.is_empty() => return None,
            None => {
                let gid = graph.find(root)?.gid;
                let (uid, now) = (graph.terms.uid, graph.terms.now);
                let dir = graph.make(Inode::new(Ino(0), Kind::Dir, 0o755, uid, gid, Ino(0), now));
                graph.give_name(root, &name, dir);
                return Some(dir);
            }
        }
    }
    None
}

/// A name with something behind it, as long as names may be; of a text whole characters.
fn numbered(label: &[u8], behind: &str) -> Name {
    let mut len = label.len().min(NAME_MAX - behind.len());
    if len < label.len() {
        while len > 0 && label[len] & 0xc0 == 0x80 {
            len -= 1;
        }
    }
    let bytes = [&label[..len], behind.as_bytes()].concat();
    Name::new(&bytes).expect("a name that is cut, with a number behind it, is one")
}

/// Directories that both moved, each into the other's: what others moved is kept elsewhere.
fn loops(graph: &mut Graph<'_>) -> Result<(), Vec<Need>> {
    let moved: Vec<Ino> = graph.names.values().flatten().filter(|to| to.kind == Kind::Dir).map(|to| to.ino).collect();
    for ino in moved {
        let (mut at, mut way) = (ino, Vec::new());
        while at != graph.terms.root && at != Ino::ROOT && at.0 != 0 && way.len() < DEPTH_MAX {
            way.push(at);
            at = graph.find(at).map_or(Ino(0), |inode| inode.parent);
            if at == ino {
                break;
            }
        }
        graph.check()?;
        if at != ino {
            continue;
        }
        let is_others = |dir: &Ino| !graph.draft.names.values().any(|to| *to == Some(*dir));
        let Some(others) = way.iter().copied().find(is_others).or(Some(ino)) else { continue };
        if let Some((dir, name)) = graph.name_of(others) {
            graph.take_name(dir, &name);
        }
        keep(graph, others, ConflictKind::Loop);
        graph.check()?;
    }
    Ok(())
}
