//! Every operation of the tree that a client can ask of a metadata server. Their arguments are in `args.rs`. Requests that are no
//! operations of the tree are in `control.rs`.

use std::sync::Arc;

use crate::{Control, Hit, Ino, Kind, Lease, Name, Patches};
use props::BOTH;

mod args;
mod kind;
mod props;
mod subject;
#[cfg(test)]
mod tests;

pub use args::{Access, OpenFlags, RenameMode, Replicas, SetAttr, SetTime, Stamp, XattrMode};
pub use kind::OpKind;
pub(crate) use kind::kinds;
pub use props::{
    Adds, Again, ByOwner, Claims, DirEffect, NamesLease, OnTheWay, Props, Reaches, Shows, Xattrs, is_looked_at,
};
pub use subject::{About, Subject};

/// Version of the protocol between clients and servers. It grows with each change of what can be asked or answered, and of the bytes.
pub const PROTOCOL_VERSION: u32 = 15;

/// The operations of the tree, and the control requests. `handle` numbers are chosen by the client, unique within its session, and live
/// from the operation that opens to [`Control::Close`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Op {
    /// Finds a name in a directory. `Entry`.
    Lookup { dir: Ino, name: Name },
    /// Finds names one after the other: the first in `dir`, each other one in what was found before it, as far as this rank has it. `Walked`.
    /// None is a symbolic link's target, `.` or `..`; at least one, at most [`crate::limits::WALK_MAX`]. Brings no leases. Each name is
    /// found as a `Lookup` of its own would find it, at some moment while the request is under way. `by`: where directories on the way are other
    /// ranks', this one may find the way by its replicas of them.
    Walk { dir: Ino, names: Arc<[Name]>, by: Replicas },
    /// Goes as a `Walk`, and does something where the names lead to, which takes the place of the directory or inode in `what`; answered as `what` is.
    /// In a directory: makes a name or takes one away (`Mknod`, `Mkdir`, `Symlink`, `Create`, `Unlink`, `Rmdir`), or lists it (`Readdir` from the start,
    /// without a handle: `Walked` with the directory and its `Entries`). Of an inode: `Open`, `SetAttr` without a handle, `Readlink`; a symbolic link is only
    /// read. `Walked` if the way, or what it leads to, is another rank's, or is not what `what` needs: then nothing was done. (ShardFS's
    /// operations of class 0 are one request each.)
    Via { dir: Ino, names: Arc<[Name]>, by: Replicas, what: Box<Op> },
    /// The directory above one. `Entry`. The root is its own parent. Of what is no directory, for root alone (else `NotDir`): a directory that has a
    /// name of it.
    LookupParent { dir: Ino },
    /// Attributes. `Entry`. A handle makes the attributes of an open orphan readable.
    GetAttr { ino: Ino },
    /// Changes attributes. `Entry`. With the number of a handle open for writing, `size` needs no permission (ftruncate).
    SetAttr { ino: Ino, set: SetAttr, handle: Option<u64> },
    /// Opens a regular file or directory by number. `Opened`.
    Open { ino: Ino, flags: OpenFlags, handle: u64 },
    /// Opens a name, making a regular file if it is not there. `Opened`. `exclusive`: `Exists` if it is (O_EXCL).
    /// `mode` has not been masked: `umask` counts unless the directory has a default ACL.
    Create { dir: Ino, name: Name, mode: u16, umask: u16, flags: OpenFlags, exclusive: bool, handle: u64 },
    /// Opens a new file that has no name (O_TMPFILE). `Opened`. `linkable`: a later `Link` may name it.
    Tmpfile { dir: Ino, mode: u16, umask: u16, flags: OpenFlags, linkable: bool, handle: u64 },
    /// Makes a node of any kind but directory and symlink. `Entry`.
    Mknod { dir: Ino, name: Name, kind: Kind, mode: u16, umask: u16, rdev: u32 },
    /// Makes a directory. `Entry`.
    Mkdir { dir: Ino, name: Name, mode: u16, umask: u16 },
    /// Makes a symbolic link. `Entry`.
    Symlink { dir: Ino, name: Name, target: Arc<[u8]> },
    /// Gives a file one more name. `Entry`.
    Link { ino: Ino, dir: Ino, name: Name },
    /// Takes a name of anything but a directory away. `Done`.
    Unlink { dir: Ino, name: Name },
    /// Takes an empty directory away. `Done`.
    Rmdir { dir: Ino, name: Name },
    /// Renames. `Done`.
    Rename { dir: Ino, name: Name, new_dir: Ino, new_name: Name, mode: RenameMode },
    /// Target of a symbolic link. `Bytes`.
    Readlink { ino: Ino },
    /// Entries after `cookie` (0: from the start), at most `limit`. `Entries`. `plus`: with attributes. `handle`: an
    /// open directory, readable even after its mode changed or it was removed (then empty).
    Readdir { dir: Ino, cookie: u64, limit: u32, plus: bool, handle: Option<u64> },
    /// Value of an xattr. `Bytes`. Names under `loligo.` are computed.
    GetXattr { ino: Ino, name: Arc<[u8]> },
    /// Names of all xattrs, each ended by a NUL. `Bytes`.
    ListXattr { ino: Ino },
    /// Sets an xattr. `Entry`.
    SetXattr { ino: Ino, name: Arc<[u8]>, value: Arc<[u8]>, mode: XattrMode },
    /// Removes an xattr. `Entry`.
    RemoveXattr { ino: Ino, name: Arc<[u8]> },
    /// Checks the caller's access. `Done` or `Access`.
    Access { ino: Ino, want: Access },
    /// Totals of the file system. `StatFs`.
    StatFs,
    /// Data of a file that is held in the inode. `Bytes` (whole), or `Stale` if it is in objects: open tells.
    ReadInline { ino: Ino, handle: u64 },
    /// Writes into a file that is held in the inode. `Entry`. `offset: None` appends at the current end, atomically.
    /// `Busy` if the file is not inline (any more) or would grow beyond the threshold: then spill, and use objects.
    /// No data at an offset beyond the end makes the file reach up to it.
    /// `kill_priv`: clears setuid and setgid, as a write by a process without CAP_FSETID must. Capabilities end at every write.
    WriteInline { ino: Ino, handle: u64, offset: Option<u64>, data: Arc<[u8]>, mtime: SetTime, kill_priv: bool },
    /// Tells size and times after data was written to objects. `Entry`. `spilled`: the data is now in objects (the
    /// inline record is dropped). `grow_to`: the size becomes at least this; never shrinks. `cuts`: as in the attributes
    /// that the writer knew; `Stale` if the file was cut since, and the data must be written again. If `grow_to` is the end
    /// of room that the session has reserved, this makes the append visible. `behind`: the first byte written that was
    /// behind the end as the writer knew it; `Stale` if an append of somebody else may lie there by now. `None` from a
    /// writer that is alone. `patches`: data that was not written to objects: it gets into the journal with all this, is durable with the
    /// answer, and is written to objects by the rank. At most [`crate::msg::Welcome::journal_max`] bytes, from a writer that is alone, of which
    /// nothing ends behind `grow_to`; `NotSupported` if the rank does not take them now, and nothing was done.
    SetData {
        ino: Ino,
        handle: u64,
        cuts: u32,
        grow_to: Option<u64>,
        behind: Option<u64>,
        mtime: SetTime,
        spilled: bool,
        kill_priv: bool,
        patches: Option<Arc<Patches>>,
    },
    /// Reserves room at the end for an append to an object file shared with other writers. `Offset` says where. Nobody sees
    /// the room before [`Op::SetData`] tells its end; it belongs to the session until then, or until it reserves other room,
    /// has no handle left that may write, or ends. `len` 0: gives the room back that the session has, and says that it may
    /// have left bytes behind the end.
    Extend { ino: Ino, handle: u64, len: u64 },
    /// A request that is no operation of the tree: on handles, locks, the session, or a decoupled subtree.
    Control(Control),
}

