//! A decoupled subtree at its owner ("append client journal", Cudele §6.2): operations are decided here, by the very code that decides
//! them at a rank, and put down in a journal of the same form. Not how records come from the rank and parts go to it, not how long
//! the subtree is the owner's, and no bytes of objects: whoever has those ([`Subtree::with_objects`]) is told what of them to drop.
//!
//! A machine: it does no IO, and is given the time. What it lacks it says ([`Outcome::Fetch`], [`Outcome::Numbers`]); then the same
//! operation is run again.

mod batch;
mod growing;
mod ops;
mod settle;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use loligo_namespace::{Config, Ctx, Found, FragConfig, Tree, apply_decided, need, prepare, reap};
use loligo_types::{
    Answer, Cred, DecoupledRecord, Event, FsError, FsResult, Ino, Inode, Interfere, Loaded, Lsn, Need, Op, SplitRule,
    Stamp, Time,
};

use batch::Batch;
pub use batch::Group;
pub use growing::{Growing, Sink};

/// A group of records ends when it has so many bytes: a rank holds all of a merge until it is decided.
const GROUP_BYTES: u64 = 32 << 20;
/// The same where others may work meanwhile: a rank decides upon all of it at once.
const ALLOW_GROUP_BYTES: u64 = 4 << 20;

/// Parts of a merge that its owner has on their way at once: few, because others wait for those that have come.
pub const PARTS_IN_FLIGHT: usize = 4;
/// The pause before a group is sent again for which the rank had no room, milliseconds. It doubles each time: half a minute in all.
pub const FULL_PAUSE_MS: u64 = 250;

/// Result of an operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It is done, or cannot be.
    Done(FsResult<Answer>),
    /// These are to be fetched and learned ([`Subtree::learn`]) first.
    Fetch(Vec<Need>),
    /// It may make an inode, and there is no number left ([`Subtree::take_record`]).
    Numbers,
}

/// Amount of changes that the rank does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outstanding {
    /// Operations that changed something.
    pub changes: u64,
    /// Events that they were put down as.
    pub events: u64,
    /// Bytes of the journal that hold them.
    pub bytes: u64,
    /// When the first of them was made.
    pub since: Option<Time>,
}

/// Bytes of objects that are no file's any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Drop {
    /// The file.
    pub ino: Ino,
    /// The first byte.
    pub from: u64,
    /// Bytes of one of its objects.
    pub object_size: u32,
}

/// Settings of the rank that decide operations.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The file system's, under which names are hashed.
    pub hash_key: (u64, u64),
    /// Largest file held in its inode, bytes.
    pub inline_max: u32,
    /// When a directory is cut.
    pub split: SplitRule,
}

/// A decoupled subtree.
pub struct Subtree {
    settings: Settings,
    record: DecoupledRecord,
    tree: Tree,
    /// The next number for an inode; `None`: none is left.
    next: Option<Ino>,
    /// Numbers from here on make inodes that no group before the one that is being filled has made.
    fresh_from: Ino,
    last: Lsn,
    batch: Batch,
    group_bytes: u64,
    /// Of the group that is being filled, and of those before it.
    outstanding: Outstanding,
    full: VecDeque<Outstanding>,
    unsettled: settle::Unsettled,
    /// Files may have objects.
    objects: bool,
    /// Bytes of objects to be dropped before the last operation is answered.
    drops: Vec<Drop>,
    /// Where others may work: inodes of before of which the journal says something, and files of these whose data it changes.
    spoken_of: BTreeSet<Ino>,
    rewritten: BTreeSet<Ino>,
    /// Open inodes without a name. The journal says that they are gone. True: the rank may know of one, as others may.
    orphans: BTreeMap<Ino, bool>,
}

