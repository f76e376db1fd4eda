//! A request that finds several names one after the other: each is a lookup of its own, with all that a lookup goes through. What one of them
//! leads to says where the next one begins. It ends where there is nothing more to find, or where another rank has the next name. Directories that
//! were found before are one step (`shortcuts.rs`). Under placement `table` it is not asked who may search a directory on the way. At the end something
//! may be done, in the directory that the names lead to or of the inode, as if it had been asked for by number. Not here: a lookup, nor what is done.

use std::sync::Arc;

use loligo_types::{About, Cred, FsError, FsResult, Ino, Kind, Lease, Name, Op, OpenFlags, Replicas};

use crate::io::Identity;

/// A request of this kind, on its way. The lookup of the next name is the job's operation.
pub(crate) struct Walk {
    pub(crate) dir: Ino,
    pub(crate) names: Arc<[Name]>,
    /// Which names are found by replicas.
    pub(crate) by: Replicas,
    /// So many directories that were found last have numbers by their paths.
    pub(crate) by_path: u32,
    /// So many were found.
    pub(crate) done: usize,
    /// The directories among them, but for those that a shortcut led to.
    pub(crate) dirs: Vec<Ino>,
    /// All of them, if it is to be said of each how long it stays there.
    pub(crate) led: Option<Vec<Ino>>,
    /// The operation at the end of the names; and the kind of the inode there, if that is the job's operation by now.
    pub(crate) what: Option<Op>,
    pub(crate) acts: Option<Kind>,
    /// Leases that are welcome with what is done.
    pub(crate) want: Lease,
    /// So often that was gone meanwhile.
    pub(crate) gone: u8,
    /// The credentials of the caller, while they do not matter for the next lookup.
    pub(crate) asks: Option<Cred>,
    /// In which the last of them is.
    pub(crate) above: Ino,
    /// In which the next one is looked for.
    pub(crate) at: Ino,
    /// The identity that asks, if its right to each name is to be checked.
    pub(crate) limited: Option<(Arc<Identity>, u64)>,
}

impl Walk {
    /// The first lookup of an operation, if it is a walk, with what is left to do. No lease comes with it: one that was given of a name on the
    /// way would say nothing of the next.
    pub(crate) fn begin(
        op: Op,
        want: &mut Lease,
        limited: Option<&(Arc<Identity>, u64)>,
        leases: bool,
    ) -> FsResult<(Op, Option<Box<Walk>>)> {
        let (dir, names, by, what) = match op {
            Op::Walk { dir, names, by } => (dir, names, by, None),
            Op::Via { dir, names, by, what } => (dir, names, by, Some(what.done_at(dir).ok_or(FsError::Invalid)?)),
            op => return Ok((op, None)),
        };
        let name = names.first().ok_or(FsError::Invalid)?.clone();
        // Of what is opened; what else is done by path nobody keeps.
        let opens = what.as_ref().is_some_and(|what: &Op| what.opens().is_some());
        let wanted = std::mem::replace(want, Lease::NONE);
        let want = if opens { wanted & Lease::ATTR } else { Lease::NONE };
        let walk = Walk {
            dir,
            names,
            by,
            by_path: 0,
            done: 0,
            dirs: Vec::new(),
            led: leases.then(Vec::new),
            what,
            acts: None,
            want,
            gone: 0,
            asks: None,
            above: dir,
            at: dir,
            limited: limited.cloned(),
        };
        Ok((Op::Lookup { dir, name }, Some(Box::new(walk))))
    }

    /// The operation that it is.
    pub(crate) fn op(&self) -> Op {
        let (dir, names, by) = (self.dir, Arc::clone(&self.names), self.by);
        match self.what.clone() {
            Some(what) => Op::Via { dir, names, by, what: Box::new(what) },
            None => Op::Walk { dir, names, by },
        }
    }

    /// Number of its names.
    pub(crate) fn names(&self) -> usize {
        self.names.len()
    }

    /// True if something is done where they lead.
    pub(crate) fn acts_at_end(&self) -> bool {
        self.what.is_some()
    }

    /// True if the last name leads to an inode of which something is done: then nobody is told its attributes.
    pub(crate) fn is_of_inode(&self) -> bool {
        self.what.as_ref().is_some_and(|what| matches!(what.about(), About::Inode(_)))
    }

    /// True if nobody is told the attributes of a file that the next name leads to.
    pub(crate) fn hides_next(&self) -> bool {
        self.is_of_inode() && self.done + 1 == self.names.len()
    }

    /// True if it is done of something of this kind.
    pub(crate) fn is_done_of(&self, kind: Kind) -> bool {
        match (&self.what, self.is_of_inode()) {
            (Some(Op::Readlink { .. }), _) => true,
            (Some(_), true) => kind != Kind::Symlink,
            _ => kind == Kind::Dir,
        }
    }

    /// The handle that it opens at its end.
    pub(crate) fn opens(&self) -> Option<(u64, OpenFlags)> {
        self.what.as_ref()?.opens()
    }

    /// True if directories of others on the way are to be found by replicas. Not for an identity that is limited to paths: the rank of a
    /// name says if it is on the way there.
    pub(crate) fn by_replicas(&self) -> bool {
        self.by != Replicas::Unused && self.limited.is_none()
    }

    /// True if the next name may be found by them.
    pub(crate) fn next_by_replicas(&self) -> bool {
        self.by_replicas() && (self.done + 1 < self.names.len() || self.by == Replicas::ToTheEnd && !self.is_of_inode())
    }

    /// A name was found: of a directory, with this number.
    pub(crate) fn found(&mut self, above: Ino, dir: Option<Ino>) {
        (self.done, self.above) = (self.done + 1, above);
        if let Some(dir) = dir {
            self.by_path = if dir.is_by_path() { self.by_path + 1 } else { 0 };
            self.dirs.push(dir);
            if let Some(led) = &mut self.led {
                led.push(dir);
            }
        }
    }

    /// Where it began, its names, and the directories that those have led to so far.
    /// None: nothing is to be said of them.
    pub(crate) fn way(&self) -> Option<(Ino, &[Name], &[Ino])> {
        Some((self.dir, &self.names, self.led.as_deref()?))
    }

    /// True if the identity's right to each name is to be checked.
    pub(crate) fn is_limited(&self) -> bool {
        self.limited.is_some()
    }

    /// The credentials of the caller, while the lookup is not done in its name.
    pub(crate) fn asks(&self) -> Option<&Cred> {
        self.asks.as_ref()
    }

    /// So many directories are found at once at most: with the last name, if it leads to one and nobody asks for more than which one that is.
    pub(crate) fn at_once(&self) -> usize {
        let to_end = if self.what.is_some() { !self.is_of_inode() } else { self.by == Replicas::ToTheEnd };
        self.names.len() - usize::from(!to_end)
    }
}
