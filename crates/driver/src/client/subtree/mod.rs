//! A decoupled subtree for a program: all below a directory is this client's, changes need no server, and what was made becomes everybody's
//! with a merge. Here the way between the machine ([`loligo_subtree::Subtree`]) and the rank; paths stand in `paths.rs`, what the policy of a directory says in `policy.rs`, what is kept on
//! this machine's disk in `keep.rs`, in the store in `store.rs`, in which form in `form.rs`, and how that is read in `kept.rs`. Not how an
//! operation is decided.
//!
//! What each state promises is in `docs/subtree-policies.md`: before [`Subtree::persist`] what was made is gone with this process; after
//! it, it is there as long as this machine's disk is; after [`Subtree::persist_global`] whatever becomes of this machine; after
//! [`Subtree::merge`] it is as durable as any change.

mod form;
mod keep;
mod kept;
mod paths;
mod policy;
mod store;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use loligo_subtree::{FULL_PAUSE_MS, Group, Outcome, Outstanding, PARTS_IN_FLIGHT, Settings};
use loligo_types::limits::{CONFLICTS_TOLD_MAX, SUBTREE_INOS_MAX};
use loligo_types::{
    Answer, Conflict, Control, Cred, DecoupledRecord, FsError, FsResult, Ino, Inode, Interfere, MergeInto, Need, Op,
    Promise, StoredJournal, SubtreeAnswer, SubtreeOp, Time,
};

use super::{Call, CallResult, Client, Fs};
pub use form::{KeptError, Place};
pub(in crate::client) use keep::Keeper;
pub use kept::{Kept, Waiting};
pub(crate) use policy::log_failed;
pub use policy::{CompleteError, Completed};

/// Times that a merge is begun anew because the rank had begun a new life.
const TRIES: usize = 4;
/// Attempts at a merge for which the rank has no room, beside [`TRIES`], with [`FULL_PAUSE_MS`] and longer between them.
const TRIES_FULL: u32 = 7;
/// Numbers asked for at once at most when those that were granted are used up.
const MORE_MAX: u64 = 1 << 20;

/// Options for decoupling a subtree.
#[derive(Clone, Debug)]
pub struct SubtreeOptions {
    /// Number of inodes that it is expected to make: so many numbers are granted at first. More are asked for when they are used up.
    pub allocated_inodes: u64,
    /// Time for which this client may not be heard, beyond the end of its session, before the subtree is taken from it.
    pub lease: Duration,
    /// Access of others to it. With [`Interfere::Allow`] they work there as anywhere, and a merge wins over what they did; files that were
    /// there before are then not written through [`Subtree`] beyond what fits in an inode.
    pub interfere: Interfere,
    /// Promise that this program keeps by itself, with [`Subtree::persist`], [`Subtree::persist_global`] and [`Subtree::merge`], for what
    /// it makes there (`Cell::promise` of `loligo_subtree_policy` tells that of a cell). A directory is not decoupled if one below it has a
    /// policy of its own that promises more (`NotSupported`), nor if it is below a floor that asks for more (`Perm`).
    pub promise: Promise,
    /// Bits that new files do not get.
    pub umask: u16,
    /// Where the rank brings what is new in a merge. Where others may work meanwhile into its memory, whatever is said here.
    pub into: MergeInto,
    /// The rank takes the owner's word for what is merged (Cudele §6.3): root's alone, and not where others may work meanwhile. For
    /// comparison; it saves the rank a look at each event.
    pub blind: bool,
}

impl Default for SubtreeOptions {
    /// 100 inodes, as in the paper; a minute; others are refused; nothing is promised; umask 022; merged into memory, and looked through.
    fn default() -> SubtreeOptions {
        SubtreeOptions {
            allocated_inodes: 100,
            lease: Duration::from_secs(60),
            interfere: Interfere::Block,
            promise: Promise::NONE,
            umask: 0o022,
            into: MergeInto::Memory,
            blind: false,
        }
    }
}

/// A decoupled subtree. When it is dropped it stays decoupled, until its lease is over or its session ends and that has gone by: end it with
/// [`Subtree::recouple`].
pub struct Subtree {
    client: Client,
    cred: Arc<Cred>,
    umask: u16,
    into: MergeInto,
    blind: bool,
    machine: loligo_subtree::Subtree,
    kept: Option<keep::Keeper>,
    /// The file that a write to has failed, of which it is not known what it holds: another one takes its place.
    broken: Option<std::path::PathBuf>,
    stored: Option<store::Stored>,
    /// The object that was written to last.
    last: Option<Ino>,
    /// Another process's journal in the store that was not merged.
    left: Option<StoredJournal>,
    /// It may have been taken from this client: the rank is asked before anything else is done.
    doubt: Arc<AtomicBool>,
    by_policy: Option<policy::ByPolicy>,
}

