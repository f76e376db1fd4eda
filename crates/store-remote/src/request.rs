//! Requests of a process to the store of another one, as data and as bytes. Not their execution.

use loligo_store::{Durability, ObjectId};

use crate::bytes::{Malformed, Result, Take, put_bytes, put_list, put_u32, put_u64};

/// Version of the protocol, in the first request of a connection.
pub const PROTOCOL_VERSION: u32 = 3;

/// Longest request, bytes. A batch of a checkpoint and a commit of the journal are far below.
pub const REQUEST_MAX: usize = 256 << 20;

/// A request. The codes are on the wire: keep stable, never reuse.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request<'a> {
    /// First: with the ticket that the owner gave.
    Attach {
        version: u32,
        ticket: u64,
    },
    /// See [`loligo_store::Table`], also below.
    Get {
        key: &'a [u8],
    },
    MultiGet {
        keys: Vec<&'a [u8]>,
    },
    Scan {
        start: &'a [u8],
        end: &'a [u8],
        limit: u64,
    },
    Write {
        durability: Durability,
        puts: Vec<(&'a [u8], &'a [u8])>,
        deletes: Vec<&'a [u8]>,
    },
    Flush,
    TableSize,
    /// See [`loligo_store::LogDir`]: make the directory of a rank.
    LogDir {
        rank: u32,
    },
    LogList {
        rank: u32,
    },
    /// The segment becomes the connection's file until it ends.
    LogCreate {
        rank: u32,
        id: u64,
    },
    LogOpenAppend {
        rank: u32,
        id: u64,
    },
    /// To read.
    LogOpen {
        rank: u32,
        id: u64,
    },
    LogTruncate {
        rank: u32,
        id: u64,
        len: u64,
    },
    LogDelete {
        rank: u32,
        id: u64,
    },
    LogSyncDir {
        rank: u32,
    },
    LogSynced {
        rank: u32,
    },
    /// To the connection's file.
    Append {
        bytes: &'a [u8],
    },
    SyncFile,
    /// Of the segment that is open to read.
    ReadFile {
        offset: u64,
        len: u32,
    },
    FileLen,
    /// Whichever is open.
    CloseFile,
    /// See [`loligo_store::Blobs`].
    Read {
        id: ObjectId,
        offset: u64,
        len: u32,
    },
    WriteAt {
        id: ObjectId,
        offset: u64,
        data: &'a [u8],
    },
    WriteLogged {
        id: ObjectId,
        offset: u64,
        data: &'a [u8],
    },
    Spoil {
        id: ObjectId,
        offset: u64,
        len: u64,
    },
    Truncate {
        id: ObjectId,
        len: u64,
    },
    Punch {
        id: ObjectId,
        offset: u64,
        len: u64,
    },
    Sync {
        id: ObjectId,
    },
    SyncMany {
        ino: u64,
        indexes: Vec<u64>,
    },
    SyncRemovals {
        ino: u64,
    },
    SyncAll,
    Delete {
        id: ObjectId,
    },
    Len {
        id: ObjectId,
    },
    Extents {
        id: ObjectId,
        offset: u64,
        len: u64,
    },
    ObjectsOf {
        ino: u64,
    },
    ListObjects,
    /// See [`loligo_store::Backend`].
    Ranks,
    StatFs,
}

const MAGIC: [u8; 4] = *b"LoSt";

