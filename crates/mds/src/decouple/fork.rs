//! Files of which the owner of a subtree and others each have a version of the objects ("interfere: allow", with an owner that writes
//! objects): how a file comes to have two, and what becomes of them. Not whose version counts (`loligo_namespace::resolve`), nor what is
//! copied when (`loligo_osd`).
//!
//! A file is *forked* before its owner changes its objects. That it is gets durable first: from the moment on others' changes are in the
//! copy, which after a crash is found by the record alone. At that moment nobody may have changed what the rank was not told of, so what
//! others hold back is asked for. What one of them is writing then is refused as stale when it tells of it, and written again: into the copy.
//!
//! A merge, and the end, need files of which nobody changes anything for a while: these are held *still*. Requests that change data
//! wait, data requests are answered `Busy`, until the record is durable and the file is one again. Where both have changed a file, the
//! others' objects are first made those of an orphan, which the merge gives a name. A crash before that leaves an orphan.

use std::collections::BTreeSet;

use loligo_namespace::{Change, is_written};
use loligo_types::{Answer, DataError, DecoupledRecord, Event, Ino, Inode, Interfere, Layout, Lsn, SessionId};

use super::intake::Intake;
use super::state::{Kept, State};
use crate::core::Core;
use crate::decouple::Decoupled;
use crate::discard::Discards;
use crate::io::{DataAccess, Output};
use crate::job::WaitReason;
use crate::open::Opens;
use crate::session::Sessions;

/// Orphans made in one record, and bytes of those that are held in their inodes.
pub(super) const MADE_MAX: usize = 4096;
pub(super) const MADE_BYTES_MAX: u64 = 4 << 20;

/// Forked files in a merge.
pub(super) struct Met {
    /// Those that are one again with it, and their copies.
    over: Vec<(Ino, Ino)>,
    /// Those that it changes and that stay forked; whether others have changed theirs.
    stay: Vec<(Ino, bool)>,
}

impl Met {
    /// Events that drop the copies which do not count any more.
    pub(super) fn copies_gone(&self) -> impl Iterator<Item = Event> {
        self.over.iter().map(|(_, copy)| copy_gone(*copy))
    }
}

/// A file of a merge, its copy, and if its owner has removed it, the count of changes at which it was found. A file without a copy is its own: its
/// owner has data in the inode, and others have written it.
pub(super) type Drafted = (Ino, Ino, Option<u64>);

/// An inode that differs in anything that others may know.
pub(super) fn touched(inode: &Inode) -> Event {
    Event::Inode(Box::new(Inode { change: inode.change.wrapping_add(1), ..inode.clone() }))
}

impl Decoupled {
    /// True if something is under way on the objects of files that are to be put back. From then on nobody but the owner changes them.
    pub(super) fn stills_for_end(
        &mut self,
        core: &mut Core,
        sessions: &Sessions,
        opens: &mut Opens,
        discards: &Discards,
        record: &DecoupledRecord,
    ) -> bool {
        if record.interfere != Interfere::Allow {
            return false;
        }
        if self.by_dir.get(&record.dir).is_some_and(|owned| !owned.forks.kept.is_empty()) {
            self.end_still(core, sessions, opens, record.dir);
        }
        let inos: Vec<Ino> = record.overwritten.iter().flat_map(|files| files.pairs()).map(|(ino, _)| ino).collect();
        self.hold_still(core, sessions, opens, record.dir, &inos);
        inos.into_iter().any(|ino| discards.drops_or_spills(ino))
    }

    /// A record says of some files that they are to be forked.
    pub(super) fn note_forks(&mut self, dir: Ino, at: Lsn) {
        if let Some(owned) = self.by_dir.get_mut(&dir) {
            owned.forks.noted = Some(at);
        }
    }

    /// The object server was told of a file before, by this rank or in a life before.
    pub(super) fn note_frozen(&mut self, dir: Ino, ino: Ino) {
        if let Some(owned) = self.by_dir.get_mut(&dir) {
            owned.forks.frozen.insert(ino);
        }
    }

    /// True if a file has two versions.
    pub(crate) fn is_forked(&self, core: &Core, ino: Ino) -> bool {
        let mut all = self.by_dir.keys().filter_map(|dir| core.tree.decoupled(*dir));
        all.any(|record| record.interfere == Interfere::Allow && record.copy_of(ino).is_some())
    }