impl Subtree {
    /// Decouples a directory. `Busy` if something below it is open or decoupled, or it is below something decoupled, or if what other ranks
    /// have of it did not come to the one that has it; `Perm` if the user does not own it.
    pub fn decouple(fs: &Fs, path: impl AsRef<std::path::Path>, options: &SubtreeOptions) -> FsResult<Subtree> {
        let owner = RandomState::new().build_hasher().finish() | 1;
        let dir = fs.stat(path)?.ino;
        Subtree::begin(fs, dir, (owner, 0), options)
    }

    /// Goes on with one that another process of its owner had, which kept its journal: nothing of what that made is lost that was
    /// persisted. `Stale` if it was taken back meanwhile: then what was kept can be looked at (`loligo journal inspect`), and no
    /// more. `Busy` while the session of that process is connected, or the rank has not heard yet that it is not: a copy of its
    /// journal takes nothing from it.
    pub fn resume(fs: &Fs, kept: &Kept, options: &SubtreeOptions) -> FsResult<Subtree> {
        let record = kept.record();
        Subtree::begin(fs, record.dir, (record.owner, record.epoch), options)
    }

    fn begin(fs: &Fs, dir: Ino, (owner, resume): (u64, u64), options: &SubtreeOptions) -> FsResult<Subtree> {
        let lease_ms = u32::try_from(options.lease.as_millis()).unwrap_or(u32::MAX);
        let what = SubtreeOp::Decouple {
            owner,
            resume,
            inos: options.allocated_inodes,
            lease_ms,
            interfere: options.interfere,
            promise: options.promise,
        };
        Subtree::with(fs, dir, what, options)
    }

    /// Has what is answered to this.
    fn with(fs: &Fs, dir: Ino, what: SubtreeOp, options: &SubtreeOptions) -> FsResult<Subtree> {
        let (client, cred) = (fs.client().clone(), fs.cred().clone());
        let (record, root, settings) = told(&client, ask(&client, &cred, dir, what)?)?;
        let left = record.journal;
        let machine = loligo_subtree::Subtree::new(settings, record, root);
        let doubt = Arc::new(AtomicBool::new(false));
        client.watch_subtree(dir, &doubt);
        Ok(Subtree {
            client,
            cred,
            umask: options.umask,
            into: options.into,
            blind: options.blind,
            machine,
            kept: None,
            broken: None,
            stored: None,
            last: None,
            left,
            doubt,
            by_policy: None,
        })
    }

    /// Its record at the rank.
    pub fn record(&self) -> &DecoupledRecord {
        self.machine.record()
    }

    /// Its root.
    pub fn root(&self) -> Ino {
        self.machine.root()
    }

    /// Amount of changes here that the rank does not have.
    pub fn outstanding(&self) -> Outstanding {
        self.machine.outstanding()
    }

    /// Memory that it takes, about, bytes.
    pub fn memory_bytes(&self) -> usize {
        self.machine.memory_bytes()
    }

    /// Checks that it is still this client's, as far as the rank has said: `Stale` if it was taken from it.
    fn is_mine(&mut self) -> FsResult<()> {
        if !self.doubt.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        // What is lost stays lost.
        self.go_on().inspect_err(|_| self.doubt.store(true, Ordering::Release))
    }

    /// Carries out an operation. A handle in it means nothing: what is open here is known to nobody else. `Stale` if it was taken from this
    /// client, by root or because its lease was over.
    pub fn op(&mut self, op: &Op) -> FsResult<Answer> {
        self.is_mine()?;
        let result = self.decide(op);
        if self.by_policy.is_some() {
            self.sync_if_due();
        }
        result
    }

    fn decide(&mut self, op: &Op) -> FsResult<Answer> {
        loop {
            match self.machine.run(op, &self.cred, now()) {
                Outcome::Done(result) => return result,
                Outcome::Fetch(needs) => self.fetch(needs)?,
                Outcome::Numbers => {
                    let had: u64 = self.record().grants.iter().map(|(_, count)| count).sum();
                    let inos = had.clamp(1, MORE_MAX).min(SUBTREE_INOS_MAX);
                    let epoch = self.record().epoch;
                    let answer = self.ask(SubtreeOp::Grant { epoch, inos })?;
                    let (record, ..) = told(&self.client, answer)?;
                    self.machine.take_record(record);
                }
            }
        }
    }