impl Subtree {
    /// A subtree that was just decoupled, or of which all was merged.
    pub fn new(settings: Settings, record: DecoupledRecord, root: Inode) -> Subtree {
        let tree = Subtree::empty(&settings, &record);
        let mut subtree = Subtree {
            next: first_from(&record, record.used),
            fresh_from: record.used,
            group_bytes: if record.interfere == Interfere::Allow { ALLOW_GROUP_BYTES } else { GROUP_BYTES },
            settings,
            record,
            tree,
            last: Lsn(0),
            batch: Batch::default(),
            outstanding: Outstanding::default(),
            full: VecDeque::new(),
            unsettled: settle::Unsettled::default(),
            objects: false,
            drops: Vec::new(),
            spoken_of: BTreeSet::new(),
            rewritten: BTreeSet::new(),
            orphans: BTreeMap::new(),
        };
        subtree.load_root(root);
        subtree
    }

    /// Loads the root. Directories above it are not decoupled, and nothing here depends on them.
    fn load_root(&mut self, mut root: Inode) {
        root.parent = Ino(0);
        self.tree.load(Loaded::Inode(root.ino, Some(Box::new(root))));
    }

    /// With groups of another size: in tests small ones.
    #[must_use]
    pub fn with_groups(self, bytes: u64) -> Subtree {
        Subtree { group_bytes: bytes, ..self }
    }

    /// One whose files may have objects, which whoever has this one reads, writes and drops ([`Subtree::take_drops`]).
    #[must_use]
    pub fn with_objects(self) -> Subtree {
        Subtree { objects: true, ..self }
    }

    fn empty(settings: &Settings, record: &DecoupledRecord) -> Tree {
        let SplitRule { split, merge, bits } = settings.split;
        let frag = FragConfig { split_entries: split, merge_entries: merge, split_bits: bits };
        let config = Config { inline_max: settings.inline_max, rank: Ino(record.epoch).birth_rank(), frag };
        Tree::new(settings.hash_key, config)
    }

    /// The record of it that its rank keeps, as far as is known.
    pub fn record(&self) -> &DecoupledRecord {
        &self.record
    }

    /// Its root.
    pub fn root(&self) -> Ino {
        self.record.dir
    }

    /// True if something is known to be in it.
    pub fn knows(&self, ino: Ino) -> bool {
        ino == self.record.dir || self.record.is_granted(ino) || !matches!(self.tree.find(ino), Found::Unknown)
    }

    /// An inode in it, if it is known.
    pub fn inode(&self, ino: Ino) -> Option<&Inode> {
        self.tree.inode(ino)
    }

    /// Settings with which it decides.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Amount of changes that the rank does not have.
    pub fn outstanding(&self) -> Outstanding {
        let mut all = Outstanding { bytes: self.batch.bytes(), ..self.outstanding };
        for group in &self.full {
            all.changes += group.changes;
            all.events += group.events;
        }
        // The oldest group's is the first.
        all.since = self.full.front().map_or(all.since, |group| group.since);
        all
    }

    /// Memory that it takes, about, bytes.
    pub fn memory_bytes(&self) -> usize {
        self.tree.memory_bytes() + self.batch.memory_bytes()
    }

    /// Records that were fetched. Where others may work, data that are held in an inode come with the inode as it was then: returns the files
    /// that are not any more as they were known before.
    pub fn learn(&mut self, items: Vec<Loaded>) -> Vec<Ino> {
        let mut changed = Vec::new();
        if self.may_change_meanwhile() {
            let inode_of = |item: &Loaded| match item {
                Loaded::Inode(ino, Some(inode)) => Some((*ino, Inode::clone(inode))),
                _ => None,
            };
            let inodes: BTreeMap<Ino, Inode> = items.iter().filter_map(inode_of).collect();
            for item in &items {
                if let Loaded::Inline(ino, _) = item
                    && let Some(now) = inodes.get(ino)
                    && self.tree.inode(*ino).is_some_and(|here| self.tree.inline(here).is_none())
                    && self.begin_version(now.clone())
                {
                    changed.push(*ino);
                }
            }
        }
        items.into_iter().for_each(|item| self.tree.load(item));
        changed
    }

