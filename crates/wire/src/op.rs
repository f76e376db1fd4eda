//! Metadata operations to protobuf and back with every check.

use std::sync::Arc;

use loligo_types::limits::{DATA_ADDRESS_MAX, PATCHES_MAX, WALK_MAX, XATTR_TOTAL_MAX};
use loligo_types::{
    Access, Control, Ino, Layout, LockOwner, Name, Op, Patches, RenameMode, Replicas, SetAttr, XattrMode,
};

use crate::common::{
    bits12, flags, kind, limit, lock, name, need, object_size, readdir_limit, set_time, to_flags, to_kind, to_lock,
    to_set_time,
};
use crate::decoder::Payload;
use crate::proto::request::Op as Wire;
use crate::proto::via::What;
use crate::{DecodeError, proto, subtree};

type Result<T> = std::result::Result<T, DecodeError>;

/// Most handles of one `Close`.
const CLOSE_MAX: usize = 65_536;

pub(crate) fn encode(op: &Op) -> Wire {
    match op {
        Op::Lookup { dir, name } => Wire::Lookup(to_at(*dir, name)),
        Op::Walk { dir, names, by } => {
            Wire::Walk(proto::Walk { dir: dir.0, names: to_names(names), by: u32::from(*by as u8) })
        }
        Op::Via { dir, names, by, what } => {
            let what = what.as_ref().clone().done_at(Ino(0)).and_then(|what| match encode(&what) {
                Wire::Mknod(m) => Some(What::Mknod(m)),
                Wire::Mkdir(m) => Some(What::Mkdir(m)),
                Wire::Symlink(m) => Some(What::Symlink(m)),
                Wire::Unlink(m) => Some(What::Unlink(m)),
                Wire::Rmdir(m) => Some(What::Rmdir(m)),
                Wire::Open(m) => Some(What::Open(m)),
                Wire::Create(m) => Some(What::Create(m)),
                Wire::SetAttr(m) => Some(What::SetAttr(m)),
                Wire::Readlink(m) => Some(What::Readlink(m)),
                Wire::Readdir(m) => Some(What::Readdir(m)),
                _ => None,
            });
            Wire::Via(proto::Via { dir: dir.0, names: to_names(names), by: u32::from(*by as u8), what })
        }
        Op::LookupParent { dir } => Wire::LookupParent(to_ino(*dir)),
        Op::GetAttr { ino } => Wire::GetAttr(to_ino(*ino)),
        Op::SetAttr { ino, set, handle } => Wire::SetAttr(to_set_attr(*ino, set, *handle)),
        Op::Open { ino, flags, handle } => {
            Wire::Open(proto::Open { ino: ino.0, handle: *handle, flags: Some(to_flags(*flags)) })
        }
        Op::Create { dir, name, mode, umask, flags, exclusive, handle } => Wire::Create(proto::Create {
            dir: dir.0,
            name: name.as_bytes().to_vec(),
            mode: u32::from(*mode),
            umask: u32::from(*umask),
            flags: Some(to_flags(*flags)),
            exclusive: *exclusive,
            handle: *handle,
        }),
        Op::Tmpfile { dir, mode, umask, flags, linkable, handle } => Wire::Tmpfile(proto::Tmpfile {
            dir: dir.0,
            mode: u32::from(*mode),
            umask: u32::from(*umask),
            flags: Some(to_flags(*flags)),
            linkable: *linkable,
            handle: *handle,
        }),
        Op::Mknod { dir, name, kind, mode, umask, rdev } => Wire::Mknod(proto::Mknod {
            dir: dir.0,
            name: name.as_bytes().to_vec(),
            kind: to_kind(*kind),
            mode: u32::from(*mode),
            umask: u32::from(*umask),
            rdev: *rdev,
        }),
        Op::Mkdir { dir, name, mode, umask } => Wire::Mkdir(proto::Mkdir {
            dir: dir.0,
            name: name.as_bytes().to_vec(),
            mode: u32::from(*mode),
            umask: u32::from(*umask),
        }),
        Op::Symlink { dir, name, target } => {
            Wire::Symlink(proto::Symlink { dir: dir.0, name: name.as_bytes().to_vec(), target: target.to_vec() })
        }
        Op::Link { ino, dir, name } => {
            Wire::Link(proto::Link { ino: ino.0, dir: dir.0, name: name.as_bytes().to_vec() })
        }
        Op::Unlink { dir, name } => Wire::Unlink(to_at(*dir, name)),
        Op::Rmdir { dir, name } => Wire::Rmdir(to_at(*dir, name)),
        Op::Rename { dir, name, new_dir, new_name, mode } => Wire::Rename(proto::Rename {
            dir: dir.0,
            name: name.as_bytes().to_vec(),
            new_dir: new_dir.0,
            new_name: new_name.as_bytes().to_vec(),
            mode: match mode {
                RenameMode::Replace => 0,
                RenameMode::NoReplace => 1,
                RenameMode::Exchange => 2,
                RenameMode::Whiteout => 3,
                RenameMode::NewWhiteout => 4,
            },
        }),
        Op::Readlink { ino } => Wire::Readlink(to_ino(*ino)),
        Op::Readdir { dir, cookie, limit, plus, handle } => {
            Wire::Readdir(proto::Readdir { dir: dir.0, cookie: *cookie, limit: *limit, plus: *plus, handle: *handle })
        }
        Op::GetXattr { ino, name } => Wire::GetXattr(to_xattr(*ino, name)),
        Op::ListXattr { ino } => Wire::ListXattr(to_ino(*ino)),
        Op::SetXattr { ino, name, value, mode } => Wire::SetXattr(proto::SetXattr {
            ino: ino.0,
            name: name.to_vec(),
            value: value.to_vec(),
            mode: match mode {
                XattrMode::Set => 0,
                XattrMode::Create => 1,
                XattrMode::Replace => 2,
            },
        }),
        Op::RemoveXattr { ino, name } => Wire::RemoveXattr(to_xattr(*ino, name)),
        Op::Access { ino, want: Access { read, write, exec } } => {
            Wire::Access(proto::AccessTo { ino: ino.0, read: *read, write: *write, exec: *exec })
        }
        Op::StatFs => Wire::Statfs(proto::Empty {}),
        Op::ReadInline { ino, handle } => Wire::ReadInline(proto::ReadInline { ino: ino.0, handle: *handle }),
        Op::WriteInline { ino, handle, offset, data: _, mtime, kill_priv } => Wire::WriteInline(proto::WriteInline {
            ino: ino.0,
            handle: *handle,
            offset: *offset,
            mtime: Some(to_set_time(*mtime)),
            kill_priv: *kill_priv,
        }),
        Op::SetData { ino, handle, cuts, grow_to, behind, mtime, spilled, kill_priv, patches } => {
            let places = patches.as_ref().map_or(&[][..], |patches| patches.places());
            Wire::SetData(proto::SetData {
                ino: ino.0,
                handle: *handle,
                cuts: *cuts,
                grow_to: *grow_to,
                behind: *behind,
                mtime: Some(to_set_time(*mtime)),
                spilled: *spilled,
                kill_priv: *kill_priv,
                offsets: places.iter().map(|(offset, _)| *offset).collect(),
                lengths: places.iter().map(|(_, len)| *len).collect(),
            })
        }
        Op::Extend { ino, handle, len } => Wire::Extend(proto::Extend { ino: ino.0, handle: *handle, len: *len }),
        Op::Control(control) => encode_control(control),
    }
}