mod code {
    pub const ATTACH: u8 = 1;
    pub const GET: u8 = 2;
    pub const MULTI_GET: u8 = 3;
    pub const SCAN: u8 = 4;
    pub const WRITE: u8 = 5;
    pub const FLUSH: u8 = 6;
    pub const TABLE_SIZE: u8 = 7;
    pub const LOG_DIR: u8 = 10;
    pub const LOG_LIST: u8 = 11;
    pub const LOG_CREATE: u8 = 12;
    pub const LOG_OPEN_APPEND: u8 = 13;
    pub const LOG_OPEN: u8 = 14;
    pub const LOG_TRUNCATE: u8 = 15;
    pub const LOG_DELETE: u8 = 16;
    pub const LOG_SYNC_DIR: u8 = 17;
    pub const APPEND: u8 = 18;
    pub const SYNC_FILE: u8 = 19;
    pub const READ_FILE: u8 = 20;
    pub const FILE_LEN: u8 = 21;
    pub const CLOSE_FILE: u8 = 22;
    pub const LOG_SYNCED: u8 = 23;
    pub const READ: u8 = 30;
    pub const WRITE_AT: u8 = 31;
    pub const TRUNCATE: u8 = 32;
    pub const PUNCH: u8 = 33;
    pub const SYNC: u8 = 34;
    pub const SYNC_MANY: u8 = 35;
    pub const SYNC_REMOVALS: u8 = 36;
    pub const SYNC_ALL: u8 = 37;
    pub const DELETE: u8 = 38;
    pub const LEN: u8 = 39;
    pub const EXTENTS: u8 = 40;
    pub const OBJECTS_OF: u8 = 41;
    pub const LIST_OBJECTS: u8 = 42;
    pub const WRITE_LOGGED: u8 = 43;
    pub const SPOIL: u8 = 44;
    pub const RANKS: u8 = 50;
    pub const STATFS: u8 = 51;
}

fn put_id(out: &mut Vec<u8>, code: u8, id: ObjectId) {
    out.push(code);
    put_u64(out, id.ino);
    put_u64(out, id.index);
}

fn take_id(from: &mut Take<'_>) -> Result<ObjectId> {
    Ok(ObjectId::new(from.u64("object")?, from.u64("object")?))
}

fn put_segment(out: &mut Vec<u8>, code: u8, rank: u32, id: u64) {
    out.push(code);
    put_u32(out, rank);
    put_u64(out, id);
}