    /// True if the data of a file are held in its inode, and were not fetched yet.
    pub fn lacks_data(&self, ino: Ino) -> bool {
        self.tree.inode(ino).is_some_and(|inode| self.tree.inline(inode).is_none())
    }

    /// The same of inodes that are open here. What the owner changes of one that others have removed is nobody else's to see.
    pub fn learn_open(&mut self, items: Vec<Loaded>) {
        let nameless = items.iter().filter_map(|item| match item {
            Loaded::Inode(ino, Some(inode)) if inode.nlink == 0 => Some((*ino, true)),
            _ => None,
        });
        self.orphans.extend(nameless);
        self.learn(items);
    }

    /// A file has a version that is the owner's alone from now on, and that begins so ([`loligo_types::SubtreeOp::Overwrite`]). What the owner has
    /// changed of it before stays, but its data: these are as others have left them. Returns whether anything changes with that.
    ///
    /// The count of changes stays as the owner found it: what others wrote since is another version, which the merge keeps, because the owner may be
    /// about to write over it without having seen it.
    pub fn begin_version(&mut self, mut now: Inode) -> bool {
        let Found::Here(here) = self.tree.find(now.ino) else { return false };
        if here.kind != now.kind || here.nlink == 0 || self.rewritten.contains(&now.ino) {
            return false;
        }
        // Names are as the owner found them, or has changed them.
        (now.parent, now.place, now.nlink) = (here.parent, here.place, here.nlink);
        now.change = here.change;
        let mut next = now;
        if self.spoken_of.contains(&next.ino) {
            let (size, inline, cuts, mtime, change) = (next.size, next.inline, next.cuts, next.mtime, next.change);
            next = here.clone();
            (next.size, next.inline, next.cuts, next.mtime) = (size, inline, cuts, mtime);
            next.change = next.change.max(change) + 1;
        }
        let changes = next != *here;
        if changes {
            self.last = self.last.next();
            apply_decided(&mut self.tree, &Event::Inode(Box::new(next)), self.last, Ino(0));
        }
        changes
    }

    /// The rank has put down this of the subtree: there are more numbers.
    pub fn take_record(&mut self, record: DecoupledRecord) {
        let from = self.next.unwrap_or_else(|| self.used());
        (self.record.grants, self.record.objects, self.record.journal) =
            (record.grants, record.objects, record.journal);
        self.record.session = record.session;
        self.next = first_from(&self.record, from);
    }

    /// Carries out an operation in somebody's name, of whom nobody has anything open.
    pub fn run(&mut self, op: &Op, cred: &Cred, now: Time) -> Outcome {
        self.run_while_open(op, cred, now, &|_| 0)
    }

    /// The same where inodes are open, so many times each: what is open lives on without a name until [`Subtree::closed`].
    pub fn run_while_open(&mut self, op: &Op, cred: &Cred, now: Time, open_count: &dyn Fn(Ino) -> u32) -> Outcome {
        self.drops.clear();
        if let Err(error) = ops::may_run(&self.tree, self.root(), op, self.objects) {
            return Outcome::Done(Err(error));
        }
        if self.batch.has_bytes(self.group_bytes) {
            // The group ends, before what is decided now.
            self.settle_new();
        }
        let needs = need(&self.tree, op, cred);
        if !needs.is_empty() {
            return Outcome::Fetch(needs);
        }
        let Some(made) = self.next.or_else(|| (!op.makes_inode()).then_some(Ino(0))) else { return Outcome::Numbers };
        let ctx = |open_count| Ctx {
            cred,
            distrusted: false,
            stamp: Stamp { now, ino: made },
            // What the owner has open is its own affair.
            handle_read: true,
            handle_write: true,
            open_count,
            route_version: &|_| None,
        };
        let change = match prepare(&self.tree, op, &ctx(open_count)) {
            Ok(change) => change,
            Err(error) => return Outcome::Done(Err(error)),
        };
        let done = if change.events.iter().any(|event| matches!(event, Event::Orphan(_))) {
            // The rank hears of it as if it was not open: that it lives on is of this client alone.
            match prepare(&self.tree, op, &ctx(&|_| 0)) {
                Ok(told) => self.put_down_orphaned(&change.events, told.events, made, now),
                Err(error) => Err(error),
            }
        } else {
            self.put_down(change.events, made, now)
        };
        Outcome::Done(done.map(|()| change.answer))
    }

