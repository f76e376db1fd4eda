//! Open directories, read as a stream: a batch at a time, of which the kernel takes what fits its buffer.
//!
//! The kernel's own "readdirplus" is not used: it takes names in after the answer, without noticing that they were
//! invalidated meanwhile, so they could not be cached by it. Instead attributes are fetched in the same batches for the
//! client's cache, where the lookups that follow find them.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex};

use loligo_client::{Call, Done, Fh};
use loligo_fuse::{self as fuse, DirectoryBuffer, ReplyDirectory, ReplyEmpty, ReplyOpen};
use loligo_types::{Answer, DirEntry, Ino, OpenFlags};

use crate::convert::{OFFSET_DOT, OFFSET_DOTDOT, cookie_of, file_type, offset_of};
use crate::core::{Asked, Core, Handle};
use crate::submit::Submit;
use crate::table::guard;

/// Entries of one batch.
const BATCH: u32 = 1024;
/// Entries of one batch with attributes.
const BATCH_PLUS: u32 = 512;
/// Inode number of `..`, as libfuse shows it: the real one would cost a call that nobody needs.
const UNKNOWN_INO: u64 = 0xffff_ffff;
/// Directories that are remembered as being looked into.
const LOOKED_MAX: usize = 1024;

/// The stream of one open directory.
#[derive(Default)]
struct Stream {
    /// Fetched, and not yet taken by the kernel.
    ahead: VecDeque<DirEntry>,
    /// The offset that the first of them follows.
    offset: u64,
    /// Nothing comes after them.
    end: bool,
}

/// All open directories.
#[derive(Default)]
pub(crate) struct Dirs {
    streams: Mutex<HashMap<Fh, Arc<Mutex<Stream>>>>,
    /// Directories in which names were looked up since they were last read from: their reader wants attributes.
    looked: Mutex<HashSet<Ino>>,
}

impl Dirs {
    /// A name was looked up in a directory.
    pub fn looked_up(&self, dir: Ino) {
        let mut looked = guard(&self.looked);
        if looked.len() < LOOKED_MAX || looked.contains(&dir) {
            looked.insert(dir);
        }
    }

    fn wants_attributes(&self, dir: Ino) -> bool {
        let mut looked = guard(&self.looked);
        if looked.len() >= LOOKED_MAX {
            looked.clear();
        }
        looked.remove(&dir)
    }

    fn stream(&self, fh: Fh) -> Arc<Mutex<Stream>> {
        guard(&self.streams).entry(fh).or_default().clone()
    }

    fn close(&self, fh: Fh) {
        guard(&self.streams).remove(&fh);
    }
}

impl Stream {
    /// Gives entries to `add` until it says that they do not fit.
    ///
    /// Entries with equal cookies have no offsets of their own. All but the last of them carry the offset before the
    /// first, so that a reader who comes back there gets all of them again, and none is missed.
    fn fill(&mut self, mut add: impl FnMut(&DirEntry, u64) -> bool) {
        while let Some(entry) = self.ahead.front() {
            let last_of_equal = self.ahead.get(1).is_none_or(|next| next.cookie != entry.cookie);
            let offset = if last_of_equal { offset_of(entry.cookie) } else { self.offset.max(OFFSET_DOTDOT) };
            if add(entry, offset) {
                return;
            }
            self.ahead.pop_front();
            self.offset = offset;
        }
    }
}

impl<S: Submit> Core<S> {
    pub fn opendir(self: &Arc<Self>, asked: Asked, ino: Ino, reply: ReplyOpen) {
        let core = self.clone();
        let flags = OpenFlags { read: true, ..OpenFlags::default() };
        self.send(asked, Call::Open { ino, flags }, move |result| match result {
            Ok(Done { fh: Some(fh), .. }) => {
                reply.opened(
                    Handle { fh, cached: false, read_only: true, mappable: false }.encode(),
                    fuse::OpenFlags::NONE,
                );
            }
            Ok(_) => reply.error(core.odd(asked.op)),
            Err(failed) => reply.error(core.errno(asked.op, failed.error)),
        });
    }