    fn fetch(&mut self, mut needs: Vec<Need>) -> FsResult<()> {
        // A program that looks up one name of a directory will look up others: the names behind it come along.
        let ranges: Vec<Need> = needs.iter().filter_map(|need| self.range_at(need)).collect();
        needs.extend(ranges);
        let epoch = self.record().epoch;
        match self.ask(SubtreeOp::Fetch { epoch, needs })? {
            Answer::Subtree(answer) => match *answer {
                SubtreeAnswer::Records(items) => {
                    self.machine.learn(items);
                    Ok(())
                }
                _ => Err(FsError::Io),
            },
            _ => Err(FsError::Io),
        }
    }

    fn range_at(&self, need: &Need) -> Option<Need> {
        let Need::Entry { dir, name } = need else { return None };
        let from_hash = loligo_namespace::hash63(self.client.welcome().hash_key, name.as_bytes());
        Some(Need::Range { dir: *dir, from_hash })
    }

    /// Asks the rank, and if it does not know this session for the subtree's owner, says so first.
    fn ask(&mut self, what: SubtreeOp) -> FsResult<Answer> {
        let dir = self.root();
        match ask(&self.client, &self.cred, dir, what.clone()) {
            Err(FsError::Stale) => {
                self.go_on()?;
                ask(&self.client, &self.cred, dir, what)
            }
            answer => answer,
        }
    }

    /// The rank may have another session of this client by now.
    fn go_on(&mut self) -> FsResult<()> {
        let what = SubtreeOp::resume(self.record());
        ask(&self.client, &self.cred, self.root(), what).map(drop)
    }

    /// Merges all that is outstanding: when this returns all others would see it, were it not decoupled, and it is durable. At once, but
    /// for very much: each 32 MiB of journal become true at once. What is kept on this machine's disk is removed.
    ///
    /// `Access` if the root is another user's by now, `NotFound` if it is gone, `Stale` if it was taken back: nothing was merged
    /// then, all of it is still here, and can be persisted. `NotEmpty` if another process of its owner has left a journal in the store that was
    /// not merged ([`Subtree::stored`]): what is made here would be taken for that.
    pub fn merge(&mut self) -> FsResult<Merged> {
        self.nothing_left_behind()?;
        let mut merged = Merged::default();
        for group in self.machine.groups() {
            let merge = self.record().merges + 1;
            let over = self.merge_group(merge, &group)?;
            self.machine.merged(merge, group.used);
            merged.count(&group, over);
            self.kept.iter_mut().for_each(keep::Keeper::one_is_merged);
            self.stored.iter_mut().for_each(store::Stored::one_is_merged);
        }
        if let Some(keeper) = self.kept.take() {
            keeper.remove();
        }
        if let Some(broken) = self.broken.take() {
            // The record says that the rest of the file is merged: it does no harm.
            let _ = std::fs::remove_file(broken);
        }
        self.void_stored();
        if self.machine.may_change_meanwhile() {
            // Others have worked there, and the merge may have put things elsewhere.
            self.learn_anew()?;
        }
        Ok(merged)
    }

    /// Merges what another process had persisted, before anything else is done: with [`Subtree::resume`] or [`Subtree::resume_stored`]. What
    /// the rank has of it already is left out. A journal in the store is void then, be it this one or another. `NotEmpty` if that one goes
    /// further: merge it instead.
    pub fn merge_kept(&mut self, kept: &Kept) -> FsResult<Merged> {
        if self.is_behind_stored(kept)? {
            return Err(FsError::NotEmpty);
        }
        let mut merged = Merged::default();
        let (had, has) = (kept.record().merges, self.record().merges);
        let done = usize::try_from(has.saturating_sub(had)).unwrap_or(usize::MAX);
        for group in kept.groups().iter().skip(done) {
            let merge = self.record().merges + 1;
            let over = self.merge_group(merge, group)?;
            self.machine.merged(merge, group.used);
            merged.count(group, over);
        }
        self.void_stored();
        self.learn_anew()?;
        Ok(merged)
    }

    /// Forgets what is known of the subtree and begins with what the rank has by now.
    fn learn_anew(&mut self) -> FsResult<()> {
        let what = SubtreeOp::resume(self.record());
        let answer = self.ask(what)?;
        let (record, root, settings) = told(&self.client, answer)?;
        self.machine = loligo_subtree::Subtree::new(settings, record, root);
        Ok(())
    }