impl Op {
    /// Subjects of the operation. The first tells the rank that has authority over it: of a rename it is the old name, of a link the
    /// new one.
    #[inline]
    pub fn subjects(&self) -> [Subject<'_>; 2] {
        let first = match self {
            Op::Lookup { dir, name }
            | Op::Create { dir, name, .. }
            | Op::Mknod { dir, name, .. }
            | Op::Mkdir { dir, name, .. }
            | Op::Symlink { dir, name, .. }
            | Op::Unlink { dir, name }
            | Op::Rmdir { dir, name } => Subject::Name(*dir, name),
            Op::Walk { dir, names, .. } | Op::Via { dir, names, .. } => match names.first() {
                Some(name) => Subject::Name(*dir, name),
                None => Subject::Names(*dir),
            },
            Op::Tmpfile { dir, .. } | Op::Readdir { dir, .. } => Subject::Names(*dir),
            Op::Link { ino, dir, name } => return [Subject::Name(*dir, name), Subject::Inode(*ino)],
            Op::Rename { dir, name, new_dir, new_name, .. } => {
                return [Subject::Name(*dir, name), Subject::Name(*new_dir, new_name)];
            }
            Op::LookupParent { dir: ino }
            | Op::GetAttr { ino }
            | Op::SetAttr { ino, .. }
            | Op::Open { ino, .. }
            | Op::Readlink { ino }
            | Op::GetXattr { ino, .. }
            | Op::ListXattr { ino }
            | Op::SetXattr { ino, .. }
            | Op::RemoveXattr { ino, .. }
            | Op::Access { ino, .. }
            | Op::ReadInline { ino, .. }
            | Op::WriteInline { ino, .. }
            | Op::SetData { ino, .. }
            | Op::Extend { ino, .. } => Subject::Inode(*ino),
            Op::StatFs => Subject::Nothing,
            Op::Control(control) => control.subject(),
        };
        [first, Subject::Nothing]
    }