    pub fn readdir(self: &Arc<Self>, asked: Asked, ino: Ino, fh: u64, offset: u64, room: u32, reply: ReplyDirectory) {
        let fh = Handle::decode(fh).fh;
        let mut buffer = DirectoryBuffer::new(room);
        if offset < OFFSET_DOT && buffer.add(ino.0, OFFSET_DOT, libc::S_IFDIR, b".")
            || offset < OFFSET_DOTDOT && buffer.add(UNKNOWN_INO, OFFSET_DOTDOT, libc::S_IFDIR, b"..")
        {
            return reply.entries(&buffer);
        }
        let offset = offset.max(OFFSET_DOTDOT);
        let shared = self.dirs.stream(fh);
        let mut stream = guard(&shared);
        // A new reader of an old handle starts afresh; anything else than going on is a seek.
        let goes_on = stream.offset == offset && offset != OFFSET_DOTDOT;
        if goes_on && (!stream.ahead.is_empty() || stream.end) {
            return answer(&mut stream, buffer, reply);
        }
        *stream = Stream { offset, ..Stream::default() };
        drop(stream);
        let plus = offset == OFFSET_DOTDOT || self.dirs.wants_attributes(ino);
        let limit = if plus { BATCH_PLUS } else { BATCH };
        let core = self.clone();
        let held = self.hold(ino);
        let call = Call::Readdir { fh, cookie: cookie_of(offset), limit, plus };
        self.send(asked, call, move |result| match result {
            Ok(Done { answer: Answer::Entries { entries, end, .. }, .. }) => {
                let mut stream = guard(&shared);
                *stream = Stream { ahead: entries.into(), offset, end };
                answer(&mut stream, buffer, reply);
                drop(held);
            }
            Ok(_) => reply.error(core.odd(asked.op)),
            Err(failed) => reply.error(core.errno(asked.op, failed.error)),
        });
    }

    pub fn releasedir(self: &Arc<Self>, asked: Asked, fh: u64, reply: ReplyEmpty) {
        let fh = Handle::decode(fh).fh;
        self.dirs.close(fh);
        self.empty(asked, Call::Release { fh, flock_owner: None }, reply);
    }

    /// Names are durable.
    pub fn fsyncdir(self: &Arc<Self>, asked: Asked, dir: Ino, reply: ReplyEmpty) {
        self.empty(asked, Call::FsyncDir { dir }, reply);
    }

    /// Everything written through this mount.
    pub fn sync_all(self: &Arc<Self>, asked: Asked, reply: ReplyEmpty) {
        self.empty(asked, Call::SyncAll, reply);
    }
}

fn answer(stream: &mut Stream, mut buffer: DirectoryBuffer, reply: ReplyDirectory) {
    stream.fill(|entry, offset| buffer.add(entry.ino.0, offset, file_type(entry.kind), entry.name.as_bytes()));
    reply.entries(&buffer);
}

#[cfg(test)]
mod tests {
    use loligo_types::{Kind, Lease, Name};

    use super::*;

    fn entry(name: &str, cookie: u64) -> DirEntry {
        let name = Name::new(name.as_bytes()).expect("a name");
        DirEntry { name, ino: Ino(300), kind: Kind::File, cookie, attr: None, lease: Lease::NONE }
    }

    fn take(stream: &mut Stream, room: usize) -> Vec<(String, u64)> {
        let mut got = Vec::new();
        stream.fill(|entry, offset| {
            if got.len() == room {
                return true;
            }
            got.push((entry.name.to_string(), offset));
            false
        });
        got
    }

    #[test]
    fn a_stream_goes_on_where_the_buffer_was_full() {
        let mut stream = Stream { ahead: [entry("a", 10), entry("b", 20)].into(), offset: 2, end: true };
        assert_eq!(take(&mut stream, 1), vec![("a".into(), 12)]);
        assert_eq!(stream.offset, 12);
        assert_eq!(take(&mut stream, 1), vec![("b".into(), 22)]);
        assert!(stream.ahead.is_empty());
    }

    #[test]
    fn entries_with_equal_cookies_resume_before_the_first_of_them() {
        let ahead = [entry("a", 10), entry("b", 20), entry("c", 20), entry("d", 20), entry("e", 30)];
        let mut stream = Stream { ahead: ahead.into(), offset: 2, end: true };
        assert_eq!(take(&mut stream, 3), vec![("a".into(), 12), ("b".into(), 12), ("c".into(), 12)]);
        assert_eq!(stream.offset, 12, "the buffered rest follows this offset");
        assert_eq!(take(&mut stream, 3), vec![("d".into(), 22), ("e".into(), 32)]);
    }

    #[test]
    fn a_directory_that_is_looked_into_gets_attributes_once() {
        let dirs = Dirs::default();
        assert!(!dirs.wants_attributes(Ino(1)));
        dirs.looked_up(Ino(1));
        assert!(dirs.wants_attributes(Ino(1)));
        assert!(!dirs.wants_attributes(Ino(1)));
    }
}
