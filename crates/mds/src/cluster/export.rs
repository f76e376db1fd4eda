//! Migration, at the rank that gives a subtree away. Until the one record that makes it true, nothing has happened that
//! cannot be undone at once; after it, it is delivered, however often either side crashes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use loligo_namespace::{Found, Need};
use loligo_types::msg::ToClient;
use loligo_types::{Event, Frag, FsError, Ino, Inode, Kind, Lease, Letter, Lsn, Rank, Route, limits};

use super::Where;
use super::depart::{Changes, cached_of};
use super::holdings::{Clients, Held, Holders};
use super::leave::has_changed_floating;
use super::size::Tail;
use super::spread::cut;
use super::survey::Survey;
use crate::admin::{Ask, Migration, Told};
use crate::cluster::survey::Moves;
use crate::cluster::{Atlas, Cluster};
use crate::core::Core;
use crate::decouple::Decoupled;
use crate::io::{DataAccess, Output};
use crate::job::WaitReason;
use crate::load::Waiter;
use crate::machine::Mds;
use crate::open::Opens;
use crate::peer::PeerMsg;
use crate::recall::SHARED;
use crate::session::{Sessions, Slot};

/// A migration that has not come to its record after this is given up, milliseconds.
const GIVE_UP_MS: u64 = 120_000;
/// Requests are not kept waiting for longer than this before the record, milliseconds.
const FREEZE_MS: u64 = 5000;
/// Changes that the table does not have: with more than this there is another round of checkpoints first.
pub(super) const RESIDUE_MAX: usize = 10_000;
/// It is tried so often to have no more than these: they make the record long.
const RESIDUE_FEW: usize = 1000;
const ROUNDS_FEW: u32 = 2;
/// So many times the most are remembered while it is looked what is held.
const REMEMBERED: usize = 10;
/// Rounds of checkpoints at most.
const ROUNDS_MAX: u32 = 20;
/// Time to wait until files which live by themselves are in the table, milliseconds.
pub(super) const FLOATING_MS: u64 = 200;
/// Ended migrations that are remembered for those who ask.
const ENDED_MAX: usize = 64;

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
    last: u64,
    last_ticket: u64,
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
    fn wants_round(&self, core: &Core, export: &Export) -> bool {
        let Some(tail) = self.tail.as_ref().filter(|_| export.rounds < ROUNDS_MAX) else { return false };
        let (few, most) = (core.config.some(RESIDUE_FEW), core.config.some(RESIDUE_MAX));
        match export.keeps {
            true => tail.is_long(most) || (tail.is_long(few) && export.rounds < ROUNDS_FEW),
            false => tail.is_long(REMEMBERED * most),
        }
    }

    /// True if the directory exists and is this rank's. `None`: it has left memory, and is read first.
    fn has_dir(&mut self, core: &mut Core, atlas: &mut Atlas, dir: Ino) -> Option<bool> {
        let mut wants = Vec::new();
        let place = atlas.locate_of(core, self, dir, &mut wants);
        if !wants.is_empty() {
            atlas.load(core, wants, Waiter::Nobody);
        }
        (place != Where::Unknown).then(|| place == Where::Here && core.tree.inode(dir).is_some())
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

    /// A rank has what letters up to here brought in the table.
    pub(crate) fn export_landed(&mut self, core: &Core, atlas: &mut Atlas, from: Rank, upto: u64) {
        let Some(landing) = self.landing.get_mut(&from) else { return };
        let mut landed = Vec::new();
        landing.retain(|(seq, lsn)| {
            if *seq <= upto {
                landed.push(*lsn);
            }
            *seq > upto
        });
        if !landed.is_empty() {
            atlas.departed.retain(|_, (rank, lsn)| *rank != from || !landed.contains(lsn));
            // What was read, or is being read, may be from before it was in the table.
            atlas.barrier = core.loads.newest();
            atlas.foreign_inodes.clear();
        }
    }

    /// A record with a departure was replayed.
    pub(crate) fn replay_departure(&mut self, atlas: &mut Atlas, to: Rank, seq: u64, inos: &[Ino], lsn: Lsn) {
        atlas.departed.extend(inos.iter().map(|ino| (*ino, (to, lsn))));
        self.landing.entry(to).or_default().push((seq, lsn));
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
                opens.thaw(core, sessions, &mut export);
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
    pub(super) fn survey_mut(&mut self) -> &mut Survey {
        &mut self.survey
    }
}

impl Mds {
    /// An administrator asks.
    pub(crate) fn admin(&mut self, id: u64, ask: Ask) {
        let told = match ask {
            Ask::Migrate { dir, to } => {
                if self.cluster.atlas.routes.home(dir) == Some(self.core.me())
                    && self.cluster.atlas.routes.is_spread(dir)
                {
                    self.cluster.atlas.gather_fragments(&mut self.core, dir, to);
                }
                self.cluster.want_export(&mut self.core, &self.decoupled, dir, None, to)
            }
            Ask::MigrateFrag { dir, frag, to } => {
                self.cluster.want_export(&mut self.core, &self.decoupled, dir, Some(frag), to)
            }
            Ask::Gather { dir } => self.cluster.atlas.want_gather(&mut self.core, dir),
            Ask::Migrations => Told::Migrations(self.cluster.exports.migrations(&self.core)),
            Ask::Drain => Told::Drain(self.cluster.drain_status(&self.core, &self.sessions)),
            Ask::Heat { most } => Told::Heat(self.heat.spot_rates(&self.core, most)),
            Ask::Routes => Told::Routes(self.cluster.atlas.routes.all()),
        };
        self.core.out.push_back(Output::Told { id, told });
    }

    /// Goes on with the migration, or begins the next one.
    pub(crate) fn step_export(&mut self) {
        self.pace.begin(&self.core.config);
        self.go_on();
    }

    fn go_on(&mut self) {
        let Some(mut export) = self.cluster.exports.now.take() else { return self.next_export() };
        let before = export.stage;
        let end = self.step_stage(&mut export);
        match end {
            None => {
                let moved_on = export.stage != before;
                self.cluster.exports.now = Some(export);
                if moved_on {
                    self.go_on();
                }
            }
            Some(state) => self.end_export(&export, state),
        }
    }

    /// From now on what is changed is remembered, and all before it gets into the table.
    fn begin_round(&mut self, export: &mut Export) {
        export.keeps = false;
        self.cluster.exports.note_changed_held(&self.leases, &self.opens, &mut export.held);
        self.cluster.exports.tail = Some(Tail::default());
        self.syncs.sync_before_move(&mut self.core, export);
        export.stage = Stage::Settling(self.core.log.last);
    }

    pub(super) fn end_export(&mut self, export: &Export, state: &str) {
        self.cluster.exports.tail = None;
        self.opens.look_ends(&mut self.leases);
        let mut told = self.core.describe(export);
        told.state = state.into();
        self.cluster.exports.files.remove(&export.id);
        let ended = &mut self.cluster.exports.ended;
        ended.push_back(told);
        if ended.len() > ENDED_MAX {
            ended.pop_front();
        }
        self.core.parked.wake(&WaitReason::Moving);
        self.next_loans();
        for (from, moving) in std::mem::take(&mut self.cluster.exports.offers) {
            self.cluster.offered(&mut self.core, &self.sessions, &self.grace, from, moving);
        }
    }

    fn next_export(&mut self) {
        if self.core.stopping || self.grace.is_some() || !self.cluster.peers.ready {
            return;
        }
        let Some(wanted) = self.cluster.exports.waiting.pop_front() else { return };
        let Wanted { id, dir, frag, to } = wanted;
        let begun_ms = self.core.now.mono_ms;
        if frag.is_none() && self.core.floats_here(dir) {
            // When it was asked for it was not in memory, so nobody could tell that it is a file.
            self.cluster.exports.files.entry(id).or_insert_with(|| vec![dir]);
        }
        let files = self.cluster.exports.files.get(&id).cloned().unwrap_or_default();
        let own = if files.is_empty() { self.core.frags_of(dir) } else { Vec::new() };
        let (moves, _) = cut(&own, frag);
        let is_home = self.core.tree.part(dir).is_none() && moves.iter().any(|frag| frag.contains(0));
        let itself = is_home || !files.is_empty();
        let nothing = moves.is_empty() && files.is_empty();
        let export = Export {
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
            data_sync: None,
            ticket: 0,
            inodes: 0,
            keeps: false,
            held: Held::default(),
            holders: BTreeMap::new(),
            routes: Vec::new(),
        };
        let mut wants = Vec::new();
        self.cluster.exports.seeking = false;
        let place = self.cluster.atlas.locate_of(&mut self.core, &mut self.cluster.exports, dir, &mut wants);
        let stays =
            if place == Where::Here { self.cluster.stays(&mut self.core, &self.decoupled, &export) } else { Ok(false) };
        match place {
            Where::Here if stays.is_err() => {
                self.cluster.load(&mut self.core, stays.err().unwrap_or_default(), Waiter::Nobody);
                self.cluster.exports.seeking = true;
                self.cluster.exports.waiting.push_front(wanted);
            }
            Where::Here if stays == Ok(true) => {
                self.end_export(
                    &export,
                    "failed: it is in, or contains, what is decoupled: try again when that has ended",
                );
            }
            Where::Unknown => {
                self.cluster.load(&mut self.core, wants, Waiter::Nobody);
                self.cluster.exports.seeking = true;
                self.cluster.exports.waiting.push_front(wanted);
            }
            Where::Elsewhere(_) => self.end_export(&export, "failed: the directory has become another rank's"),
            // One that was removed and is open stays where it ends.
            Where::Here
                if export.files.is_empty()
                    && self.core.tree.inode(dir).is_none_or(|inode| inode.kind != Kind::Dir || inode.nlink == 0) =>
            {
                self.end_export(&export, "failed: there is no such directory (any more)");
            }
            Where::Here if nothing => self.end_export(&export, "failed: the fragment has become another rank's"),
            Where::Here if to == self.core.me() => self.end_export(&export, "done"),
            // It was alone when it was asked for.
            Where::Here if frag.is_some_and(|frag| self.cluster.atlas.cannot_cut(&self.core, dir, frag).is_some()) => {
                self.end_export(&export, "failed: fragments of the directory have come meanwhile: try again");
            }
            Where::Here if self.core.files_have_changed(&export.files) => {
                self.end_export(&export, "failed: a file was removed");
            }
            Where::Here if self.core.pins_known(dir).is_none() => {
                self.cluster.load(&mut self.core, vec![Need::Xattrs(dir)], Waiter::Nobody);
                self.cluster.exports.seeking = true;
                self.cluster.exports.waiting.push_front(wanted);
            }
            Where::Here if self.core.pins_known(dir).is_some_and(|ranks| !ranks.is_empty() && !ranks.contains(&to)) => {
                self.end_export(&export, "failed: the directory is pinned to other ranks: unpin it, or pin it there");
            }
            Where::Here if !self.cluster.peers.links.get(&to).is_some_and(|link| link.greeted) => {
                self.end_export(&export, "failed: there is no connection to the other rank: try again later");
            }
            Where::Here => {
                self.cluster.exports.now = Some(Box::new(export));
                self.core.tell(to, PeerMsg::Offer { moving: id, dir });
            }
        }
    }

    /// One step; the end, if it is one.
    fn step_stage(&mut self, export: &mut Export) -> Option<&'static str> {
        let undone = !matches!(export.stage, Stage::Moving(_) | Stage::Cleaning);
        if undone && (self.core.stopping || self.core.now.mono_ms > export.begun_ms + GIVE_UP_MS) {
            self.opens.thaw(&mut self.core, &self.sessions, export);
            return Some("failed: it took too long, or the server stops: try again");
        }
        export.survey.last_ends();
        match export.stage {
            Stage::Offered | Stage::Moving(_) => {}
            Stage::Settling(upto) => {
                if self.settle_upto(upto) {
                    export.stage = Stage::Surveying;
                }
            }
            Stage::Surveying => {
                let mut survey = std::mem::take(&mut export.survey);
                if self.cluster.exports.survey_some(
                    &mut self.core,
                    &mut self.cluster.atlas,
                    &mut self.pace,
                    &mut survey,
                ) {
                    if matches!(self.core.tree.find(export.dir), Found::Gone) {
                        export.survey = survey;
                        return Some("failed: the directory was removed");
                    }
                    // It may have to begin anew.
                    let mut clients = Clients {
                        sessions: &mut self.sessions,
                        leases: &mut self.leases,
                        recalls: &mut self.recalls,
                        opens: &mut self.opens,
                        locks: &mut self.locks,
                        tidy: &mut self.tidy,
                    };
                    export.keeps = clients.look_at_held(
                        &mut self.core,
                        (&mut self.cluster.atlas, &mut self.cluster.exports),
                        &mut self.pace,
                        &mut survey,
                        &mut export.held,
                    );
                    if self.cluster.exports.wants_round(&self.core, export) {
                        export.rounds += 1;
                        self.begin_round(export);
                    }
                    let (files, dir) = (
                        self.cluster.exports.has_files(&mut self.core, &mut self.cluster.atlas, &export.files),
                        self.cluster.exports.has_dir(&mut self.core, &mut self.cluster.atlas, export.dir),
                    );
                    if files == Some(false) {
                        return Some("failed: a file was removed, or is another rank's by now");
                    }
                    if dir == Some(false) {
                        return Some("failed: the directory was removed, or is another rank's by now");
                    }
                    if export.keeps
                        && !self.checkpointer.checkpoint_is_under_way() // requests would wait for it
                        && export.data_sync.is_none()
                        && files == Some(true)
                        && dir == Some(true)
                        && self.cluster.exports.knows_changed(&mut self.core, &mut self.cluster.atlas, &mut survey)
                        && self.cluster.exports.knows_held(&mut self.core, &mut self.cluster.atlas, &mut self.leases, &mut self.opens, &mut survey, &mut export.held)
                        && let Some(written) = self.cluster.exports.written_since(&mut self.core, &mut self.cluster.atlas, export, &mut survey)
                    {
                        if export.held.too_many(|ino| !self.opens.is_closed(ino)) {
                            return Some("failed: too many files are open below it: close some, or move parts of it");
                        }
                        export.stage = Stage::Freezing;
                        self.cluster.freeze(&mut self.core, &self.sessions, &self.opens, export, &mut survey, written);
                    }
                }
                export.survey = survey;
            }
            Stage::Freezing => {
                if self.core.now.mono_ms > export.frozen_ms + FREEZE_MS {
                    self.opens.thaw(&mut self.core, &self.sessions, export);
                    return Some("failed: what was under way did not end in time: try again");
                }
                return self.try_move(export);
            }
            Stage::Cleaning => {
                let mut survey = std::mem::take(&mut export.survey);
                let all = self.cluster.exports.drop_some(
                    &mut self.core,
                    &mut self.cluster.atlas,
                    &mut self.heat,
                    &mut self.pace,
                    &mut survey,
                    export.to,
                );
                export.survey = survey;
                if all {
                    return Some("done");
                }
            }
        }
        None
    }

    /// No data operation is under way on what moves.
    pub(crate) fn quiesced(&mut self, ticket: u64, ok: bool) {
        let Some(mut export) = self.cluster.exports.now.take() else { return };
        if export.ticket == ticket && export.stage == Stage::Freezing {
            if !ok {
                self.opens.thaw(&mut self.core, &self.sessions, &mut export);
                return self.end_export(&export, "failed: data could not be made durable: see the server's log");
            }
            export.quiesced = true;
        }
        self.cluster.exports.now = Some(export);
        self.step_export();
    }

    /// Makes the record, if nothing is in the way.
    fn try_move(&mut self, export: &mut Export) -> Option<&'static str> {
        if !export.quiesced || self.checkpointer.checkpoint_is_under_way() {
            return None;
        }
        let stays = |mds: &Mds| mds.core.files_have_changed(&export.files);
        let Some(inode) = self.core.tree.inode(export.dir).filter(|inode| inode.nlink > 0 && !stays(self)).cloned()
        else {
            self.opens.thaw(&mut self.core, &self.sessions, export);
            return Some("failed: the directory was removed");
        };
        if !self.cluster.atlas.takes_more(export.to) {
            self.opens.thaw(&mut self.core, &self.sessions, export);
            return Some("failed: the other rank is being drained: choose another one");
        }
        if export.files.is_empty() && self.core.has_other_frags(export, &inode) {
            self.opens.thaw(&mut self.core, &self.sessions, export);
            return Some("failed: fragments of the directory have come meanwhile: try again");
        }
        if !export.itself && self.is_held_as_a_whole(export.dir) {
            return None;
        }
        let mut survey = std::mem::take(&mut export.survey);
        let mut failed = None;
        if self.may_move(&mut survey, &mut export.held, &inode, export.frozen_ms) {
            let changes =
                self.cluster.exports.take_changes(&mut self.core, &mut self.cluster.atlas, export, &mut survey);
            // Nothing can be added to it any more, and nothing was taken away.
            let clients = Clients {
                sessions: &mut self.sessions,
                leases: &mut self.leases,
                recalls: &mut self.recalls,
                opens: &mut self.opens,
                locks: &mut self.locks,
                tidy: &mut self.tidy,
            };
            failed = clients.too_long(
                &mut self.core,
                (&mut self.cluster.atlas, &mut self.cluster.exports),
                export,
                &mut survey,
                &changes,
            );
            if failed.is_none() {
                self.make_move(export, &mut survey, &inode, changes);
            }
        }
        export.survey = survey;
        if failed.is_some() {
            self.opens.thaw(&mut self.core, &self.sessions, export);
        }
        failed
    }

    /// The other side has said whether it will have it.
    pub(crate) fn accepted(&mut self, from: Rank, moving: u64, refused: Option<FsError>) {
        let Some(mut export) = self.cluster.exports.now.take() else { return };
        if export.id != moving || export.to != from || export.stage != Stage::Offered {
            self.cluster.exports.now = Some(export);
            return;
        }
        if refused.is_some() {
            return self.end_export(&export, "failed: the other rank does not take it now: try again later");
        }
        self.begin_round(&mut export);
        self.cluster.exports.now = Some(export);
        self.step_export();
    }

    /// The connection to a rank is gone.
    pub(crate) fn export_lost(&mut self, rank: Rank) {
        let Some(mut export) = self.cluster.exports.now.take() else { return };
        if export.to == rank && !matches!(export.stage, Stage::Moving(_) | Stage::Cleaning) {
            self.opens.thaw(&mut self.core, &self.sessions, &mut export);
            return self.end_export(&export, "failed: the connection to the other rank was lost: try again");
        }
        self.cluster.exports.now = Some(export);
    }

    /// Makes the record.
    pub(super) fn make_move(&mut self, export: &mut Export, survey: &mut Survey, inode: &Inode, changes: Changes) {
        let Changes { mut events, mut departed } = changes;
        if export.itself {
            let mut inode = inode.clone();
            inode.moves_away();
            events.push(Event::Inode(Box::new(inode)));
        }
        let mut clients = Clients {
            sessions: &mut self.sessions,
            leases: &mut self.leases,
            recalls: &mut self.recalls,
            opens: &mut self.opens,
            locks: &mut self.locks,
            tidy: &mut self.tidy,
        };
        let (clients, holders) = clients.take_holdings(
            &mut self.core,
            (&mut self.cluster.atlas, &mut self.cluster.exports),
            survey,
            &mut export.held,
            export.to,
        );
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

    /// True if nothing is in the way of the record any more.
    pub(super) fn may_move(&mut self, survey: &mut Survey, held: &mut Held, inode: &Inode, frozen_ms: u64) -> bool {
        if self.cluster.replicas_move(&mut self.core, survey) {
            return false;
        }
        let locked = self.cluster.loans.locked_inos();
        let busy = self.discards.inos().into_iter().chain(self.discards.spills.keys().copied()).collect::<Vec<_>>();
        // What dead sessions left is dropped here: the other rank does not know of it.
        let left: Vec<Ino> = self.tidy.inos().collect();
        for ino in locked.into_iter().chain(busy).chain(left) {
            if !matches!(self.cluster.exports.moves(&mut self.core, &mut self.cluster.atlas, survey, ino), Moves::No) {
                return false;
            }
        }
        if !self.cluster.exports.knows_held(
            &mut self.core,
            &mut self.cluster.atlas,
            &mut self.leases,
            &mut self.opens,
            survey,
            held,
        ) {
            return false;
        }
        if !self.cluster.exports.knows_changed(&mut self.core, &mut self.cluster.atlas, survey) {
            return false;
        }
        if self.core.now.mono_ms < frozen_ms + FLOATING_MS && has_changed_floating(&self.core.tree) {
            // Of a file that once lived below the directory the table should not say so any more.
            let upto = self.core.log.last;
            self.checkpoint_upto(upto);
            return false;
        }
        if self.cluster.atlas.routes.home(inode.ino).is_none()
            && inode.ino != Ino::ROOT
            && !self.core.tree.primary_known(inode)
        {
            let from_hash = inode.place.hash().unwrap_or(0);
            self.cluster.load(&mut self.core, vec![Need::Range { dir: inode.parent, from_hash }], Waiter::Nobody);
            return false;
        }
        true
    }

    /// True if a directory of which a fragment is to move is locked, or clients hold leases that they cannot hold any more
    /// when its fragments are several ranks': those are asked back.
    pub(super) fn is_held_as_a_whole(&mut self, dir: Ino) -> bool {
        if self.cluster.loans.locked(dir).is_some() {
            return true;
        }
        let holders: Vec<(Slot, Lease)> = self.leases.holders(dir).collect();
        let mut held = false;
        for (slot, bits) in holders {
            if bits.any(SHARED) {
                held = true;
                self.recalls.recall(&mut self.core, &self.sessions, dir, slot, bits & SHARED, 0);
            }
        }
        held
    }

    /// A sync of everything has ended.
    pub(crate) fn synced_before_move(&mut self, ticket: u64, ok: bool) {
        let Some(mut export) = self.cluster.exports.now.take() else { return };
        if export.data_sync == Some(ticket) && matches!(export.stage, Stage::Settling(_) | Stage::Surveying) {
            if !ok {
                return self.end_export(&export, "failed: data could not be made durable: see the server's log");
            }
            export.data_sync = None;
        }
        self.cluster.exports.now = Some(export);
        self.step_export();
    }
}

