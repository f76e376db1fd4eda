//! Steps of the look at memory for a migration: whether an inode moves, with what must be read to know it, and dropping what has moved. The
//! state of the look is `survey.rs`'s.

use loligo_namespace::{Found, Need, Tree};
use loligo_types::{Ino, Inode, Kind, Name, Rank, limits};

use crate::cluster::exports::{Export, Stage};
use crate::cluster::survey::{Moves, Survey};
use crate::cluster::{Atlas, Exports, Where};
use crate::core::Core;
use crate::heat::Heat;
use crate::io::Output;
use crate::pace::Pace;
use crate::peer::PeerMsg;

/// Costs in units of [`crate::pace::Pace`]: to look at a file in the directory of the one before, or if it must be sought, to
/// look at anything else, to forget an inode, and to free an entry.
const NEAR: usize = 1;

const SOUGHT: usize = 4;

const FAR: usize = 8;

pub(super) const FORGET: usize = 12;

const ENTRY: usize = 3;

impl Exports {
    /// True if a rename between two names would change what is below the directory of the survey.
    pub(crate) fn disturbs_survey(
        &mut self,
        core: &mut Core,
        atlas: &mut Atlas,
        from: (Ino, &Name),
        to: (Ino, &Name),
    ) -> bool {
        let Some(mut export) = self.take_surveyed() else { return false };
        let mut survey = std::mem::take(export.survey_mut());
        let (from, to) = (survey.moves_below(core, self, atlas, from), survey.moves_below(core, self, atlas, to));
        *export.survey_mut() = survey;
        self.put_back(export);
        !matches!((from, to), (Moves::Yes, Moves::Yes) | (Moves::No, Moves::No))
    }

    /// The rank to which something that is still in memory has moved: the record is made, and it is not dropped yet. `Err`: these
    /// must be read first.
    pub(crate) fn has_moved(
        &mut self,
        core: &mut Core,
        atlas: &mut Atlas,
        ino: Ino,
    ) -> Result<Option<Rank>, Vec<Need>> {
        let Some((export, mut survey)) = self.take_moving() else { return Ok(None) };
        let moves = match core.tree.peek(ino).is_some() || survey.knows(ino) {
            true => survey.moves(core, self, atlas, ino),
            false => Moves::No,
        };
        self.put_moving_back(export, survey, moves)
    }

    /// The same of what has a name in a directory, be it in memory or dropped already.
    pub(super) fn name_has_moved(
        &mut self,
        core: &mut Core,
        atlas: &mut Atlas,
        dir: Ino,
        hash: u64,
    ) -> Result<Option<Rank>, Vec<Need>> {
        let Some((export, mut survey)) = self.take_moving() else { return Ok(None) };
        let moves = match survey.name_moves(dir, hash) {
            Some(true) => Moves::Yes,
            Some(false) => Moves::No,
            None if core.tree.peek(dir).is_some() || survey.knows(dir) => survey.moves(core, self, atlas, dir),
            None => Moves::No,
        };
        self.put_moving_back(export, survey, moves)
    }

    /// Takes a migration out whose record is made or about to be, and its survey.
    fn take_moving(&mut self) -> Option<(Box<Export>, Survey)> {
        let begun = |export: &mut Box<Export>| matches!(export.stage, Stage::Moving(_) | Stage::Cleaning);
        let mut export = self.now.take_if(begun)?;
        let survey = std::mem::take(&mut export.survey);
        Some((export, survey))
    }

    /// Puts it back; where goes what moves.
    fn put_moving_back(
        &mut self,
        mut export: Box<Export>,
        survey: Survey,
        moves: Moves,
    ) -> Result<Option<Rank>, Vec<Need>> {
        export.survey = survey;
        let to = export.to;
        self.now = Some(export);
        match moves {
            Moves::Yes => Ok(Some(to)),
            Moves::No => Ok(None),
            Moves::Unknown(needs) => Err(needs),
        }
    }
}

impl Atlas {
    /// True if the authority over an inode is that over its parent directory.
    fn is_embedded(&self, inode: &Inode) -> bool {
        inode.place.hash().is_some() && inode.parent.0 != 0 && self.routes.home(inode.ino).is_none()
    }

