//! State shared by all callbacks: the client, called with the caller's identity, and the ways to answer.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

use loligo_client::{Call, CallId, CallResult, Done, Failed, Fh};
use loligo_driver::server::metrics::Histogram;
use loligo_fuse::{Errno, Header, ReplyAttr, ReplyEmpty};
use loligo_types::{Answer, FsError, Ino, LockOwner};

use crate::convert::{self, ttl};
use crate::cred::{Creds, Who, groups_matter, may_be_refused, refused};
use crate::dentries::Moment;
use crate::errno::ErrorCounts;
use crate::fs::dirs::Dirs;
use crate::held;
use crate::kernel::Kernel;
use crate::metrics::{ByteCounts, FuseOp, OpCounts};
use crate::places::is_other;
use crate::submit::Submit;
use crate::table::{Tick, guard};
use crate::waits::{End, Waits};

/// Pages to drop, after an answer was written or before one is.
pub(crate) struct Pages {
    pub ino: Ino,
    pub offset: u64,
    /// 0: to the end.
    pub len: u64,
    /// The file is so long, as the kernel is told besides.
    pub grown: Option<u64>,
    /// Work that follows the answer.
    pub then: Option<Then>,
    /// A mapping may use them for a moment; then all of the file are dropped.
    pub later: bool,
}

/// Work that waits for pages to be dropped. It must not wait for anything itself.
pub(crate) type Then = Box<dyn FnOnce() + Send>;

/// The state of one mount.
pub(crate) struct Core<S> {
    pub client: S,
    pub kernel: Arc<Kernel>,
    pub creds: Creds,
    pub errors: ErrorCounts,
    pub ops: OpCounts,
    pub bytes: ByteCounts,
    /// Time until a sync of a file was answered, nanoseconds.
    pub fsync: Histogram,
    pub dirs: Dirs,
    pub waits: Waits,
    pub held: held::Held,
    /// To the thread that drops pages; `None` once the mount ended.
    pub drop_pages: Mutex<Option<Sender<Pages>>>,
}

/// One request: who asks what, since when.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    pub op: FuseOp,
    pub who: Who,
    pub start: Tick,
    pub moment: Moment,
    /// Number of the request.
    pub unique: u64,
    /// The kernel asks about a directory by its other number ([`crate::places`]): it may cache nothing of the answer.
    pub other: bool,
    /// The file has setuid or setgid, as far as is known: whether these stay depends on the groups of who changes it.
    pub setid: bool,
}

impl<S: Submit> Core<S> {
    /// Counts a request.
    pub fn asked(&self, op: FuseOp, header: &Header) -> Asked {
        self.ops.count(op);
        let (who, kernel) = (Who::from(header), &self.kernel);
        if op.is_waited_for() {
            kernel.believed.asks(who.pid);
            // On the way to a name these are asked for, too.
            if !matches!(op, FuseOp::Lookup | FuseOp::GetAttr | FuseOp::Readlink) {
                kernel.places.goes_on(who.pid);
            }
        }
        Asked {
            op,
            who,
            start: kernel.table.now(),
            moment: kernel.believed.now(),
            unique: header.unique,
            other: is_other(header.node),
            setid: op.changes_content() && kernel.table.setid(kernel.ino(header.node)),
        }
    }

    /// Logs and counts an error, and gives its number.
    pub fn errno(&self, op: FuseOp, error: FsError) -> Errno {
        self.errors.report(op.name(), error)
    }

    /// An answer of a shape that the call cannot have.
    pub fn odd(&self, op: FuseOp) -> Errno {
        tracing::warn!(op = op.name(), "the client's answer has the wrong shape");
        self.errno(op, FsError::Io)
    }

    /// Notes that a call is under way for which the kernel has a directory locked.
    pub fn hold(&self, dir: Ino) -> Held {
        self.kernel.believed.begin(dir);
        Held { kernel: self.kernel.clone(), dir }
    }

    /// Makes a call in the name of the caller. A refused one is made again with the caller's supplementary groups, if
    /// there are any.
    pub fn send<F>(self: &Arc<Self>, asked: Asked, call: Call, done: F)
    where
        F: FnOnce(CallResult) + Send + 'static,
    {
        self.send_waiting(asked, None, call, done);
    }