    /// Properties of the operation: its row of the table. Made part of each caller, which looks at one or two of them: so it pays for a match
    /// on the variant, and the rest of the row is never made.
    #[inline(always)]
    pub fn props(&self) -> Props {
        match self {
            Op::Lookup { .. } => Props {
                remote: true,
                claims: Claims::HeldBack,
                on_the_way: OnTheWay::Name,
                names_lease: NamesLease::FirstLooked,
                want: BOTH,
                names_cached: true,
                shows: Shows::Child,
                ..Props::READ
            },
            Op::Walk { .. } => Props { by_owner: ByOwner::Never, ..Props::READ },
            Op::Via { what, .. } => what.props_of_way(),
            Op::LookupParent { .. } => Props {
                remote: true,
                on_the_way: OnTheWay::Itself,
                counts_in_itself: true,
                want: BOTH,
                shows: Shows::Parent,
                by_owner: ByOwner::BelowRoot,
                ..Props::READ
            },
            Op::GetAttr { .. } => Props {
                claims: Claims::HeldBack,
                tells_size: true,
                on_the_way: OnTheWay::Itself,
                want: Lease::ATTR,
                ..Props::READ
            },
            Op::SetAttr { set, handle, .. } => {
                let sizes = set.size.is_some();
                let restricts = set.mode.is_some() || set.uid.is_some() || set.gid.is_some();
                Props {
                    frees: sizes,
                    data: sizes,
                    handle: *handle,
                    dirs: if restricts { DirEffect::Restricts } else { DirEffect::Nothing },
                    by_owner: if sizes { ByOwner::WithData } else { ByOwner::Always },
                    ..Props::SET
                }
            }
            Op::Open { flags, handle, .. } => Props {
                changes: flags.truncate,
                needs_write: flags.write || flags.truncate || flags.append,
                data: flags.truncate,
                only_reads: !flags.write && !flags.truncate,
                repeatable: false,
                opens: Some((*handle, *flags)),
                claims: Claims::Opened,
                tells_size: true,
                hit: Some(if flags.truncate { Hit::Iwr } else { Hit::Ird }),
                want: Lease::ATTR,
                again: Again::Open,
                ..Props::READ
            },
            Op::Create { flags, handle, .. } => Props {
                adds: Adds::Entry,
                data: flags.truncate,
                opens: Some((*handle, *flags)),
                reaches: Reaches::Node,
                remote: true,
                claims: Claims::Opened,
                names_cached: false,
                again: Again::Open,
                ..Props::MAKE
            },
            Op::Tmpfile { flags, handle, .. } => Props {
                makes_inode: true,
                adds: Adds::Change,
                opens: Some((*handle, *flags)),
                may_lag: false,
                want: Lease::ATTR,
                again: Again::Open,
                by_owner: ByOwner::Never,
                ..Props::CHANGE
            },
            Op::Mknod { .. } | Op::Symlink { .. } => Props::MAKE,
            Op::Mkdir { .. } => Props { dirs: DirEffect::Makes, ..Props::MAKE },
            // It changes what counts the inode elsewhere, or says where it is.
            Op::Link { .. } => {
                Props { makes_inode: false, recounts: true, may_lag: false, shows: Shows::Subject, ..Props::MAKE }
            }
            Op::Unlink { .. } => Props { reaches: Reaches::Node, recounts: true, ..Props::REMOVE },
            Op::Rmdir { .. } => {
                Props { reaches: Reaches::Dir, dirs: DirEffect::Ends, busy_is_own: true, ..Props::REMOVE }
            }
            Op::Rename { mode, .. } => Props {
                makes_inode: mode.leaves_whiteout(),
                frees: true,
                adds: if mode.leaves_whiteout() { Adds::Change } else { Adds::Nothing },
                reaches: Reaches::Any,
                recounts: true,
                dirs: DirEffect::Moves,
                names_lease: NamesLease::Second,
                want: Lease::NAMES,
                ..Props::CHANGE
            },
            Op::Readlink { .. } => Props { attr_lease: true, ..Props::READ },
            Op::Readdir { cookie, plus, handle, .. } => Props {
                repeatable: false,
                handle: *handle,
                hit: Some(Hit::Readdir),
                lists_from: Some(*cookie),
                lists_attrs: *plus,
                names_lease: NamesLease::First,
                want: if *plus { BOTH } else { Lease::NAMES },
                names_cached: true,
                shows: Shows::Entries,
                ..Props::READ
            },
            Op::GetXattr { name, .. } => Props {
                on_the_way: if is_looked_at(name) { OnTheWay::Itself } else { OnTheWay::Refused },
                attr_lease: true,
                xattrs: Xattrs::Looked,
                ..Props::READ
            },
            Op::ListXattr { .. } => {
                Props { on_the_way: OnTheWay::Itself, attr_lease: true, xattrs: Xattrs::Looked, ..Props::READ }
            }
            Op::SetXattr { name, .. } => Props { adds: Adds::Change, ..Props::of_xattr(name) },
            Op::RemoveXattr { name, .. } => Props { frees: true, ..Props::of_xattr(name) },
            Op::Access { want, .. } => Props {
                needs_write: want.write,
                on_the_way: if want.write { OnTheWay::Refused } else { OnTheWay::Itself },
                attr_lease: true,
                ..Props::READ
            },
            Op::StatFs => Props { may_lag: false, hit: None, by_owner: ByOwner::Never, ..Props::READ },
            Op::ReadInline { handle, .. } => Props {
                repeatable: false,
                handle: Some(*handle),
                tells_size: true,
                by_owner: ByOwner::WithData,
                ..Props::READ
            },
            Op::WriteInline { handle, .. } => Props {
                adds: Adds::Longer,
                handle: Some(*handle),
                busy_is_own: true,
                by_owner: ByOwner::WithData,
                ..Props::WRITE
            },
            Op::SetData { handle, patches, .. } => Props {
                handle: Some(*handle),
                busy_is_own: true,
                by_owner: if patches.is_none() { ByOwner::WithObjects } else { ByOwner::Never },
                ..Props::WRITE
            },
            Op::Extend { handle, len, .. } => Props {
                adds: if *len > 0 { Adds::Room } else { Adds::Nothing },
                handle: Some(*handle),
                want: Lease::NONE,
                again: Again::Value,
                by_owner: ByOwner::WithObjects,
                ..Props::WRITE
            },
            Op::Control(control) => control.props(),
        }
    }

