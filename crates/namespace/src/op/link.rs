//! Link: one more name for a file.

use loligo_types::{Event, FsError, FsResult, Ino, Kind, Name, Place, Target, limits};

use super::make;
use crate::ctx::{Change, Ctx};
use crate::need::Wants;
use crate::tree::{Found, Tree};
use crate::work::{Work, missing};

pub(crate) fn need(wants: &mut Wants<'_>, ino: Ino, dir: Ino, name: &Name) {
    wants.entry(dir, name);
    // A directory gets no second name, and its only one may be another rank's, which lends no names but those that are asked for.
    if let Some(inode) = wants.inode(ino).filter(|inode| inode.kind != Kind::Dir) {
        wants.counter(inode);
        if wants.tree.owner(ino) == wants.tree.entry_owner(dir, name) {
            wants.primary(inode);
        }
    }
}

pub(crate) fn prepare(tree: &Tree, ctx: &Ctx<'_>, ino: Ino, dir: Ino, name: &Name) -> FsResult<Change> {
    let inode = match tree.find(ino) {
        Found::Here(inode) => inode,
        Found::Gone => return Err(FsError::NotFound),
        Found::Unknown => return Err(missing("an inode")),
    };
    let parent = make::room_for(tree, ctx, dir, name)?;
    let linkable = inode.extra.as_ref().is_some_and(|extra| extra.linkable);
    if inode.kind == Kind::Dir {
        return Err(FsError::Perm);
    }
    if inode.nlink == 0 && !linkable {
        return Err(FsError::NotFound);
    }
    if inode.nlink >= limits::LINK_MAX {
        return Err(FsError::TooManyLinks);
    }
    let mut work = Work::new(tree, ctx.stamp.now);
    if inode.nlink == 0 {
        work.event(Event::OrphanGone(ino));
    }
    // The newest name becomes the primary one, if it is with the same rank.
    let remote = tree.owner(ino) != tree.entry_owner(dir, name);
    make::add_entry(&mut work, parent, name, Target { ino, kind: inode.kind, remote });
    if !remote && let Some(name) = tree.primary_name(inode) {
        work.event(Event::Entry { dir: inode.parent, name, ino, kind: inode.kind, remote: true });
    }
    let copy = work.edit(inode);
    copy.nlink += 1;
    if !remote {
        copy.place = Place::embedded(tree.hash(name));
    }
    if let Some(extra) = &mut copy.extra {
        extra.linkable = false;
    }
    // The newest link's directory counts it: the older one often goes soon (link and unlink as a rename).
    if inode.parent != dir && !remote {
        work.uncount(inode);
        work.count_in(inode, parent);
    }
    Ok(work.finish_with(inode))
}

#[cfg(test)]
mod tests {
    use crate::testing::script::check;

    #[test]
    fn a_second_name() {
        check(
            "
            0 create /f 644
            0 mkdir /d 755
            0 link /f /d/g = nlink=2
            0 stat /d = size=1
            0 link /f /d/g = Exists
            0 link /d /e = Perm
            1000 link /f /h = Access
            0 unlink /f
            0 stat /d/g = nlink=1
            0 lookup /f = NotFound
            ",
        );
    }

    #[test]
    fn an_unlinked_file_cannot_be_named_again_but_a_linkable_one_can() {
        use loligo_types::{Cred, FsError, Ino, Name, Op};
        let mut fs = check(
            "
            0 create /f 644
            0 hold /f
            0 unlink /f
            0 tmpfile / 600 linkable
            0 tmpfile / 600
            0 write @257 0 text
            ",
        );
        let name = Name::new(b"new").expect("a good name");
        let link = |ino: u64, fs: &mut crate::testing::Fs| {
            let op = Op::Link { ino: Ino(ino), dir: Ino::ROOT, name: name.clone() };
            fs.run(&Cred::root(), &op).map(|change| change.answer.attr().map(|attr| attr.nlink))
        };
        assert_eq!(link(256, &mut fs), Err(FsError::NotFound));
        assert_eq!(link(258, &mut fs), Err(FsError::NotFound));
        assert_eq!(link(257, &mut fs), Ok(Some(1)));
        fs.check();
        fs.run(&Cred::root(), &Op::Unlink { dir: Ino::ROOT, name: name.clone() }).expect("root may");
        assert_eq!(link(257, &mut fs), Err(FsError::NotFound), "once only");
    }
}
