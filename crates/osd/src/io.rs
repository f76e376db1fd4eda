//! Everything that can happen to the object server, and everything it can do.

use std::sync::Arc;

use loligo_types::{DataAnswer, DataError, DataOp, Ino, Lsn, Patches, SessionId};

use crate::execute::{Effect, EffectResult};

/// A number that the driver gives a request and gets back with the answer.
pub type Tag = u64;

/// A number that the machine gives an effect and gets back with its result.
pub type EffectId = u64;

/// The access of a session to the objects of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Nothing (any more): what it asks, and what waits, is answered with `Stale`.
    None,
    /// Nothing before it is said anew, not even for who may do everything: answered with `Stale`.
    Hidden,
    /// Nothing for now: answered with `Busy`, to be sent again.
    Moving,
    /// Nothing here any more: answered with `Moved`, to be sent to another rank.
    Moved,
    /// Read and sync.
    Read,
    /// Everything.
    Write,
}

/// An input of the object server.
#[derive(Debug, Clone)]
pub enum Input {
    /// A client asks. Answered with [`Output::Reply`], or never if the session is fenced first.
    Request {
        /// The requesting session, as the driver knows it from the connection.
        session: SessionId,
        /// Comes back with the answer.
        tag: Tag,
        /// The file.
        ino: Ino,
        /// Bytes in one of its objects.
        object_size: u32,
        /// The operation.
        op: DataOp,
    },
    /// The metadata server dropped a file's bytes from an offset on. Never refused for want of room;
    /// answered with [`Output::Discarded`] once durable.
    Discard {
        /// Comes back with the answer.
        tag: Tag,
        /// The file.
        ino: Ino,
        /// Bytes in one of its objects.
        object_size: u32,
        /// First byte to drop.
        from: u64,
    },
    /// The metadata server moves inline bytes to the first object; what lies in objects is dropped.
    /// Answered with [`Output::Spilled`] once durable.
    Spill {
        /// Comes back with the answer.
        tag: Tag,
        /// The file.
        ino: Ino,
        /// Bytes in one of its objects.
        object_size: u32,
        /// The bytes, from offset 0.
        data: Arc<[u8]>,
    },
    /// Make all that was answered before durable, of all files. Answered with [`Output::SyncedAll`].
    SyncAll {
        /// Comes back with the answer.
        tag: Tag,
    },
    /// Write bytes that the journal has durably with this record, in the order of the file's operations. It does not fail: it is tried until
    /// there is room. No sync covers it.
    WriteLogged {
        /// The record.
        lsn: Lsn,
        /// The file.
        ino: Ino,
        /// Bytes in one of its objects.
        object_size: u32,
        /// The bytes.
        patches: Arc<Patches>,
    },
    /// Make durable what was written so, as far as it is written. Answered with [`Output::InPlace`] for file 0.
    SettleLogged,
    /// The journal says durably that records up to this one are in place: their bytes may be changed otherwise.
    Forget {
        /// The file; 0: all.
        ino: Ino,
        /// The last record.
        upto: Lsn,
    },
    /// Writes of the journal's data that had no room are tried again.
    Retry,
    /// Another server is to have these files, of which nobody has any access now: end what is under way, make durable
    /// what was changed, and keep nothing of it in memory. Answered with [`Output::Quiesced`].
    Quiesce {
        /// Comes back with the answer.
        ticket: u64,
        /// The files.
        inos: Vec<Ino>,
    },
    /// An effect was carried out.
    Done {
        /// Its number.
        id: EffectId,
        /// Its result.
        result: EffectResult,
    },
    /// From now on the session may do this with the file.
    Access {
        /// The session whose right is set.
        session: SessionId,
        /// The file.
        ino: Ino,
        /// The right.
        access: Access,
    },
    /// From now on the session may do this with so many files from the first on, of which it was not said one by one. A range is taken
    /// back as it was given.
    AccessRange {
        /// The session whose right is set.
        session: SessionId,
        /// The first file.
        first: Ino,
        /// Number of files.
        count: u64,
        /// The right.
        access: Access,
    },
    /// From now on this session changes the file, and all others read its first `size` bytes as they are now: before an object is changed it
    /// is copied under the number `copy`, unless it was before.
    Freeze {
        /// The file.
        ino: Ino,
        /// The number of its copy.
        copy: Ino,
        /// Its length for others.
        size: u64,
        /// The session that changes it.
        owner: SessionId,
        /// Others change their version of it, too, which is the copy where there is one. `size` is then what all of it had; the largest
        /// number: as it was put down before, if anybody has changed something.
        shared: bool,
    },
    /// The file is read as it is, by all. The copy is dropped with a [`Input::Discard`] of its own.
    Thaw {
        /// The file.
        ino: Ino,
    },
    /// Put back what was copied of a file. Answered with [`Output::Restored`] once durable.
    Restore {
        /// Comes back with the answer.
        tag: Tag,
        /// The file.
        ino: Ino,
        /// The number of its copy.
        copy: Ino,
    },
    /// Make the others' version of a shared file, of so many bytes, that of another one. Answered with [`Output::Kept`] once durable. Nobody
    /// uses the objects of that number.
    KeepTheirs {
        /// Comes back with the answer.
        tag: Tag,
        /// The file.
        ino: Ino,
        /// The number of its copy.
        copy: Ino,
        /// Bytes in one of its objects.
        object_size: u32,
        /// The other file.
        to: Ino,
        /// Bytes that it has.
        len: u64,
    },
    /// Find out whether others have changed the bytes of a shared file. Answered with [`Output::Fork`].
    LookAtFork {
        /// Comes back with the answer.
        tag: Tag,
        /// The file.
        ino: Ino,
        /// The number of its copy.
        copy: Ino,
    },
    /// The session may do everything: it lives in the server's own process.
    Trust {
        /// The session.
        session: SessionId,
    },
    /// The session is gone. Its rights end, its queued operations are dropped unanswered;
    /// [`Output::Fenced`] follows when none of its operations runs any more.
    Fence {
        /// The session.
        session: SessionId,
    },
}