    /// Properties of a way at whose end this is done. Ways do not end with ways.
    #[inline(never)]
    fn props_of_way(&self) -> Props {
        Props::of_way(self.props())
    }

    /// Bytes that the operation says in fields of any length; names and numbers are not counted.
    pub fn said(&self) -> usize {
        match self {
            Op::Via { names, what, .. } => what.said() + names.iter().map(|name| name.as_bytes().len()).sum::<usize>(),
            Op::Symlink { target, .. } => target.len(),
            Op::SetXattr { name, value, .. } => name.len() + value.len(),
            Op::GetXattr { name, .. } | Op::RemoveXattr { name, .. } => name.len(),
            Op::WriteInline { data, .. } => data.len(),
            Op::SetData { patches, .. } => {
                patches.as_ref().map_or(0, |patches| patches.len() + size_of_val(patches.places()))
            }
            Op::Lookup { .. }
            | Op::Walk { .. }
            | Op::LookupParent { .. }
            | Op::GetAttr { .. }
            | Op::SetAttr { .. }
            | Op::Open { .. }
            | Op::Create { .. }
            | Op::Tmpfile { .. }
            | Op::Mknod { .. }
            | Op::Mkdir { .. }
            | Op::Link { .. }
            | Op::Unlink { .. }
            | Op::Rmdir { .. }
            | Op::Rename { .. }
            | Op::Readlink { .. }
            | Op::Readdir { .. }
            | Op::ListXattr { .. }
            | Op::Access { .. }
            | Op::StatFs
            | Op::ReadInline { .. }
            | Op::Extend { .. } => 0,
            Op::Control(control) => control.said(),
        }
    }

