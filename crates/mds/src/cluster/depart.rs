//! The one record of a migration, at the rank that gives something away: what is in it, and in the letter that it holds. Not when
//! it is made.

use std::collections::BTreeSet;

use loligo_types::{Event, Frag, Ino, Inode, Kind, Letter, Loaded, MovedClient, Rank, Route, Target};

use super::export::{Export, Stage};
use super::spread::cut;
use super::survey::{Moves, Survey, inode_of};
use crate::machine::Mds;
use crate::peer::PeerMsg;

impl Mds {
    /// Makes the record.
    pub(super) fn make_move(&mut self, export: &mut Export, survey: &mut Survey, inode: &Inode) {
        let (mut events, mut departed) = self.take_changes(export, survey);
        if export.itself {
            events.push(Event::Inode(Box::new(inode.clone())));
        }
        let (clients, holders) = self.take_holdings(survey, &mut export.held, export.to);
        export.holders = holders;
        for (_, ino, ..) in clients.iter().flat_map(|client| &client.held.opens) {
            if departed.insert(*ino)
                && let Some(inode) = self.tree.inode(*ino)
            {
                events.push(Event::Inode(Box::new(inode.clone())));
            }
        }
        let cached = self.cached_of(&clients, &departed);
        if !cached.is_empty() {
            self.tell(export.to, PeerMsg::Cached(cached));
        }
        events.extend(self.moved_files(&export.files, export.to));
        let (routes, stays) = self.cut_lines(export);
        let mut record: Vec<Event> = routes.iter().map(|route| Event::Route(*route)).collect();
        if export.files.is_empty()
            && inode.part_of().is_none()
            && self.tree.inode(inode.parent).is_some()
            && let Some(name) = self.tree.primary_name(inode)
        {
            record.push(Event::Entry { dir: inode.parent, name, ino: inode.ino, kind: Kind::Dir, remote: true });
        }
        let inos: Vec<Ino> = departed.into_iter().collect();
        let letter = if export.itself {
            Letter::Import { routes: routes.clone(), events, clients }
        } else {
            record.extend(export.moves.iter().map(|frag| Event::DepartedFrag { dir: export.dir, frag: *frag }));
            let part = Box::new(self.leave(inode, stays, export.to, &mut record));
            Letter::Fragment { part, routes: routes.clone(), events, clients }
        };
        record.push(Event::Departed(inos.clone().into()));
        let seq = self.tree.peer(export.to).sent + 1;
        record.extend(self.write_letter(export.to, letter));
        // Known before it is put down, so that others are told of all lines together.
        routes.iter().for_each(|route| _ = self.cluster.routes.learn(*route));
        let lsn = self.commit(None, &record);
        self.cluster.departed.extend(inos.into_iter().map(|ino| (ino, (export.to, lsn))));
        self.cluster.exports.landing.entry(export.to).or_default().push((seq, lsn));
        self.cluster.strangers.clear();
        export.routes = routes;
        export.stage = Stage::Moving(seq);
    }

    /// What was changed of what moves since the table has it, and the inodes of which that is said. Absolute, so in their
    /// order the changes lead to the state of now.
    fn take_changes(&mut self, export: &Export, survey: &mut Survey) -> (Vec<Event>, BTreeSet<Ino>) {
        let mut events: Vec<Event> = Vec::new();
        let mut departed = BTreeSet::new();
        if export.itself {
            departed = Mds::departing(export.dir, &export.files);
        }
        for event in self.cluster.tail.take().unwrap_or_default() {
            let named = match &event {
                Event::Entry { dir, name, .. } | Event::EntryGone { dir, name } => {
                    survey.name_moves(*dir, self.tree.hash(name))
                }
                // Of the directory itself all is said below.
                Event::Inode(inode) if inode.ino == export.dir => Some(false),
                _ => None,
            };
            let Some(ino) = inode_of(&event) else { continue };
            if named.unwrap_or_else(|| matches!(self.moves(survey, ino), Moves::Yes)) {
                if ino != export.dir {
                    departed.insert(ino);
                }
                events.push(event);
            }
        }
        (events, departed)
    }

    /// What clients have leases on, with its names: they are likely to ask for it next. Not what goes with the letter.
    fn cached_of(&self, clients: &[MovedClient], departed: &BTreeSet<Ino>) -> Vec<Loaded> {
        let leased: BTreeSet<Ino> =
            clients.iter().flat_map(|client| &client.held.leases).map(|(ino, _)| *ino).collect();
        let mut items = Vec::new();
        for inode in leased.difference(departed).filter_map(|ino| self.tree.peek(*ino)) {
            items.push(Loaded::Inode(inode.ino, Some(Box::new(inode.clone()))));
            if let Some(name) = self.tree.primary_name(inode) {
                let found = Some(Target { ino: inode.ino, kind: inode.kind, remote: false });
                items.push(Loaded::Entry { dir: inode.parent, name, found });
            }
        }
        items
    }

    /// The lines of what moves, then those of what stays as far as they are new; and whether anything stays.
    fn cut_lines(&self, export: &Export) -> (Vec<Route>, bool) {
        let version = self.cluster.routes.version(export.dir).unwrap_or(0) + 1;
        let line = |frag: Frag, rank: Rank| Route { dir: export.dir, frag, rank, version };
        let (_, stays) = cut(&export.own, export.frag);
        let mut routes: Vec<Route> = export.moves.iter().map(|frag| line(*frag, export.to)).collect();
        let fresh = stays.iter().filter(|frag| !export.own.contains(frag));
        routes.extend(fresh.map(|frag| line(*frag, self.me())));
        (routes, !stays.is_empty())
    }

    /// What becomes of this rank's record of the directory when fragments leave; and what goes with them.
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
