//! Things that have no name: each gets its place back, or is kept in the directory of conflicts, or is gone. Not here: why a thing lost its name
//! (the other rules).

use loligo_types::limits::{DEPTH_MAX, NAME_MAX};
use loligo_types::{ConflictKind, Ino, Inode, Kind, Name, Need};

use super::super::CONFLICTS;
use super::super::draft::Known;
use super::super::graph::Graph;

/// Most directories above something that come back with it.
const BACK_MAX: usize = 1024;

/// Whatever has no name gets one, or is gone.
pub(super) fn homes(graph: &mut Graph<'_>) -> Result<(), Vec<Need>> {
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
    // The owner's things come first: others' make room for them.
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
    if let Some((dir, name)) = known.and_then(|known| known.at.clone())
        && at_home(graph, ino, dir, &name, depth)
    {
        graph.report(if was_orphan { ConflictKind::Returned } else { ConflictKind::Moved }, ino, None);
        return;
    }
    let kind = match known {
        _ if draft.denied.contains(&ino) || graph.refused.contains(&ino) => ConflictKind::Denied,
        _ if graph.data.contains_key(&ino) || graph.kept.contains(&ino) => ConflictKind::Data,
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

/// Keeps something in the directory of conflicts. There it is for nobody who could not get at it where it was.
pub(super) fn keep(graph: &mut Graph<'_>, ino: Ino, kind: ConflictKind) {
    let Some(dir) = conflicts(graph) else { return };
    let known = graph.draft.known.get(&ino).and_then(|known| known.at.as_ref());
    let was = graph.was.get(&ino).or(known).cloned();
    let is_open = was.as_ref().is_some_and(|(from, _)| is_open_way(graph, *from));
    if !is_open && let Some(inode) = graph.edit(ino) {
        inode.mode &= !0o077;
        if inode.acl().is_some() || inode.default_acl().is_some() {
            let extra = inode.extra_mut();
            (extra.acl, extra.default_acl) = (None, None);
        }
    }
    let name = was.filter(|_| is_open).map(|(_, name)| name.as_bytes().to_vec());
    let label = name.unwrap_or_else(|| format!("inode-{}", ino.0).into_bytes());
    loop {
        let number = graph.next_number(&label);
        let name = numbered(&label, &format!("~{}-{number}", graph.terms.merge));
        if graph.names.get(&(dir, name.clone())).is_some_and(Option::is_some) || graph.entry(dir, &name).is_some() {
            continue;
        }
        graph.report(kind, ino, Some(&name));
        graph.give_name(dir, &name, ino);
        return;
    }
}

/// True if everybody who may search the root of the subtree may search a directory below it, too.
fn is_open_way(graph: &mut Graph<'_>, from: Ino) -> bool {
    let root = graph.terms.root;
    let whose = |inode: &Inode| (inode.uid, inode.gid, inode.acl().cloned());
    let Some(top) = graph.find(root).cloned() else { return false };
    let mut at = from;
    for _ in 0..DEPTH_MAX {
        if at == root {
            return true;
        }
        let before = if graph.is_new(at) { graph.find(at) } else { graph.before(at) };
        let Some(dir) = before else { return false };
        let search = 0o111;
        let is_public = dir.mode & search == search && dir.acl().is_none();
        let is_like_root = whose(dir) == whose(&top) && top.mode & search & !dir.mode == 0;
        if !is_public && !is_like_root {
            return false;
        }
        at = dir.parent;
    }
    false
}

/// The directory of conflicts, made if there is none. One that somebody else could change is not taken for it.
fn conflicts(graph: &mut Graph<'_>) -> Option<Ino> {
    let root = graph.terms.root;
    let top = graph.find(root).cloned()?;
    let (uid, now) = (graph.terms.uid, graph.terms.now);
    for number in 0..=u32::MAX {
        let name = match number {
            0 => numbered(CONFLICTS, ""),
            _ => numbered(CONFLICTS, &format!("~{number}")),
        };
        match graph.entry(root, &name) {
            Some(target) if target.kind == Kind::Dir => {
                let dir = graph.find(target.ino)?;
                let is_safe = dir.mode & 0o022 == 0 && dir.acl().is_none();
                if is_safe && [0, uid, top.uid].contains(&dir.uid) {
                    return Some(target.ino);
                }
            }
            Some(_) => {}
            None if !graph.needs.is_empty() => return None,
            None => {
                let mode = 0o755 & top.mode | 0o700;
                let dir = graph.make(Inode::new(Ino(0), Kind::Dir, mode, uid, top.gid, Ino(0), now));
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
