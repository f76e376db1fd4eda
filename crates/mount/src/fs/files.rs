//! Open files: open, create, read, write, flush, sync, space.
//!
//! A file is open in *cached mode* (the kernel reads and writes through its page cache) if the client has the right to
//! cache it, else in direct mode. A handle cannot change its mode: when the right is lost while handles are in cached
//! mode, its attributes are not cached either, and the kernel compares them with those of its pages before each read;
//! besides, the pages that each later read or write leaves behind are dropped right after it was answered, which is what
//! a shared mapping depends on.
//!
//! Around the page cache, pages are dropped by the mount: after a write with O_DIRECT, or through a handle in direct mode, before it is
//! answered, because the kernel does so for synchronous ones only, and before they are written; and before a search for data and holes,
//! because a page that was written through a mapping is known to the kernel alone.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use loligo_client::{Call, CallResult, Done, Fallocate, Fh};
use loligo_fuse::{
    self as fuse, Errno, ReplyCopied, ReplyCreate, ReplyData, ReplyEmpty, ReplyLseek, ReplyOpen, ReplyWrite, WriteFlags,
};
use loligo_types::{Answer, FsError, Ino, Lease, LockOwner, Name, OpenFlags, SetAttr};

use super::names::bits;
use crate::convert::{self, ttl};
use crate::core::{Asked, Core, Handle};
use crate::cred;
use crate::submit::Submit;
use crate::table::guard;

/// Most bytes of one copy_file_range, so that a signal does not wait long. Callers go on after a short copy.
const COPY_MAX: u64 = 64 << 20;

/// Options of creating a file, or opening it if it exists.
pub(crate) struct Create {
    pub mode: u32,
    pub umask: u32,
    /// Of `open(2)`.
    pub flags: i32,
    /// The caller has no CAP_FSETID.
    pub kill_priv: bool,
}

/// Answer to the kernel about an opened file.
struct Opened {
    handle: u64,
    flags: fuse::OpenFlags,
}

impl<S: Submit> Core<S> {
    fn opened(&self, asked: Asked, ino: Ino, done: &Done, flags: OpenFlags) -> Option<Opened> {
        let (Answer::Opened { rights, .. }, Some(fh)) = (&done.answer, done.fh) else { return None };
        // In cached mode the kernel may cut one write in two at the border of a page, and another's append gets between.
        let may_cache = rights.has(Lease::CACHE) && !(flags.write && flags.append);
        let cached = may_cache && self.kernel.table.open_cached(ino, asked.start);
        let (read_only, mappable) = (!flags.write, flags.read && flags.write);
        if mappable {
            self.kernel.table.open_mappable(ino);
        }
        let flags = match (cached, done.keep_data) {
            (false, _) => fuse::OpenFlags::DIRECT_IO,
            (true, true) => fuse::OpenFlags::KEEP_CACHE,
            (true, false) => fuse::OpenFlags::NONE,
        };
        Some(Opened { handle: Handle { fh, cached, read_only, mappable }.encode(), flags })
    }

    pub fn open(self: &Arc<Self>, asked: Asked, ino: Ino, flags: i32, kill_priv: bool, reply: ReplyOpen) {
        let core = self.clone();
        let flags = convert::open_flags(flags);
        self.send(asked, Call::Open { ino, flags }, move |result| {
            let keeps = core.clone();
            keeps.cut_by_open(asked, kill_priv, result, move |result| match result {
                Ok(done) => match core.opened(asked, ino, &done, flags) {
                    Some(opened) => {
                        if flags.truncate {
                            // The kernel takes no attributes from this answer.
                            core.setid_may_have_gone(ino);
                            core.kernel.table.ends(ino, 0);
                        }
                        reply.opened(opened.handle, opened.flags);
                    }
                    None => reply.error(core.odd(asked.op)),
                },
                Err(failed) => reply.error(core.errno(asked.op, failed.error)),
            });
        });
    }