    /// True if a user may not do it here, as far as what is known here tells.
    pub fn is_forbidden(&self, op: &Op, cred: &Cred, now: Time) -> bool {
        if !need(&self.tree, op, cred).is_empty() {
            return false;
        }
        let ctx = Ctx {
            cred,
            distrusted: false,
            stamp: Stamp { now, ino: self.next.unwrap_or(Ino(0)) },
            // Nothing is open for that user: rights that a handle gives do not count.
            handle_read: false,
            handle_write: false,
            open_count: &|_| 0,
            route_version: &|_| None,
        };
        matches!(prepare(&self.tree, op, &ctx), Err(FsError::Access | FsError::Perm))
    }

    /// True if a file has capabilities; an error: what must be fetched to know it.
    pub fn has_capability(&self, ino: Ino) -> Result<bool, Vec<Need>> {
        let Some(inode) = self.tree.inode(ino).filter(|inode| inode.has_xattrs) else { return Ok(false) };
        let all = self.tree.xattrs(inode).ok_or_else(|| vec![Need::Xattrs(ino)])?;
        Ok(all.iter().any(|(name, _)| **name == *b"security.capability"))
    }

    /// Applies and journals a change.
    fn put_down(&mut self, mut events: Vec<Event>, made: Ino, now: Time) -> FsResult<()> {
        if events.is_empty() {
            return Ok(());
        }
        self.take_cuts(&mut events);
        if self.may_change_meanwhile() {
            self.tell_data(&mut events);
        }
        if !events.iter().all(ops::is_for_here) {
            return Err(FsError::NotSupported);
        }
        if events.iter().all(|event| self.is_of_orphan(event)) {
            // The journal says nothing of it.
            self.last = self.last.next();
        } else {
            self.count(events.len(), now);
        }
        let mut makes = false;
        for event in events {
            makes |= self.begin_event(&event, made);
            apply_decided(&mut self.tree, &event, self.last, made);
            if !self.is_of_orphan(&event) {
                self.batch.add(event);
            }
        }
        self.end_change(makes, made);
        Ok(())
    }

    /// The same of a change after which something lives on because it is open. `told`: what the journal says.
    fn put_down_orphaned(&mut self, events: &[Event], told: Vec<Event>, made: Ino, now: Time) -> FsResult<()> {
        let orphans: Vec<Ino> =
            events.iter().filter_map(|event| if let Event::Orphan(ino) = event { Some(*ino) } else { None }).collect();
        if !told.iter().all(ops::is_for_here) {
            return Err(FsError::NotSupported);
        }
        self.count(told.len(), now);
        let mut makes = false;
        for event in told {
            // Its bytes are dropped when it is closed.
            if !matches!(&event, Event::Discard { ino, .. } if orphans.contains(ino)) {
                makes |= self.begin_event(&event, made);
                self.batch.add(event);
            }
        }
        events.iter().for_each(|event| apply_decided(&mut self.tree, event, self.last, made));
        let fresh_from = self.fresh_from;
        let is_known = |ino: Ino| ino < fresh_from || !self.record.is_granted(ino);
        self.orphans.extend(orphans.into_iter().map(|ino| (ino, is_known(ino))));
        self.end_change(makes, made);
        Ok(())
    }

