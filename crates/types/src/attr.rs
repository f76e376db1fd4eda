//! Metadata of a file: the record of an inode, and the attributes a client sees.

use crate::{Acl, Ino, LookupLease, Place, Rank, Time, limits};

/// The type of a file. The number is persisted: keep stable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// Regular file.
    File = 1,
    /// Directory.
    Dir = 2,
    /// Symbolic link.
    Symlink = 3,
    /// Named pipe.
    Fifo = 4,
    /// Unix socket.
    Socket = 5,
    /// Character device.
    Char = 6,
    /// Block device.
    Block = 7,
}

impl Kind {
    /// The kind with this number, if there is one.
    pub fn from_code(code: u8) -> Option<Kind> {
        Some(match code {
            1 => Kind::File,
            2 => Kind::Dir,
            3 => Kind::Symlink,
            4 => Kind::Fifo,
            5 => Kind::Socket,
            6 => Kind::Char,
            7 => Kind::Block,
            _ => return None,
        })
    }

    /// The stable number.
    pub fn code(self) -> u8 {
        self as u8
    }
}

/// Layout of a file's bytes in objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Layout {
    /// Bytes in one object, a power of two, 64 KiB..=1 GiB.
    pub object_size: u32,
}

impl Default for Layout {
    fn default() -> Layout {
        Layout { object_size: limits::OBJECT_SIZE_DEFAULT as u32 }
    }
}

/// Lazily kept sums over a directory and all under it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct RStat {
    /// Entries (files of any kind and directories) below, not counting the directory itself. Signed so that deltas fit.
    pub entries: i64,
    /// Sum of the sizes of regular files below.
    pub bytes: i64,
}

/// Distribution of the fragments of a directory over ranks, and the meaning of a record then.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum Spread {
    /// All of it is one rank's; also of anything that is no directory.
    #[default]
    No,
    /// Its fragments are several ranks', and this is its inode, which lives with the fragment of hash 0. `size` and
    /// `nlink` count from [`Inode::SPREAD_SIZE`] and [`Inode::SPREAD_NLINK`], and are true only with those of all parts.
    Home,
    /// The part that a rank with other fragments has of it: a copy of its attributes, and how far what it counts has
    /// changed there, which counts from the same numbers.
    Part(Rank),
}

/// Where the directories live that are made in one, as its policy says. The number is in the journal and the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[repr(u8)]
pub enum Placement {
    /// It says nothing: as the directory itself was placed when it was made.
    #[default]
    Inherited = 0,
    /// With their names, under the authority of the fragment that holds those: dynamic subtree partitioning.
    Subtree = 1,
    /// Each at a rank of its own, which its number names (IndexFS: a new directory is assigned to a randomly chosen server).
    Giga = 2,
    /// Each at a rank of its own, which its path gives, and which other ranks have replicas of (ShardFS: by the hash of the path).
    Replicated = 3,
    /// Each at a rank of its own, which its path gives, and which paths lead through whoever may search it (Giraffa: a row is found by its path).
    Table = 4,
    /// The same, and what is made in one has no permissions for group and others that it does not give itself (Giraffa's remedy, as
    /// `CalvinFS` and Lazy Hybrid have it).
    TableInherit = 5,
}

impl Placement {
    /// Those that a policy can name.
    pub const ALL: [Placement; 5] =
        [Placement::Subtree, Placement::Giga, Placement::Replicated, Placement::Table, Placement::TableInherit];

    /// By its number.
    pub fn from_code(code: u8) -> Option<Placement> {
        let known = std::iter::once(Placement::Inherited).chain(Placement::ALL);
        known.into_iter().find(|known| *known as u8 == code)
    }

    /// By its name in policies.
    pub fn named(name: &[u8]) -> Option<Placement> {
        Placement::ALL.into_iter().find(|known| known.name().as_bytes() == name)
    }

    /// Its name in policies.
    pub fn name(self) -> &'static str {
        match self {
            Placement::Inherited => "inherited",
            Placement::Subtree => "subtree",
            Placement::Giga => "giga",
            Placement::Replicated => "replicated",
            Placement::Table => "table",
            Placement::TableInherit => "table-inherit",
        }
    }

    /// True if new directories live at ranks that their numbers name, and come to all ranks when they are large.
    pub fn scatters(self) -> bool {
        self == Placement::Giga || self.goes_by_path()
    }

    /// True if these ranks are given by the paths of the directories.
    pub fn goes_by_path(self) -> bool {
        matches!(self, Placement::Replicated | Placement::Table | Placement::TableInherit)
    }

    /// The placement of a directory with this number when it was made; never [`Placement::Inherited`].
    #[inline]
    pub fn by_number(number: Ino) -> Placement {
        if number.zeroth_rank().is_none() {
            return Placement::Subtree;
        }
        match (number.is_by_path(), number.is_table(), number.inherits()) {
            (_, _, true) => Placement::TableInherit,
            (_, true, _) => Placement::Table,
            (true, ..) => Placement::Replicated,
            (false, ..) => Placement::Giga,
        }
    }

    /// The number with the marks of a directory that is made so; `number` names its rank.
    pub fn mark(self, number: Ino) -> Ino {
        match self {
            Placement::Inherited | Placement::Subtree | Placement::Giga => number,
            Placement::Replicated => number.by_path(),
            Placement::Table => number.table(false),
            Placement::TableInherit => number.table(true),
        }
    }
}