impl<'a> Request<'a> {
    /// Appends its bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Request::Attach { version, ticket } => {
                out.push(code::ATTACH);
                out.extend_from_slice(&MAGIC);
                put_u32(out, *version);
                put_u64(out, *ticket);
            }
            Request::Get { key } => {
                out.push(code::GET);
                put_bytes(out, key);
            }
            Request::MultiGet { keys } => {
                out.push(code::MULTI_GET);
                put_list(out, keys, |out, key| put_bytes(out, key));
            }
            Request::Scan { start, end, limit } => {
                out.push(code::SCAN);
                put_bytes(out, start);
                put_bytes(out, end);
                put_u64(out, *limit);
            }
            Request::Write { durability, puts, deletes } => {
                out.extend_from_slice(&[code::WRITE, u8::from(*durability == Durability::Sync)]);
                put_list(out, puts, |out, (key, value)| {
                    put_bytes(out, key);
                    put_bytes(out, value);
                });
                put_list(out, deletes, |out, key| put_bytes(out, key));
            }
            Request::Flush => out.push(code::FLUSH),
            Request::TableSize => out.push(code::TABLE_SIZE),
            Request::Ranks => out.push(code::RANKS),
            Request::StatFs => out.push(code::STATFS),
            _ => self.encode_log_or_blob(out),
        }
    }

    fn encode_log_or_blob(&self, out: &mut Vec<u8>) {
        match self {
            Request::LogDir { rank } => {
                out.push(code::LOG_DIR);
                put_u32(out, *rank);
            }
            Request::LogList { rank } => {
                out.push(code::LOG_LIST);
                put_u32(out, *rank);
            }
            Request::LogSyncDir { rank } => {
                out.push(code::LOG_SYNC_DIR);
                put_u32(out, *rank);
            }
            Request::LogSynced { rank } => {
                out.push(code::LOG_SYNCED);
                put_u32(out, *rank);
            }
            Request::LogCreate { rank, id } => put_segment(out, code::LOG_CREATE, *rank, *id),
            Request::LogOpenAppend { rank, id } => put_segment(out, code::LOG_OPEN_APPEND, *rank, *id),
            Request::LogOpen { rank, id } => put_segment(out, code::LOG_OPEN, *rank, *id),
            Request::LogDelete { rank, id } => put_segment(out, code::LOG_DELETE, *rank, *id),
            Request::LogTruncate { rank, id, len } => {
                put_segment(out, code::LOG_TRUNCATE, *rank, *id);
                put_u64(out, *len);
            }
            Request::Append { bytes } => {
                out.push(code::APPEND);
                put_bytes(out, bytes);
            }
            Request::SyncFile => out.push(code::SYNC_FILE),
            Request::ReadFile { offset, len } => {
                out.push(code::READ_FILE);
                put_u64(out, *offset);
                put_u32(out, *len);
            }
            Request::FileLen => out.push(code::FILE_LEN),
            Request::CloseFile => out.push(code::CLOSE_FILE),
            _ => self.encode_blob(out),
        }
    }

    fn encode_blob(&self, out: &mut Vec<u8>) {
        match self {
            Request::Read { id, offset, len } => {
                put_id(out, code::READ, *id);
                put_u64(out, *offset);
                put_u32(out, *len);
            }
            Request::WriteAt { id, offset, data } => {
                put_id(out, code::WRITE_AT, *id);
                put_u64(out, *offset);
                put_bytes(out, data);
            }
            Request::WriteLogged { id, offset, data } => {
                put_id(out, code::WRITE_LOGGED, *id);
                put_u64(out, *offset);
                put_bytes(out, data);
            }
            Request::Spoil { id, offset, len } => {
                put_id(out, code::SPOIL, *id);
                put_u64(out, *offset);
                put_u64(out, *len);
            }
            Request::Truncate { id, len } => {
                put_id(out, code::TRUNCATE, *id);
                put_u64(out, *len);
            }
            Request::Punch { id, offset, len } => {
                put_id(out, code::PUNCH, *id);
                put_u64(out, *offset);
                put_u64(out, *len);
            }
            Request::Extents { id, offset, len } => {
                put_id(out, code::EXTENTS, *id);
                put_u64(out, *offset);
                put_u64(out, *len);
            }
            Request::Sync { id } => put_id(out, code::SYNC, *id),
            Request::Delete { id } => put_id(out, code::DELETE, *id),
            Request::Len { id } => put_id(out, code::LEN, *id),
            Request::SyncMany { ino, indexes } => {
                out.push(code::SYNC_MANY);
                put_u64(out, *ino);
                put_list(out, indexes, |out, index| put_u64(out, *index));
            }
            Request::SyncRemovals { ino } => {
                out.push(code::SYNC_REMOVALS);
                put_u64(out, *ino);
            }
            Request::ObjectsOf { ino } => {
                out.push(code::OBJECTS_OF);
                put_u64(out, *ino);
            }
            Request::SyncAll => out.push(code::SYNC_ALL),
            // All others were before.
            _ => out.push(code::LIST_OBJECTS),
        }
    }

    /// Reads a request; all of `bytes` must belong to it.
    pub fn decode(bytes: &'a [u8]) -> Result<Request<'a>> {
        let mut from = Take(bytes);
        let code = from.u8("request")?;
        let request = match code {
            code::ATTACH => {
                if from.array("magic")? != MAGIC {
                    return Err(Malformed { what: "magic" });
                }
                Request::Attach { version: from.u32("version")?, ticket: from.u64("ticket")? }
            }
            code::GET => Request::Get { key: from.bytes("key")? },
            code::MULTI_GET => Request::MultiGet { keys: from.list(4, "keys", |from| from.bytes("key"))? },
            code::SCAN => {
                Request::Scan { start: from.bytes("start")?, end: from.bytes("end")?, limit: from.u64("limit")? }
            }
            code::WRITE => Request::Write {
                durability: if from.bool("durability")? { Durability::Sync } else { Durability::Buffered },
                puts: from.list(8, "puts", |from| Ok((from.bytes("key")?, from.bytes("value")?)))?,
                deletes: from.list(4, "deletes", |from| from.bytes("key"))?,
            },
            code::FLUSH => Request::Flush,
            code::TABLE_SIZE => Request::TableSize,
            code::RANKS => Request::Ranks,
            code::STATFS => Request::StatFs,
            code::LOG_DIR..code::READ => take_log(code, &mut from)?,
            _ => take_blob(code, &mut from)?,
        };
        from.finish()?;
        Ok(request)
    }
}