    /// Bytes that are cut off a file which stays are dropped at once, and not when it is merged: what is written behind the cut by
    /// then would go with them.
    fn take_cuts(&mut self, events: &mut Vec<Event>) {
        if !events.iter().any(|event| matches!(event, Event::Discard { .. })) {
            return;
        }
        let gone: Vec<Ino> = events
            .iter()
            .filter_map(|event| if let Event::InodeGone(ino) = event { Some(*ino) } else { None })
            .collect();
        let drops = &mut self.drops;
        events.retain(|event| match event {
            Event::Discard { ino, from, object_size } if !gone.contains(ino) => {
                drops.push(Drop { ino: *ino, from: *from, object_size: *object_size });
                false
            }
            _ => true,
        });
    }

    /// A file whose size alone changes says its data, too, if they are held in its inode: by the merge others may have given it other data.
    fn tell_data(&self, events: &mut Vec<Event>) {
        let says = |ino: Ino| {
            events
                .iter()
                .any(|event| matches!(event, Event::Inline { ino: of, .. } | Event::InlineGone(of) if *of == ino))
        };
        let size_changes = |event: &Event| {
            let Event::Inode(inode) = event else { return None };
            let before = self.tree.inode(inode.ino).filter(|before| before.inline && before.size != inode.size)?;
            let data = self.tree.inline(before).filter(|data| inode.inline && !data.is_empty() && !says(inode.ino))?;
            Some(Event::Inline { ino: inode.ino, data })
        };
        let told: Vec<Event> = events.iter().filter_map(size_changes).collect();
        events.splice(0..0, told);
    }

    fn count(&mut self, events: usize, now: Time) {
        if self.batch.end_group(self.group_bytes, self.used()) {
            self.group_is_full();
        }
        self.last = self.last.next();
        self.outstanding.changes += 1;
        self.outstanding.events += events as u64;
        self.outstanding.since.get_or_insert(now);
    }

    fn group_is_full(&mut self) {
        self.fresh_from = self.used();
        self.full.push_back(std::mem::take(&mut self.outstanding));
    }

    /// True if an event makes the inode of the change.
    fn begin_event(&mut self, event: &Event, made: Ino) -> bool {
        if let Event::Inode(inode) = event {
            self.unsettled.note(inode);
            let data = |inode: &Inode| (inode.size, inode.cuts, inode.inline);
            if self.may_change_meanwhile()
                && self.tree.inode(inode.ino).is_some_and(|before| data(before) != data(inode))
            {
                self.rewritten.insert(inode.ino);
            }
        }
        match event {
            Event::Inode(inode) if inode.ino == made && made.0 != 0 => return true,
            Event::Inode(inode) if !self.orphans.contains_key(&inode.ino) => self.tell_base(inode.ino),
            Event::InodeGone(ino) => self.tell_base(*ino),
            _ => {}
        }
        false
    }

    fn is_of_orphan(&self, event: &Event) -> bool {
        let ino = match event {
            Event::Inode(inode) => inode.ino,
            Event::Inline { ino, .. }
            | Event::InlineGone(ino)
            | Event::Xattr { ino, .. }
            | Event::XattrGone { ino, .. } => *ino,
            _ => return false,
        };
        !self.orphans.is_empty() && self.orphans.contains_key(&ino)
    }

    fn end_change(&mut self, makes: bool, made: Ino) {
        if self.batch.is_full() {
            self.settle_new();
        }
        self.batch.end_change();
        if makes {
            self.next = first_from(&self.record, Ino(made.0 + 1));
        }
    }

    /// Nobody has an inode open any more: without a name it is gone, and bytes of it that are in objects are to be dropped.
    pub fn closed(&mut self, ino: Ino) -> Option<Drop> {
        let is_known = self.orphans.remove(&ino)?;
        // Where others work, one of them may have it open: when its bytes go is for the rank to say.
        let is_own = !is_known || !self.may_change_meanwhile();
        let mut drop = None;
        for event in reap(&self.tree, ino) {
            match event {
                Event::Discard { ino, from, object_size } if is_own => drop = Some(Drop { ino, from, object_size }),
                Event::Discard { .. } => {}
                event => apply_decided(&mut self.tree, &event, self.last, Ino(0)),
            }
        }
        drop
    }

