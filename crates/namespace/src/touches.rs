//! Which inodes and directories an operation would change or look at, for the recall of leases before it is decided.

use std::ops::Deref;

use loligo_types::{Ino, Inode, Kind, Op, OpenFlags, RenameMode};

use crate::tree::{Lookup, Tree};

/// A short list of inodes without a heap block for up to four.
#[derive(Clone, Debug, Default)]
pub struct Inos {
    few: [Ino; 4],
    len: u8,
    many: Vec<Ino>,
}

impl Inos {
    /// Adds one, once.
    pub fn add(&mut self, ino: Ino) {
        if self.contains(&ino) {
            return;
        }
        if self.many.is_empty() && usize::from(self.len) < self.few.len() {
            self.few[usize::from(self.len)] = ino;
            self.len += 1;
            return;
        }
        if self.many.is_empty() {
            self.many = self.few.to_vec();
        }
        self.many.push(ino);
    }
}

impl Deref for Inos {
    type Target = [Ino];
    fn deref(&self) -> &[Ino] {
        if self.many.is_empty() { &self.few[..usize::from(self.len)] } else { &self.many }
    }
}

/// Inodes that an operation touches. Never too few; sometimes more than it turns out to.
#[derive(Clone, Debug, Default)]
pub struct Touch {
    /// Inodes whose attributes, xattrs or target change: recall ATTR.
    pub attr: Inos,
    /// Directories whose entries change: recall NAMES.
    pub names: Inos,
    /// Inodes whose size or times the answer tells, or whose data is read: a holder of BUFFER must flush first.
    pub reads: Inos,
}

impl Touch {
    fn dir(&mut self, dir: Ino) {
        self.attr.add(dir);
        self.names.add(dir);
    }

    /// Changes an inode and answers its attributes.
    fn both(&mut self, ino: Ino) {
        self.attr.add(ino);
        self.reads.add(ino);
    }
}

/// The inodes that the operation would touch. Ask when [`crate::need`] is empty.
pub fn touches(tree: &Tree, op: &Op) -> Touch {
    let mut touch = Touch::default();
    let present = |dir: Ino, name| match tree.entry(dir, name) {
        Lookup::Present(target) => Some(target.ino),
        _ => None,
    };
    match op {
        Op::Lookup { dir, name } => present(*dir, name).into_iter().for_each(|ino| touch.reads.add(ino)),
        Op::GetAttr { ino } | Op::ReadInline { ino, .. } => touch.reads.add(*ino),
        Op::SetAttr { ino, .. } | Op::WriteInline { ino, .. } | Op::SetData { ino, .. } | Op::Extend { ino, .. } => {
            touch.both(*ino);
        }
        Op::SetXattr { ino, .. } | Op::RemoveXattr { ino, .. } => touch.both(*ino),
        Op::Open { ino, flags, .. } => open(tree, &mut touch, *ino, *flags),
        Op::Create { dir, name, flags, .. } => match present(*dir, name) {
            Some(ino) => open(tree, &mut touch, ino, *flags),
            None => touch.dir(*dir),
        },
        Op::Mknod { dir, .. } | Op::Mkdir { dir, .. } | Op::Symlink { dir, .. } => touch.dir(*dir),
        Op::Link { ino, dir, .. } => {
            touch.dir(*dir);
            touch.both(*ino);
            // The name that was the primary one is put down anew.
            tree.inode(*ino).into_iter().for_each(|inode| touch.names.add(inode.parent));
        }
        Op::Unlink { dir, name } | Op::Rmdir { dir, name } => {
            touch.dir(*dir);
            present(*dir, name).into_iter().for_each(|ino| touch.attr.add(ino));
        }
        Op::Rename { dir, name, new_dir, new_name, mode } => {
            touch.dir(*dir);
            touch.dir(*new_dir);
            let moved = [present(*dir, name), present(*new_dir, new_name)];
            for ino in moved.into_iter().flatten() {
                touch.attr.add(ino);
                // `..` of a directory that moves is a name in it.
                let is_dir = tree.inode(ino).is_some_and(|inode| inode.kind == Kind::Dir);
                if is_dir && (dir != new_dir || *mode == RenameMode::Exchange) {
                    touch.names.add(ino);
                }
            }
        }
        Op::Readdir { dir, cookie, limit, plus: true, .. } => {
            // Each entry has another inode; the few doubles do no harm.
            touch.reads.many = crate::op::listed(tree, *dir, *cookie, *limit);
        }
        Op::Walk { .. }
        | Op::Via { .. }
        | Op::LookupParent { .. }
        | Op::Tmpfile { .. }
        | Op::Readlink { .. }
        | Op::Readdir { .. }
        | Op::GetXattr { .. }
        | Op::ListXattr { .. }
        | Op::Access { .. }
        | Op::StatFs
        | Op::Control(_) => {}
    }
    touch
}

fn open(tree: &Tree, touch: &mut Touch, ino: Ino, flags: OpenFlags) {
    touch.reads.add(ino);
    // Of clients that are not believed an open for writing ends privileges.
    let may_have_some = |inode: &Inode| inode.kind == Kind::File && (inode.mode & 0o6000 != 0 || inode.has_xattrs);
    if flags.truncate || flags.write && tree.inode(ino).is_some_and(may_have_some) {
        touch.attr.add(ino);
    }
}
