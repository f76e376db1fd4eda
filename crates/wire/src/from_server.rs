//! Messages to a client, to protobuf and back with every check.

use loligo_types::limits::{ADDRESS_MAX, MOVED_MAX, PATCH_BYTES_MAX, READDIR_MAX, WALK_MAX};
use loligo_types::msg::{Refusal, ToClient, Volatile, Welcome};
use loligo_types::{
    Answer, DataAnswer, DataError, DirEntry, FsError, FsResult, Ino, JournalMode, Journaling, Kind,
    LOOKUP_LEASE_MS_MAX, Lsn, Rank, Seq, SessionId, StatFs,
};

use crate::common::{
    attr, fs_id, kind, lease, leases, limit, lock, name, need, to_attr, to_kind, to_lease, to_leases, to_lock,
};
use crate::decoder::Payload;
use crate::map::{rank, routes, to_map, to_rank, to_routes};
use crate::proto::data_reply::Result as WireData;
use crate::proto::reply::Result as WireReply;
use crate::proto::to_client::Msg;
use crate::proto::walked::Last as WireLast;
use crate::{DecodeError, proto, subtree};

type Result<T> = std::result::Result<T, DecodeError>;

/// Longest text of a refusal, bytes.
const TEXT_MAX: usize = 4096;

pub(crate) fn encode(msg: &ToClient) -> proto::ToClient {
    let msg = match msg {
        ToClient::Welcome(welcome) => Msg::Welcome(to_welcome(welcome)),
        ToClient::Refused { why, text } => {
            let end = (0..=text.len().min(TEXT_MAX)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            Msg::Refused(proto::Refused { why: *why as i32, text: text[..end].to_owned() })
        }
        ToClient::Reply { seq, result, granted, ways, volatile, journal } => Msg::Reply(proto::Reply {
            seq: seq.0,
            granted: to_leases(granted),
            ways: ways.iter().map(|(ino, ms)| proto::LookupLease { ino: ino.0, ms: u32::from(*ms) }).collect(),
            result: Some(to_result(result)),
            volatile: volatile.map(|volatile| proto::Volatile { lsn: volatile.lsn.0, durable: volatile.durable.0 }),
            journal: journal.map(|to| proto::Journaling { mode: to.mode as u32, threshold: to.threshold }),
        }),
        ToClient::Redirect { seq, rank, routes, done } => Msg::Redirect(proto::Redirect {
            seq: seq.0,
            rank: to_rank(*rank),
            routes: to_routes(routes),
            done: done.map(|(ino, value)| proto::Executed { ino: ino.0, value }),
        }),
        ToClient::Routes { routes, moved, to, frozen_ms } => {
            let moved = moved.iter().map(|ino| ino.0).collect();
            Msg::Routes(proto::Routes { routes: to_routes(routes), moved, to: to.map(to_rank), frozen_ms: *frozen_ms })
        }
        ToClient::Map(map) => Msg::Map(to_map(map)),
        ToClient::Data { id, result } => Msg::Data(proto::DataReply { id: *id, result: Some(to_data_result(result)) }),
        ToClient::Recall { ino, id, bits } => Msg::Recall(proto::Recall { ino: ino.0, id: *id, bits: to_lease(*bits) }),
        ToClient::Pong { at_ms } => Msg::Pong(proto::Pong { at_ms: *at_ms }),
        ToClient::Evicted => Msg::Evicted(proto::Empty {}),
    };
    proto::ToClient { msg: Some(msg) }
}

fn journaling(m: proto::Journaling) -> Result<Journaling> {
    limit(m.threshold as usize, PATCH_BYTES_MAX, "bytes of a threshold")?;
    let mode = JournalMode::numbered(m.mode).ok_or(DecodeError::Invalid("journal mode"))?;
    Ok(Journaling { mode, threshold: m.threshold })
}

pub(crate) fn decode(msg: proto::ToClient, mut payload: Payload) -> Result<ToClient> {
    let msg = match need(msg.msg, "its kind")? {
        Msg::Welcome(m) => ToClient::Welcome(welcome(m)?),
        Msg::Refused(m) => {
            limit(m.text.len(), TEXT_MAX, "bytes of text")?;
            ToClient::Refused { why: refusal(m.why)?, text: m.text }
        }
        Msg::Reply(m) => ToClient::Reply {
            seq: Seq(m.seq),
            result: result(need(m.result, "the result")?, &mut payload)?,
            granted: leases(m.granted)?,
            ways: lookup_leases(m.ways)?,
            volatile: m.volatile.map(|m| Volatile { lsn: Lsn(m.lsn), durable: Lsn(m.durable) }),
            journal: m.journal.map(journaling).transpose()?,
        },
        Msg::Redirect(m) => ToClient::Redirect {
            seq: Seq(m.seq),
            rank: rank(m.rank)?,
            routes: routes(m.routes)?,
            done: m.done.map(|done| (Ino(done.ino), done.value)),
        },
        Msg::Routes(m) => {
            limit(m.moved.len(), MOVED_MAX, "inodes that moved")?;
            let to = m.to.map(rank).transpose()?;
            let moved = m.moved.into_iter().map(Ino).collect();
            ToClient::Routes { routes: routes(m.routes)?, moved, to, frozen_ms: m.frozen_ms }
        }
        Msg::Map(m) => ToClient::Map(crate::map::map(m)?),
        Msg::Data(m) => ToClient::Data { id: m.id, result: data_result(need(m.result, "the result")?, &mut payload)? },
        Msg::Recall(m) => ToClient::Recall { ino: Ino(m.ino), id: m.id, bits: lease(m.bits)? },
        Msg::Pong(m) => ToClient::Pong { at_ms: m.at_ms },
        Msg::Evicted(_) => ToClient::Evicted,
    };
    payload.finish()?;
    Ok(msg)
}

fn lookup_leases(list: Vec<proto::LookupLease>) -> Result<Vec<(Ino, u16)>> {
    limit(list.len(), WALK_MAX + 1, "lookup leases")?;
    let lease = |m: proto::LookupLease| match u16::try_from(m.ms).ok().filter(|ms| *ms <= LOOKUP_LEASE_MS_MAX) {
        Some(ms) => Ok((Ino(m.ino), ms)),
        None => Err(DecodeError::Invalid("length of a lookup lease")),
    };
    list.into_iter().map(lease).collect()
}

fn to_welcome(welcome: &Welcome) -> proto::Welcome {
    proto::Welcome {
        version: welcome.version,
        session: welcome.session.0,
        secret: welcome.secret,
        resumed: welcome.resumed,
        kept: welcome.kept,
        fs_id: welcome.fs_id.to_vec(),
        inline_max: welcome.inline_max,
        session_ms: welcome.session_ms,
        data_epoch: welcome.data_epoch,
        rank: to_rank(welcome.rank),
        map: Some(to_map(&welcome.map)),
        routes: to_routes(&welcome.routes),
        hash_key_low: welcome.hash_key.0,
        hash_key_high: welcome.hash_key.1,
        direct: welcome.direct.clone(),
        recovered: welcome.recovered.0,
        journal_max: welcome.journal_max,
    }
}

fn welcome(m: proto::Welcome) -> Result<Welcome> {
    limit(m.direct.len(), ADDRESS_MAX, "bytes of where file data is")?;
    Ok(Welcome {
        version: m.version,
        session: SessionId(m.session),
        secret: m.secret,
        resumed: m.resumed,
        kept: m.kept,
        fs_id: fs_id(&m.fs_id)?,
        inline_max: m.inline_max,
        session_ms: m.session_ms,
        data_epoch: m.data_epoch,
        hash_key: (m.hash_key_low, m.hash_key_high),
        rank: rank(m.rank)?,
        map: crate::map::map(m.map.unwrap_or_default())?,
        routes: routes(m.routes)?,
        direct: m.direct,
        recovered: Lsn(m.recovered),
        journal_max: m.journal_max,
    })
}

fn refusal(code: i32) -> Result<Refusal> {
    Ok(match code {
        1 => Refusal::Version,
        2 => Refusal::OtherFileSystem,
        3 => Refusal::NotAuthorized,
        4 => Refusal::TooMany,
        5 => Refusal::Malformed,
        6 => Refusal::Stopping,
        _ => return Err(DecodeError::Invalid("refusal")),
    })
}

fn to_result(result: &FsResult<Answer>) -> WireReply {
    let answer = match result {
        Ok(answer) => answer,
        Err(error) => return WireReply::Error(i32::from(error.code())),
    };
    match answer {
        Answer::Done => WireReply::Done(proto::Empty {}),
        Answer::Entry(attr) => WireReply::Entry(to_attr(attr)),
        Answer::Opened { attr, created, rights, data } => WireReply::Opened(proto::Opened {
            attr: Some(to_attr(attr)),
            created: *created,
            rights: to_lease(*rights),
            has_data: data.is_some(),
        }),
        Answer::Bytes(_) => WireReply::Bytes(proto::Empty {}),
        Answer::Entries { entries, next, end } => WireReply::Entries(to_entries(entries, *next, *end)),
        Answer::StatFs(s) => WireReply::Statfs(proto::StatFs {
            bytes: s.bytes,
            bytes_free: s.bytes_free,
            inodes: s.inodes,
            inodes_free: s.inodes_free,
        }),
        Answer::Lock(lock) => WireReply::Lock(proto::LockAnswer { lock: lock.as_ref().map(to_lock) }),
        Answer::Offset(offset) => WireReply::Offset(*offset),
        Answer::Inos { first, count } => WireReply::Inos(proto::Inos { first: first.0, count: *count }),
        Answer::Subtree(answer) => WireReply::Subtree(subtree::encode_answer(answer)),
        Answer::Remote { ino, kind, rank } => WireReply::Remote(to_remote(*ino, *kind, *rank)),
        Answer::Walked { done, dir, last, by_path } => WireReply::Walked(proto::Walked {
            done: *done,
            dir: dir.0,
            last: match &**last {
                Answer::Entry(attr) => Some(WireLast::Entry(to_attr(attr))),
                Answer::Remote { ino, kind, rank } => Some(WireLast::Remote(to_remote(*ino, *kind, *rank))),
                Answer::Entries { entries, next, end } => Some(WireLast::Entries(to_entries(entries, *next, *end))),
                // Nothing else ends a walk; without it the other side refuses the answer.
                _ => None,
            },
            by_path: *by_path,
        }),
    }
}

fn to_entries(entries: &[DirEntry], next: u64, end: bool) -> proto::Entries {
    proto::Entries { entries: entries.iter().map(to_entry).collect(), end, next }
}

fn entries(m: &proto::Entries) -> Result<Answer> {
    limit(m.entries.len(), READDIR_MAX, "entries")?;
    let entries = m.entries.iter().map(entry).collect::<Result<_>>()?;
    Ok(Answer::Entries { entries, next: m.next, end: m.end })
}

fn to_remote(ino: Ino, kind: Kind, rank: Rank) -> proto::Remote {
    proto::Remote { ino: ino.0, kind: to_kind(kind), rank: to_rank(rank) }
}

fn remote(m: &proto::Remote) -> Result<Answer> {
    Ok(Answer::Remote { ino: Ino(m.ino), kind: kind(m.kind)?, rank: rank(m.rank)? })
}

fn walked(m: &proto::Walked) -> Result<Answer> {
    if m.done == 0 || m.done as usize > WALK_MAX {
        return Err(DecodeError::Invalid("number of names found by a walk"));
    }
    let last = match need(m.last.as_ref(), "what a walk came to")? {
        WireLast::Entry(m) => Answer::Entry(attr(m)?),
        WireLast::Remote(m) => remote(m)?,
        WireLast::Entries(m) => entries(m)?,
    };
    if m.by_path > m.done {
        return Err(DecodeError::Invalid("number of directories with numbers by their paths"));
    }
    Ok(Answer::Walked { done: m.done, dir: Ino(m.dir), last: Box::new(last), by_path: m.by_path })
}

fn result(result: WireReply, payload: &mut Payload) -> Result<FsResult<Answer>> {
    Ok(Ok(match result {
        WireReply::Error(code) => {
            let error = u8::try_from(code).ok().and_then(FsError::from_code);
            return Ok(Err(error.ok_or(DecodeError::Invalid("error kind"))?));
        }
        WireReply::Done(_) => Answer::Done,
        WireReply::Entry(m) => Answer::Entry(attr(&m)?),
        WireReply::Opened(m) => Answer::Opened {
            attr: attr(&need(m.attr, "the attributes")?)?,
            created: m.created,
            rights: lease(m.rights)?,
            data: m.has_data.then(|| payload.take()),
        },
        WireReply::Bytes(_) => Answer::Bytes(payload.take()),
        WireReply::Entries(m) => entries(&m)?,
        WireReply::Statfs(s) => Answer::StatFs(StatFs {
            bytes: s.bytes,
            bytes_free: s.bytes_free,
            inodes: s.inodes,
            inodes_free: s.inodes_free,
        }),
        WireReply::Lock(m) => Answer::Lock(m.lock.map(|held| lock(Some(held))).transpose()?),
        WireReply::Offset(offset) => Answer::Offset(offset),
        WireReply::Inos(m) => Answer::Inos { first: Ino(m.first), count: m.count },
        WireReply::Subtree(bytes) => Answer::Subtree(Box::new(subtree::decode_answer(&bytes)?)),
        WireReply::Remote(m) => remote(&m)?,
        WireReply::Walked(m) => walked(&m)?,
    }))
}

fn to_entry(entry: &DirEntry) -> proto::DirEntry {
    proto::DirEntry {
        name: entry.name.as_bytes().to_vec(),
        ino: entry.ino.0,
        kind: to_kind(entry.kind),
        cookie: entry.cookie,
        attr: entry.attr.as_ref().map(to_attr),
        lease: to_lease(entry.lease),
    }
}

fn entry(m: &proto::DirEntry) -> Result<DirEntry> {
    Ok(DirEntry {
        name: name(&m.name)?,
        ino: Ino(m.ino),
        kind: kind(m.kind)?,
        cookie: m.cookie,
        attr: m.attr.as_ref().map(attr).transpose()?,
        lease: lease(m.lease)?,
    })
}

fn to_data_result(result: &std::result::Result<DataAnswer, DataError>) -> WireData {
    match result {
        Err(error) => WireData::Error(*error as i32),
        Ok(DataAnswer::Bytes(_)) => WireData::Bytes(proto::Empty {}),
        Ok(DataAnswer::Done) => WireData::Done(proto::Empty {}),
        Ok(DataAnswer::Offset(offset)) => WireData::Offset(proto::DataOffset { offset: *offset }),
    }
}

fn data_result(result: WireData, payload: &mut Payload) -> Result<std::result::Result<DataAnswer, DataError>> {
    Ok(Ok(match result {
        WireData::Error(code) => return Ok(Err(data_error(code)?)),
        WireData::Bytes(_) => DataAnswer::Bytes(payload.take()),
        WireData::Done(_) => DataAnswer::Done,
        WireData::Offset(m) => DataAnswer::Offset(m.offset),
    }))
}

fn data_error(code: i32) -> Result<DataError> {
    Ok(match code {
        1 => DataError::NoSpace,
        2 => DataError::Io,
        3 => DataError::Corrupt,
        4 => DataError::Stale,
        5 => DataError::Busy,
        6 => DataError::TooLarge,
        7 => DataError::Moved,
        _ => return Err(DecodeError::Invalid("data error")),
    })
}