    /// True if nobody may change the data of a file for now.
    #[inline]
    pub(crate) fn is_still(&self, ino: Ino) -> bool {
        !self.still.is_empty() && self.still.contains(&ino)
    }

    /// Nobody but the owner changes the data of these files, until they are let go.
    pub(super) fn hold_still(&mut self, core: &mut Core, sessions: &Sessions, opens: &Opens, dir: Ino, inos: &[Ino]) {
        for ino in inos.iter().copied() {
            if !self.still.insert(ino) {
                continue;
            }
            if let Some(owned) = self.by_dir.get_mut(&dir) {
                owned.forks.still.insert(ino);
            }
            for (session, _) in self.others_of(sessions, opens, dir, ino) {
                core.out.push_back(Output::Access { session, ino, access: DataAccess::Moving });
            }
        }
    }

    /// Sessions of others that have a file open.
    fn others_of(&self, sessions: &Sessions, opens: &Opens, dir: Ino, ino: Ino) -> Vec<(SessionId, DataAccess)> {
        let by = self.by_dir.get(&dir).and_then(|owned| owned.by);
        let users = opens.users(ino).into_iter().filter(|(slot, _)| by.is_none_or(|(owner, _)| owner != *slot));
        users.filter_map(|(slot, access)| Some((sessions.get(slot)?.id, access))).collect()
    }

    /// Others may go on with a file. `dir`: whose owner is none of them. `changed`: who reads it is to ask for its size first.
    fn release_still(
        &mut self,
        core: &mut Core,
        sessions: &Sessions,
        opens: &Opens,
        dir: Ino,
        ino: Ino,
        changed: bool,
    ) {
        if !self.still.remove(&ino) {
            return;
        }
        for (session, access) in self.others_of(sessions, opens, dir, ino) {
            let hidden = changed && access == DataAccess::Read;
            if hidden && let Some(slot) = sessions.find(session) {
                self.hidden.insert((ino, slot));
            }
            let access = if hidden { DataAccess::Hidden } else { access };
            core.out.push_back(Output::Access { session, ino, access });
        }
        core.parked.wake(&WaitReason::Data(ino));
    }

    /// A merge is not decided after all: others go on, and what was made for it is nobody's.
    pub(super) fn end_still(&mut self, core: &mut Core, sessions: &Sessions, opens: &mut Opens, dir: Ino) {
        let Some(owned) = self.by_dir.get_mut(&dir) else { return };
        if owned.forks.still.is_empty() && owned.forks.kept.is_empty() || owned.putting_back.is_some() {
            return;
        }
        owned.forks.asked.clear();
        let (still, kept) = (std::mem::take(&mut owned.forks.still), std::mem::take(&mut owned.forks.kept));
        for Kept { to, is, .. } in kept.into_values() {
            // An orphan that is being filled goes when that is done: its objects would outlive it.
            match (to, is) {
                (Some(to), State::Copied) => _ = self.dropped.insert(to),
                (Some(to), _) => _ = opens.reaps.insert(to),
                (None, _) => {}
            }
        }
        still.into_iter().for_each(|ino| self.release_still(core, sessions, opens, dir, ino, false));
    }

    /// All that waited for a durable record goes on.
    pub(crate) fn emit_forks(&mut self, core: &mut Core) {
        let durable = core.log.durable;
        let mut woken = Vec::new();
        for (dir, owned) in &mut self.by_dir {
            if owned.forks.noted.take_if(|lsn| *lsn <= durable).is_some() {
                woken.push(*dir);
            }
            let record = core.tree.decoupled(*dir);
            for (ino, kept) in &mut owned.forks.kept {
                let Kept { to: Some(to), len, object_size, is: State::Noted(lsn) } = kept else { continue };
                let copy = record.map(|record| record.copy_of(*ino).unwrap_or(*ino));
                if let (true, Some(copy)) = (*lsn <= durable, copy) {
                    let (object_size, to, len) = (*object_size, *to, *len);
                    core.out.push_back(Output::KeepTheirs { ino: *ino, copy, object_size, to, len });
                    kept.is = State::Copied;
                }
            }
        }
        woken.into_iter().for_each(|dir| core.parked.wake(&WaitReason::Merge(dir)));
    }

    /// The others' version of a file is an orphan's, or could not be copied.
    pub(crate) fn theirs_kept(&mut self, core: &mut Core, opens: &mut Opens, to: Ino, result: Result<(), DataError>) {
        if self.dropped.remove(&to) {
            opens.reaps.insert(to);
        }
        let state = result.map_or_else(State::Failed, |()| State::Done);
        self.kept_is(core, |_, kept| kept.to == Some(to), state);
    }