    /// An open may have cut the file. The server ends setuid and setgid then, but not in the name of root: so that is asked for if root has no
    /// CAP_FSETID (`kill_priv`).
    fn cut_by_open<F>(self: &Arc<Self>, asked: Asked, kill_priv: bool, result: CallResult, done: F)
    where
        F: FnOnce(CallResult) + Send + 'static,
    {
        let opened = match result {
            Ok(opened) => opened,
            failed => return done(failed),
        };
        let kept = opened.attr().filter(|attr| kill_priv && convert::has_setid(attr)).map(|attr| attr.ino);
        let Some(ino) = kept else { return done(Ok(opened)) };
        let set = SetAttr { kill_priv: true, ..SetAttr::default() };
        let core = self.clone();
        self.send(asked, Call::SetAttr { ino, set, fh: opened.fh }, move |result| match result {
            Ok(killed) => {
                let mut opened = opened;
                if let (Answer::Opened { attr, .. }, Some(new)) = (&mut opened.answer, killed.attr()) {
                    *attr = *new;
                }
                opened.attr_cached &= killed.attr_cached;
                done(Ok(opened));
            }
            Err(failed) => {
                if let Some(fh) = opened.fh {
                    core.send(asked, Call::Release { fh, flock_owner: None }, |_| ());
                }
                done(Err(failed));
            }
        });
    }

    pub fn create(self: &Arc<Self>, asked: Asked, dir: Ino, text: &[u8], how: Create, reply: ReplyCreate) {
        let Create { mode, umask, flags: raw_flags, kill_priv } = how;
        let name = match Name::new(text) {
            Ok(name) => name,
            Err(error) => return reply.error(self.errno(asked.op, error)),
        };
        let flags = convert::open_flags(raw_flags);
        let exclusive = raw_flags & libc::O_EXCL != 0;
        let known = name.clone();
        let call = Call::Create { dir, name, mode: bits(mode), umask: bits(umask), flags, exclusive };
        let core = self.clone();
        self.send(asked, call, move |result| {
            let keeps = core.clone();
            keeps.cut_by_open(asked, kill_priv, result, move |result| {
                core.created(asked, result, flags, Some((dir, &known)), reply);
            });
        });
    }

    /// An open file without a name, which a link may give it.
    #[allow(clippy::too_many_arguments)]
    pub fn tmpfile(
        self: &Arc<Self>,
        asked: Asked,
        dir: Ino,
        mode: u32,
        umask: u32,
        raw_flags: i32,
        reply: ReplyCreate,
    ) {
        let flags = convert::open_flags(raw_flags);
        let linkable = raw_flags & libc::O_EXCL == 0;
        let call = Call::Tmpfile { dir, mode: bits(mode), umask: bits(umask), flags, linkable };
        let core = self.clone();
        self.send(asked, call, move |result| core.created(asked, result, flags, None, reply));
    }

    fn created(
        &self,
        asked: Asked,
        result: CallResult,
        flags: OpenFlags,
        place: Option<(Ino, &Name)>,
        reply: ReplyCreate,
    ) {
        let done = match result {
            Ok(done) => done,
            Err(failed) => return reply.error(self.errno(asked.op, failed.error)),
        };
        let Some(attr) = done.attr() else { return reply.error(self.odd(asked.op)) };
        let attrs = self.kernel.table.told(attr, done.attr_cached, asked.start);
        let Some(opened) = self.opened(asked, attr.ino, &done, flags) else {
            return reply.error(self.odd(asked.op));
        };
        // Both the name and the attributes are cached, or neither.
        let cached =
            attrs && done.names_cached && place.is_some_and(|(dir, name)| self.believe(asked, dir, name.as_bytes()));
        let name_ttl = self.kernel.name_ttl(cached);
        reply.created(ttl(cached), name_ttl, &convert::file_attr(attr), opened.handle, opened.flags);
        if cached {
            self.kernel.believed.answered(asked.who.pid, asked.unique);
        }
    }

    /// `fills`: the kernel makes pages of it. Those of a file that others may write are dropped after it, so that a mapping follows what
    /// they write; what they held is kept, so that of a page that a mapping changes only the changes are written.
    pub fn read(
        self: &Arc<Self>,
        asked: Asked,
        ino: Ino,
        fh: u64,
        (offset, len): (u64, u32),
        fills: bool,
        reply: ReplyData,
    ) {
        let handle = Handle::decode(fh);
        let core = self.clone();
        self.send(asked, Call::Read { fh: handle.fh, offset, len }, move |result| match result {
            Ok(Done { answer: Answer::Bytes(bytes), .. }) => {
                let drops = if handle.cached { core.kernel.table.is_uncached(ino) } else { fills };
                if drops && fills {
                    core.kernel.table.page_of_others(ino);
                }
                match drops && fills {
                    true => core.kernel.twins.fill(ino, offset, len, &bytes),
                    false if fills => core.kernel.twins.drop_range(ino, offset, u64::from(len.max(1))),
                    false => {}
                }
                if fills && (bytes.len() as u64) < u64::from(len) {
                    core.kernel.table.ends(ino, offset + bytes.len() as u64);
                }
                core.bytes.read(bytes.len() as u64);
                reply.data(&bytes);
                match drops {
                    true if handle.cached => core.drop_pages(ino, offset, u64::from(len)),
                    true => core.drop_pages_later(ino),
                    false => {}
                }
            }
            Ok(_) => reply.error(core.odd(asked.op)),
            Err(failed) => reply.error(core.errno(asked.op, failed.error)),
        });
    }