    /// True if the operation can change durable metadata.
    #[inline]
    pub fn is_change(&self) -> bool {
        self.props().changes
    }

    /// True if the operation may make an inode.
    #[inline]
    pub fn makes_inode(&self) -> bool {
        self.props().makes_inode
    }

    /// The handle that the operation opens, and its flags; also at the end of a way.
    #[inline]
    pub fn opens(&self) -> Option<(u64, OpenFlags)> {
        self.props().opens
    }

    /// The name that the operation is about first, and its directory. Of a listing there is none.
    #[inline]
    pub fn first_name(&self) -> Option<(Ino, &Name)> {
        self.subjects()[0].name()
    }

    /// The other name of an operation on two, and its directory.
    #[inline]
    pub fn second_name(&self) -> Option<(Ino, &Name)> {
        self.subjects()[1].name()
    }

    /// The first subject.
    #[inline]
    pub fn about(&self) -> About {
        match self.subjects()[0] {
            Subject::Name(dir, _) | Subject::Names(dir) => About::Names(dir),
            Subject::Inode(ino) => About::Inode(ino),
            Subject::Nothing => About::Nothing,
        }
    }

    /// The same in another directory, or of another inode; `None` if it cannot be what is done at the end of a way ([`Op::Via`]).
    #[must_use]
    pub fn done_at(mut self, at: Ino) -> Option<Op> {
        match &mut self {
            Op::Mknod { dir: of, .. }
            | Op::Mkdir { dir: of, .. }
            | Op::Symlink { dir: of, .. }
            | Op::Create { dir: of, .. }
            | Op::Unlink { dir: of, .. }
            | Op::Rmdir { dir: of, .. }
            | Op::Readdir { dir: of, cookie: 0, handle: None, .. }
            | Op::Open { ino: of, .. }
            | Op::SetAttr { ino: of, handle: None, .. }
            | Op::Readlink { ino: of } => *of = at,
            _ => return None,
        }
        Some(self)
    }

    /// Has the operation end setuid and setgid if it changes content: of callers who are not believed to have CAP_FSETID.
    pub fn end_privileges(&mut self) {
        if let Op::WriteInline { kill_priv, .. } | Op::SetData { kill_priv, .. } = self {
            *kill_priv = true;
        }
    }

    /// Kind of the operation, or of the control request.
    #[inline]
    pub fn kind(&self) -> OpKind {
        OpKind::new(self.place())
    }

    /// Short name, the same in metrics, logs and `loligo top`.
    pub fn name(&self) -> &'static str {
        self.kind().name()
    }
}

kinds!(Op {
    Lookup: "lookup",
    Walk: "walk",
    LookupParent: "lookup_parent",
    GetAttr: "getattr",
    SetAttr: "setattr",
    Open: "open",
    Create: "create",
    Tmpfile: "tmpfile",
    Mknod: "mknod",
    Mkdir: "mkdir",
    Symlink: "symlink",
    Link: "link",
    Unlink: "unlink",
    Rmdir: "rmdir",
    Rename: "rename",
    Readlink: "readlink",
    Readdir: "readdir",
    GetXattr: "getxattr",
    ListXattr: "listxattr",
    SetXattr: "setxattr",
    RemoveXattr: "removexattr",
    Access: "access",
    StatFs: "statfs",
    ReadInline: "read_inline",
    WriteInline: "write_inline",
    SetData: "set_data",
    Extend: "extend",
} else {
    Op::Via { what, .. } => what.place(),
    Op::Control(control) => Op::NAMES.len() + control.place(),
});
