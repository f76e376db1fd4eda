//! Calls that take several steps: the kinds, and what they share. Not here: the steps, which are in the stages (see `machine`).

use std::sync::Arc;

use loligo_types::{Answer, Attr, Cred, DataAnswer, DataError, FsError, FsResult, Ino, LockOwner, Op, SetAttr};

use crate::calls::{Calls, Waiter};
use crate::file::Files;
use crate::own::Own;
use crate::ranks::Ranks;
use crate::{CallResult, Fh};

/// An event for a task.
#[derive(Debug)]
pub(crate) enum Event {
    /// It may begin: for an exclusive one, when its turn has come.
    Start,
    /// Its request was answered.
    Reply(FsResult<Answer>),
    /// One of its data requests was answered.
    Data(Result<DataAnswer, DataError>),
    /// A call that it made was answered.
    Done(CallResult),
    /// The writes from before are at the server, or lost.
    Flushed,
    /// The outstanding changes of a decoupled subtree are on the disk, or cannot be written.
    Kept(FsResult<Box<str>>),
    /// Caches above have dropped something.
    Dropped,
    /// A block that a read waits for came, or could not be read.
    Block(Result<(u64, Arc<[u8]>), DataError>),
}

/// The kinds.
#[derive(Debug)]
pub(crate) enum Step {
    Open(crate::handles::Opening),
    Read(crate::reading::Read),
    Write(crate::writing::Writing),
    SetAttr {
        set: SetAttr,
        handle: Option<u64>,
        /// It was sent ahead of what is held back, of which so much was written.
        ahead: Option<u64>,
    },
    /// A request that must come behind the writes before it.
    Behind(Op),
    Flush {
        fh: Fh,
        owner: Option<LockOwner>,
        unlocking: bool,
    },
    /// `left`: ranks that have not answered.
    Fsync {
        fh: Fh,
        left: usize,
    },
    FsyncDir {
        left: usize,
    },
    Fallocate(crate::space::Falloc),
    Seek(crate::space::Seek),
    Copy(crate::space::Copy),
    Own(Box<crate::own::OwnTask>),
    OwnSync(crate::own::SyncFirst),
    /// `losses`: how many there had been when it began.
    SyncAll {
        left: usize,
        closed: u64,
        losses: u64,
    },
    /// `left`: ranks that have not answered.
    SyncRanks {
        left: usize,
    },
    Raw,
}

/// A call under way.
#[derive(Debug)]
pub(crate) struct Task {
    pub waiter: Waiter,
    pub cred: Arc<Cred>,
    /// The file it is about; 0: none.
    pub ino: Ino,
    /// It has the file to itself, or waits for that.
    pub exclusive: bool,
    pub step: Step,
}

impl Files {
    /// Starts a task that has its file to itself: at once, or when those before it are done.
    pub(crate) fn spawn_exclusive(&mut self, calls: &mut Calls, ranks: &Ranks, own: &Own, task: Task) -> u64 {
        let ino = task.ino;
        let id = calls.new_task(Task { exclusive: true, ..task });
        if let Some(file) = self.map.get_mut(&ino) {
            file.waiting.push_back(id);
            self.start_waiting(calls, ranks, own, ino);
        } else {
            calls.events.push_back((id, Event::Start));
        }
        id
    }

    /// Gives a file to the next that waits for it.
    pub(crate) fn start_waiting(&mut self, calls: &mut Calls, ranks: &Ranks, own: &Own, ino: Ino) {
        let suspended = self.is_suspended(ranks, own, ino);
        let Some(file) = self.map.get_mut(&ino) else { return };
        // What is held back is this client's to write again only once the server has taken it back.
        if file.exclusive.is_some() || file.is_gated() || suspended {
            return;
        }
        if let Some(id) = file.waiting.pop_front() {
            file.exclusive = Some(id);
            calls.events.push_back((id, Event::Start));
        }
    }
}

impl Calls {
    /// Starts a task.
    pub(crate) fn spawn(&mut self, waiter: Waiter, cred: &Arc<Cred>, ino: Ino, step: Step) -> u64 {
        let id = self.new_task(Task { waiter, cred: Arc::clone(cred), ino, exclusive: false, step });
        self.events.push_back((id, Event::Start));
        id
    }
}

/// Maps a data error to the error that the caller sees.
pub(crate) fn data_error(error: DataError) -> FsError {
    match error {
        DataError::NoSpace => FsError::NoSpace,
        DataError::Io | DataError::Corrupt => FsError::Io,
        // Sent on before it comes here.
        DataError::Moved | DataError::Stale => FsError::Stale,
        DataError::Busy => FsError::Busy,
        DataError::TooLarge => FsError::FileTooBig,
    }
}

/// The attributes of a plain answer.
pub(crate) fn expect_entry(result: FsResult<Answer>) -> FsResult<Attr> {
    match result? {
        Answer::Entry(attr) => Ok(attr),
        // The server breaks the protocol; nothing it said can be used.
        _ => Err(FsError::Io),
    }
}
