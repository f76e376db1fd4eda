//! The part of a decoupled subtree's journal that is kept in the store ("global persist", Cudele §6.2), and its recovery by another client
//! when the owner is gone. Not here: the form of the journal (`form.rs`), and the owner of the subtree, which the rank decides.
//!
//! The journal is an object, under one of two numbers that are reserved for it. It is written with ordinary data requests, several at once, and
//! synced; then the rank puts down which of the two counts, and how many bytes of it. So what is written beyond that, or beside it, is nothing
//! until it counts: whoever dies meanwhile leaves what was registered before.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use loligo_journal::{FileError, Source};
use loligo_subtree::Group;
use loligo_types::limits::DATA_OP_MAX;
use loligo_types::{Answer, Cred, DataOp, DecoupledRecord, FsError, FsResult, Ino, StoredJournal, SubtreeOp};

use super::form::{Growing, KeptError, Place, Sink};
use super::kept::Kept;
use super::{Subtree, SubtreeOptions, TRIES, told};
use crate::client::{Call, CallResult, Client, Fs};

/// Data requests that are on their way at once.
const IN_FLIGHT: usize = 4;
/// A group that no inode has: what the owner of a subtree was a member of is not known to whoever merges in its name.
const NO_GROUP: u32 = u32::MAX;

/// The journal in the store, as this process writes it: as far as it is registered.
pub(super) struct Stored {
    ino: Ino,
    /// `None`: something that failed may come late, so nothing is added to it.
    form: Option<Growing>,
}

/// Bytes on their way into an object.
struct Flow<'a> {
    client: &'a Client,
    cred: &'a Arc<Cred>,
    ino: Ino,
    offset: u64,
    flying: usize,
    to: Sender<CallResult>,
    from: Receiver<CallResult>,
}

/// Why they do not go there.
struct Stopped(FsError);

impl From<io::Error> for Stopped {
    /// A record that is too long for any journal.
    fn from(_: io::Error) -> Stopped {
        Stopped(FsError::FileTooBig)
    }
}

impl Sink for Flow<'_> {
    type Error = Stopped;

    fn take(&mut self, bytes: Vec<u8>) -> Result<(), Stopped> {
        for piece in bytes.chunks(DATA_OP_MAX) {
            while self.flying >= IN_FLIGHT {
                self.answer()?;
            }
            let op = DataOp::Write { offset: self.offset, data: piece.into() };
            let (to, call) = (self.to.clone(), Call::Data { ino: self.ino, op });
            // Who waits has gone only if this thread panicked.
            self.client.submit(self.cred, call, move |result| _ = to.send(result));
            self.flying += 1;
            self.offset += piece.len() as u64;
        }
        Ok(())
    }
}

impl<'a> Flow<'a> {
    fn new(client: &'a Client, cred: &'a Arc<Cred>, ino: Ino, offset: u64) -> Flow<'a> {
        let (to, from) = channel();
        Flow { client, cred, ino, offset, flying: 0, to, from }
    }

    /// One of them has come, or not.
    fn answer(&mut self) -> Result<(), Stopped> {
        let answer = self.from.recv().map_err(|_| Stopped(FsError::Io))?;
        self.flying -= 1;
        answer.map(drop).map_err(|failed| Stopped(failed.error))
    }

    /// All of them are durable. `begun`: whether all could be sent. None is on its way any more, in any case.
    fn end(mut self, begun: Result<(), Stopped>) -> FsResult<()> {
        let mut result = begun;
        while self.flying > 0 {
            let answer = self.answer();
            result = result.and(answer);
        }
        result.map_err(|stopped| stopped.0)?;
        raw(self.client, self.cred, self.ino, DataOp::Sync).map(drop)
    }
}

fn raw(client: &Client, cred: &Arc<Cred>, ino: Ino, op: DataOp) -> FsResult<Answer> {
    client.call(cred, Call::Data { ino, op }).map(|done| done.answer).map_err(|failed| failed.error)
}

