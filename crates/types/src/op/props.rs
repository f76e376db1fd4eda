//! Properties of requests: each decision that depends on nothing but the request itself. A server, a client or a mount that decides
//! something by operation asks here, so that a new operation is decided about in one place: its row in `mod.rs`, and for a control request
//! in `control.rs`. Not here: decisions that depend on the state of the tree, of a session or of a cache.

use crate::{Hit, Lease, OpenFlags};

/// Growth of the file system by a change. What makes it larger is refused when the store has no room; what leaves the size as it was is
/// done: a program that replaces a file by another one must be able to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Adds {
    /// None.
    Nothing,
    /// By a new entry, if one is made.
    Entry,
    /// By longer data in the inode.
    Longer,
    /// By whatever it changes, if it changes something.
    Change,
    /// By room behind the end of a file, also if nothing changes now.
    Room,
}

/// Targets of names that an operation changes, opens or takes away. They may be in places that the operation is not about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reaches {
    /// None: names are looked up or made.
    Nothing,
    /// Anything but a directory.
    Node,
    /// A directory.
    Dir,
    /// Either.
    Any,
}

impl Reaches {
    /// True if the target may be something else than a directory.
    #[inline]
    pub fn nodes(self) -> bool {
        matches!(self, Reaches::Node | Reaches::Any)
    }

    /// True if the target may be a directory that loses its name.
    #[inline]
    pub fn dirs(self) -> bool {
        matches!(self, Reaches::Dir | Reaches::Any)
    }
}

/// Rights of others that an answer makes untrue, and that are asked back before it leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Claims {
    /// None.
    Nothing,
    /// Changes of the file that others hold back: the answer shows its attributes.
    HeldBack,
    /// Rights to cache and hold back that do not go with the open.
    Opened,
}

/// Right of a limited identity to an operation on a directory above its path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnTheWay {
    /// None.
    Refused,
    /// To look at the directory itself.
    Itself,
    /// To look up the name that its path goes on with.
    Name,
}

/// Effect on directories as others look them up, counted for the balancer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DirEffect {
    /// None.
    Nothing,
    /// A directory is made.
    Makes,
    /// A directory is removed.
    Ends,
    /// A directory may move.
    Moves,
    /// If it is a directory, another mode, owner or ACL decides about it.
    Restricts,
}

/// Directory whose names may be leased with the answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NamesLease {
    /// None.
    Nothing,
    /// The first one, with success.
    First,
    /// The first one, also with the answer that the name is not there.
    FirstLooked,
    /// The second one, with success. What caches above the client know of the old name becomes true of the new one.
    Second,
}

/// Inodes that an answer shows, by which a client learns where they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shows {
    /// The one that the operation is about, or none.
    Subject,
    /// The one that has the name.
    Child,
    /// The directory above the subject.
    Parent,
    /// The entries of the directory.
    Entries,
    /// The one at the end of a way.
    AtEnd,
}

/// Answer to an operation that was executed before what it is about moved to another rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Again {
    /// That it is done.
    Done,
    /// The attributes.
    Attr,
    /// An open of what was opened.
    Open,
    /// The value that was noted.
    Value,
    /// That of the operation, carried out once more: it changes nothing.
    Repeat,
}

/// Condition under which the owner of a decoupled subtree carries out an operation by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ByOwner {
    /// Never: it is for the rank.
    Never,
    /// Always.
    Always,
    /// Unless it is about the root, whose own place is not decoupled.
    BelowRoot,
    /// Where somebody has objects.
    WithObjects,
    /// Where somebody has objects, or if the data is in the inode.
    WithData,
}

/// Extended attributes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Xattrs {
    /// Not used.
    Unused,
    /// Looked at.
    Looked,
    /// Set or removed.
    Set,
}

/// Properties of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Props {
    /// Durable metadata may change.
    pub changes: bool,
    /// A peer that may only read is refused. File locks are let through: they change nothing that stays.
    pub needs_write: bool,
    /// An inode may be made.
    pub makes_inode: bool,
    /// Room becomes free in the end: by a removal, also of what a rename replaces, or a cut. Let through while the table is full.
    pub frees: bool,
    /// Growth of the file system.
    pub adds: Adds,
    /// The file may be cut, or its data changed.
    pub data: bool,
    /// Nothing changes that others see, and no right to do so is asked for. Such requests of others are answered in a subtree that they may
    /// read while its owner works.
    pub only_reads: bool,
    /// May be asked again in another session: it changes nothing and needs no handle.
    pub repeatable: bool,
    /// Handle that is opened, and its flags; also at the end of a way.
    pub opens: Option<(u64, OpenFlags)>,
    /// Handle through which it is done; it must be one of the inode that the request is about.
    pub handle: Option<u64>,
    /// Writes or locks through its handle: not sent any more once the handle was lost.
    pub rests_on_handle: bool,
    /// Targets of its names that are changed, opened or taken away.
    pub reaches: Reaches,
    /// The number of names of an inode may change, which the directory counts that its primary name is in.
    pub recounts: bool,
    /// The target of its name loses it: where that is another rank's, all leases on it are asked back.
    pub takes_target: bool,
    /// May be answered with the rank that has the inode, if the name is here and the inode is not.
    pub remote: bool,
    /// Rights of others that are asked back before the answer leaves.
    pub claims: Claims,
    /// The answer tells the size of the file: up to it a client may read what was merged.
    pub tells_size: bool,
    /// The answer may leave before it is durable, where a policy lets it.
    pub may_lag: bool,
    /// Right of a limited identity above its path.
    pub on_the_way: OnTheWay,
    /// Kind of hit that is counted; none: it concerns no directory.
    pub hit: Option<Hit>,
    /// Counted for the directory itself, though it is asked for as an inode.
    pub counts_in_itself: bool,
    /// Effect on directories as others look them up.
    pub dirs: DirEffect,
    /// Place in a directory where a listing goes on.
    pub lists_from: Option<u64>,
    /// The entries of the answer come with attributes.
    pub lists_attrs: bool,
    /// The answer tells something of the inode that is cached with its attributes, but not these.
    pub attr_lease: bool,
    /// Directory whose names may be leased with the answer.
    pub names_lease: NamesLease,
    /// Leases that a client wants with the answer.
    pub want: Lease,
    /// Names of the answer may be cached above the client while names are leased.
    pub names_cached: bool,
    /// Attributes or xattrs of the inode that it is about are set.
    pub sets_attr: bool,
    /// Extended attributes that it uses.
    pub xattrs: Xattrs,
    /// Inodes that the answer shows.
    pub shows: Shows,
    /// `Busy` has another reason than a decoupled subtree.
    pub busy_is_own: bool,
    /// Answer if it was executed before what it is about moved.
    pub again: Again,
    /// Condition for the owner of a decoupled subtree.
    pub by_owner: ByOwner,
}