/// Bytes of an operation that follow its message.
pub(crate) fn payload(op: &Op) -> Option<&Arc<[u8]>> {
    match op {
        Op::WriteInline { data, .. } => Some(data),
        Op::SetData { patches, .. } => patches.as_ref().map(|patches| patches.bytes()),
        Op::Control(Control::Subtree { what, .. }) => subtree::payload(what),
        _ => None,
    }
}

fn encode_control(control: &Control) -> Wire {
    match control {
        Control::Close { handles, lost } => Wire::Close(proto::Close { handles: handles.clone(), lost: *lost }),
        Control::SetLock { ino, handle, lock, wait } => Wire::SetLock(to_lock_on(*ino, *handle, lock, *wait)),
        Control::Unlock { ino, handle, lock } => Wire::Unlock(to_lock_on(*ino, *handle, lock, false)),
        Control::GetLock { ino, handle, lock } => Wire::GetLock(to_lock_on(*ino, *handle, lock, false)),
        Control::CancelLock { ino, owner } => Wire::CancelLock(proto::CancelLock { ino: ino.0, owner: owner.0 }),
        Control::Sync => Wire::Sync(proto::Empty {}),
        Control::Persist => Wire::Persist(proto::Empty {}),
        Control::GrantInos { count } => Wire::GrantInos(*count),
        Control::DataAddress { address } => Wire::DataAddress(address.to_vec()),
        Control::Subtree { dir, what } => Wire::Subtree(proto::Subtree { dir: dir.0, what: subtree::encode(what) }),
    }
}