    /// A file has the others' version again.
    pub(super) fn theirs_put_back(&mut self, core: &mut Core, file: Ino) {
        self.kept_is(core, |ino, kept| ino == file && kept.to.is_none(), State::Done);
    }

    fn kept_is(&mut self, core: &mut Core, which: impl Fn(Ino, &Kept) -> bool, state: State) {
        let mut all = self.by_dir.iter_mut();
        let found = all.find_map(|(dir, owned)| {
            let kept = owned.forks.kept.iter_mut().find(|(ino, kept)| which(**ino, kept));
            kept.map(|(_, kept)| (*dir, kept))
        });
        if let Some((dir, kept)) = found {
            kept.is = state;
            core.parked.wake(&WaitReason::Merge(dir));
        }
    }

    /// The length of a file when it was forked; none: others have changed it since.
    pub(crate) fn fork_is(&mut self, core: &mut Core, file: Ino, size: Option<u64>) {
        let mut over = Vec::new();
        for (dir, owned) in &mut self.by_dir {
            let Some(inode) = owned.forks.asked.remove(&file) else { continue };
            // Data held in an inode may have been overwritten without a trace.
            let len = if inode.inline { 0 } else { inode.size };
            let changed = size != Some(len) || inode.inline && inode.size > 0;
            owned.forks.seen.insert(file, (inode, changed));
            over.push(*dir);
        }
        over.into_iter().for_each(|dir| core.parked.wake(&WaitReason::Merge(dir)));
    }

    /// The record as it is after a merge of these events, and what becomes of the forked files.
    pub(super) fn forks_after(
        &self,
        core: &Core,
        record: &DecoupledRecord,
        intake: &Intake,
        events: &[Event],
    ) -> (DecoupledRecord, Met) {
        let mut after = record.clone();
        let (mut gone, mut orphans) = (BTreeSet::new(), BTreeSet::new());
        for event in events {
            match event {
                Event::InodeGone(ino) => _ = gone.insert(*ino),
                Event::Orphan(ino) => _ = orphans.insert(*ino),
                _ => {}
            }
        }
        let is_over = |ino: Ino, made: Option<&Inode>| match made {
            Some(_) => intake.draft.writes(ino),
            // Handles that are open go on reading the version of others.
            None => !orphans.contains(&ino) && (gone.contains(&ino) || !core.tree.is_orphan(ino)),
        };
        let known = intake.draft.known().filter_map(|(ino, _, made)| Some((ino, record.copy_of(ino)?, made)));
        let over: Vec<(Ino, Ino)> =
            known.filter(|(ino, _, made)| is_over(*ino, *made)).map(|(ino, copy, _)| (ino, copy)).collect();
        after.forget_overwritten(&over.iter().map(|(ino, _)| *ino).collect());
        let own = self.by_dir.get(&record.dir).into_iter().flat_map(|owned| &owned.forks.kept);
        let objects = own.filter(|(ino, kept)| kept.to.is_some() && record.copy_of(**ino).is_none());
        let over: Vec<(Ino, Ino)> = over.into_iter().chain(objects.map(|(ino, _)| (*ino, *ino))).collect();
        let stay = self.stay_forked(core, record.dir, &over, events);
        (after, Met { over, stay })
    }

    /// Files that a merge changes and that stay forked; whether others have changed theirs.
    fn stay_forked(&self, core: &Core, dir: Ino, over: &[(Ino, Ino)], events: &[Event]) -> Vec<(Ino, bool)> {
        let Some(owned) = self.by_dir.get(&dir) else { return Vec::new() };
        let over: BTreeSet<Ino> = over.iter().map(|(ino, _)| *ino).collect();
        let of_event = |event: &Event| {
            let Event::Inode(inode) = event else { return None };
            let (was, changed) = owned.forks.seen.get(&inode.ino).filter(|_| !over.contains(&inode.ino))?;
            let now = core.tree.inode(inode.ino)?;
            Some((inode.ino, *changed || is_written(was, now)))
        };
        events.iter().filter_map(of_event).collect()
    }

