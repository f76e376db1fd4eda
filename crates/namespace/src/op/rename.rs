//! Rename: replaces, refuses to replace, or exchanges; may leave a whiteout. The order of the checks is Linux's.

use loligo_types::{Event, Frag, FsError, FsResult, Ino, Inode, Kind, Name, Place, RenameMode, Route, Target, limits};

use super::{DONE, make};
use crate::access::{self, W};
use crate::ctx::{Change, Ctx};
use crate::need::Wants;
use crate::tree::{Found, Tree};
use crate::work::{Work, dir_of, entry_of, missing, pointed, subdirs};

pub(crate) fn need(wants: &mut Wants<'_>, dir: Ino, name: &Name, new_dir: Ino, new_name: &Name) {
    let source = wants.target(dir, name);
    let target = wants.target(new_dir, new_name);
    // It may come to live with its new name.
    source.into_iter().for_each(|inode| wants.counter(inode));
    if dir != new_dir {
        if source.is_some_and(|inode| inode.kind == Kind::Dir) {
            wants.ancestors(new_dir);
        }
        if target.is_some_and(|inode| inode.kind == Kind::Dir) {
            wants.ancestors(dir);
        }
    }
    target.into_iter().for_each(|inode| wants.counter(inode));
}

/// The four inodes of a rename, and whether the entries say that their inode does not live with them.
struct Four<'a> {
    dir: &'a Inode,
    name: &'a Name,
    source: &'a Inode,
    source_remote: bool,
    target_remote: bool,
    new_dir: &'a Inode,
    new_name: &'a Name,
    target: Option<&'a Inode>,
}

pub(crate) fn prepare(
    tree: &Tree,
    ctx: &Ctx<'_>,
    (dir, name): (Ino, &Name),
    (new_dir, new_name): (Ino, &Name),
    mode: RenameMode,
) -> FsResult<Change> {
    let old = dir_of(tree, ctx, dir)?;
    let new = dir_of(tree, ctx, new_dir)?;
    let from = entry_of(tree, dir, name)?.ok_or(FsError::NotFound)?;
    let source = pointed(tree, from.ino)?;
    let to = entry_of(tree, new_dir, new_name)?;
    let target = to.map(|to| pointed(tree, to.ino)).transpose()?;
    let (source_remote, target_remote) = (from.remote, to.is_some_and(|to| to.remote));
    let four = Four { dir: old, name, source, source_remote, target_remote, new_dir: new, new_name, target };
    match (mode, target) {
        (mode, Some(_)) if mode.is_new() => return Err(FsError::Exists),
        (RenameMode::Exchange, None) => return Err(FsError::NotFound),
        _ => {}
    }
    check_loops(tree, &four, mode)?;
    if target.is_some_and(|target| target.ino == source.ino) {
        // Two names of one file: nothing happens, says POSIX.
        return Ok(Change::only(DONE));
    }
    check_permissions(tree, ctx, &four, mode)?;
    let work = Work::new(tree, ctx.stamp.now);
    Ok(if mode == RenameMode::Exchange { exchange(work, ctx, &four) } else { replace(work, ctx, &four, mode) })
}

/// A directory cannot move below itself, nor replace one that it lies in.
fn check_loops(tree: &Tree, four: &Four<'_>, mode: RenameMode) -> FsResult<()> {
    if four.dir.ino == four.new_dir.ino {
        return Ok(());
    }
    if four.source.kind == Kind::Dir && is_above(tree, four.source.ino, four.new_dir)? {
        return Err(FsError::Invalid);
    }
    if let Some(target) = four.target
        && target.kind == Kind::Dir
        && is_above(tree, target.ino, four.dir)?
    {
        return Err(if mode == RenameMode::Exchange { FsError::Invalid } else { FsError::NotEmpty });
    }
    Ok(())
}

/// True if `ino` is `dir` or one of the directories above it.
fn is_above(tree: &Tree, ino: Ino, dir: &Inode) -> FsResult<bool> {
    let mut at = dir;
    for _ in 0..limits::DEPTH_MAX {
        if at.ino == ino {
            return Ok(true);
        }
        if at.ino == Ino::ROOT || at.parent.0 == 0 {
            return Ok(false);
        }
        at = match tree.find(at.parent) {
            Found::Here(parent) => parent,
            Found::Gone => return Ok(false),
            Found::Unknown => return Err(missing("a directory above")),
        };
    }
    Err(FsError::Loop)
}