impl Stored {
    /// The oldest group is merged, and not counted any more.
    pub(super) fn one_is_merged(&mut self) {
        self.form.iter_mut().for_each(Growing::one_is_merged);
    }
}

impl Subtree {
    /// Keeps all that is outstanding in the store, durably: when this returns it survives the crash of this process, of its machine and of the
    /// server. The first time it begins a journal there, later it adds to that. After a crash: [`Subtree::resume_stored`],
    /// [`Subtree::stored`], [`Subtree::merge_kept`].
    ///
    /// `NotEmpty` if there is a journal of before in the store that was not merged: it would be lost. `Stale` if the subtree was taken
    /// from this client. After an error what was kept before counts, or all.
    pub fn persist_global(&mut self) -> FsResult<()> {
        self.nothing_left_behind()?;
        let (record, groups) = (self.machine.record().clone(), self.machine.groups());
        let mut last = FsError::Stale;
        for _ in 0..TRIES {
            match self.try_store(&record, &groups) {
                // The rank, or this client, has another life. What was written and not synced may be lost: it is written again.
                Err(FsError::Stale) => last = FsError::Stale,
                Err(error) => {
                    self.stored.iter_mut().for_each(|stored| stored.form = None);
                    return Err(error);
                }
                Ok(()) => return Ok(()),
            }
            self.go_on()?;
        }
        Err(last)
    }

    fn try_store(&mut self, record: &DecoupledRecord, groups: &[Group]) -> FsResult<()> {
        let counts = self.allow_journal()?;
        let (ino, mut form, begin) = match &self.stored {
            Some(Stored { ino, form: Some(form) }) => (*ino, form.clone(), Vec::new()),
            _ => {
                // Something for the one that was written last may still be under way.
                let taken = counts.map(|counts| counts.ino).or(self.last);
                let free = record.journal_inos().into_iter().find(|ino| Some(*ino) != taken);
                let fs = self.client.welcome().fs_id;
                let (form, begin) = Growing::begin(fs, record).map_err(|_| FsError::FileTooBig)?;
                (free.ok_or(FsError::Io)?, form, begin)
            }
        };
        self.last = Some(ino);
        let is_new = !begin.is_empty();
        let before = if is_new { 0 } else { form.bytes() };
        let mut flow = Flow::new(&self.client, &self.cred, ino, before);
        let sent = flow.take(begin).and_then(|()| form.add_new(record, groups, &mut flow));
        if sent.is_ok() && flow.offset == before {
            return Ok(());
        }
        flow.end(sent)?;
        form.synced();
        let bytes = form.bytes();
        if is_new {
            // If it fails it may be registered all the same.
            self.stored = Some(Stored { ino, form: None });
        }
        self.register(StoredJournal { ino, bytes })?;
        self.stored = Some(Stored { ino, form: Some(form) });
        if let Some(old) = counts.filter(|counts| counts.ino != ino) {
            self.drop_bytes(old.ino);
        }
        Ok(())
    }

    /// Lets this session reach the journal's objects; which of them counts.
    fn allow_journal(&mut self) -> FsResult<Option<StoredJournal>> {
        let record = self.record();
        let (epoch, inos) = (record.epoch, record.journal_inos().to_vec());
        let answer = self.ask(SubtreeOp::Data { epoch, inos })?;
        Ok(told(&self.client, answer)?.0.journal)
    }

    /// Has the rank put down that so much of it counts; 0: nothing.
    fn register(&mut self, journal: StoredJournal) -> FsResult<()> {
        let epoch = self.record().epoch;
        self.ask(SubtreeOp::Keep { epoch, journal }).map(drop)
    }

    /// Frees the space of one that does not count. If that fails it goes with the end of the decoupling.
    fn drop_bytes(&self, ino: Ino) {
        let _ = raw(&self.client, &self.cred, ino, DataOp::Discard { from: 0 });
    }

