//! The one record of a migration, at the rank that gives something away: the changes, lines and records that go into it and into the letter
//! that it holds. It is made in `stages/migrate.rs`.

use std::collections::BTreeSet;

use loligo_namespace::Tree;
use loligo_types::{Event, Frag, Ino, Inode, Kind, Loaded, MovedClient, Name, Rank, Route, Target, limits};

use crate::cluster::cuts::cut;
use crate::cluster::exports::Export;
use crate::cluster::survey::{Moves, Survey, inode_of};
use crate::cluster::tail::{CACHED_MAX, Changes, inode_len};
use crate::cluster::{Atlas, Exports};
use crate::core::Core;

/// A thing of which each change says all.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Thing<'a> {
    Inode(Ino, Option<Rank>),
    Entry(Ino, &'a Name),
    Xattr(Ino, &'a [u8]),
    Inline(Ino),
}

/// The thing that an event describes completely. None: the event concerns other things, too, and stays in its place. An inode
/// is gone with all it has; that a directory is empty tells that no other names are in it.
fn thing_of(event: &Event) -> Option<Thing<'_>> {
    match event {
        Event::Inode(inode) if inode.kind == Kind::Dir && inode.size == 0 => None,
        Event::Inode(inode) => Some(Thing::Inode(inode.ino, inode.part_of())),
        Event::Entry { dir, name, .. } | Event::EntryGone { dir, name } => Some(Thing::Entry(*dir, name)),
        Event::Xattr { ino, name, .. } | Event::XattrGone { ino, name } => Some(Thing::Xattr(*ino, name)),
        Event::Inline { ino, .. } | Event::InlineGone(ino) => Some(Thing::Inline(*ino)),
        _ => None,
    }
}

/// Which changes count: of several of one thing only the last.
pub(crate) fn last_of_each(events: &[Event]) -> Vec<bool> {
    let mut later = BTreeSet::new();
    let counts = events.iter().rev().map(|event| thing_of(event).is_none_or(|thing| later.insert(thing)));
    let mut counts: Vec<bool> = counts.collect();
    counts.reverse();
    counts
}

impl Exports {
    /// Takes the changes of the moving inodes since the table has them. From then on no changes are remembered.
    pub(super) fn take_changes(
        &mut self,
        core: &mut Core,
        atlas: &mut Atlas,
        export: &Export,
        survey: &mut Survey,
    ) -> Changes {
        let mut events: Vec<Event> = Vec::new();
        let mut departed = BTreeSet::new();
        if export.itself {
            departed = super::float::departing(export.dir, &export.files);
        }
        let tail = self.tail.take().unwrap_or_default().events;
        let counts = last_of_each(&tail);
        for (event, counts) in tail.into_iter().zip(counts) {
            let named = match &event {
                Event::Entry { dir, name, .. } | Event::EntryGone { dir, name } => {
                    survey.name_moves(*dir, core.tree.hash(name))
                }
                // Of the directory itself all is said below.
                Event::Inode(inode) if inode.ino == export.dir => Some(false),
                _ => None,
            };
            let Some(ino) = inode_of(&event) else { continue };
            if named.unwrap_or_else(|| matches!(survey.moves(core, self, atlas, ino), Moves::Yes)) {
                if ino != export.dir {
                    departed.insert(ino);
                }
                if counts {
                    events.push(event);
                }
            }
        }
        Changes { events, departed }
    }
}

/// Inodes on which clients have leases, with their names: they are likely to be asked for next. Without those that
/// go with the letter.
pub(super) fn cached_of(tree: &Tree, clients: &[MovedClient], departed: &BTreeSet<Ino>) -> Vec<Loaded> {
    let leased: BTreeSet<Ino> = clients.iter().flat_map(|client| &client.held.leases).map(|(ino, _)| *ino).collect();
    let (mut items, mut bytes, mut scratch) = (Vec::new(), 0, Vec::new());
    for inode in leased.difference(departed).filter_map(|ino| tree.peek(*ino)) {
        bytes += inode_len(inode, &mut scratch) + 2 * limits::NAME_MAX;
        if bytes > CACHED_MAX {
            break;
        }
        items.push(Loaded::Inode(inode.ino, Some(Box::new(inode.clone()))));
        if let Some(name) = tree.primary_name(inode) {
            let found = Some(Target { ino: inode.ino, kind: inode.kind, remote: false });
            items.push(Loaded::Entry { dir: inode.parent, name, found });
        }
    }
    items
}

impl Atlas {
    /// The lines of what moves, then those of what stays as far as they are new; and whether anything stays.
    pub(super) fn cut_lines(&self, core: &Core, export: &Export) -> (Vec<Route>, bool) {
        let version = self.routes.version(export.dir).unwrap_or(0) + 1;
        let line = |frag: Frag, rank: Rank| Route { dir: export.dir, frag, rank, version };
        let (_, stays) = cut(&export.own, export.frag);
        let mut routes: Vec<Route> = export.moves.iter().map(|frag| line(*frag, export.to)).collect();
        let fresh = stays.iter().filter(|frag| !export.own.contains(frag));
        routes.extend(fresh.map(|frag| line(*frag, core.me())));
        (routes, !stays.is_empty())
    }
}

impl Core {
    /// Adds the events for this rank's record of the directory, from which fragments leave; returns the record that
    /// goes with them.
    pub(super) fn leave(&self, inode: &Inode, stays: bool, to: Rank, record: &mut Vec<Event>) -> Inode {
        if inode.part_of().is_some() {
            if stays {
                return inode.new_part(to);
            }
            record.push(Event::PartGone { dir: inode.ino, rank: self.me() });
            return inode.clone();
        }
        let mut home = inode.clone();
        home.begin_spread();
        let part = home.new_part(to);
        record.push(Event::Inode(Box::new(home)));
        part
    }
}