fn to_names(names: &[Name]) -> Vec<Vec<u8>> {
    names.iter().map(|name| name.as_bytes().to_vec()).collect()
}

/// The names of a way.
fn names(all: &[Vec<u8>]) -> Result<Arc<[Name]>> {
    limit(all.len(), WALK_MAX, "names of a walk")?;
    if all.is_empty() {
        return Err(DecodeError::Invalid("walk without names"));
    }
    all.iter().map(|bytes| name(bytes)).collect()
}

fn replicas(by: u32) -> Result<Replicas> {
    let by = u8::try_from(by).ok().and_then(Replicas::from_code);
    by.ok_or(DecodeError::Invalid("use of replicas"))
}

pub(crate) fn decode(op: Wire, payload: &mut Payload) -> Result<Op> {
    Ok(match op {
        Wire::Lookup(at) => Op::Lookup { dir: Ino(at.dir), name: name(&at.name)? },
        Wire::Walk(m) => Op::Walk { dir: Ino(m.dir), names: names(&m.names)?, by: replicas(m.by)? },
        Wire::Via(m) => {
            let (names, by) = (names(&m.names)?, replicas(m.by)?);
            let what = match m.what.ok_or(DecodeError::Invalid("way to nothing"))? {
                What::Mknod(m) => Wire::Mknod(m),
                What::Mkdir(m) => Wire::Mkdir(m),
                What::Symlink(m) => Wire::Symlink(m),
                What::Unlink(m) => Wire::Unlink(m),
                What::Rmdir(m) => Wire::Rmdir(m),
                What::Open(m) => Wire::Open(m),
                What::Create(m) => Wire::Create(m),
                What::SetAttr(m) => Wire::SetAttr(m),
                What::Readlink(m) => Wire::Readlink(m),
                What::Readdir(m) => Wire::Readdir(m),
            };
            let what = decode(what, payload)?.done_at(Ino(0)).ok_or(DecodeError::Invalid("end of a way"))?;
            Op::Via { dir: Ino(m.dir), names, by, what: Box::new(what) }
        }
        Wire::LookupParent(of) => Op::LookupParent { dir: Ino(of.ino) },
        Wire::GetAttr(of) => Op::GetAttr { ino: Ino(of.ino) },
        Wire::SetAttr(m) => set_attr(m)?,
        Wire::Open(m) => Op::Open { ino: Ino(m.ino), flags: flags(m.flags), handle: m.handle },
        Wire::Create(m) => Op::Create {
            dir: Ino(m.dir),
            name: name(&m.name)?,
            mode: bits12(m.mode)?,
            umask: bits12(m.umask)?,
            flags: flags(m.flags),
            exclusive: m.exclusive,
            handle: m.handle,
        },
        Wire::Tmpfile(m) => Op::Tmpfile {
            dir: Ino(m.dir),
            mode: bits12(m.mode)?,
            umask: bits12(m.umask)?,
            flags: flags(m.flags),
            linkable: m.linkable,
            handle: m.handle,
        },
        Wire::Close(m) => {
            limit(m.handles.len(), CLOSE_MAX, "handles")?;
            Op::Control(Control::Close { handles: m.handles, lost: m.lost })
        }
        Wire::Mknod(m) => Op::Mknod {
            dir: Ino(m.dir),
            name: name(&m.name)?,
            kind: kind(m.kind)?,
            mode: bits12(m.mode)?,
            umask: bits12(m.umask)?,
            rdev: m.rdev,
        },
        Wire::Mkdir(m) => {
            Op::Mkdir { dir: Ino(m.dir), name: name(&m.name)?, mode: bits12(m.mode)?, umask: bits12(m.umask)? }
        }
        Wire::Symlink(m) => Op::Symlink { dir: Ino(m.dir), name: name(&m.name)?, target: small(m.target, "target")? },
        Wire::Link(m) => Op::Link { ino: Ino(m.ino), dir: Ino(m.dir), name: name(&m.name)? },
        Wire::Unlink(at) => Op::Unlink { dir: Ino(at.dir), name: name(&at.name)? },
        Wire::Rmdir(at) => Op::Rmdir { dir: Ino(at.dir), name: name(&at.name)? },
        Wire::Rename(m) => Op::Rename {
            dir: Ino(m.dir),
            name: name(&m.name)?,
            new_dir: Ino(m.new_dir),
            new_name: name(&m.new_name)?,
            mode: match m.mode {
                0 => RenameMode::Replace,
                1 => RenameMode::NoReplace,
                2 => RenameMode::Exchange,
                3 => RenameMode::Whiteout,
                4 => RenameMode::NewWhiteout,
                _ => return Err(DecodeError::Invalid("rename mode")),
            },
        },
        Wire::Readlink(of) => Op::Readlink { ino: Ino(of.ino) },
        Wire::Readdir(m) => Op::Readdir {
            dir: Ino(m.dir),
            cookie: m.cookie,
            limit: readdir_limit(m.limit),
            plus: m.plus,
            handle: m.handle,
        },
        Wire::GetXattr(m) => Op::GetXattr { ino: Ino(m.ino), name: small(m.name, "xattr name")? },
        Wire::ListXattr(of) => Op::ListXattr { ino: Ino(of.ino) },
        Wire::SetXattr(m) => Op::SetXattr {
            ino: Ino(m.ino),
            name: small(m.name, "xattr name")?,
            value: small(m.value, "xattr value")?,
            mode: match m.mode {
                0 => XattrMode::Set,
                1 => XattrMode::Create,
                2 => XattrMode::Replace,
                _ => return Err(DecodeError::Invalid("xattr mode")),
            },
        },
        Wire::RemoveXattr(m) => Op::RemoveXattr { ino: Ino(m.ino), name: small(m.name, "xattr name")? },
        Wire::Access(m) => Op::Access { ino: Ino(m.ino), want: Access { read: m.read, write: m.write, exec: m.exec } },
        Wire::Statfs(_) => Op::StatFs,
        Wire::ReadInline(m) => Op::ReadInline { ino: Ino(m.ino), handle: m.handle },
        Wire::WriteInline(m) => Op::WriteInline {
            ino: Ino(m.ino),
            handle: m.handle,
            offset: m.offset,
            data: payload.take(),
            mtime: set_time(m.mtime.unwrap_or_default()),
            kill_priv: m.kill_priv,
        },
        Wire::SetData(m) => Op::SetData {
            ino: Ino(m.ino),
            handle: m.handle,
            cuts: m.cuts,
            grow_to: m.grow_to,
            behind: m.behind,
            mtime: set_time(m.mtime.unwrap_or_default()),
            spilled: m.spilled,
            kill_priv: m.kill_priv,
            patches: patches(m.offsets, m.lengths, payload)?,
        },
        Wire::Extend(m) => Op::Extend { ino: Ino(m.ino), handle: m.handle, len: m.len },
        Wire::SetLock(m) => {
            Op::Control(Control::SetLock { ino: Ino(m.ino), handle: m.handle, lock: lock(m.lock)?, wait: m.wait })
        }
        Wire::Unlock(m) => Op::Control(Control::Unlock { ino: Ino(m.ino), handle: m.handle, lock: lock(m.lock)? }),
        Wire::GetLock(m) => Op::Control(Control::GetLock { ino: Ino(m.ino), handle: m.handle, lock: lock(m.lock)? }),
        Wire::CancelLock(m) => Op::Control(Control::CancelLock { ino: Ino(m.ino), owner: LockOwner(m.owner) }),
        Wire::Sync(_) => Op::Control(Control::Sync),
        Wire::Persist(_) => Op::Control(Control::Persist),
        Wire::GrantInos(count) => Op::Control(Control::GrantInos { count }),
        Wire::DataAddress(address) => {
            limit(address.len(), DATA_ADDRESS_MAX, "bytes of an address in the store")?;
            Op::Control(Control::DataAddress { address: address.into() })
        }
        Wire::Subtree(m) => {
            Op::Control(Control::Subtree { dir: Ino(m.dir), what: Box::new(subtree::decode(&m.what, payload)?) })
        }
    })
}