    /// All that was made is merged: nothing of a journal in the store counts any more. If that cannot be said, whoever reads it sees by
    /// its numbers that it is merged.
    pub(super) fn void_stored(&mut self) {
        let (stored, left) = (self.stored.take().map(|stored| stored.ino), self.left.take().map(|left| left.ino));
        let Some(ino) = stored.or(left) else { return };
        if self.register(StoredJournal { ino, bytes: 0 }).is_ok() && self.allow_journal().is_ok() {
            self.record().journal_inos().into_iter().for_each(|ino| self.drop_bytes(ino));
        }
    }

    /// Refuses if an earlier journal must be merged first, because the new one would be taken for it.
    pub(super) fn nothing_left_behind(&self) -> FsResult<()> {
        if self.left.is_some() { Err(FsError::NotEmpty) } else { Ok(()) }
    }

    /// Goes on with one whose owner is gone, and has kept its journal in the store: takes it over, to merge that ([`Subtree::stored`],
    /// [`Subtree::merge_kept`]) or to give it up ([`Subtree::abandon`]). Its user and root may; what root merges, it merges with its
    /// user's rights, and those of no group. From then on the owner of before has lost it.
    ///
    /// `Busy` if the owner is there, or was not away for as long as its lease; `NotFound` if it is not decoupled, or nothing of it is in the
    /// store; `Perm` if it is another user's.
    pub fn resume_stored(fs: &Fs, path: impl AsRef<Path>, options: &SubtreeOptions) -> FsResult<Subtree> {
        Subtree::resume_stored_of(fs, fs.stat(path)?.ino, options)
    }

    /// The same of a directory that is known by its number.
    pub fn resume_stored_of(fs: &Fs, dir: Ino, options: &SubtreeOptions) -> FsResult<Subtree> {
        Subtree::take_over(fs, dir, options, false)
    }

    /// Takes a subtree from its owner at once: whether that is here or may come back, and whether or not anything of it is in the store. Root's
    /// alone: `Perm`. What the owner has not merged or kept is lost to the others; if it is here, it is told so with its next request.
    /// `NotFound` if it is not decoupled.
    pub fn take_now(fs: &Fs, dir: Ino, options: &SubtreeOptions) -> FsResult<Subtree> {
        Subtree::take_over(fs, dir, options, true)
    }

    fn take_over(fs: &Fs, dir: Ino, options: &SubtreeOptions, now: bool) -> FsResult<Subtree> {
        let owner = RandomState::new().build_hasher().finish() | 1;
        let mut subtree = Subtree::with(fs, dir, SubtreeOp::TakeOver { owner, now }, options)?;
        let uid = subtree.record().uid;
        if uid != subtree.cred.uid {
            // Its user wrote what is merged: it must not be able to do by that what only root may.
            subtree.cred = Arc::new(Cred { uid, gid: NO_GROUP, groups: Vec::new() });
        }
        Ok(subtree)
    }

    /// The journal in the store of which the rank says that it counts; `None` if there is none, or all of it is merged. It is not read if a byte of it
    /// is not as it was written.
    pub fn stored(&mut self) -> Result<Option<Kept>, KeptError> {
        let dir = self.root();
        let mut place = Place::Store { dir, ino: Ino(self.record().epoch) };
        let mut last = FsError::Stale;
        for _ in 0..TRIES {
            let counts = self.allow_journal().map_err(|error| unreadable(&place, error))?;
            let Some(StoredJournal { ino, bytes }) = counts else { return Ok(None) };
            place = Place::Store { dir, ino };
            let mut object = Object {
                client: &self.client,
                cred: &self.cred,
                ino,
                len: bytes,
                at: 0,
                ahead: Vec::new(),
                failed: None,
            };
            let read = Kept::from_source(&mut object, place.clone());
            match object.failed {
                Some(FsError::Stale) => last = FsError::Stale,
                Some(error) => return Err(unreadable(&place, error)),
                None => return self.checked(read?).map(Some),
            }
            self.go_on().map_err(|error| unreadable(&place, error))?;
        }
        Err(unreadable(&place, last))
    }

