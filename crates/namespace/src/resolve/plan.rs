//! The events of a merge: what differs from the tree at the end. Decides nothing.

use std::sync::Arc;

use loligo_types::{Event, Ino, Inode, Kind, Need};

use super::Plan;
use super::graph::{CAPABILITY, Graph};

/// Approximate size of an event, beside names and data, bytes.
const EVENT_BYTES: usize = 100;

pub(super) fn finish(mut graph: Graph<'_>) -> Result<Plan, Vec<Need>> {
    let mut events = Vec::new();
    let makes = |graph: &Graph<'_>, ino: &Ino| graph.draft.fresh.contains_key(ino) || graph.is_made(*ino);
    // A new directory is first empty, so it is known in full; a new file first has no xattrs.
    for (ino, inode) in graph.inodes.iter().filter(|(ino, _)| makes(&graph, ino)) {
        if inode.kind == Kind::Dir || graph.draft.xattrs.contains_key(ino) {
            let mut blank = super::Draft::blank(inode);
            (blank.has_xattrs, blank.nlink) = (false, blank.nlink.max(1));
            events.push(Event::Inode(Box::new(blank)));
        }
    }
    for ((dir, name), target) in &graph.names {
        let (dir, name) = (*dir, name.clone());
        events.push(match *target {
            Some(to) => Event::Entry { dir, name, ino: to.ino, kind: to.kind, remote: to.remote },
            None => Event::EntryGone { dir, name },
        });
    }
    xattrs(&mut graph, &mut events);
    inline(&mut graph, &mut events);
    graph.check()?;
    inodes(&mut graph, &mut events);
    for event in &graph.draft.discards {
        // Objects of others' files go with those.
        if let Event::Discard { ino, .. } = event
            && !graph.draft.known.contains_key(ino)
            && graph.tree.inode(*ino).is_none()
        {
            events.push(event.clone());
        }
    }
    graph.check()?;
    let bytes = events.iter().map(bytes_of).sum();
    Ok(Plan { events, conflicts: graph.conflicts, told: graph.told, bytes })
}

fn bytes_of(event: &Event) -> usize {
    EVENT_BYTES
        + match event {
            Event::Inode(inode) => inode.symlink().map_or(0, <[u8]>::len),
            Event::Entry { name, .. } | Event::EntryGone { name, .. } => name.as_bytes().len(),
            Event::Xattr { name, value, .. } => name.len() + value.len(),
            Event::Inline { data, .. } => data.len(),
            _ => 0,
        }
}

/// Xattrs that the owner set and took away: one by one, as everybody else's stay.
fn xattrs(graph: &mut Graph<'_>, events: &mut Vec<Event>) {
    let draft = graph.draft;
    let none = std::collections::BTreeMap::new();
    let told = draft.xattrs.iter().map(|(ino, changes)| (*ino, changes));
    let rest = graph.unprivileged.iter().filter(|ino| !draft.xattrs.contains_key(ino)).map(|ino| (*ino, &none));
    let all: Vec<_> = told.chain(rest).collect();
    for (ino, changes) in all {
        let ino = &ino;
        if !graph.is_there(*ino) || graph.gone.contains(ino) {
            continue;
        }
        let mut has: std::collections::BTreeMap<Arc<[u8]>, Arc<[u8]>> = Default::default();
        if !draft.fresh.contains_key(ino) {
            let Some(now) = graph.before(*ino) else { continue };
            let Some(pairs) = graph.tree.xattrs(now) else {
                graph.needs.insert(Need::Xattrs(*ino));
                continue;
            };
            has.extend(pairs);
        }
        for (name, value) in changes {
            let (ino, name) = (*ino, name.clone());
            match value {
                Some(_) if *name == *CAPABILITY && graph.unprivileged.contains(&ino) => {}
                Some(value) if has.get(&name) != Some(value) => {
                    has.insert(name.clone(), value.clone());
                    events.push(Event::Xattr { ino, name, value: value.clone() });
                }
                Some(_) => {}
                None => {
                    if has.remove(&name).is_some() {
                        events.push(Event::XattrGone { ino, name });
                    }
                }
            }
        }
        let capability = has.keys().find(|name| ***name == *CAPABILITY && graph.unprivileged.contains(ino)).cloned();
        if let Some(name) = capability {
            has.remove(&name);
            events.push(Event::XattrGone { ino: *ino, name });
        }
        if let Some(inode) = graph.edit(*ino) {
            inode.has_xattrs = !has.is_empty();
        }
    }
}

/// Data of files that lies in inodes.
fn inline(graph: &mut Graph<'_>, events: &mut Vec<Event>) {
    let draft = graph.draft;
    let told = draft.inline.iter().filter(|(ino, _)| !graph.data.contains_key(ino));
    let mut all: Vec<(Ino, Option<Arc<[u8]>>)> = told.map(|(ino, data)| (*ino, data.clone())).collect();
    all.extend(graph.data.iter().filter_map(|(ino, data)| Some((*ino, Some(data.clone()?)))));
    for (ino, data) in all {
        if !graph.is_made(ino) && !graph.is_there(ino) || graph.gone.contains(&ino) {
            continue;
        }
        let Some(inode) = graph.find(ino) else { continue };
        match data.filter(|_| inode.inline && inode.size > 0) {
            Some(data) => events.push(Event::Inline { ino, data }),
            None if graph.tree.inode(ino).is_some() => events.push(Event::InlineGone(ino)),
            None => {}
        }
    }
}

fn inodes(graph: &mut Graph<'_>, events: &mut Vec<Event>) {
    let config = graph.tree.config().frag;
    let all = std::mem::take(&mut graph.inodes);
    for (ino, mut inode) in all {
        if inode.kind == Kind::Dir && (graph.touched.contains(&ino) || graph.tree.inode(ino).is_none()) {
            config.adapt(&mut inode);
        }
        let before = graph.tree.inode(ino);
        if graph.gone.contains(&ino) {
            let Some(before) = before else { continue };
            end(graph, before, inode, events);
            continue;
        }
        if graph.back.contains(&ino) {
            events.push(Event::OrphanGone(ino));
        }
        if let Some(before) = before {
            // What only waits for the merge to say whether it comes back stays as it is.
            if *before == inode || before.nlink == 0 && !graph.back.contains(&ino) {
                continue;
            }
            if graph.touched.contains(&ino) && inode.change == before.change {
                inode.change += 1;
                inode.ctime = inode.ctime.max(graph.terms.now);
                if inode.kind == Kind::Dir && inode.size != before.size {
                    inode.mtime = inode.mtime.max(graph.terms.now);
                }
            }
        } else if graph.is_made(ino) && inode.nlink == 0 {
            continue;
        }
        events.push(Event::Inode(Box::new(inode)));
    }
}

/// An inode without a name goes, or lives on as long as somebody has it open.
fn end(graph: &Graph<'_>, before: &Inode, mut inode: Inode, events: &mut Vec<Event>) {
    if (graph.terms.open_count)(before.ino) > 0 {
        inode.nlink = 0;
        inode.change = inode.change.max(before.change + 1);
        events.push(Event::Orphan(before.ino));
        events.push(Event::Inode(Box::new(inode)));
    } else {
        crate::reap::gone(before, events);
    }
}