    /// The same; the kernel's request may wait for a lock of an owner.
    pub fn send_waiting<F>(self: &Arc<Self>, asked: Asked, lock: Option<(Ino, LockOwner)>, call: Call, done: F)
    where
        F: FnOnce(CallResult) + Send + 'static,
    {
        let held = locked_for(&call).map(|dir| dir.map(|dir| self.hold(dir)));
        let (number, who, unique) = (self.client.number(), asked.who, asked.unique);
        self.waits.begin(unique, (asked.op, who.pid), number, lock, asked.start);
        let core = self.clone();
        let done = move |result| {
            core.waits.end(unique);
            if let Err(Failed { error: FsError::Stale, .. }) = &result {
                core.held.gone(who.pid, asked.op, core.kernel.table.now());
            }
            done(result);
            drop(held);
        };
        self.send_as(number, asked, call, done);
        if self.waits.came_late(unique) {
            self.interrupt(unique);
        }
    }

    fn send_as<F>(self: &Arc<Self>, number: CallId, asked: Asked, call: Call, done: F)
    where
        F: FnOnce(CallResult) + Send + 'static,
    {
        let who = asked.who;
        if who.uid == 0 {
            return self.client.submit_as(number, &self.creds.plain(who), call, done);
        }
        if (asked.setid || groups_matter(&call))
            && let Some(cred) = self.creds.with_groups(who)
        {
            return self.client.submit_as(number, &cred, call, done);
        }
        let again = may_be_refused(&call).then(|| (self.clone(), call.clone()));
        self.client.submit_as(number, &self.creds.plain(who), call, move |result| match (again, result) {
            (Some((core, call)), Err(failed)) if refused(&failed) => match core.creds.with_groups(who) {
                Some(cred) => {
                    let number = core.client.number();
                    core.waits.goes_on(asked.unique, number);
                    core.client.submit_as(number, &cred, call, done);
                }
                None => done(Err(failed)),
            },
            (_, result) => done(result),
        });
    }

    /// The caller of a request has a signal to take.
    pub fn interrupt(self: &Arc<Self>, unique: u64) {
        if let Some(end) = self.waits.interrupt(unique, self.kernel.table.now()) {
            self.end_wait(end);
        }
    }

    /// Ends requests that nobody waits for any more although the kernel has not told so, or did before that was known.
    pub fn look_at_waits(self: &Arc<Self>) {
        for end in self.waits.look(self.kernel.table.now()) {
            self.end_wait(end);
        }
    }

    fn end_wait(self: &Arc<Self>, end: End) {
        if let Some((ino, owner)) = end.lock {
            // What is had by then is given back by the client. A wait that ended meanwhile is no matter.
            let root = self.creds.plain(Who { uid: 0, gid: 0, pid: 0 });
            self.client.submit(&root, Call::CancelLock { ino, owner }, |_| ());
        }
        self.client.interrupt(end.call, end.unserved);
    }

    /// A call whose success has nothing to tell.
    pub fn empty(self: &Arc<Self>, asked: Asked, call: Call, reply: ReplyEmpty) {
        let core = self.clone();
        self.send(asked, call, move |result| match result {
            Ok(_) => reply.ok(),
            Err(failed) => reply.error(core.errno(asked.op, failed.error)),
        });
    }

    /// The kernel is about to be told that it can believe a name. Whether it may be told that.
    pub fn believe(&self, asked: Asked, dir: Ino, name: &[u8]) -> bool {
        let (kernel, now) = (&self.kernel, self.kernel.table.now());
        let limited = kernel.caching().is_limited();
        // The limit of a name begins when a thread takes the answer in, so that thread has to be seen.
        let seen = !limited || asked.who.pid != 0;
        let may =
            kernel.caches_names() && seen && !asked.other && kernel.believed.may_believe(dir, name, asked.moment, now);
        // The kernel takes most answers in under the lock of the directory, but not that to the lookup of a name that it has.
        if may && (limited || asked.op == FuseOp::Lookup) {
            kernel.believed.answers(asked.who.pid, asked.unique, dir, limited, now);
        }
        may
    }

    /// A call that answers with attributes of an inode that the kernel has.
    pub fn attr(self: &Arc<Self>, asked: Asked, call: Call, reply: ReplyAttr) {
        let core = self.clone();
        self.send(asked, call, move |result| core.attr_answer(asked, result, reply));
    }