/// Leases on attributes and names.
pub(crate) const BOTH: Lease = Lease(Lease::ATTR.0 | Lease::NAMES.0);

impl Props {
    /// Properties of a request that changes nothing, shows nothing and is counted for no directory.
    pub(crate) const NONE: Props = Props {
        changes: false,
        needs_write: false,
        makes_inode: false,
        frees: false,
        adds: Adds::Nothing,
        data: false,
        only_reads: false,
        repeatable: false,
        opens: None,
        handle: None,
        rests_on_handle: false,
        reaches: Reaches::Nothing,
        recounts: false,
        takes_target: false,
        remote: false,
        claims: Claims::Nothing,
        tells_size: false,
        may_lag: false,
        on_the_way: OnTheWay::Refused,
        hit: None,
        counts_in_itself: false,
        dirs: DirEffect::Nothing,
        lists_from: None,
        lists_attrs: false,
        attr_lease: false,
        names_lease: NamesLease::Nothing,
        want: Lease::NONE,
        names_cached: false,
        sets_attr: false,
        xattrs: Xattrs::Unused,
        shows: Shows::Subject,
        busy_is_own: false,
        again: Again::Done,
        by_owner: ByOwner::Never,
    };

    /// Properties of an operation that looks at an inode or a name.
    pub(crate) const READ: Props = Props {
        only_reads: true,
        repeatable: true,
        may_lag: true,
        hit: Some(Hit::Ird),
        again: Again::Repeat,
        by_owner: ByOwner::Always,
        ..Props::NONE
    };

    /// Properties of an operation that changes something.
    pub(crate) const CHANGE: Props = Props {
        changes: true,
        needs_write: true,
        may_lag: true,
        hit: Some(Hit::Iwr),
        by_owner: ByOwner::Always,
        ..Props::NONE
    };

    /// Properties of an operation that makes something with a name.
    pub(crate) const MAKE: Props = Props {
        makes_inode: true,
        adds: Adds::Change,
        names_lease: NamesLease::First,
        want: BOTH,
        names_cached: true,
        shows: Shows::Child,
        again: Again::Attr,
        ..Props::CHANGE
    };

    /// Properties of an operation that takes a name away.
    pub(crate) const REMOVE: Props =
        Props { frees: true, takes_target: true, names_lease: NamesLease::First, ..Props::CHANGE };

    /// Properties of an operation that sets attributes or xattrs.
    pub(crate) const SET: Props = Props { want: Lease::ATTR, sets_attr: true, again: Again::Attr, ..Props::CHANGE };

    /// Properties of an operation that writes through a handle.
    pub(crate) const WRITE: Props =
        Props { data: true, rests_on_handle: true, want: Lease::ATTR, again: Again::Attr, ..Props::CHANGE };

    /// Properties of an operation that sets or removes an xattr. Those of the file system's own are the rank's: what they decide is true with
    /// a durable record.
    #[inline]
    pub(crate) fn of_xattr(name: &[u8]) -> Props {
        let is_own = name.starts_with(b"loligo.");
        Props {
            may_lag: !is_own,
            dirs: if name.starts_with(b"system.posix_acl_") { DirEffect::Restricts } else { DirEffect::Nothing },
            xattrs: Xattrs::Set,
            by_owner: if is_own { ByOwner::Never } else { ByOwner::Always },
            ..Props::SET
        }
    }

    /// Properties of a way at whose end something is done.
    pub(crate) fn of_way(end: Props) -> Props {
        Props {
            changes: end.changes,
            needs_write: end.needs_write,
            frees: end.frees,
            repeatable: !end.changes && end.opens.is_none(),
            opens: end.opens,
            // As of an open by number; what else is done by path nobody keeps.
            want: if end.opens.is_some() { Lease::ATTR } else { Lease::NONE },
            shows: Shows::AtEnd,
            ..Props::NONE
        }
    }
}

/// True if the kernel looks at an xattr on the way.
#[inline]
pub fn is_looked_at(xattr: &[u8]) -> bool {
    xattr.starts_with(b"system.") || xattr.starts_with(b"security.")
}
