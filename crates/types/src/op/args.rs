//! Arguments of operations: attributes and times to set, flags, modes; and the values that the server adds to an operation. Not the
//! operations themselves (`mod.rs`).

use crate::{Ino, Layout, Time};

/// Values that the server adds to an operation so that deciding it needs no clock and no counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The server's time.
    pub now: Time,
    /// A number for a new inode; used only if one is made.
    pub ino: Ino,
}

/// A time to set, as in `utimensat`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum SetTime {
    /// The server's time (UTIME_NOW): writers may do this, not only owners.
    Now,
    /// This time.
    At(Time),
}

/// Changes of attributes; `None` leaves one as it is.
#[derive(Clone, PartialEq, Eq, Debug, Default, Hash)]
pub struct SetAttr {
    /// Permission bits, 0..=0o7777.
    pub mode: Option<u16>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// New length (truncate).
    pub size: Option<u64>,
    /// Only if it is longer than the file is; else nothing is done.
    pub grow: bool,
    /// Setuid and setgid end, as at a change of the content by a process without CAP_FSETID. A new size by others than root ends them in any case.
    pub kill_priv: bool,
    /// Access time.
    pub atime: Option<SetTime>,
    /// Modification time.
    pub mtime: Option<SetTime>,
    /// Layout of a file that has no data yet.
    pub layout: Option<Layout>,
}

/// Which names a rank may find by its replicas of other ranks' directories. The number is on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[repr(u8)]
pub enum Replicas {
    /// None: where a directory is another rank's that one is to be asked.
    #[default]
    Unused = 0,
    /// All but the last: of that one its own rank says whether it is there, and what it is.
    OnTheWay = 1,
    /// All: the last one is a directory, too, and only which one it is matters.
    ToTheEnd = 2,
}

impl Replicas {
    /// By its number.
    pub fn from_code(code: u8) -> Option<Replicas> {
        [Replicas::Unused, Replicas::OnTheWay, Replicas::ToTheEnd].into_iter().find(|known| *known as u8 == code)
    }
}

/// Flags of an open.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct OpenFlags {
    /// For reading.
    pub read: bool,
    /// For writing.
    pub write: bool,
    /// Cut to length 0 (O_TRUNC).
    pub truncate: bool,
    /// Each write goes to the end (O_APPEND).
    pub append: bool,
    /// To be executed: needs the x permission instead of r (the kernel's FMODE_EXEC).
    pub exec: bool,
}

/// Mode of a rename.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum RenameMode {
    /// Replace what has the new name.
    #[default]
    Replace,
    /// Fail with `Exists` if the new name is taken.
    NoReplace,
    /// Swap the two.
    Exchange,
    /// As `Replace`; the old name becomes a whiteout, a character device 0/0 with which overlayfs marks what it does not show of a layer below.
    Whiteout,
    /// As `NoReplace`; the old name becomes a whiteout.
    NewWhiteout,
}

impl RenameMode {
    /// True if the new name must not be taken.
    pub fn is_new(self) -> bool {
        matches!(self, RenameMode::NoReplace | RenameMode::NewWhiteout)
    }

    /// True if it leaves a whiteout.
    pub fn leaves_whiteout(self) -> bool {
        matches!(self, RenameMode::Whiteout | RenameMode::NewWhiteout)
    }
}

/// Mode of setting an xattr.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum XattrMode {
    /// Make or replace.
    #[default]
    Set,
    /// Fail with `Exists` if it is there.
    Create,
    /// Fail with `NoData` if it is not.
    Replace,
}

/// Access that is asked about; none of the three: existence.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct Access {
    /// Read.
    pub read: bool,
    /// Write.
    pub write: bool,
    /// Execute or search.
    pub exec: bool,
}