impl Cluster {
    /// Wants a subtree to be moved.
    pub(crate) fn want_export(
        &mut self,
        core: &mut Core,
        decoupled: &Decoupled,
        dir: Ino,
        frag: Option<Frag>,
        to: Rank,
    ) -> Told {
        if !self.atlas.map.ranks.iter().any(|info| info.rank == to) {
            let ranks: Vec<String> = self.atlas.map.ranks.iter().map(|info| info.rank.to_string()).collect();
            return Told::Refused(match &ranks[..] {
                [] => "this file system has one rank; add one: loligo rank add".into(),
                ranks => format!("there is no rank {to}; there are {}", ranks.join(", ")),
            });
        }
        if !self.atlas.takes_more(to) {
            return Told::Refused(format!("rank {to} is being drained and takes nothing more: choose another one"));
        }
        if core.stopping {
            return Told::Refused("the server is stopping".into());
        }
        if let Some(refused) = frag.and_then(|frag| self.atlas.cannot_cut(core, dir, frag)) {
            return refused;
        }
        let mut wants = Vec::new();
        match self.atlas.locate_of(core, &mut self.exports, dir, &mut wants) {
            Where::Elsewhere(rank) => return Told::Elsewhere(rank),
            Where::Unknown => drop(self.load(core, wants, Waiter::Nobody)),
            Where::Here => {
                let Some(inode) = core.tree.inode(dir) else {
                    return Told::Refused(format!("inode {dir} does not exist (any more)"));
                };
                if inode.kind != Kind::Dir {
                    return Told::Refused(format!("inode {dir} is not a directory"));
                }
                if to == core.me() {
                    return Told::Refused(format!("directory {dir} is rank {to}'s already"));
                }
                let (moves, _) = cut(&core.frags_of(dir), frag);
                if let Ok(Some(root)) = decoupled.stays_for(core, self, dir, &moves) {
                    return Told::Refused(core.stays_text(dir, root));
                }
            }
        }
        Told::Begun(self.exports.wait(dir, frag, to))
    }

