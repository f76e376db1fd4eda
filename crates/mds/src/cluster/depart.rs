//! The one record of a migration, at the rank that gives something away: what is in it, and in the letter that it holds. Not when
//! it is made.

use std::collections::BTreeSet;

use loligo_types::{Event, Frag, Ino, Inode, Kind, Letter, Loaded, MovedClient, Name, Rank, Route, Target, limits};

use super::export::{Export, Stage};
use super::size::{CACHED_MAX, inode_len};
use super::spread::cut;
use super::survey::{Moves, Survey, inode_of};
use crate::cluster::Atlas;
use crate::core::Core;
use crate::machine::Mds;
use crate::peer::PeerMsg;
use loligo_namespace::Tree;

/// Changes of the moving inodes since the table has them. Absolute, so in their order they lead to the present state.
pub(super) struct Changes {
    pub(super) events: Vec<Event>,
    /// The inodes of which something is said.
    pub(super) departed: BTreeSet<Ino>,
}

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

impl Mds {
    /// Makes the record.
    pub(super) fn make_move(&mut self, export: &mut Export, survey: &mut Survey, inode: &Inode, changes: Changes) {
        let Changes { mut events, mut departed } = changes;
        if export.itself {
            let mut inode = inode.clone();
            inode.moves_away();
            events.push(Event::Inode(Box::new(inode)));
        }
        let (clients, holders) = self.take_holdings(survey, &mut export.held, export.to);
        export.holders = holders;
        for (_, ino, ..) in clients.iter().flat_map(|client| &client.held.opens) {
            if departed.insert(*ino)
                && let Some(inode) = self.core.tree.inode(*ino)
            {
                events.push(Event::Inode(Box::new(inode.clone())));
            }
        }
        let cached = cached_of(&self.core.tree, &clients, &departed);
        if !cached.is_empty() {
            self.core.tell(export.to, PeerMsg::Cached(cached));
        }
        events.extend(self.core.moved_files(&export.files, export.to));
        let (routes, stays) = self.cluster.atlas.cut_lines(&self.core, export);
        let mut record: Vec<Event> = routes.iter().map(|route| Event::Route(*route)).collect();
        if export.files.is_empty()
            && inode.part_of().is_none()
            && self.core.tree.inode(inode.parent).is_some()
            && let Some(name) = self.core.tree.primary_name(inode)
        {
            record.push(Event::Entry { dir: inode.parent, name, ino: inode.ino, kind: Kind::Dir, remote: true });
        }
        let inos: Vec<Ino> = departed.into_iter().collect();
        let letter = if export.itself {
            Letter::Import { routes: routes.clone(), events, clients }
        } else {
            record.extend(export.moves.iter().map(|frag| Event::DepartedFrag { dir: export.dir, frag: *frag }));
            let part = Box::new(self.core.leave(inode, stays, export.to, &mut record));
            Letter::Fragment { part, routes: routes.clone(), events, clients }
        };
        record.push(Event::Departed(inos.clone().into()));
        let seq = self.core.tree.peer(export.to).sent + 1;
        record.extend(self.core.write_letter(export.to, letter));
        // Known before it is put down, so that others are told of all lines together.
        routes
            .iter()
            .for_each(|route| self.cluster.atlas.routes.give(*route, self.core.log.last.next(), (export.to, seq)));
        let lsn = self.commit(None, &record);
        self.cluster.atlas.departed.extend(inos.into_iter().map(|ino| (ino, (export.to, lsn))));
        self.cluster.exports.landing.entry(export.to).or_default().push((seq, lsn));
        self.cluster.atlas.foreign_inodes.clear();
        self.shortcuts.clear();
        export.routes = routes;
        export.stage = Stage::Moving(seq);
    }

    /// Takes the changes of the moving inodes since the table has them. From then on no changes are remembered.
    pub(super) fn take_changes(&mut self, export: &Export, survey: &mut Survey) -> Changes {
        let mut events: Vec<Event> = Vec::new();
        let mut departed = BTreeSet::new();
        if export.itself {
            departed = Mds::departing(export.dir, &export.files);
        }
        let tail = self.cluster.exports.tail.take().unwrap_or_default().events;
        let counts = last_of_each(&tail);
        for (event, counts) in tail.into_iter().zip(counts) {
            let named = match &event {
                Event::Entry { dir, name, .. } | Event::EntryGone { dir, name } => {
                    survey.name_moves(*dir, self.core.tree.hash(name))
                }
                // Of the directory itself all is said below.
                Event::Inode(inode) if inode.ino == export.dir => Some(false),
                _ => None,
            };
            let Some(ino) = inode_of(&event) else { continue };
            if named.unwrap_or_else(|| {
                matches!(self.cluster.exports.moves(&mut self.core, &mut self.cluster.atlas, survey, ino), Moves::Yes)
            }) {
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
fn cached_of(tree: &Tree, clients: &[MovedClient], departed: &BTreeSet<Ino>) -> Vec<Loaded> {
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
    fn leave(&self, inode: &Inode, stays: bool, to: Rank, record: &mut Vec<Event>) -> Inode {
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
