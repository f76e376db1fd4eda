//! The operations, one file each: what it needs, how it is decided. Here only the three tables: what is needed, which inodes are touched, what is decided.

mod access;
mod create;
mod extend;
mod getattr;
mod inline;
mod link;
mod lookup;
mod make;
mod mkdir;
mod mknod;
mod open;
mod past;
mod placed;
mod readdir;
mod readlink;
mod rename;
mod rmdir;
mod set_data;
mod setattr;
mod symlink;
mod tmpfile;
mod truncate;
mod unlink;
pub(crate) mod xattr;

use loligo_types::{Answer, Cred, FsError, FsResult, Ino, Kind, Op, RenameMode};

use crate::ctx::{Change, Ctx};
use crate::need::Wants;
use crate::touches::Touch;
use crate::tree::{Lookup, Tree};

pub(crate) use open::open_data;
pub(crate) use readdir::listed;

/// Adds what is missing for an operation.
pub(crate) fn need(wants: &mut Wants<'_>, op: &Op, cred: &Cred) {
    match op {
        Op::Lookup { dir, name } => drop(wants.target(*dir, name)),
        Op::LookupParent { dir } => lookup::need_parent(wants, *dir),
        Op::GetAttr { ino } => drop(wants.whole(*ino)),
        Op::Readlink { ino } | Op::Access { ino, .. } => drop(wants.inode(*ino)),
        Op::SetAttr { ino, set, .. } => setattr::need(wants, *ino, set),
        Op::Open { ino, flags, .. } => open::need(wants, *ino, *flags),
        Op::Create { dir, name, flags, exclusive, .. } => create::need(wants, *dir, name, *flags, *exclusive),
        Op::Tmpfile { dir, .. } => drop(wants.inode(*dir)),
        Op::Mknod { dir, name, .. } | Op::Mkdir { dir, name, .. } | Op::Symlink { dir, name, .. } => {
            wants.entry(*dir, name);
        }
        Op::Link { ino, dir, name } => link::need(wants, *ino, *dir, name),
        Op::Unlink { dir, name } => unlink::need(wants, *dir, name),
        Op::Rmdir { dir, name } => drop(wants.target(*dir, name)),
        Op::Rename { dir, name, new_dir, new_name, .. } => rename::need(wants, *dir, name, *new_dir, new_name),
        Op::Readdir { dir, cookie, limit, plus, .. } => readdir::need(wants, *dir, *cookie, *limit, *plus),
        Op::GetXattr { ino, name } => xattr::need_get(wants, *ino, name),
        Op::ListXattr { ino } => xattr::need_all(wants, *ino),
        Op::SetXattr { ino, name, .. } | Op::RemoveXattr { ino, name } => xattr::need_set(wants, *ino, name, cred),
        Op::ReadInline { ino, .. } => inline::need_read(wants, *ino),
        Op::WriteInline { ino, .. } => inline::need_write(wants, *ino),
        Op::SetData { ino, .. } => xattr::need_all(wants, *ino),
        Op::Extend { ino, .. } => drop(wants.inode(*ino)),
        Op::Walk { .. } | Op::Via { .. } | Op::StatFs | Op::Control(_) => {}
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
        Op::Open { ino, flags, .. } => touch.open(tree, *ino, *flags),
        Op::Create { dir, name, flags, .. } => match present(*dir, name) {
            Some(ino) => touch.open(tree, ino, *flags),
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
            touch.reads = listed(tree, *dir, *cookie, *limit).into();
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

/// Decides an operation for which [`crate::need`] is empty. Changes nothing; the events in the answer do.
///
/// `Walk`, `StatFs` and control requests are the server's and give `NotSupported` here.
pub fn prepare(tree: &Tree, op: &Op, ctx: &Ctx<'_>) -> FsResult<Change> {
    match op {
        Op::Lookup { dir, name } => lookup::prepare(tree, ctx, *dir, name),
        Op::LookupParent { dir } => lookup::prepare_parent(tree, ctx, *dir),
        Op::GetAttr { ino } => getattr::prepare(tree, *ino),
        Op::SetAttr { ino, set, handle } => {
            setattr::prepare(tree, ctx, *ino, set, handle.is_some() && ctx.handle_write)
        }
        Op::Open { ino, flags, .. } => open::prepare(tree, ctx, *ino, *flags),
        Op::Create { dir, name, mode, umask, flags, exclusive, .. } => create::prepare(
            tree,
            ctx,
            *dir,
            name,
            create::How { mode: *mode, umask: *umask, flags: *flags, exclusive: *exclusive },
        ),
        Op::Tmpfile { dir, mode, umask, flags, linkable, .. } => {
            tmpfile::prepare(tree, ctx, *dir, (*mode, *umask), *flags, *linkable)
        }
        Op::Mknod { dir, name, kind, mode, umask, rdev } => {
            mknod::prepare(tree, ctx, *dir, name, mknod::Node { kind: *kind, mode: *mode, umask: *umask, rdev: *rdev })
        }
        Op::Mkdir { dir, name, mode, umask } => mkdir::prepare(tree, ctx, *dir, name, *mode, *umask),
        Op::Symlink { dir, name, target } => symlink::prepare(tree, ctx, *dir, name, target),
        Op::Link { ino, dir, name } => link::prepare(tree, ctx, *ino, *dir, name),
        Op::Unlink { dir, name } => unlink::prepare(tree, ctx, *dir, name),
        Op::Rmdir { dir, name } => rmdir::prepare(tree, ctx, *dir, name),
        Op::Rename { dir, name, new_dir, new_name, mode } => {
            rename::prepare(tree, ctx, (*dir, name), (*new_dir, new_name), *mode)
        }
        Op::Readlink { ino } => readlink::prepare(tree, *ino),
        Op::Readdir { dir, cookie, limit, plus, handle } => {
            readdir::prepare(tree, ctx, *dir, *cookie, *limit, *plus, handle.is_some())
        }
        Op::GetXattr { ino, name } => xattr::get(tree, ctx, *ino, name),
        Op::ListXattr { ino } => xattr::list(tree, ctx, *ino),
        Op::SetXattr { ino, name, value, mode } => xattr::set(tree, ctx, *ino, name, value, *mode),
        Op::RemoveXattr { ino, name } => xattr::remove(tree, ctx, *ino, name),
        Op::Access { ino, want } => access::prepare(tree, ctx, *ino, *want),
        Op::ReadInline { ino, .. } => inline::read(tree, ctx, *ino),
        Op::WriteInline { ino, offset, data, mtime, kill_priv, .. } => inline::write(
            tree,
            ctx,
            *ino,
            inline::Write { offset: *offset, data, mtime: *mtime, kill_priv: *kill_priv },
        ),
        Op::SetData { ino, cuts, grow_to, mtime, spilled, kill_priv, patches, .. } => {
            let patches = patches.clone();
            let told = set_data::Told {
                cuts: *cuts,
                grow_to: *grow_to,
                mtime: *mtime,
                spilled: *spilled,
                kill_priv: *kill_priv,
                patches,
            };
            set_data::prepare(tree, ctx, *ino, told)
        }
        Op::Extend { ino, len, .. } => extend::prepare(tree, ctx, *ino, *len),
        Op::Walk { .. } | Op::Via { .. } | Op::StatFs | Op::Control(_) => Err(FsError::NotSupported),
    }
}

/// The answer of operations that tell nothing.
pub(crate) const DONE: Answer = Answer::Done;
