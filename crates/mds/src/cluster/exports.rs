//! Migrations from this rank: the one under way and those that wait, and their own steps. The course of one, over all parts that have to do with
//! it, is `stages/migrate.rs`'s; steps that ask the subtree map are in `exporting.rs`.

use std::collections::{BTreeMap, VecDeque};

use loligo_types::msg::ToClient;
use loligo_types::{Frag, Ino, Lsn, Rank, Route, limits};

use crate::admin::Migration;
use crate::cluster::held::{Held, Holders};
use crate::cluster::survey::Survey;
use crate::cluster::tail::{RESIDUE_MAX, Tail};
use crate::core::Core;
use crate::io::{DataAccess, Output};
use crate::job::WaitReason;
use crate::open::Opens;
use crate::session::{Sessions, Slot};

/// It is tried so often to have no more than these: they make the record long.
const RESIDUE_FEW: usize = 1000;
const ROUNDS_FEW: u32 = 2;
/// So many times the most are remembered while it is looked what is held.
const REMEMBERED: usize = 10;
/// Rounds of checkpoints at most.
const ROUNDS_MAX: u32 = 20;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// The other side was asked.
    Offered,
    /// Everything up to this record gets into the table for good. What is changed after it is remembered.
    Settling(Lsn),
    /// Memory is looked through.
    Surveying,
    /// Requests wait; what is under way ends.
    Freezing,
    /// The record is made; the letter under this number has not been received.
    Moving(u64),
    /// It was. What moved is dropped from memory.
    Cleaning,
}

pub(crate) struct Export {
    pub(super) id: u64,
    pub(super) dir: Ino,
    /// Not the directory and what is below it, but these files, which live by themselves.
    pub(super) files: Vec<Ino>,
    /// The fragment that was asked for, if it is not all that this rank has of the directory.
    pub(super) frag: Option<Frag>,
    /// The fragments that this rank had when it began, and which of them move.
    pub(super) own: Vec<Frag>,
    pub(super) moves: Vec<Frag>,
    /// The directory's own inode moves with them.
    pub(super) itself: bool,
    pub(super) to: Rank,
    pub(super) stage: Stage,
    pub(super) survey: Survey,
    pub(super) begun_ms: u64,
    pub(super) frozen_ms: u64,
    pub(super) frozen_for_ms: u64,
    pub(super) rounds: u32,
    /// Sessions and files whose data operations were stopped, and what they may do otherwise.
    pub(super) stopped: Vec<(Slot, Ino, DataAccess)>,
    pub(super) quiesced: bool,
    /// Data of records up to this one is to be in place before it moves.
    pub(super) data_upto: Lsn,
    /// The sync of all file data that must end before it freezes.
    pub(super) data_sync: Option<u64>,
    /// The number under which data operations were stopped last: what is said of an earlier time does not count.
    pub(super) ticket: u64,
    /// Inodes that moved, once they have.
    pub(super) inodes: u64,
    /// Set while the holdings of clients are looked at: the inodes must all be in memory at once.
    pub(super) keeps: bool,
    /// Progress of the look at clients' holdings.
    pub(super) held: Held,
    /// Sessions that held something.
    pub(super) holders: Holders,
    pub(super) routes: Vec<Route>,
}

/// A migration that waits for its turn.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    pub(super) id: u64,
    pub(super) dir: Ino,
    pub(super) frag: Option<Frag>,
    pub(super) to: Rank,
}

/// Migrations from this rank: one at a time.
#[derive(Default)]
pub(crate) struct Exports {
    pub(super) last: u64,
    pub(super) last_ticket: u64,
    pub(super) now: Option<Box<Export>>,
    pub(super) waiting: VecDeque<Wanted>,
    /// Of those that move files: which.
    pub(super) files: BTreeMap<u64, Vec<Ino>>,
    /// Records are being read to find the directory of the next one: they must all be in memory at once.
    pub(super) seeking: bool,
    pub(super) ended: VecDeque<Migration>,
    /// Offers of other ranks that wait until what has moved is dropped from memory, with their numbers.
    pub(super) offers: Vec<(Rank, u64)>,
    /// The last letter of an ended migration to each rank: what it brought is not in the table there yet.
    pub(super) landing: BTreeMap<Rank, Vec<(u64, Lsn)>>,
    /// All that was changed since the checkpoints that a migration began with.
    pub(crate) tail: Option<Tail>,
    /// Handles that have moved to other ranks, for clients that close them here before they have heard of it.
    pub(crate) moved_handles: BTreeMap<(Slot, u64), Rank>,
}

impl Exports {
    /// True if moved inodes are still to be dropped from memory.
    pub(super) fn drops(&self) -> bool {
        self.now.as_ref().is_some_and(|export| matches!(export.stage, Stage::Moving(_) | Stage::Cleaning))
    }