/// Bytes whose exact limit is for the operation to answer; here only what can be no mistake of a program.
fn small(bytes: Vec<u8>, what: &'static str) -> Result<Arc<[u8]>> {
    limit(bytes.len(), XATTR_TOTAL_MAX, what)?;
    Ok(Arc::from(bytes))
}

/// The bytes of the payload, with their places; a payload without places is left, and refused with the message.
fn patches(offsets: Vec<u64>, lengths: Vec<u32>, payload: &mut Payload) -> Result<Option<Arc<Patches>>> {
    if offsets.is_empty() && lengths.is_empty() {
        return Ok(None);
    }
    limit(offsets.len(), PATCHES_MAX, "places")?;
    if offsets.len() != lengths.len() {
        return Err(DecodeError::Invalid("number of lengths"));
    }
    let places = offsets.into_iter().zip(lengths).collect();
    Patches::new(places, payload.take())
        .map(|patches| Some(Arc::new(patches)))
        .ok_or(DecodeError::Invalid("place of data"))
}

fn to_ino(ino: Ino) -> proto::Ino {
    proto::Ino { ino: ino.0 }
}

fn to_at(dir: Ino, name: &loligo_types::Name) -> proto::At {
    proto::At { dir: dir.0, name: name.as_bytes().to_vec() }
}

