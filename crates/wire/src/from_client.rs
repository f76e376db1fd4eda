//! Messages to a server, to protobuf and back with every check.

use loligo_types::limits::GROUPS_MAX;
use loligo_types::msg::{DataRequest, Hello, Reclaim, Request, ToServer};
use loligo_types::{Cred, DataOp, Ino, Seq, SessionId};

use crate::common::{
    flags, fs_id, lease, leases, limit, lock, need, object_size, to_flags, to_lease, to_leases, to_lock,
};
use crate::decoder::Payload;
use crate::proto::data_request::Op as WireData;
use crate::proto::to_server::Msg;
use crate::{DecodeError, op, proto};

type Result<T> = std::result::Result<T, DecodeError>;

/// Longest name of a client, bytes.
const CLIENT_NAME_MAX: usize = 255;

pub(crate) fn encode(msg: &ToServer) -> proto::ToServer {
    let msg = match msg {
        ToServer::Hello(hello) => Msg::Hello(to_hello(hello)),
        ToServer::Reclaim(held) => Msg::Reclaim(to_reclaim(held)),
        ToServer::Request(request) => Msg::Request(to_request(request)),
        ToServer::Data(request) => Msg::Data(to_data(request)),
        ToServer::RecallDone { ino, id } => Msg::RecallDone(proto::RecallDone { ino: ino.0, id: *id }),
        ToServer::Release(leases) => Msg::Release(proto::Leases { leases: to_leases(leases) }),
        ToServer::Ping => Msg::Ping(proto::Empty {}),
        ToServer::Goodbye { gone } => Msg::Goodbye(proto::Goodbye { gone: *gone }),
    };
    proto::ToServer { msg: Some(msg) }
}

pub(crate) fn decode(msg: proto::ToServer, mut payload: Payload) -> Result<ToServer> {
    let msg = match need(msg.msg, "its kind")? {
        Msg::Hello(m) => ToServer::Hello(hello(m)?),
        Msg::Reclaim(m) => ToServer::Reclaim(reclaim(m)?),
        Msg::Request(m) => ToServer::Request(request(m, &mut payload)?),
        Msg::Data(m) => ToServer::Data(data(m, &mut payload)?),
        Msg::RecallDone(m) => ToServer::RecallDone { ino: Ino(m.ino), id: m.id },
        Msg::Release(m) => ToServer::Release(leases(m.leases)?),
        Msg::Ping(_) => ToServer::Ping,
        Msg::Goodbye(m) => ToServer::Goodbye { gone: m.gone },
    };
    payload.finish()?;
    Ok(msg)
}

fn to_hello(hello: &Hello) -> proto::Hello {
    proto::Hello {
        version_min: hello.versions.0,
        version_max: hello.versions.1,
        resume_session: hello.resume.map(|(session, _)| session.0),
        resume_secret: hello.resume.map_or(0, |(_, secret)| secret),
        name: hello.name.clone(),
        fs_id: hello.fs_id.map(|id| id.to_vec()),
        client: hello.client,
    }
}

fn hello(m: proto::Hello) -> Result<Hello> {
    limit(m.name.len(), CLIENT_NAME_MAX, "bytes of the client's name")?;
    Ok(Hello {
        versions: (m.version_min, m.version_max),
        resume: m.resume_session.map(|session| (SessionId(session), m.resume_secret)),
        name: m.name,
        fs_id: m.fs_id.as_deref().map(fs_id).transpose()?,
        client: m.client,
    })
}

fn to_reclaim(held: &Reclaim) -> proto::Reclaim {
    let open = |(handle, ino, flags, rights): &(u64, Ino, _, _)| proto::HeldOpen {
        handle: *handle,
        ino: ino.0,
        flags: Some(to_flags(*flags)),
        rights: to_lease(*rights),
    };
    let lock = |(ino, handle, lock): &(Ino, u64, _)| proto::HeldLock {
        ino: ino.0,
        handle: *handle,
        lock: Some(to_lock(lock)),
    };
    proto::Reclaim {
        opens: held.opens.iter().map(open).collect(),
        leases: to_leases(&held.leases),
        locks: held.locks.iter().map(lock).collect(),
    }
}

fn reclaim(m: proto::Reclaim) -> Result<Reclaim> {
    let open = |m: proto::HeldOpen| Ok((m.handle, Ino(m.ino), flags(m.flags), lease(m.rights)?));
    let held_lock = |m: proto::HeldLock| Ok((Ino(m.ino), m.handle, lock(m.lock)?));
    Ok(Reclaim {
        opens: m.opens.into_iter().map(open).collect::<Result<_>>()?,
        leases: leases(m.leases)?,
        locks: m.locks.into_iter().map(held_lock).collect::<Result<_>>()?,
    })
}

fn to_request(request: &Request) -> proto::Request {
    proto::Request {
        seq: request.seq.0,
        answered: request.answered.0,
        want: to_lease(request.want),
        uid: request.cred.uid,
        gid: request.cred.gid,
        groups: request.cred.groups.clone(),
        ino: request.ino.map_or(0, |ino| ino.0),
        ways: request.ways.map_or(0, |depth| u32::from(depth) + 1),
        op: Some(op::encode(&request.op)),
    }
}

fn request(m: proto::Request, payload: &mut Payload) -> Result<Request> {
    limit(m.groups.len(), GROUPS_MAX, "groups")?;
    if !m.groups.is_sorted() {
        return Err(DecodeError::Invalid("order of groups"));
    }
    Ok(Request {
        seq: Seq(m.seq),
        answered: Seq(m.answered),
        want: lease(m.want)?,
        cred: Cred { uid: m.uid, gid: m.gid, groups: m.groups },
        op: op::decode(op::required(m.op)?, payload)?,
        ino: (m.ino != 0).then_some(Ino(m.ino)),
        ways: m.ways.checked_sub(1).map(u16::try_from).transpose().map_err(|_| DecodeError::Invalid("depth"))?,
    })
}

fn to_data(request: &DataRequest) -> proto::DataRequest {
    let op = match &request.op {
        DataOp::Read { offset, len } => WireData::Read(proto::Range { offset: *offset, len: u64::from(*len) }),
        DataOp::Write { offset, data: _ } => WireData::Write(*offset),
        DataOp::Sync => WireData::Sync(proto::Empty {}),
        DataOp::Punch { offset, len } => WireData::Punch(proto::Range { offset: *offset, len: *len }),
        DataOp::Discard { from } => WireData::Discard(*from),
        DataOp::Seek { offset, size, data } => {
            WireData::Seek(proto::Seek { offset: *offset, size: *size, data: *data })
        }
    };
    proto::DataRequest { id: request.id, ino: request.ino.0, object_size: request.object_size, op: Some(op) }
}

fn data(m: proto::DataRequest, payload: &mut Payload) -> Result<DataRequest> {
    let op = match need(m.op, "the data operation")? {
        WireData::Read(r) => DataOp::Read {
            offset: r.offset,
            len: u32::try_from(r.len).map_err(|_| DecodeError::Invalid("length of a read"))?,
        },
        WireData::Write(offset) => DataOp::Write { offset, data: payload.take() },
        WireData::Sync(_) => DataOp::Sync,
        WireData::Punch(r) => DataOp::Punch { offset: r.offset, len: r.len },
        WireData::Discard(from) => DataOp::Discard { from },
        WireData::Seek(s) => DataOp::Seek { offset: s.offset, size: s.size, data: s.data },
    };
    Ok(DataRequest { id: m.id, ino: Ino(m.ino), object_size: object_size(m.object_size)?, op })
}