    /// True if a migration is under way.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.now.is_some()
    }

    /// The one for which it is looked, or was looked, what is below its directory; to be put back.
    pub(super) fn take_surveyed(&mut self) -> Option<Box<Export>> {
        self.now.take_if(|export| {
            let fresh = export.rounds == 0 && matches!(export.stage, Stage::Settling(_));
            !fresh && !matches!(export.stage, Stage::Offered | Stage::Cleaning)
        })
    }

    pub(super) fn put_back(&mut self, export: Box<Export>) {
        self.now = Some(export);
    }

    /// True if no migration is under way or waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.now.is_none() && self.waiting.is_empty()
    }

    /// Queues one up; its number.
    pub(super) fn wait(&mut self, dir: Ino, frag: Option<Frag>, to: Rank) -> u64 {
        self.last += 1;
        self.waiting.push_back(Wanted { id: self.last, dir, frag, to });
        self.last
    }

    /// True if the migration under way is of this directory.
    pub(super) fn is_of(&self, dir: Ino) -> bool {
        self.now.as_ref().is_some_and(|export| export.dir == dir)
    }

    /// True if the migration under way goes to a rank.
    pub(super) fn is_towards(&self, rank: Rank) -> bool {
        self.now.as_ref().is_some_and(|export| export.to == rank)
    }

    /// Forgets the last letter of ended migrations to a rank.
    pub(super) fn forget_landing(&mut self, rank: Rank) {
        self.landing.remove(&rank);
    }

    /// True if too much was changed meanwhile for the record to hold. Nobody waits yet, so all else is done before, unless
    /// remembering the changes takes too much memory.
    pub(super) fn wants_round(&self, core: &Core, export: &Export) -> bool {
        let Some(tail) = self.tail.as_ref().filter(|_| export.rounds < ROUNDS_MAX) else { return false };
        let (few, most) = (core.config.some(RESIDUE_FEW), core.config.some(RESIDUE_MAX));
        match export.keeps {
            true => tail.is_long(most) || (tail.is_long(few) && export.rounds < ROUNDS_FEW),
            false => tail.is_long(REMEMBERED * most),
        }
    }

    /// A rank has applied letters up to here.
    pub(crate) fn export_received(&mut self, core: &mut Core, sessions: &Sessions, from: Rank, upto: u64) {
        let Some(mut export) = self.now.take() else { return };
        let here = matches!(export.stage, Stage::Moving(seq) if export.to == from && seq <= upto);
        if here {
            export.frozen_for_ms = core.now.mono_ms.saturating_sub(export.frozen_ms);
            export.stage = Stage::Cleaning;
            export.inodes = export.survey.found;
            export.survey.drops();
            let frozen_ms = u32::try_from(export.frozen_for_ms).unwrap_or(u32::MAX);
            for (slot, inos) in std::mem::take(&mut export.holders) {
                let Some(conn) = sessions.get(slot).and_then(|session| session.conn) else { continue };
                for moved in inos.chunks(core.config.some(limits::MOVED_MAX)) {
                    let (routes, to) = (export.routes.clone(), Some(export.to));
                    let msg = ToClient::Routes { routes, moved: moved.to_vec(), to, frozen_ms };
                    core.out.push_back(Output::Send { conn, msg });
                }
            }
            for (slot, ino, _) in std::mem::take(&mut export.stopped) {
                if let Some(session) = sessions.get(slot).map(|session| session.id) {
                    core.out.push_back(Output::Access { session, ino, access: DataAccess::Moved });
                }
            }
        }
        self.now = Some(export);
    }

    /// Directories have changed places by the decision of another rank: what was found to be below another one may not be.
    pub(crate) fn disturb_export(&mut self, core: &mut Core, sessions: &Sessions, opens: &Opens) {
        let Some(mut export) = self.now.take() else { return };
        if !matches!(export.stage, Stage::Moving(_) | Stage::Cleaning) {
            let reading = export.survey.reading;
            export.survey = Survey::of_all(export.dir, export.moves.clone(), export.itself, &export.files);
            export.survey.reading = reading;
            export.held = Held::default();
            if export.stage == Stage::Freezing {
                export.thaw(core, opens, sessions);
                (export.quiesced, export.stage) = (false, Stage::Surveying);
                core.parked.wake(&WaitReason::Moving);
            }
        }
        self.now = Some(export);
    }

    /// The look at memory may go on.
    pub(crate) fn survey_loaded(&mut self, core: &mut Core) {
        if let Some(export) = self.now.as_mut() {
            export.survey.reading = false;
            core.out.push_back(Output::Again);
        }
    }
}

impl Export {
    /// One that begins now: of these files, or of those of the directory's own fragments that move.
    pub(super) fn new(
        wanted: Wanted,
        begun_ms: u64,
        files: Vec<Ino>,
        own: Vec<Frag>,
        moves: Vec<Frag>,
        itself: bool,
    ) -> Export {
        let Wanted { id, dir, frag, to } = wanted;
        Export {
            id,
            dir,
            frag,
            own,
            survey: Survey::of_all(dir, moves.clone(), itself, &files),
            moves,
            itself,
            to,
            stage: Stage::Offered,
            files,
            begun_ms,
            frozen_ms: 0,
            frozen_for_ms: 0,
            rounds: 0,
            stopped: Vec::new(),
            quiesced: false,
            data_upto: Lsn(0),
            data_sync: None,
            ticket: 0,
            inodes: 0,
            keeps: false,
            held: Held::default(),
            holders: BTreeMap::new(),
            routes: Vec::new(),
        }
    }

    pub(super) fn survey_mut(&mut self) -> &mut Survey {
        &mut self.survey
    }

    /// A migration does not happen: everything goes on as before.
    pub(super) fn thaw(&mut self, core: &mut Core, opens: &Opens, sessions: &Sessions) {
        for (slot, ino, access) in std::mem::take(&mut self.stopped) {
            if let Some(session) = sessions.get(slot).map(|session| session.id) {
                let access = if opens.access(ino, slot) == DataAccess::None { DataAccess::None } else { access };
                core.out.push_back(Output::Access { session, ino, access });
            }
        }
    }
}