    #[allow(clippy::too_many_arguments)]
    pub fn write(
        self: &Arc<Self>,
        asked: Asked,
        ino: Ino,
        fh: u64,
        offset: u64,
        data: &[u8],
        how: WriteFlags,
        open_flags: i32,
        reply: ReplyWrite,
    ) {
        let handle = Handle::decode(fh);
        if how.cache {
            self.kernel.table.page(ino);
            return self.write_back(asked, ino, fh, offset, data, how.kill_priv, reply);
        }
        let append = open_flags & libc::O_APPEND != 0;
        let kill_priv = how.kill_priv;
        if !how.direct {
            self.kernel.table.page(ino);
            self.kernel.twins.patch(ino, offset, data);
        }
        let call = Call::Write { fh: handle.fh, offset, data: data.into(), append, kill_priv };
        let core = self.clone();
        self.send(asked, call, move |result| match result {
            Ok(Done { answer: Answer::Offset(written), .. }) => {
                core.bytes.written(written);
                if kill_priv && core.kernel.table.setid(ino) {
                    // The kernel leaves the bits to us, and does not look again by itself.
                    core.kernel.attr_in_use(ino);
                }
                let rest = core.clone();
                let answer = move |synced: Result<(), Errno>| {
                    match synced {
                        Ok(()) => reply.written(u32::try_from(written).unwrap_or(u32::MAX)),
                        Err(errno) => reply.error(errno),
                    }
                    // Also of other handles, and wherever an append really went.
                    if rest.kernel.table.is_uncached(ino) {
                        rest.drop_pages(ino, 0, 0);
                    }
                };
                // What was read into pages while the write was under way may be older than it, and would stay. Whoever asks for pages
                // from now on gets what was written.
                let drops = how.direct && core.kernel.table.may_have_pages(ino);
                let end = core.clone();
                let finish = move |synced| match drops {
                    true => {
                        let len = if append { 0 } else { written };
                        end.drop_pages_first(ino, offset, len, Box::new(move || answer(synced)));
                    }
                    false => answer(synced),
                };
                match synchronous(handle, how, open_flags) {
                    Some(data_only) if written > 0 => core.sync_written(asked, handle.fh, data_only, finish),
                    _ => finish(Ok(())),
                }
            }
            Ok(_) => reply.error(core.odd(asked.op)),
            Err(failed) => reply.error(core.errno(asked.op, failed.error)),
        });
    }

    /// Makes durable what was written, before the write is answered.
    fn sync_written<F>(self: &Arc<Self>, asked: Asked, fh: Fh, data_only: bool, done: F)
    where
        F: FnOnce(Result<(), Errno>) + Send + 'static,
    {
        let (core, begun) = (self.clone(), Instant::now());
        self.send(asked, Call::Fsync { fh, data_only }, move |result| {
            core.fsynced(begun);
            done(result.map(drop).map_err(|failed| core.errno(asked.op, failed.error)));
        });
    }