fn check_permissions(tree: &Tree, ctx: &Ctx<'_>, four: &Four<'_>, mode: RenameMode) -> FsResult<()> {
    let cred = ctx.cred;
    let exchange = mode == RenameMode::Exchange;
    access::check_change(four.dir, cred)?;
    access::check_sticky(four.dir, four.source, cred)?;
    access::check_change(four.new_dir, cred)?;
    if let Some(target) = four.target {
        access::check_sticky(four.new_dir, target, cred)?;
        match (four.source.kind == Kind::Dir, target.kind == Kind::Dir) {
            (true, false) if !exchange => return Err(FsError::NotDir),
            (false, true) if !exchange => return Err(FsError::IsDir),
            _ => {}
        }
    }
    if four.dir.ino != four.new_dir.ino {
        // A directory that gets another parent is written: its `..` changes.
        let moved = [Some(four.source), four.target.filter(|_| exchange)];
        for inode in moved.into_iter().flatten().filter(|inode| inode.kind == Kind::Dir) {
            access::check(inode, cred, W)?;
        }
    }
    match four.target {
        Some(target) if !exchange && target.kind == Kind::Dir && tree.entries_of(target) > 0 => Err(FsError::NotEmpty),
        _ => Ok(()),
    }
}

fn replace(mut work: Work<'_>, ctx: &Ctx<'_>, four: &Four<'_>, mode: RenameMode) -> Change {
    if let Some(target) = four.target {
        // Its entry is overwritten, so only the directory's numbers change.
        let copy = work.edit_dir(four.new_dir);
        copy.size = copy.size.saturating_sub(1);
        if target.kind == Kind::Dir {
            subdirs(copy, -1);
        }
        work.drop_link(target, !four.target_remote, ctx);
    }
    make::drop_entry(&mut work, four.dir, four.name, four.source.kind);
    let moved =
        Moved { inode: four.source, remote: four.source_remote, from: four.dir, to: four.new_dir, name: four.new_name };
    let target = move_inode(&mut work, ctx, &moved);
    make::add_entry(&mut work, four.new_dir, four.new_name, target);
    if mode.leaves_whiteout() {
        // Anybody may make one, though it is a device: the kernel opens none with this number.
        let whiteout = make::new_inode(ctx, four.dir, Kind::Char, 0, 0);
        make::make(&mut work, four.dir, four.name, whiteout);
    }
    work.finish(DONE, Ino(0))
}

fn exchange(mut work: Work<'_>, ctx: &Ctx<'_>, four: &Four<'_>) -> Change {
    let target = four.target.expect("checked: an exchange has both");
    let (dir, name, new_dir, new_name) = (four.dir, four.name, four.new_dir, four.new_name);
    let there = Moved { inode: four.source, remote: four.source_remote, from: dir, to: new_dir, name: new_name };
    let back = Moved { inode: target, remote: four.target_remote, from: new_dir, to: dir, name };
    for moved in [there, back] {
        let Target { ino, kind, remote } = move_inode(&mut work, ctx, &moved);
        work.event(Event::Entry { dir: moved.to.ino, name: moved.name.clone(), ino, kind, remote });
    }
    work.edit_dir(four.dir);
    work.edit_dir(four.new_dir);
    if four.dir.ino != four.new_dir.ino {
        let is_dir = |inode: &Inode| i32::from(inode.kind == Kind::Dir);
        let delta = is_dir(target) - is_dir(four.source);
        subdirs(work.edit_dir(four.dir), delta);
        subdirs(work.edit_dir(four.new_dir), -delta);
    }
    work.finish(DONE, Ino(0))
}

/// An inode that gets another name.
struct Moved<'a> {
    inode: &'a Inode,
    /// It does not live with the old name.
    remote: bool,
    from: &'a Inode,
    to: &'a Inode,
    name: &'a Name,
}

/// The inode's own record: its ctime, who counts it if the old directory did, and where it lives. What the new entry is
/// to say.
fn move_inode(work: &mut Work<'_>, ctx: &Ctx<'_>, moved: &Moved<'_>) -> Target {
    let Moved { inode, from, to, .. } = *moved;
    work.edit(inode);
    let owner = work.tree.owner(inode.ino);
    let together = owner == work.tree.entry_owner(to.ino, moved.name);
    let is_dir = inode.kind == Kind::Dir;
    // A file that floats and has no other name lives with this one.
    let alone = is_dir || !moved.remote || inode.place.rank().is_some() && inode.nlink == 1;
    let embeds = alone && (together || is_dir);
    let lives_there = !alone && inode.place.hash().is_some();
    if inode.parent != to.ino && (embeds || inode.parent == from.ino && !lives_there) {
        work.uncount(inode);
        work.count_in(inode, to);
    }
    if embeds {
        work.edit(inode).place = Place::embedded(work.tree.hash(moved.name));
    } else if alone {
        work.edit(inode).place = Place::floating(owner);
    }
    if is_dir && !together && inode.ino.zeroth_rank().is_none() && (ctx.route_version)(inode.ino).is_none() {
        // What is below it stays with the rank that has it.
        work.event(Event::Route(Route { dir: inode.ino, frag: Frag::WHOLE, rank: owner, version: 1 }));
    }
    if inode.parent != to.ino {
        work.copy_to_parts(inode, false);
    }
    let remote = if is_dir { moved.remote || !together } else { !embeds };
    Target { ino: inode.ino, kind: inode.kind, remote }
}

