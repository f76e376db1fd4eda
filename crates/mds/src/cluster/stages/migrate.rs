//! Migration, at the rank that gives a subtree away. Until the one record that makes it true, nothing has happened that
//! cannot be undone at once; after it, it is delivered, however often either side crashes. What is known of it: `exports.rs`.

use loligo_namespace::{Found, Need};
use loligo_types::{Event, FsError, Ino, Inode, Kind, Letter, Rank};

use crate::admin::{Ask, Told};
use crate::cluster::cuts::cut;
use crate::cluster::depart::cached_of;
use crate::cluster::exports::{Export, Stage, Wanted};
use crate::cluster::held::Held;
use crate::cluster::holdings::Clients;
use crate::cluster::leave::has_changed_floating;
use crate::cluster::survey::{Moves, Survey};
use crate::cluster::tail::{Changes, Tail};
use crate::cluster::{Atlas, Exports, Where};
use crate::core::Core;
use crate::io::Output;
use crate::job::WaitReason;
use crate::load::Waiter;
use crate::machine::Mds;
use crate::pace::Pace;
use crate::peer::PeerMsg;

/// A migration that has not come to its record after this is given up, milliseconds.
const GIVE_UP_MS: u64 = 120_000;
/// Requests are not kept waiting for longer than this before the record, milliseconds.
const FREEZE_MS: u64 = 5000;
/// Time to wait until files which live by themselves are in the table, milliseconds.
const FLOATING_MS: u64 = 200;
/// Ended migrations that are remembered for those who ask.
const ENDED_MAX: usize = 64;

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

    pub(in crate::cluster) fn go_on(&mut self) {
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

    /// The parts that know what clients hold, and those that know what moves.
    fn holdings(&mut self) -> (Clients<'_>, &mut Core, (&mut Atlas, &mut Exports), &mut Pace) {
        let clients = Clients {
            sessions: &mut self.sessions,
            leases: &mut self.leases,
            recalls: &mut self.recalls,
            opens: &mut self.opens,
            locks: &mut self.locks,
            tidy: &mut self.tidy,
        };
        (clients, &mut self.core, (&mut self.cluster.atlas, &mut self.cluster.exports), &mut self.pace)
    }

    /// From now on what is changed is remembered, and all before it gets into the table.
    pub(in crate::cluster) fn begin_round(&mut self, export: &mut Export) {
        export.keeps = false;
        export.held.note_changed(&self.cluster.exports, &self.leases, &self.opens);
        self.cluster.exports.tail = Some(Tail::default());
        self.syncs.sync_before_move(&mut self.core, export);
        export.stage = Stage::Settling(self.core.log.last);
    }

    fn end_export(&mut self, export: &Export, state: &str) {
        self.cluster.exports.tail = None;
        self.opens.look_ends(&mut self.leases);
        let mut told = export.describe(&self.core);
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
        let export = Export::new(wanted, self.core.now.mono_ms, files, own, moves, itself);
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
            export.thaw(&mut self.core, &self.opens, &self.sessions);
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
                if survey.look(&mut self.core, &mut self.cluster.exports, &mut self.cluster.atlas, &mut self.pace) {
                    if matches!(self.core.tree.find(export.dir), Found::Gone) {
                        export.survey = survey;
                        return Some("failed: the directory was removed");
                    }
                    // It may have to begin anew.
                    let (mut clients, core, ground, pace) = self.holdings();
                    export.keeps = clients.look_at_held(core, ground, pace, &mut survey, &mut export.held);
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
                        && export.held.knows_all(&mut self.core, &mut self.cluster.exports, &mut self.cluster.atlas, &mut self.leases, &mut self.opens, &mut survey)
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
                    export.thaw(&mut self.core, &self.opens, &self.sessions);
                    return Some("failed: what was under way did not end in time: try again");
                }
                return self.try_move(export);
            }
            Stage::Cleaning => {
                let mut survey = std::mem::take(&mut export.survey);
                let all = survey.drop_some(
                    &mut self.core,
                    &mut self.cluster.exports,
                    &mut self.cluster.atlas,
                    &mut self.heat,
                    &mut self.pace,
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
                export.thaw(&mut self.core, &self.opens, &self.sessions);
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
        if self.core.data.oldest().is_some_and(|oldest| oldest <= export.data_upto) {
            // A crash would repeat it over what the other rank writes.
            self.core.settle_data(true);
            return None;
        }
        let stays = |mds: &Mds| mds.core.files_have_changed(&export.files);
        let Some(inode) = self.core.tree.inode(export.dir).filter(|inode| inode.nlink > 0 && !stays(self)).cloned()
        else {
            export.thaw(&mut self.core, &self.opens, &self.sessions);
            return Some("failed: the directory was removed");
        };
        if !self.cluster.atlas.takes_more(export.to) {
            export.thaw(&mut self.core, &self.opens, &self.sessions);
            return Some("failed: the other rank is being drained: choose another one");
        }
        if export.files.is_empty() && export.has_other_frags(&self.core, &inode) {
            export.thaw(&mut self.core, &self.opens, &self.sessions);
            return Some("failed: fragments of the directory have come meanwhile: try again");
        }
        if !export.itself
            && self.recalls.is_held_as_a_whole(
                &mut self.core,
                &self.sessions,
                &self.leases,
                &self.cluster.loans,
                export.dir,
            )
        {
            return None;
        }
        let mut survey = std::mem::take(&mut export.survey);
        let mut failed = None;
        if self.may_move(&mut survey, &mut export.held, &inode, export.frozen_ms) {
            let changes =
                self.cluster.exports.take_changes(&mut self.core, &mut self.cluster.atlas, export, &mut survey);
            // Nothing can be added to it any more, and nothing was taken away.
            let (clients, core, ground, _) = self.holdings();
            failed = clients.too_long(core, ground, export, &mut survey, &changes);
            if failed.is_none() {
                self.make_move(export, &mut survey, &inode, changes);
            }
        }
        export.survey = survey;
        if failed.is_some() {
            export.thaw(&mut self.core, &self.opens, &self.sessions);
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
            export.thaw(&mut self.core, &self.opens, &self.sessions);
            return self.end_export(&export, "failed: the connection to the other rank was lost: try again");
        }
        self.cluster.exports.now = Some(export);
    }

    /// Makes the record.
    fn make_move(&mut self, export: &mut Export, survey: &mut Survey, inode: &Inode, changes: Changes) {
        let Changes { mut events, mut departed } = changes;
        if export.itself {
            let mut inode = inode.clone();
            inode.moves_away();
            events.push(Event::Inode(Box::new(inode)));
        }
        let (mut clients, core, ground, _) = self.holdings();
        let (clients, holders) = clients.take_holdings(core, ground, survey, &mut export.held, export.to);
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
    fn may_move(&mut self, survey: &mut Survey, held: &mut Held, inode: &Inode, frozen_ms: u64) -> bool {
        if self.cluster.replicas_move(&mut self.core, survey) {
            return false;
        }
        let locked = self.cluster.loans.locked_inos();
        let busy = self.discards.inos().into_iter().chain(self.discards.spills.keys().copied()).collect::<Vec<_>>();
        // What dead sessions left is dropped here: the other rank does not know of it.
        let left: Vec<Ino> = self.tidy.inos().collect();
        for ino in locked.into_iter().chain(busy).chain(left) {
            if !matches!(
                survey.moves(&mut self.core, &mut self.cluster.exports, &mut self.cluster.atlas, ino),
                Moves::No
            ) {
                return false;
            }
        }
        if !held.knows_all(
            &mut self.core,
            &mut self.cluster.exports,
            &mut self.cluster.atlas,
            &mut self.leases,
            &mut self.opens,
            survey,
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