    /// A merge is decided by the last record.
    pub(super) fn forks_merged(
        &mut self,
        core: &mut Core,
        sessions: &Sessions,
        opens: &mut Opens,
        record: &DecoupledRecord,
        Met { over, stay }: Met,
        events: &[Event],
    ) {
        let (dir, at) = (record.dir, core.log.last);
        let used: BTreeSet<Ino> = events
            .iter()
            .filter_map(|event| match event {
                Event::OrphanGone(ino) => Some(*ino),
                _ => None,
            })
            .collect();
        let Some(owned) = self.by_dir.get_mut(&dir) else { return };
        let kept = std::mem::take(&mut owned.forks.kept);
        opens.reaps.extend(kept.into_values().filter_map(|kept| kept.to).filter(|ino| !used.contains(ino)));
        owned.forks.asked.clear();
        for (ino, _) in &over {
            owned.forks.frozen.remove(ino);
            owned.forks.seen.remove(ino);
        }
        for (ino, changed) in stay {
            if let Some(inode) = core.tree.inode(ino) {
                owned.forks.seen.insert(ino, (Box::new(inode.clone()), changed));
            }
        }
        let over: BTreeSet<Ino> = over.iter().map(|(ino, _)| *ino).collect();
        let rest = std::mem::take(&mut owned.forks.still).into_iter().filter(|ino| !over.contains(ino));
        let thaws = rest.map(|ino| (ino, false)).chain(over.iter().map(|ino| (*ino, true))).collect();
        let (by, files) = (owned.by, owned.data.files());
        self.thaw_when_durable(core, sessions, opens, dir, at, thaws);
        if let Some((_, session)) = by {
            self.give_data_ranges(core, dir, session, record);
            for ino in files.into_iter().filter(|ino| record.copy_of(*ino).is_none()) {
                core.out.push_back(Output::Access { session, ino, access: DataAccess::Read });
            }
        }
    }

    /// As soon as the record at `at` is durable, others go on with these files. True: a file is one again, of another content for them.
    pub(crate) fn thaw_when_durable(
        &mut self,
        core: &mut Core,
        sessions: &Sessions,
        opens: &Opens,
        dir: Ino,
        at: Lsn,
        files: Vec<(Ino, bool)>,
    ) {
        if !files.is_empty() {
            self.thaws.push_back((at, dir, files));
            self.emit_thaws(core, sessions, opens);
        }
    }

    /// Lets files go whose record is durable. To be called before drops of objects are given out: these are others' in files that have
    /// two versions, and of the file itself from now on.
    pub(crate) fn emit_thaws(&mut self, core: &mut Core, sessions: &Sessions, opens: &Opens) {
        while self.thaws.front().is_some_and(|(at, ..)| *at <= core.log.durable)
            && let Some((_, dir, files)) = self.thaws.pop_front()
        {
            for (ino, over) in files {
                if over {
                    core.out.push_back(Output::Thaw { ino });
                }
                self.release_still(core, sessions, opens, dir, ino, over);
            }
        }
    }

    /// Events that end the copy of a file which is gone itself, and was removed by others.
    pub(crate) fn fork_gone(&mut self, core: &Core, ino: Ino) -> Vec<Event> {
        let mut all = self.by_dir.keys().filter_map(|dir| core.tree.decoupled(*dir));
        let found = all.find(|record| record.interfere == Interfere::Allow && record.copy_of(ino).is_some());
        let Some(mut record) = found.cloned() else { return Vec::new() };
        let copy = record.copy_of(ino).map(copy_gone);
        record.forget_overwritten(&BTreeSet::from([ino]));
        if let Some(owned) = self.by_dir.get_mut(&record.dir) {
            owned.forks.frozen.remove(&ino);
            owned.forks.seen.remove(&ino);
        }
        copy.into_iter().chain([Event::Decoupled(Box::new(record))]).collect()
    }

    /// Requests that wait for files which are held still look again: all that was under way on those may be over.
    pub(super) fn wake_stills(&self, core: &mut Core) {
        let dirs = self.by_dir.iter().filter(|(_, owned)| !owned.forks.still.is_empty()).map(|(dir, _)| *dir);
        dirs.collect::<Vec<Ino>>().into_iter().for_each(|dir| core.parked.wake(&WaitReason::Merge(dir)));
    }
}

pub(super) fn change_of(dir: Ino, events: Vec<Event>) -> Change {
    Change { events, answer: Answer::Done, origin_ino: dir, origin_value: 0 }
}

/// The event that drops a copy.
fn copy_gone(copy: Ino) -> Event {
    Event::Discard { ino: copy, from: 0, object_size: Layout::default().object_size }
}