fn take_log<'a>(code: u8, from: &mut Take<'a>) -> Result<Request<'a>> {
    Ok(match code {
        code::APPEND => Request::Append { bytes: from.bytes("bytes")? },
        code::SYNC_FILE => Request::SyncFile,
        code::READ_FILE => Request::ReadFile { offset: from.u64("offset")?, len: from.u32("length")? },
        code::FILE_LEN => Request::FileLen,
        code::CLOSE_FILE => Request::CloseFile,
        code::LOG_DIR => Request::LogDir { rank: from.u32("rank")? },
        code::LOG_LIST => Request::LogList { rank: from.u32("rank")? },
        code::LOG_SYNC_DIR => Request::LogSyncDir { rank: from.u32("rank")? },
        code::LOG_SYNCED => Request::LogSynced { rank: from.u32("rank")? },
        code::LOG_CREATE..=code::LOG_DELETE => {
            let (rank, id) = (from.u32("rank")?, from.u64("segment")?);
            match code {
                code::LOG_CREATE => Request::LogCreate { rank, id },
                code::LOG_OPEN_APPEND => Request::LogOpenAppend { rank, id },
                code::LOG_OPEN => Request::LogOpen { rank, id },
                code::LOG_DELETE => Request::LogDelete { rank, id },
                _ => Request::LogTruncate { rank, id, len: from.u64("length")? },
            }
        }
        _ => return Err(Malformed { what: "request" }),
    })
}

fn take_blob<'a>(code: u8, from: &mut Take<'a>) -> Result<Request<'a>> {
    Ok(match code {
        code::READ => Request::Read { id: take_id(from)?, offset: from.u64("offset")?, len: from.u32("length")? },
        code::WRITE_AT => {
            Request::WriteAt { id: take_id(from)?, offset: from.u64("offset")?, data: from.bytes("data")? }
        }
        code::WRITE_LOGGED => {
            Request::WriteLogged { id: take_id(from)?, offset: from.u64("offset")?, data: from.bytes("data")? }
        }
        code::SPOIL => Request::Spoil { id: take_id(from)?, offset: from.u64("offset")?, len: from.u64("length")? },
        code::TRUNCATE => Request::Truncate { id: take_id(from)?, len: from.u64("length")? },
        code::PUNCH => Request::Punch { id: take_id(from)?, offset: from.u64("offset")?, len: from.u64("length")? },
        code::EXTENTS => Request::Extents { id: take_id(from)?, offset: from.u64("offset")?, len: from.u64("length")? },
        code::SYNC => Request::Sync { id: take_id(from)? },
        code::DELETE => Request::Delete { id: take_id(from)? },
        code::LEN => Request::Len { id: take_id(from)? },
        code::SYNC_MANY => {
            Request::SyncMany { ino: from.u64("inode")?, indexes: from.list(8, "indexes", |from| from.u64("index"))? }
        }
        code::SYNC_REMOVALS => Request::SyncRemovals { ino: from.u64("inode")? },
        code::OBJECTS_OF => Request::ObjectsOf { ino: from.u64("inode")? },
        code::SYNC_ALL => Request::SyncAll,
        code::LIST_OBJECTS => Request::ListObjects,
        _ => return Err(Malformed { what: "request" }),
    })
}