    /// Bytes of objects that are to be dropped before what was done last is answered.
    pub fn take_drops(&mut self) -> Vec<Drop> {
        std::mem::take(&mut self.drops)
    }

    /// Before the first change of an inode that was there at the last merge, the journal says how it was then: the rank may have counted
    /// since.
    fn tell_base(&mut self, ino: Ino) {
        let is_fresh = ino >= self.fresh_from && self.record.is_granted(ino);
        if is_fresh || !self.batch.begins(ino) {
            return;
        }
        let Found::Here(inode) = self.tree.find(ino) else { return };
        let inode = inode.clone();
        if !self.may_change_meanwhile() {
            return self.batch.add_base(inode, None);
        }
        self.spoken_of.insert(ino);
        // Others may have removed it, or a directory above it: it comes back where it was. What is above says so first, because the state
        // that it becomes stands directly behind its own.
        let parent = inode.parent;
        if ino != self.root() && parent.0 != 0 {
            self.tell_base(parent);
        }
        let name = self.tree.primary_name(&inode);
        self.batch.add_base(inode, name);
    }

    /// True if others may work in it, so that fetched records are a snapshot of then. After a merge they are to be fetched anew
    /// ([`Subtree::forget`]).
    pub fn may_change_meanwhile(&self) -> bool {
        self.record.interfere == Interfere::Allow
    }

    /// Numbers below this are used up.
    pub fn used(&self) -> Ino {
        self.next.unwrap_or_else(|| {
            let end = self.record.grants.last().map_or(self.record.used.0, |(first, count)| first.0 + count);
            Ino(end)
        })
    }

    /// All that is outstanding, in groups that are merged one after the other, the oldest first. What is done next goes into another
    /// record.
    pub fn groups(&mut self) -> Vec<Group> {
        self.settle_new();
        let used = self.used();
        self.batch.groups(used)
    }

    /// All that is outstanding, in groups, to be merged while more is done: that goes into other groups.
    pub fn sealed(&mut self) -> Vec<Group> {
        self.settle_new();
        if self.outstanding.changes > 0 && self.batch.end_group(0, self.used()) {
            self.group_is_full();
        }
        self.groups()
    }

    /// The rank has merged the oldest group, with the numbers below `used`.
    pub fn merged(&mut self, merges: u64, used: Ino) {
        (self.record.merges, self.record.used) = (merges, used);
        if self.batch.drop_oldest() {
            self.fresh_from = used;
            self.outstanding = Outstanding::default();
        } else {
            self.full.pop_front();
        }
    }

    /// Forgets what is known, to give memory back, or because others may have changed it: it is fetched again. Nothing may be outstanding.
    pub fn forget(&mut self, root: Inode) {
        self.forget_but(root, &|_| false);
    }

    /// The same, but for files without a name that are open: nobody else has those that were removed here.
    pub fn forget_but(&mut self, root: Inode, is_open: &dyn Fn(Ino) -> bool) {
        debug_assert_eq!(self.outstanding().changes, 0, "what is outstanding is nowhere else");
        let before = std::mem::replace(&mut self.tree, Subtree::empty(&self.settings, &self.record));
        self.unsettled = settle::Unsettled::default();
        self.spoken_of.clear();
        self.rewritten.clear();
        self.last = Lsn(0);
        self.load_root(root);
        self.orphans.retain(|ino, _| is_open(*ino));
        for ino in self.orphans.keys() {
            let needs = [Need::Inode(*ino), Need::Inline(*ino), Need::Xattrs(*ino)];
            needs.iter().filter_map(|need| before.lend(need, 0)).for_each(|item| self.tree.load(item));
        }
    }
}

/// The first number from one on that was granted.
fn first_from(record: &DecoupledRecord, from: Ino) -> Option<Ino> {
    let at = |(first, count): &(Ino, u64)| {
        let at = Ino(from.0.max(first.0));
        (at.0 < first.0 + count).then_some(at)
    };
    record.grants.iter().find_map(at)
}
