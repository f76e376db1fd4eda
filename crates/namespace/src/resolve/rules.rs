//! Rules for each pair of things that the owner and others did: the one table of `docs/subtree-policies.md`, as code.
//!
//! In this order: attributes and data; names that the owner took; names that it gave; what both named anew; then whatever has no name
//! gets one or goes; last, directories that were moved into each other.

mod content;
mod homes;

use loligo_types::limits::DEPTH_MAX;
use loligo_types::{ConflictKind, Ino, Kind, Need};

use self::content::{attributes, refused};
use self::homes::{homes, keep};
use super::graph::Graph;

pub use self::content::is_written;

/// Rounds in which what has no name gets one: each gives a name for good but where it takes one.
const ROUNDS_MAX: usize = 4;

pub(super) fn carry_out(graph: &mut Graph<'_>) -> Result<(), Vec<Need>> {
    gather(graph)?;
    attributes(graph)?;
    take_names(graph)?;
    give_names(graph)?;
    named_by_both(graph)?;
    refused(graph)?;
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
                graph.was.entry(ino).or_insert_with(|| (*dir, name.clone()));
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