/// An output of the object server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Carry this out on any thread and give [`Input::Done`] back. Effects that must not overlap are
    /// never out at the same time.
    Run {
        /// Its number.
        id: EffectId,
        /// The effect to run.
        effect: Effect,
    },
    /// The answer to a request.
    Reply {
        /// The session that sent the request.
        session: SessionId,
        /// The request's tag.
        tag: Tag,
        /// The answer.
        result: Result<DataAnswer, DataError>,
    },
    /// The answer to [`Input::Discard`]. After an error nothing is known to be dropped: do it again.
    Discarded {
        /// The tag given.
        tag: Tag,
        /// The file.
        ino: Ino,
        /// The result.
        result: Result<(), DataError>,
    },
    /// The answer to [`Input::Spill`]. After an error do it again.
    Spilled {
        /// The tag given.
        tag: Tag,
        /// The file.
        ino: Ino,
        /// The result.
        result: Result<(), DataError>,
    },
    /// The answer to [`Input::Restore`]. After an error do it again.
    Restored {
        /// The tag given.
        tag: Tag,
        /// The file.
        ino: Ino,
        /// The result.
        result: Result<(), DataError>,
    },
    /// The answer to [`Input::KeepTheirs`]. After an error do it again.
    Kept {
        /// The tag given.
        tag: Tag,
        /// The file.
        ino: Ino,
        /// The other file.
        to: Ino,
        /// The result.
        result: Result<(), DataError>,
    },
    /// The answer to [`Input::LookAtFork`].
    Fork {
        /// The tag given.
        tag: Tag,
        /// The file.
        ino: Ino,
        /// Its length when it was frozen, the largest number if that is not known; none: others may have changed its bytes.
        result: Result<Option<u64>, DataError>,
    },
    /// The answer to [`Input::SyncAll`].
    SyncedAll {
        /// The tag given.
        tag: Tag,
        /// The result.
        result: Result<(), DataError>,
    },
    /// Data of records up to this one ([`Input::WriteLogged`]) is durable in objects, of a file (0: of all): the journal is to say so, and then
    /// [`Input::Forget`] is expected. Unasked where somebody waits to change the same bytes.
    InPlace {
        /// The file; 0: all.
        ino: Ino,
        /// The last record.
        upto: Lsn,
        /// Writes of later ones wait for room on the disk.
        no_room: bool,
    },
    /// It could not be written, or made durable: only a new life, which has it from the journal, may go on.
    LoggedFailed,
    /// The answer to [`Input::Quiesce`]: no operation on these files runs or waits.
    Quiesced {
        /// The ticket given.
        ticket: u64,
        /// All that was changed is durable. If not, the server still remembers what a later sync must cover.
        ok: bool,
    },
    /// No operation of the fenced session is running, and none will.
    Fenced {
        /// The session.
        session: SessionId,
    },
}