fn to_xattr(ino: Ino, name: &Arc<[u8]>) -> proto::XattrOf {
    proto::XattrOf { ino: ino.0, name: name.to_vec() }
}

fn to_lock_on(ino: Ino, handle: u64, lock: &loligo_types::FileLock, wait: bool) -> proto::LockOn {
    proto::LockOn { ino: ino.0, handle, lock: Some(to_lock(lock)), wait }
}

fn to_set_attr(ino: Ino, set: &SetAttr, handle: Option<u64>) -> proto::SetAttr {
    proto::SetAttr {
        ino: ino.0,
        handle,
        mode: set.mode.map(u32::from),
        uid: set.uid,
        gid: set.gid,
        size: set.size,
        atime: set.atime.map(to_set_time),
        mtime: set.mtime.map(to_set_time),
        object_size: set.layout.map(|layout| layout.object_size),
        grow: set.grow,
        kill_priv: set.kill_priv,
    }
}

fn set_attr(m: proto::SetAttr) -> Result<Op> {
    let set = SetAttr {
        mode: m.mode.map(bits12).transpose()?,
        uid: m.uid,
        gid: m.gid,
        size: m.size,
        grow: m.grow,
        kill_priv: m.kill_priv,
        atime: m.atime.map(set_time),
        mtime: m.mtime.map(set_time),
        layout: m.object_size.map(object_size).transpose()?.map(|object_size| Layout { object_size }),
    };
    Ok(Op::SetAttr { ino: Ino(m.ino), set, handle: m.handle })
}

/// The operation of a request must be there.
pub(crate) fn required(op: Option<Wire>) -> Result<Wire> {
    need(op, "the operation")
}