    /// True if a directory that is in memory is another rank's, by a line of the subtree map.
    fn is_another_ones(&self, core: &Core, dir: Ino) -> bool {
        core.tree.part(dir).is_none() && self.routes.home(dir).is_some_and(|rank| rank != core.me())
    }
}

impl Pace {
    /// Frees entries of what is forgotten, for the rest of this step; whether all are.
    fn free_buried(&mut self, core: &mut Core) -> bool {
        let max = self.left() / ENTRY + 1;
        let freed = core.tree.free_some(max);
        self.spend(freed * ENTRY);
        freed < max
    }
}

impl Survey {
    /// Reads what must be known first; whether that is nothing.
    pub(super) fn read(&mut self, core: &mut Core, atlas: &mut Atlas, needs: Vec<Need>) -> bool {
        if needs.is_empty() {
            return true;
        }
        self.reading = true;
        atlas.load(core, needs, crate::load::Waiter::Survey);
        false
    }

    /// Tells if an inode in memory is below the directory of the survey.
    pub(crate) fn moves(&mut self, core: &mut Core, exports: &mut Exports, atlas: &mut Atlas, ino: Ino) -> Moves {
        let mut path = Vec::new();
        let mut at = ino;
        let verdict = 'walk: {
            for _ in 0..limits::DEPTH_MAX {
                if let Some(moves) = self.below.get_mut(&at) {
                    // A directory that was removed since it was looked at and is open stays.
                    *moves &= !core.tree.peek(at).is_some_and(|dir| dir.kind == Kind::Dir && dir.nlink == 0);
                    break 'walk *moves;
                }
                let Some(inode) = core.tree.peek(at) else {
                    let mut wants = Vec::new();
                    match atlas.locate(core, exports, at, &mut wants) {
                        Where::Unknown => return Moves::Unknown(wants),
                        // Gone, or another rank's already.
                        Where::Here if !matches!(core.tree.find(at), Found::Here(_)) => break 'walk false,
                        Where::Here => continue,
                        Where::Elsewhere(_) => break 'walk false,
                    }
                };
                if inode.kind == Kind::Dir {
                    path.push(at);
                }
                if !atlas.is_embedded(inode) || inode.parent == at {
                    // What has moved may have got a line of its own where it is now, before it is dropped here.
                    break 'walk self.moved && atlas.is_another_ones(core, at);
                }
                if let Some(moves) = self.name_moves(inode.parent, inode.place.hash().unwrap_or(0)) {
                    break 'walk moves;
                }
                at = inode.parent;
            }
            false
        };
        for dir in path {
            self.below.insert(dir, verdict);
        }
        if verdict { Moves::Yes } else { Moves::No }
    }

    /// The same of one of many that are looked at in a step, and what that costs.
    pub(super) fn moves_in_step(
        &mut self,
        core: &mut Core,
        exports: &mut Exports,
        atlas: &mut Atlas,
        ino: Ino,
    ) -> (Moves, usize) {
        match core.tree.peek(ino).and_then(|inode| self.near(inode)) {
            Some(true) => (Moves::Yes, SOUGHT),
            Some(false) => (Moves::No, SOUGHT),
            None => self.moves_alone(core, exports, atlas, ino),
        }
    }

    /// The same of one of which is known that it is not in the directory of the one before.
    fn moves_alone(&mut self, core: &mut Core, exports: &mut Exports, atlas: &mut Atlas, ino: Ino) -> (Moves, usize) {
        let inode = core.tree.peek(ino);
        let parent =
            inode.filter(|inode| inode.kind != Kind::Dir && atlas.is_embedded(inode)).map(|inode| inode.parent);
        let moves = self.moves(core, exports, atlas, ino);
        if let Some(parent) = parent.filter(|parent| *parent != self.dir.0 && !self.has_files) {
            self.last = match moves {
                Moves::Yes => Some((parent, true)),
                Moves::No => Some((parent, false)),
                Moves::Unknown(_) => None,
            };
        }
        (moves, FAR)
    }

    /// Tells if the inode of a name moves, if it moves with the name.
    fn moves_below(
        &mut self,
        core: &mut Core,
        exports: &mut Exports,
        atlas: &mut Atlas,
        (dir, name): (Ino, &Name),
    ) -> Moves {
        match self.name_moves(dir, core.tree.hash(name)) {
            Some(true) => Moves::Yes,
            Some(false) => Moves::No,
            None => self.moves(core, exports, atlas, dir),
        }
    }

    /// Looks at a slice of memory; whether all was seen. What must be read for it is read first.
    pub(crate) fn look(&mut self, core: &mut Core, exports: &mut Exports, atlas: &mut Atlas, pace: &mut Pace) -> bool {
        self.look_and(core, exports, atlas, pace, |_, _| 0)
    }

    /// Drops a slice of what has moved from memory; whether all is dropped.
    pub(crate) fn drop_some(
        &mut self,
        core: &mut Core,
        exports: &mut Exports,
        atlas: &mut Atlas,
        heat: &mut Heat,
        pace: &mut Pace,
        to: Rank,
    ) -> bool {
        if !pace.free_buried(core) {
            core.out.push_back(Output::Again);
            return false;
        }
        let dir = self.dir.0;
        if self.rest.is_none() {
            // Directories stay known until the end: what is below them is told apart by them.
            let forget = |tree: &mut Tree, ino: Ino| match ino == dir {
                true => 0,
                false => FORGET + tree.forget(ino) * ENTRY,
            };
            if !self.look_and(core, exports, atlas, pace, forget) {
                return false;
            }
            let heat = heat.heat_moved(core, atlas, dir, |(at, frag)| {
                let of_it = *at == dir && self.dir.1.iter().any(|moves| moves.covers(*frag));
                of_it || self.is_below(*at)
            });
            if !heat.is_empty() {
                core.tell(to, PeerMsg::Heat(heat));
            }
            let dirs = self.below.iter().filter(|(_, moves)| **moves).map(|(ino, _)| *ino);
            self.rest = Some(dirs.collect());
        }
        while pace.is_left()
            && let Some(ino) = self.rest.as_mut().and_then(Vec::pop)
        {
            let entries = core.tree.forget(ino);
            pace.spend(FORGET + entries * ENTRY);
        }
        let all = self.rest.as_ref().is_none_or(Vec::is_empty) && pace.free_buried(core);
        if !all {
            core.out.push_back(Output::Again);
        }
        all
    }

    /// Looks at a slice of memory, and does something with each inode that moves: what that cost.
    fn look_and(
        &mut self,
        core: &mut Core,
        exports: &mut Exports,
        atlas: &mut Atlas,
        pace: &mut Pace,
        mut each: impl FnMut(&mut Tree, Ino) -> usize,
    ) -> bool {
        if self.reading {
            return false;
        }
        let mut needs = Vec::new();
        while pace.is_left() {
            let (inodes, dirs) = core.tree.places();
            let next = if self.inode < inodes {
                core.tree.peek_at(self.inode).map(|inode| (inode.ino, self.near(inode)))
            } else if self.entries < dirs {
                core.tree.dir_at(self.entries).map(|ino| (ino, None))
            } else {
                return self.read(core, atlas, needs);
            };
            let (moves, mut cost) = match next {
                None | Some((_, Some(false))) => (Moves::No, NEAR),
                Some((_, Some(true))) => (Moves::Yes, NEAR),
                Some((ino, None)) => self.moves_alone(core, exports, atlas, ino),
            };
            match (next, moves) {
                (_, Moves::Unknown(mut wants)) => {
                    self.asks = true;
                    needs.append(&mut wants);
                    // This one again, when they are read.
                    break;
                }
                (Some((ino, _)), Moves::Yes) => {
                    cost += each(&mut core.tree, ino);
                    self.found += 1;
                }
                _ => {}
            }
            pace.spend(cost);
            self.asks = false;
            if self.inode < inodes { self.inode += 1 } else { self.entries += 1 }
        }
        if self.read(core, atlas, needs) {
            core.out.push_back(Output::Again);
        }
        false
    }
}