#[cfg(test)]
mod tests {
    use crate::testing::script::check;

    #[test]
    fn moves_and_replaces() {
        check(
            "
            0 create /a 644
            0 create /b 644
            0 mkdir /d 755
            0 rename /a /d/c
            0 lookup /a = NotFound
            0 stat /d/c = ino=256 nlink=1
            0 rename /b /d/c
            0 stat /d/c = ino=257
            0 stat @256 = Stale
            0 rename /x /y = NotFound
            0 rename /d/c /d = NotEmpty
            0 rename /d /d/c = Invalid # into itself
            0 stat /d = size=1
            ",
        );
    }

    #[test]
    fn directories_replace_empty_directories_only() {
        check(
            "
            0 mkdir /a 755
            0 mkdir /b 755
            0 create /b/f 644
            0 create /f 644
            0 rename /a /b = NotEmpty
            0 rename /a /f = NotDir
            0 rename /f /a = IsDir
            0 rename /b /a
            0 stat / = size=2 nlink=3
            0 lookup /a/f = kind=File
            0 mkdir /c 755
            0 rename /a /c/a
            0 stat / = nlink=3 size=2
            0 stat /c = nlink=3
            0 parent /c/a = ino=260
            ",
        );
    }

    #[test]
    fn no_directory_comes_below_itself() {
        check(
            "
            0 mkdir /a 755
            0 mkdir /a/b 755
            0 mkdir /a/b/c 755
            0 rename /a /a/b/c/d = Invalid
            0 rename /a/b /a/b/x = Invalid
            0 rename /a/b/c /a = NotEmpty
            0 rename /a/b/c /a exchange = Invalid
            0 rename /a /a/b exchange = Invalid
            0 rename /a/b/c /c
            0 rename /a /c/a
            0 lookup /c/a/b = kind=Dir
            ",
        );
    }

    #[test]
    fn noreplace_and_exchange() {
        check(
            "
            0 create /a 644
            0 mkdir /d 755
            0 mkdir /d/e 755
            0 rename /a /d noreplace = Exists
            0 rename /a /b noreplace
            0 rename /b /x exchange = NotFound
            0 rename /b /d/e exchange
            0 stat /b = kind=Dir
            0 stat /d/e = kind=File
            0 stat / = nlink=4 size=2
            0 stat /d = nlink=2 size=1
            0 parent /b = ino=1
            0 rename /b /d exchange
            0 rename /d /d exchange
            ",
        );
    }

    #[test]
    fn two_names_of_one_file_stay() {
        check(
            "
            0 create /a 644
            0 link /a /b
            0 rename /a /b
            0 stat /a = nlink=2
            0 rename /a /a
            0 stat / = size=2
            ",
        );
    }

    #[test]
    fn a_whiteout_takes_the_place_of_what_was_renamed() {
        check(
            "
            0 mkdir /d 777
            1000 create /d/a 644
            1000 rename /d/a /d/b whiteout
            0 stat /d/b = ino=257
            0 stat /d/a = kind=Char mode=0 uid=1000 nlink=1
            0 stat /d = size=2
            0 create /d/c 644
            0 rename /d/b /d/c new-whiteout = Exists
            0 rename /d/b /d/c whiteout
            0 stat /d = size=3
            0 stat /d/c = ino=257
            0 rename /d/c /e new-whiteout
            0 stat /d/c = kind=Char
            0 stat /d = size=3
            0 mkdir /d/sub 755
            0 rename /d/sub /moved whiteout
            0 stat /d = size=4 nlink=2
            0 unlink /d/sub
            0 link /d/a /l
            0 rename /d/a /l whiteout # two names of one file
            0 stat /d/a = nlink=2
            ",
        );
    }

    #[test]
    fn permissions_of_both_sides() {
        check(
            "
            0 mkdir /a 755
            0 mkdir /b 777
            0 create /a/f 644
            0 mkdir /b/d 755
            1000 rename /a/f /b/f = Access
            0 chmod /a 777
            1000 rename /a/f /b/f
            1000 rename /b/d /a/d = Access # its .. would change
            1000 rename /b/d /b/e
            0 chmod /b 1777
            1000 rename /b/e /b/g = Perm
            1000 create /a/n 644
            1000 rename /a/n /b/f = Perm # sticky target of another
            1000 rename /a/n /b/n
            ",
        );
    }

    #[test]
    fn an_open_target_lives_on() {
        check(
            "
            0 create /a 644
            0 create /b 644
            0 write /b 0 old
            0 hold /b
            0 rename /a /b
            0 read @257 = old
            0 stat @257 = nlink=0
            0 let @257
            0 stat @257 = Stale
            ",
        );
    }

    #[test]
    fn times_of_the_moved_and_of_both_parents() {
        check(
            "
            0 mkdir /d 755
            0 create /f 644
            0 rename /f /d/f
            0 stat /d/f = change=2
            0 stat /d = change=2
            ",
        );
    }
}
