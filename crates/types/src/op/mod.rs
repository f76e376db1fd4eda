//! Every operation of the tree that a client can ask of a metadata server. Their arguments are in `args.rs`. Requests that are no
//! operations of the tree are in `control.rs`.

use std::sync::Arc;

use crate::{Control, Ino, Kind, Name, Patches};

mod args;
mod kind;

pub use args::{Access, OpenFlags, RenameMode, Replicas, SetAttr, SetTime, Stamp, XattrMode};
pub use kind::OpKind;
pub(crate) use kind::kinds;

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

/// Subject of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum About {
    /// Names in a directory.
    Names(Ino),
    /// An inode.
    Inode(Ino),
    /// Neither: it is for handles, or for the file system as a whole.
    Nothing,
}

impl Op {
    /// True if the operation can change durable metadata.
    pub fn is_change(&self) -> bool {
        match self {
            Op::Via { what, .. } => return what.is_change(),
            Op::Control(control) => return control.is_change(),
            _ => {}
        }
        !matches!(
            self,
            Op::Lookup { .. }
                | Op::Walk { .. }
                | Op::LookupParent { .. }
                | Op::GetAttr { .. }
                | Op::Readlink { .. }
                | Op::Readdir { .. }
                | Op::GetXattr { .. }
                | Op::ListXattr { .. }
                | Op::Access { .. }
                | Op::StatFs
                | Op::ReadInline { .. }
        ) && !matches!(self, Op::Open { flags, .. } if !flags.truncate)
    }

    /// The name that the operation is about first, and its directory. Of a listing there is none.
    pub fn first_name(&self) -> Option<(Ino, &Name)> {
        match self {
            Op::Lookup { dir, name }
            | Op::Create { dir, name, .. }
            | Op::Mknod { dir, name, .. }
            | Op::Mkdir { dir, name, .. }
            | Op::Symlink { dir, name, .. }
            | Op::Link { dir, name, .. }
            | Op::Unlink { dir, name }
            | Op::Rmdir { dir, name }
            | Op::Rename { dir, name, .. } => Some((*dir, name)),
            Op::Walk { dir, names, .. } | Op::Via { dir, names, .. } => Some((*dir, names.first()?)),
            _ => None,
        }
    }

    /// The subject of the operation, which tells the rank that has authority over it. Of a rename the source's
    /// directory, of a link the new name's.
    pub fn about(&self) -> About {
        match self {
            Op::Lookup { dir, .. }
            | Op::Walk { dir, .. }
            | Op::Via { dir, .. }
            | Op::Create { dir, .. }
            | Op::Tmpfile { dir, .. }
            | Op::Mknod { dir, .. }
            | Op::Mkdir { dir, .. }
            | Op::Symlink { dir, .. }
            | Op::Link { dir, .. }
            | Op::Unlink { dir, .. }
            | Op::Rmdir { dir, .. }
            | Op::Rename { dir, .. }
            | Op::Readdir { dir, .. } => About::Names(*dir),
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
            | Op::Extend { ino, .. } => About::Inode(*ino),
            Op::StatFs => About::Nothing,
            Op::Control(control) => control.about(),
        }
    }

    /// True if the operation may make an inode.
    pub fn makes_inode(&self) -> bool {
        matches!(
            self,
            Op::Create { .. }
                | Op::Tmpfile { .. }
                | Op::Mknod { .. }
                | Op::Mkdir { .. }
                | Op::Symlink { .. }
                | Op::Rename { mode: RenameMode::Whiteout | RenameMode::NewWhiteout, .. }
        )
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

    /// The handle that the operation opens, also at the end of a way.
    pub fn opens(&self) -> Option<(u64, OpenFlags)> {
        match self {
            Op::Open { flags, handle, .. } | Op::Create { flags, handle, .. } | Op::Tmpfile { flags, handle, .. } => {
                Some((*handle, *flags))
            }
            Op::Via { what, .. } => what.opens(),
            _ => None,
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