    /// From now on requests on what moves wait, and so do data operations. `inos`: files that are to be durable besides.
    fn freeze(
        &mut self,
        core: &mut Core,
        sessions: &Sessions,
        opens: &Opens,
        export: &mut Export,
        survey: &mut Survey,
        mut inos: BTreeSet<Ino>,
    ) {
        export.frozen_ms = core.now.mono_ms;
        for (ino, slot, access) in self.exports.users_of_moving(core, &mut self.atlas, opens, survey, &export.held) {
            let is_file = core.tree.inode(ino).is_some_and(|inode| inode.kind == Kind::File);
            if let Some(session) = sessions.get(slot).map(|session| session.id).filter(|_| is_file) {
                core.out.push_back(Output::Access { session, ino, access: DataAccess::Moving });
                export.stopped.push((slot, ino, access));
                inos.insert(ino);
            }
        }
        export.quiesced = inos.is_empty();
        if !inos.is_empty() {
            self.exports.last_ticket += 1;
            export.ticket = self.exports.last_ticket;
            core.out.push_back(Output::Quiesce { ticket: export.ticket, inos: inos.into_iter().collect() });
        }
    }
}

impl Opens {
    /// It does not happen: everything goes on as before.
    fn thaw(&self, core: &mut Core, sessions: &Sessions, export: &mut Export) {
        for (slot, ino, access) in std::mem::take(&mut export.stopped) {
            if let Some(session) = sessions.get(slot).map(|session| session.id) {
                let access = if self.access(ino, slot) == DataAccess::None { DataAccess::None } else { access };
                core.out.push_back(Output::Access { session, ino, access });
            }
        }
    }
}