/// Rarely present parts of an inode, boxed to keep the common case small.
#[derive(Clone, PartialEq, Eq, Debug, Default, Hash)]
pub struct Extra {
    /// Target of a symlink.
    pub symlink: Option<Box<[u8]>>,
    /// Access ACL when it says more than the mode bits.
    pub acl: Option<Acl>,
    /// Default ACL of a directory.
    pub default_acl: Option<Acl>,
    /// Directory only: sums over what is below, as far as they have come up.
    pub rstat: RStat,
    /// Layout when it is not the default.
    pub layout: Option<Layout>,
    /// Device number of Char and Block, in Linux's `makedev` form.
    pub rdev: u32,
    /// Made without a name (O_TMPFILE) and still nameable: `Link` may give it its first name.
    pub linkable: bool,
    /// Directory only: its policy says that it will have so many entries; 0: it says nothing.
    pub expected_entries: u64,
    /// Of a directory whose fragments are several ranks'.
    pub spread: Spread,
    /// Directory only: its policy says where directories that are made in it live.
    pub placement: Placement,
    /// Of a scattered directory: it has been another rank's since it was made, and its number does not say any more where it lives.
    pub moved: bool,
    /// Directory only: its policy says that clients may go by what they were told of it.
    pub lookup_lease: LookupLease,
}

/// The whole record of an inode, as the table, the journal and the cache hold it.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct Inode {
    /// Its number.
    pub ino: Ino,
    /// Its type.
    pub kind: Kind,
    /// Permission bits with setuid, setgid and sticky: 0..=0o7777.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Links; a directory has 2 plus its sub-directories. 0: orphan.
    pub nlink: u32,
    /// Bytes for a file, target length for a symlink; for a directory the number of entries.
    pub size: u64,
    /// Last access.
    pub atime: Time,
    /// Last change of content.
    pub mtime: Time,
    /// Last change of the inode.
    pub ctime: Time,
    /// Birth.
    pub btime: Time,
    /// The directory that counts it in its recursive sums, and has its primary name: its own for a directory, that of
    /// the newest link (as a rule) for a file; 0 if none does.
    pub parent: Ino,
    /// Where it lives: embedded with its primary name (which is in `parent`), or by itself.
    pub place: Place,
    /// The sums of it that `parent` has already counted (see [`Inode::own`]).
    pub accounted: RStat,
    /// Counts changes of this inode; the change attribute of NFSv4 and the version that leases compare.
    pub change: u64,
    /// Counts cuts of the file's end (shrinking truncates); data written before a cut and told of after it is
    /// recognised by it.
    pub cuts: u32,
    /// File: the data is the inline record, not objects.
    pub inline: bool,
    /// True if xattr records exist (so that most inodes need no look).
    pub has_xattrs: bool,
    /// Directory: it is cut into 2^this equal fragments, at most 2^[`crate::Frag::BITS_MAX`]. Else 0.
    pub frag_bits: u8,
    /// Rare parts.
    pub extra: Option<Box<Extra>>,
}

impl Inode {
    /// A new inode with empty content; times all `now`, one link (a directory two).
    pub fn new(ino: Ino, kind: Kind, mode: u16, uid: u32, gid: u32, parent: Ino, now: Time) -> Inode {
        Inode {
            ino,
            kind,
            mode: mode & 0o7777,
            uid,
            gid,
            nlink: if kind == Kind::Dir { 2 } else { 1 },
            size: 0,
            atime: now,
            mtime: now,
            ctime: now,
            btime: now,
            parent,
            place: Place::default(),
            accounted: RStat::default(),
            change: 1,
            cuts: 0,
            inline: kind == Kind::File,
            has_xattrs: false,
            frag_bits: 0,
            extra: None,
        }
    }

    /// The contribution of this inode to its parent's recursive sums: itself and all below.
    pub fn own(&self) -> RStat {
        let below = self.rstat();
        if self.part_of().is_some() {
            // Only what has changed; the directory itself is counted by its home.
            return below;
        }
        if self.nlink == 0 {
            return RStat::default();
        }
        let bytes = if self.kind == Kind::File { self.size as i64 } else { below.bytes };
        RStat { entries: below.entries + 1, bytes }
    }

