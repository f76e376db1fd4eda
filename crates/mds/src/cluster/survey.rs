//! Which of the inodes in memory are below a directory that moves. Told apart by their directories, which are remembered. Here the state
//! of the look; its steps are in `below.rs`.

use loligo_namespace::Need;
use loligo_types::{Event, Frag, Ino, Inode, Kind};

use loligo_types::hash::IntMap;

/// Progress of the look at memory.
#[derive(Default)]
pub(crate) struct Survey {
    /// Of directories: whether they move.
    pub(super) below: IntMap<Ino, bool>,
    /// The directory, and of its names those that move.
    pub(super) dir: (Ino, Vec<Frag>),
    /// Files move by themselves.
    pub(super) has_files: bool,
    /// A directory that files were seen in in this step, and whether they move.
    pub(super) last: Option<(Ino, bool)>,
    pub(super) inode: usize,
    pub(super) entries: usize,
    pub(crate) found: u64,
    /// It is looked at again to drop what has moved.
    pub(super) moved: bool,
    /// Records are being read.
    pub(crate) reading: bool,
    /// The directories that moved and are still to be forgotten.
    pub(super) rest: Option<Vec<Ino>>,
    /// More must be read before the next one is known: what was read for it must stay in memory.
    pub(crate) asks: bool,
}

impl Survey {
    /// Over what is below these fragments of a directory. `itself`: it moves, too.
    pub(crate) fn of(dir: Ino, frags: Vec<Frag>, itself: bool) -> Survey {
        let mut survey = Survey { dir: (dir, frags), ..Survey::default() };
        survey.below.insert(dir, itself);
        survey
    }

    /// The same, or over these files instead of it.
    pub(crate) fn of_all(dir: Ino, frags: Vec<Frag>, itself: bool, files: &[Ino]) -> Survey {
        let mut survey = Survey::of(dir, frags, itself);
        survey.has_files = !files.is_empty();
        survey.below.extend(files.iter().map(|ino| (*ino, true)));
        survey
    }

    /// True if a name moves: `None` if it is in another directory.
    pub(crate) fn name_moves(&self, dir: Ino, hash: u64) -> Option<bool> {
        (dir == self.dir.0).then(|| self.dir.1.iter().any(|frag| frag.contains(hash)))
    }

    /// True if a file moves: one in the directory that moves, or in that of the last file; `None` for others.
    #[inline]
    pub(super) fn near(&self, inode: &Inode) -> Option<bool> {
        let hash = inode.place.hash().filter(|_| inode.kind != Kind::Dir && !self.has_files)?;
        match self.last {
            _ if inode.parent == self.dir.0 => self.name_moves(inode.parent, hash),
            Some((dir, moves)) if inode.parent == dir => Some(moves),
            _ => None,
        }
    }

    /// Another step of the migration begins: things may have changed.
    pub(super) fn last_ends(&mut self) {
        self.last = None;
    }

    /// True if something is known of a directory.
    pub(crate) fn knows(&self, ino: Ino) -> bool {
        self.below.contains_key(&ino)
    }

    /// Looked at, inodes and directories.
    pub(crate) fn seen(&self) -> u64 {
        (self.inode + self.entries) as u64
    }

    /// Starts from the beginning, with what is known of directories, to drop what has moved.
    pub(crate) fn drops(&mut self) {
        (self.inode, self.entries, self.found, self.moved) = (0, 0, 0, true);
    }

    /// True if a directory moves, as far as it was seen.
    pub(crate) fn is_below(&self, dir: Ino) -> bool {
        self.below.get(&dir).copied().unwrap_or(false)
    }
}

/// Answer of a survey about an inode: it moves, or not.
pub(crate) enum Moves {
    Yes,
    No,
    /// Not known before these are read.
    Unknown(Vec<Need>),
}

/// The inode whose authority has a record that can move.
pub(super) fn inode_of(event: &Event) -> Option<Ino> {
    match event {
        Event::Inode(inode) => Some(inode.ino),
        Event::Entry { dir, .. } | Event::EntryGone { dir, .. } => Some(*dir),
        Event::InodeGone(ino)
        | Event::InlineGone(ino)
        | Event::Xattr { ino, .. }
        | Event::XattrGone { ino, .. }
        | Event::Inline { ino, .. } => Some(*ino),
        _ => None,
    }
}