    /// Checks that a journal is complete, and of this subtree.
    fn checked(&self, kept: Kept) -> Result<Kept, KeptError> {
        let place = kept.place().clone();
        let (is, here) = (kept.record(), self.record());
        if (is.dir, is.epoch, kept.fs_id()) != (here.dir, here.epoch, self.client.welcome().fs_id) {
            return Err(KeptError::NotOfSubtree(place));
        }
        match kept.torn() {
            Some(torn) => Err(KeptError::Cut { place, bytes: torn.bytes }),
            None => Ok(kept),
        }
    }

    /// True if a journal in the store goes further than this one, so that the rest of it would be lost.
    pub(super) fn is_behind_stored(&mut self, kept: &Kept) -> FsResult<bool> {
        if self.left.is_none() || matches!(kept.place(), Place::Store { .. }) {
            return Ok(false);
        }
        match self.stored() {
            Ok(stored) => Ok(stored.is_some_and(|stored| stored.reach() > kept.reach())),
            Err(KeptError::File { error: FileError::Source(_), .. }) => Err(FsError::Io),
            // Nobody can use it.
            Err(_) => Ok(false),
        }
    }
}

fn unreadable(place: &Place, error: FsError) -> KeptError {
    KeptError::File { place: place.clone(), error: FileError::Source(io::Error::other(error)) }
}

/// An object of the store, read from front to back.
struct Object<'a> {
    client: &'a Client,
    cred: &'a Arc<Cred>,
    ino: Ino,
    len: u64,
    /// Bytes that were read ahead, and their offset.
    at: u64,
    ahead: Vec<u8>,
    failed: Option<FsError>,
}

impl Object<'_> {
    /// Reads some of it, in several requests at once.
    fn read_ahead(&mut self, offset: u64) -> FsResult<()> {
        let end = self.len.min(offset + (IN_FLIGHT * DATA_OP_MAX) as u64);
        let mut coming = Vec::new();
        let mut at = offset;
        while at < end {
            let len = u32::try_from((end - at).min(DATA_OP_MAX as u64)).unwrap_or(u32::MAX);
            let (to, from) = channel::<CallResult>();
            let call = Call::Data { ino: self.ino, op: DataOp::Read { offset: at, len } };
            self.client.submit(self.cred, call, move |result| _ = to.send(result));
            coming.push(from);
            at += u64::from(len);
        }
        (self.at, self.ahead) = (offset, Vec::new());
        for from in coming {
            let done = from.recv().map_err(|_| FsError::Io)?.map_err(|failed| failed.error)?;
            let Answer::Bytes(bytes) = done.answer else { return Err(FsError::Io) };
            self.ahead.extend_from_slice(&bytes);
        }
        Ok(())
    }
}

impl Source for Object<'_> {
    type Error = io::Error;

    fn list(&mut self) -> io::Result<Vec<(u64, u64)>> {
        Ok(vec![(0, self.len)])
    }

    fn read_at(&mut self, _: u64, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < buf.len() && offset + (done as u64) < self.len {
            let from = offset + done as u64;
            let is_here = from >= self.at && from < self.at + self.ahead.len() as u64;
            if !is_here && let Err(error) = self.read_ahead(from) {
                self.failed = Some(error);
                return Err(io::Error::other(error));
            }
            let Some(rest) = usize::try_from(from - self.at).ok().and_then(|skip| self.ahead.get(skip..)) else {
                break;
            };
            let some = rest.len().min(buf.len() - done);
            if some == 0 {
                break;
            }
            buf[done..done + some].copy_from_slice(&rest[..some]);
            done += some;
        }
        Ok(done)
    }
}