    /// Base from which `size` counts where the fragments of a directory are several ranks': it never comes to 0.
    pub const SPREAD_SIZE: u64 = 1 << 62;
    /// Base from which `nlink` counts there.
    pub const SPREAD_NLINK: u32 = 1 << 30;

    /// The distribution of its fragments over ranks, and the meaning of this record.
    pub fn spread(&self) -> Spread {
        self.extra.as_ref().map(|extra| extra.spread).unwrap_or_default()
    }

    /// True if its fragments are several ranks'.
    pub fn is_spread(&self) -> bool {
        self.spread() != Spread::No
    }

    /// The rank whose part of a directory this is.
    pub fn part_of(&self) -> Option<Rank> {
        match self.spread() {
            Spread::Part(rank) => Some(rank),
            _ => None,
        }
    }

    /// Its fragments become several ranks'.
    pub fn begin_spread(&mut self) {
        if self.spread() == Spread::No {
            self.size = self.size.wrapping_add(Inode::SPREAD_SIZE);
            self.nlink = self.nlink.wrapping_add(Inode::SPREAD_NLINK);
            self.extra_mut().spread = Spread::Home;
        }
    }

    /// All of its fragments are one rank's again, which has added all parts.
    pub fn end_spread(&mut self) {
        if self.spread() == Spread::Home {
            self.size = self.size.wrapping_sub(Inode::SPREAD_SIZE);
            self.nlink = self.nlink.wrapping_sub(Inode::SPREAD_NLINK);
            self.extra_mut().spread = Spread::No;
        }
    }

    /// A rank's part of it in which nothing has changed yet.
    pub fn new_part(&self, rank: Rank) -> Inode {
        let mut part = self.clone();
        (part.size, part.nlink, part.change) = (Inode::SPREAD_SIZE, Inode::SPREAD_NLINK, 0);
        (part.accounted, part.has_xattrs) = (RStat::default(), false);
        let extra = part.extra_mut();
        (extra.rstat, extra.spread) = (RStat::default(), Spread::Part(rank));
        part
    }

    /// Takes the attributes of a directory (or of another part of it) over into a part; what is counted stays, and how
    /// its rank has cut what it has, unless it is expected to grow otherwise than before.
    pub fn copy_to_part(&self, part: &mut Inode) {
        let mut copy = self.clone();
        if self.expected_entries() == part.expected_entries() {
            copy.frag_bits = part.frag_bits;
        }
        (copy.size, copy.nlink, copy.change) = (part.size, part.nlink, part.change);
        (copy.accounted, copy.has_xattrs) = (part.accounted, false);
        let (rstat, spread) = (part.rstat(), part.spread());
        let extra = copy.extra_mut();
        (extra.rstat, extra.spread) = (rstat, spread);
        *part = copy;
    }

    /// Adds what a part has counted, which ends with that; of its sums what was not told to the home yet.
    pub fn add_part(&mut self, part: &Inode) {
        self.count_part(part);
        let (below, told) = (part.rstat(), part.accounted);
        if below != told {
            let rstat = &mut self.extra_mut().rstat;
            rstat.entries = rstat.entries.wrapping_add(below.entries.wrapping_sub(told.entries));
            rstat.bytes = rstat.bytes.wrapping_add(below.bytes.wrapping_sub(told.bytes));
        }
    }

    /// Takes away what [`Inode::add_part`] adds, but for times.
    pub fn take_part(&mut self, part: &Inode) {
        self.size = self.size.wrapping_sub(part.size.wrapping_sub(Inode::SPREAD_SIZE));
        self.nlink = self.nlink.wrapping_sub(part.nlink.wrapping_sub(Inode::SPREAD_NLINK));
        self.change = self.change.wrapping_sub(part.change);
        let (below, told) = (part.rstat(), part.accounted);
        let rstat = &mut self.extra_mut().rstat;
        rstat.entries = rstat.entries.wrapping_sub(below.entries.wrapping_sub(told.entries));
        rstat.bytes = rstat.bytes.wrapping_sub(below.bytes.wrapping_sub(told.bytes));
    }

    /// Adds what has been counted since a directory was lent: as it was then, and as it is now. Other names of it may have
    /// changed, and fragments may have come.
    pub fn count_since(&mut self, lent: &Inode, now: &Inode) {
        if self.nlink == 0 {
            return;
        }
        if now.frag_bits != lent.frag_bits {
            self.frag_bits = now.frag_bits;
        }
        if self.accounted == lent.accounted {
            self.accounted = now.accounted;
        }
        let counted = |inode: &Inode| {
            let (size, nlink) = if inode.is_spread() { (Inode::SPREAD_SIZE, Inode::SPREAD_NLINK) } else { (0, 0) };
            (inode.size.wrapping_sub(size), inode.nlink.wrapping_sub(nlink))
        };
        let (before, after) = (counted(lent), counted(now));
        self.size = self.size.wrapping_add(after.0.wrapping_sub(before.0));
        self.nlink = self.nlink.wrapping_add(after.1.wrapping_sub(before.1));
        if now.change != lent.change {
            self.change = self.change.wrapping_add(now.change.wrapping_sub(lent.change));
            (self.mtime, self.ctime) = (self.mtime.max(now.mtime), self.ctime.max(now.ctime));
        }
        if !now.is_spread() {
            self.end_spread();
        }
    }