    fn fsynced(&self, begun: Instant) {
        self.fsync.add(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }

    fn wrote(&self, ino: Ino, kill_priv: bool, written: u64, reply: ReplyWrite) {
        self.bytes.written(written);
        if kill_priv && self.kernel.table.setid(ino) {
            // The kernel leaves the bits to us, and does not look again by itself.
            self.kernel.attr_in_use(ino);
        }
        reply.written(u32::try_from(written).unwrap_or(u32::MAX));
        // Also of other handles, and wherever an append really went.
        if self.kernel.table.is_uncached(ino) {
            self.drop_pages(ino, 0, 0);
        }
    }

    /// Pages that a mapping has changed. They have their place, also in a file that is open for appending. Of those that several mounts may write only
    /// what was changed.
    #[allow(clippy::too_many_arguments)]
    fn write_back(
        self: &Arc<Self>,
        asked: Asked,
        ino: Ino,
        fh: u64,
        offset: u64,
        data: &[u8],
        kill_priv: bool,
        reply: ReplyWrite,
    ) {
        let fh = Handle::decode(fh).fh;
        let len = data.len() as u64;
        let parts = self.kernel.twins.changed(ino, offset, data);
        if parts.is_empty() {
            return self.wrote(ino, false, len, reply);
        }
        let state = Arc::new(Mutex::new((parts.len(), None, Some(reply))));
        for part in parts {
            let (state, core) = (state.clone(), self.clone());
            let (offset_of, data) = (offset + part.start as u64, data[part].into());
            let call = Call::Write { fh, offset: offset_of, data, append: false, kill_priv };
            self.send(asked, call, move |result| {
                let mut state = guard(&state);
                state.0 -= 1;
                state.1 = state.1.or(result.err().map(|failed| failed.error));
                let last = if state.0 == 0 { state.2.take() } else { None };
                let Some(reply) = last else { return };
                match state.1 {
                    None => core.wrote(ino, kill_priv, len, reply),
                    Some(error) => {
                        // What is there now is not known.
                        core.kernel.twins.drop_range(ino, offset, len);
                        reply.error(core.errno(asked.op, error));
                    }
                }
            });
        }
    }

    pub fn flush(self: &Arc<Self>, asked: Asked, ino: Ino, fh: u64, owner: u64, reply: ReplyEmpty) {
        let handle = Handle::decode(fh);
        let locked = self.kernel.table.ever_locked(ino);
        if handle.read_only && !locked {
            return reply.ok();
        }
        let owner = locked.then_some(LockOwner(owner));
        self.empty(asked, Call::Flush { fh: handle.fh, owner }, reply);
    }

    pub fn release(self: &Arc<Self>, asked: Asked, ino: Ino, fh: u64, flock: Option<u64>, reply: ReplyEmpty) {
        let handle = Handle::decode(fh);
        if handle.cached {
            self.kernel.table.close_cached(ino);
        }
        if handle.mappable {
            self.kernel.table.close_mappable(ino);
        }
        self.empty(asked, Call::Release { fh: handle.fh, flock_owner: flock.map(LockOwner) }, reply);
    }

    pub fn fsync(self: &Arc<Self>, asked: Asked, fh: u64, data_only: bool, reply: ReplyEmpty) {
        let (core, begun) = (self.clone(), Instant::now());
        self.send(asked, Call::Fsync { fh: Handle::decode(fh).fh, data_only }, move |result| match result {
            Ok(_) => {
                core.fsynced(begun);
                reply.ok();
            }
            Err(failed) => reply.error(core.errno(asked.op, failed.error)),
        });
    }

    #[allow(clippy::too_many_arguments)]
    pub fn fallocate(
        self: &Arc<Self>,
        asked: Asked,
        ino: Ino,
        fh: u64,
        offset: u64,
        len: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let how = match fallocate_mode(mode) {
            Ok(how) => how,
            Err(error) => return reply.error(self.errno(asked.op, error)),
        };
        let core = self.clone();
        let kill_priv = self.ends_setid(asked, ino);
        let call = Call::Fallocate { fh: Handle::decode(fh).fh, how, offset, len, kill_priv };
        self.send(asked, call, move |result| match result {
            Ok(_) => {
                core.setid_may_have_gone(ino);
                reply.ok();
            }
            Err(failed) => reply.error(core.errno(asked.op, failed.error)),
        });
    }

    #[allow(clippy::too_many_arguments)]
    pub fn seek(self: &Arc<Self>, asked: Asked, ino: Ino, fh: u64, offset: u64, whence: i32, reply: ReplyLseek) {
        let data = match whence {
            libc::SEEK_DATA => true,
            libc::SEEK_HOLE => false,
            _ => return reply.error(self.errno(asked.op, FsError::Invalid)),
        };
        if offset > i64::MAX as u64 {
            // A negative one: nothing is there, as Linux' own file systems have it.
            return reply.error(self.errno(asked.op, FsError::NoSuchOffset));
        }
        let core = self.clone();
        let call = Call::Seek { fh: Handle::decode(fh).fh, offset, data };
        let ask = move || {
            let ours = core.clone();
            core.send(asked, call, move |result| match result {
                Ok(Done { answer: Answer::Offset(at), .. }) => reply.offset(at.min(i64::MAX as u64)),
                Ok(_) => reply.error(ours.odd(asked.op)),
                // The same kind means "no such xattr" elsewhere.
                Err(failed) if failed.error == FsError::NoData => {
                    reply.error(ours.errno(asked.op, FsError::NoSuchOffset));
                }
                Err(failed) => reply.error(ours.errno(asked.op, failed.error)),
            });
        };
        if self.kernel.table.may_have_dirty_pages(ino) {
            // What is before the offset does not matter.
            self.drop_pages_first(ino, offset, 0, Box::new(ask));
        } else {
            ask();
        }
    }

    pub fn copy(
        self: &Arc<Self>,
        asked: Asked,
        (from, from_offset): (u64, u64),
        (to_ino, to, to_offset): (Ino, u64, u64),
        len: u64,
        wide: bool,
        reply: ReplyCopied,
    ) {
        let fh = |handle: u64| -> Fh { Handle::decode(handle).fh };
        let (len, kill_priv) = (len.min(COPY_MAX), self.ends_setid(asked, to_ino));
        let call = Call::Copy { from: fh(from), from_offset, to: fh(to), to_offset, len, kill_priv };
        // The request is about the file that is read.
        let asked = Asked { setid: self.kernel.table.setid(to_ino), ..asked };
        let core = self.clone();
        self.send(asked, call, move |result| match result {
            Ok(Done { answer: Answer::Offset(copied), .. }) => {
                core.setid_may_have_gone(to_ino);
                reply.copied(copied, wide);
            }
            Ok(_) => reply.error(core.odd(asked.op)),
            Err(failed) => reply.error(core.errno(asked.op, failed.error)),
        });
    }

    /// True if a change of the content clears setuid and setgid: not if the caller has CAP_FSETID. The kernel says so for writes, but not
    /// for fallocate and copy_file_range. The capability is looked up only for root, or if the file may have such a bit; otherwise the
    /// result is true, and there is no bit to clear.
    fn ends_setid(&self, asked: Asked, ino: Ino) -> bool {
        let matters = asked.who.uid == 0 || self.kernel.table.setid(ino);
        !matters || !cred::may(asked.who, cred::FSETID)
    }

    /// The content changed by other means than a write.
    fn setid_may_have_gone(&self, ino: Ino) {
        if self.kernel.table.setid(ino) {
            self.kernel.attr_in_use(ino);
        }
    }
}

/// The sync that the mount owes a write with O_SYNC or O_DSYNC (also RWF_SYNC and RWF_DSYNC): true if only the data need be durable. `None`: the kernel asks
/// for the sync itself, as it does for a write through its cache, or none is asked for. Around its cache (O_DIRECT) it asks after a write that the program
/// waits for, and never after an asynchronous one (io_submit, io_uring). The two look the same here; a second sync finds nothing to do.
fn synchronous(handle: Handle, how: WriteFlags, open_flags: i32) -> Option<bool> {
    let is_sync = open_flags & libc::O_SYNC == libc::O_SYNC;
    let is_ours = !handle.cached || how.direct;
    (is_ours && open_flags & libc::O_DSYNC != 0).then_some(!is_sync)
}

fn fallocate_mode(mode: i32) -> Result<Fallocate, FsError> {
    const KEEP: i32 = libc::FALLOC_FL_KEEP_SIZE;
    const PUNCH: i32 = libc::FALLOC_FL_PUNCH_HOLE | KEEP;
    const ZERO: i32 = libc::FALLOC_FL_ZERO_RANGE;
    const ZERO_KEEP: i32 = ZERO | KEEP;
    match mode {
        0 => Ok(Fallocate::Allocate { keep_size: false }),
        KEEP => Ok(Fallocate::Allocate { keep_size: true }),
        PUNCH => Ok(Fallocate::PunchHole),
        ZERO => Ok(Fallocate::ZeroRange { keep_size: false }),
        ZERO_KEEP => Ok(Fallocate::ZeroRange { keep_size: true }),
        _ => Err(FsError::NotSupported),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_of_fallocate_that_move_data_are_not_supported() {
        assert_eq!(fallocate_mode(0), Ok(Fallocate::Allocate { keep_size: false }));
        assert_eq!(fallocate_mode(3), Ok(Fallocate::PunchHole));
        assert_eq!(fallocate_mode(libc::FALLOC_FL_COLLAPSE_RANGE), Err(FsError::NotSupported));
        assert_eq!(fallocate_mode(libc::FALLOC_FL_PUNCH_HOLE), Err(FsError::NotSupported));
    }
}