    /// Answers with attributes of an inode that the kernel has.
    pub fn attr_answer(&self, asked: Asked, result: CallResult, reply: ReplyAttr) {
        match result {
            Ok(Done { answer: Answer::Entry(attr), attr_cached, .. }) => {
                self.kernel.twins.cut(attr.ino, attr.size);
                let cached = self.kernel.table.seen(&attr, attr_cached && !asked.other, asked.start);
                reply.attr(ttl(cached), &convert::file_attr(&attr));
            }
            Ok(_) => reply.error(self.odd(asked.op)),
            Err(failed) => reply.error(self.errno(asked.op, failed.error)),
        }
    }

    /// After an answer that left pages (or dropped bits) which the kernel must not keep.
    pub fn drop_pages(&self, ino: Ino, offset: u64, len: u64) {
        self.send_pages(Pages { ino, offset, len, grown: None, then: None, later: false });
    }

    /// After an answer that became pages for a mapping, through a handle that leaves none otherwise.
    pub fn drop_pages_later(&self, ino: Ino) {
        self.send_pages(Pages { ino, offset: 0, len: 0, grown: None, then: None, later: true });
    }

    fn send_pages(&self, pages: Pages) {
        if let Some(sender) = &*guard(&self.drop_pages) {
            // Fails only while unmounting.
            let _ = sender.send(pages);
        }
    }

    /// Has pages dropped (dirty ones are written back by that), then does the rest. Only for requests during which the kernel holds no page
    /// of the file locked, as the drop waits for those.
    pub fn drop_pages_first(&self, ino: Ino, offset: u64, len: u64, then: Then) {
        self.pages_first(Pages { ino, offset, len, grown: None, then: Some(then), later: false });
    }

    /// Has the kernel told that a file is at least so long, then does the rest. All pages are dropped besides, so it is only for the requests
    /// that [`Core::drop_pages_first`] is for.
    pub fn grow_first(&self, ino: Ino, size: u64, then: Then) {
        self.pages_first(Pages { ino, offset: 0, len: 0, grown: Some(size), then: Some(then), later: false });
    }

    fn pages_first(&self, pages: Pages) {
        let unsent = match &*guard(&self.drop_pages) {
            Some(sender) => sender.send(pages).err().map(|unsent| unsent.0),
            None => Some(pages),
        };
        // Nobody drops them any more: it is being unmounted.
        if let Some(Pages { then: Some(then), .. }) = unsent {
            then();
        }
    }
}

/// A call is under way for which the kernel has a directory locked, until this is dropped.
pub(crate) struct Held {
    kernel: Arc<Kernel>,
    dir: Ino,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.kernel.believed.end(self.dir);
    }
}

/// Directories that the kernel has locked while it waits for the answer to a call (and more that cannot be seen here: a directory that is
/// removed or moved).
fn locked_for(call: &Call) -> [Option<Ino>; 2] {
    match call {
        Call::Op(op) if op.props().sets_attr => [op.subjects()[0].ino(), None],
        Call::Op(op) => op.subjects().map(|subject| subject.name().map(|(dir, _)| dir)),
        Call::Create { dir, .. } => [Some(*dir), None],
        Call::SetAttr { ino, .. } => [Some(*ino), None],
        _ => [None, None],
    }
}

/// A handle number that the kernel holds: the client's handle, and the open mode of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Handle {
    pub fh: Fh,
    /// The kernel reads and writes through its page cache.
    pub cached: bool,
    /// Not open for writing.
    pub read_only: bool,
    /// Open for reading and writing, so that pages can be mapped to be written.
    pub mappable: bool,
}

impl Handle {
    pub fn encode(self) -> u64 {
        self.fh.0 << 3 | u64::from(self.mappable) << 2 | u64::from(self.read_only) << 1 | u64::from(self.cached)
    }

    pub fn decode(handle: u64) -> Handle {
        let has = |bit: u64| handle & bit != 0;
        Handle { fh: Fh(handle >> 3), cached: has(1), read_only: has(2), mappable: has(4) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_survives_the_kernel() {
        let handle = Handle { fh: Fh(1 << 40 | 5), cached: true, read_only: false, mappable: true };
        assert_eq!(Handle::decode(handle.encode()), handle);
        let handle = Handle { fh: Fh(0), cached: false, read_only: true, mappable: false };
        assert_eq!(Handle::decode(handle.encode()), handle);
    }
}