    /// Adds what a part counts to what a client sees.
    pub fn count_part(&mut self, part: &Inode) {
        self.size = self.size.wrapping_add(part.size.wrapping_sub(Inode::SPREAD_SIZE));
        self.nlink = self.nlink.wrapping_add(part.nlink.wrapping_sub(Inode::SPREAD_NLINK));
        self.change = self.change.wrapping_add(part.change);
        self.mtime = self.mtime.max(part.mtime);
        self.ctime = self.ctime.max(part.ctime);
    }

    /// Recursive sums below a directory; zero for anything else.
    pub fn rstat(&self) -> RStat {
        self.extra.as_ref().map(|e| e.rstat).unwrap_or_default()
    }

    /// The rare parts, made if absent.
    pub fn extra_mut(&mut self) -> &mut Extra {
        self.extra.get_or_insert_with(Box::default)
    }

    /// Where its policy says that directories live which are made in it.
    pub fn placement(&self) -> Placement {
        self.extra.as_ref().map_or(Placement::Inherited, |extra| extra.placement)
    }

    /// The lookup leases that its policy allows.
    pub fn lookup_lease(&self) -> LookupLease {
        self.extra.as_ref().map_or(LookupLease::NONE, |extra| extra.lookup_lease)
    }

    /// True if it has been given to another rank than the one that its number names.
    pub fn has_moved(&self) -> bool {
        self.extra.as_ref().is_some_and(|extra| extra.moved)
    }

    /// It goes to another rank: if its number says where it lives, it does so no more.
    pub fn moves_away(&mut self) {
        if self.kind == Kind::Dir && self.ino.zeroth_rank().is_some() {
            self.extra_mut().moved = true;
        }
    }

    /// Where directories live that are made in it; never [`Placement::Inherited`].
    pub fn places_dirs(&self) -> Placement {
        self.would_place(self.placement())
    }

    /// The same if its policy said this.
    pub fn would_place(&self, own: Placement) -> Placement {
        if own == Placement::Inherited { Placement::by_number(self.ino) } else { own }
    }

    /// The number of entries that a directory will have, as its policy says; 0: it says nothing.
    pub fn expected_entries(&self) -> u64 {
        self.extra.as_ref().map_or(0, |extra| extra.expected_entries)
    }

    /// Access ACL, if it says more than the mode.
    pub fn acl(&self) -> Option<&Acl> {
        self.extra.as_ref()?.acl.as_ref()
    }

    /// Default ACL of a directory.
    pub fn default_acl(&self) -> Option<&Acl> {
        self.extra.as_ref()?.default_acl.as_ref()
    }

    /// Target of a symlink.
    pub fn symlink(&self) -> Option<&[u8]> {
        self.extra.as_ref()?.symlink.as_deref()
    }

    /// The layout of its bytes in objects.
    pub fn layout(&self) -> Layout {
        self.extra.as_ref().and_then(|e| e.layout).unwrap_or_default()
    }

    /// The attributes for clients.
    pub fn attr(&self) -> Attr {
        Attr {
            ino: self.ino,
            kind: self.kind,
            mode: self.mode,
            uid: self.uid,
            gid: self.gid,
            nlink: self.nlink,
            size: self.size,
            rdev: self.extra.as_ref().map_or(0, |extra| extra.rdev),
            atime: self.atime,
            mtime: self.mtime,
            ctime: self.ctime,
            btime: self.btime,
            change: self.change,
            cuts: self.cuts,
            inline: self.inline,
            has_xattrs: self.has_xattrs || self.acl().is_some() || self.default_acl().is_some(),
            layout: self.layout(),
        }
    }
}

/// Attributes of an inode for clients. See [`Inode`] for the units.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[allow(missing_docs)]
pub struct Attr {
    pub ino: Ino,
    pub kind: Kind,
    pub mode: u16,
    pub uid: u32,
    pub gid: u32,
    pub nlink: u32,
    pub size: u64,
    pub rdev: u32,
    pub atime: Time,
    pub mtime: Time,
    pub ctime: Time,
    pub btime: Time,
    pub change: u64,
    pub cuts: u32,
    pub inline: bool,
    pub has_xattrs: bool,
    pub layout: Layout,
}