    fn merge_group(&mut self, merge: u64, group: &Group) -> FsResult<(u64, Vec<Conflict>)> {
        let (mut tries, mut full) = (0, 0);
        let mut last = FsError::WouldBlock;
        while tries < TRIES {
            let tried = self.try_merge(merge, group);
            tries += usize::from(!matches!(tried, Err(FsError::NoSpace)));
            match tried {
                Ok(over) => return Ok(over),
                Err(FsError::NoSpace) if full < TRIES_FULL => {
                    std::thread::sleep(Duration::from_millis(FULL_PAUSE_MS << full));
                    full += 1;
                }
                // This life of the rank does not know what was sent, or not who this is.
                Err(FsError::WouldBlock) => last = FsError::WouldBlock,
                Err(FsError::Stale) => {
                    self.go_on()?;
                    last = FsError::Stale;
                }
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    fn try_merge(&mut self, merge: u64, group: &Group) -> FsResult<(u64, Vec<Conflict>)> {
        let (dir, epoch) = (self.root(), self.record().epoch);
        let (to, from) = channel::<CallResult>();
        let (mut sent, mut done) = (0, 0);
        // After an error what was sent is still answered.
        let mut result = Ok(());
        while done < sent || (sent < group.parts.len() && result.is_ok()) {
            while sent < group.parts.len() && sent - done < PARTS_IN_FLIGHT && result.is_ok() {
                let (to, body) = (to.clone(), group.parts[sent].clone());
                let part = u32::try_from(sent).map_err(|_| FsError::Quota)?;
                let what = Box::new(SubtreeOp::Part { epoch, merge, part, blind: self.blind, body });
                // Who waits has gone only if this thread panicked.
                self.client.submit(&self.cred, Call::Op(Op::Control(Control::Subtree { dir, what })), move |result| {
                    _ = to.send(result)
                });
                sent += 1;
            }
            let answer = from.recv().map_err(|_| FsError::Io)?;
            done += 1;
            if let Err(failed) = answer
                && result.is_ok()
            {
                result = Err(failed.error);
            }
        }
        result?;
        let parts = u32::try_from(group.parts.len()).map_err(|_| FsError::Quota)?;
        let what = SubtreeOp::Merge { epoch, merge, parts, used: group.used, into: self.into };
        match ask(&self.client, &self.cred, dir, what)? {
            Answer::Subtree(answer) => match *answer {
                SubtreeAnswer::Merged { conflicts, told, .. } => Ok((conflicts, told)),
                _ => Err(FsError::Io),
            },
            _ => Err(FsError::Io),
        }
    }

    /// Ends it: from then on it is a directory like others, and whatever is asked of this is `Stale`. `NotEmpty` if something is
    /// outstanding, or in the store of what another process made: merge it first, or [`Subtree::abandon`] it.
    pub fn recouple(&mut self) -> FsResult<()> {
        self.nothing_left_behind()?;
        if self.outstanding().changes > 0 { Err(FsError::NotEmpty) } else { self.abandon() }
    }

    /// Ends it without what is outstanding. What was persisted stays on this machine's disk, and not in the store.
    pub fn abandon(&mut self) -> FsResult<()> {
        let epoch = self.record().epoch;
        self.ask(SubtreeOp::End { epoch })?;
        // An operation would be decided here, and never be anybody's.
        self.doubt.store(true, Ordering::Release);
        Ok(())
    }
}

/// The result of a merge.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Merged {
    /// Steps in which it became true.
    pub steps: u64,
    /// Records of the journal.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Number of conflicts with changes that others made meanwhile, where they might ([`Interfere::Allow`]). If the rank died after the
    /// merge and before it was heard, those are not counted; what was kept is in the root's directory `.conflicts` all the same.
    pub conflicts: u64,
    /// The first of them.
    pub told: Vec<Conflict>,
}

impl Merged {
    fn count(&mut self, group: &Group, (conflicts, told): (u64, Vec<Conflict>)) {
        self.conflicts += conflicts;
        let room = CONFLICTS_TOLD_MAX.saturating_sub(self.told.len());
        self.told.extend(told.into_iter().take(room));
        self.steps += 1;
        self.records += group.parts.len() as u64;
        self.bytes += group.bytes;
    }
}

fn ask(client: &Client, cred: &Arc<Cred>, dir: Ino, what: SubtreeOp) -> FsResult<Answer> {
    let call = Call::Op(Op::Control(Control::Subtree { dir, what: Box::new(what) }));
    client.call(cred, call).map(|done| done.answer).map_err(|failed| failed.error)
}

/// The record, the root and the settings from a rank's answer to the owner of a subtree.
fn told(client: &Client, answer: Answer) -> FsResult<(DecoupledRecord, Inode, Settings)> {
    let Answer::Subtree(answer) = answer else { return Err(FsError::Io) };
    match *answer {
        SubtreeAnswer::Decoupled { record, root, inline_max, split } => {
            Ok((record, *root, Settings { hash_key: client.welcome().hash_key, inline_max, split }))
        }
        SubtreeAnswer::Refused { by, .. } => Err(by.error()),
        _ => Err(FsError::Io),
    }
}

fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}
