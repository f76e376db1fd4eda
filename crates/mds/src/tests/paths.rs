//! Identities that are limited to paths, at one rank: what they come to, what they are refused, and what stays theirs.

use std::sync::Arc;

use loligo_types::msg::Reclaim;
use loligo_types::{Access, Answer, FsError, FsResult, Ino, Lease, Op, OpenFlags, RenameMode, SetTime, XattrMode};

use super::*;
use crate::{Identity, Peer, Rights, Squash};

/// A peer with these rights.
pub fn limited(allow: &[&str]) -> Peer {
    let rights = Rights::of(allow.iter().map(|text| text.parse().expect("a right")).collect()).expect("rights");
    let rights = rights.squashing(Squash::None);
    let identity = Identity { key: [1; 32], name: "limited".into(), rights };
    Peer { uid: None, groups: Vec::new(), trusted: true, local: false, identity: Some(Arc::new(identity)) }
}

fn rename(dir: Ino, text: &str, new_dir: Ino, new_text: &str) -> Op {
    Op::Rename { dir, name: name(text), new_dir, new_name: name(new_text), mode: RenameMode::Replace }
}

fn xattr(text: &[u8]) -> Arc<[u8]> {
    text.into()
}

/// Everything that can be asked of a directory and what is in it, but a lookup and what shows only attributes.
fn asked_of(dir: Ino, file: Ino, other: Ino) -> Vec<Op> {
    let (mode, umask, handle, mtime) = (0o755, 0, 9, SetTime::Now);
    let flags = OpenFlags { read: true, ..OpenFlags::default() };
    vec![
        chmod(dir, 0o700),
        Op::Open { ino: dir, flags, handle },
        Op::Open { ino: file, flags, handle },
        Op::Open { ino: file, flags: OpenFlags { write: true, ..flags }, handle },
        create(dir, "new", flags, handle),
        Op::Tmpfile { dir, mode, umask, flags, linkable: true, handle },
        Op::Mknod { dir, name: name("node"), kind: loligo_types::Kind::Fifo, mode, umask, rdev: 0 },
        mkdir(dir, "sub"),
        Op::Symlink { dir, name: name("link"), target: xattr(b"x") },
        Op::Link { ino: file, dir: other, name: name("second") },
        unlink(dir, "f"),
        Op::Rmdir { dir, name: name("e") },
        rename(dir, "f", other, "f"),
        Op::Readlink { ino: file },
        Op::Readdir { dir, cookie: 0, limit: 10, plus: true, handle: None },
        Op::GetXattr { ino: dir, name: xattr(b"user.x") },
        Op::SetXattr { ino: dir, name: xattr(b"user.x"), value: xattr(b"x"), mode: XattrMode::Set },
        Op::RemoveXattr { ino: dir, name: xattr(b"user.x") },
        Op::Access { ino: dir, want: Access { write: true, ..Access::default() } },
        Op::WriteInline { ino: file, handle: 77, offset: None, data: xattr(b"x"), mtime, kill_priv: false },
    ]
}

/// Two directories below one, with a file and a directory in each.
struct Site {
    world: World,
    root: usize,
    home: Ino,
    mine: Ino,
    theirs: Ino,
    my_file: Ino,
    their_file: Ino,
}

fn site() -> Site {
    let mut world = World::new();
    let root = world.client();
    let home = world.mkdir(root, Ino::ROOT, "home").ino;
    let mut dir = |text: &str| {
        let dir = world.mkdir(root, home, text).ino;
        world.mkdir(root, dir, "e");
        let file = world.create(root, dir, "f", WRITE, 1).ino;
        world.call(root, close(1)).expect("it is open");
        (dir, file)
    };
    let ((mine, my_file), (theirs, their_file)) = (dir("mine"), dir("theirs"));
    Site { world, root, home, mine, theirs, my_file, their_file }
}

#[test]
fn what_lies_outside_of_the_paths_is_refused_whatever_is_asked_of_it() {
    let Site { mut world, mine, theirs, their_file, .. } = site();
    let a = world.client_from_afar(limited(&["rw:/home/mine"]));
    for op in asked_of(theirs, their_file, mine) {
        let error = world.call(a, op.clone()).err();
        let expected = if matches!(op, Op::WriteInline { .. }) { FsError::BadHandle } else { FsError::Access };
        assert_eq!(error, Some(expected), "{op:?}");
    }
    for op in [Op::GetAttr { ino: theirs }, Op::LookupParent { dir: theirs }, Op::GetAttr { ino: their_file }] {
        assert_eq!(world.call(a, op.clone()).err(), Some(FsError::Access), "{op:?}");
    }
    assert_eq!(world.lookup(a, theirs, "f").err(), Some(FsError::Access));
    assert_eq!(
        world.call(a, rename(mine, "f", theirs, "g")).err(),
        Some(FsError::Access),
        "nor is anything taken there"
    );
    assert!(world.call(a, Op::StatFs).is_ok());
}

#[test]
fn what_lies_below_a_path_is_as_without_limits_and_below_one_to_read_only_changes_are_refused() {
    let Site { mut world, mine, theirs, my_file, .. } = site();
    let a = world.client_from_afar(limited(&["rw:/home/mine", "r:/home/theirs"]));
    let is_change = |op: &Op| op.is_change() || matches!(op, Op::Open { flags, .. } if flags.write);
    for op in asked_of(theirs, world.lookup(a, theirs, "f").expect("it may look").ino, mine) {
        let error = world.call(a, op.clone()).err();
        let writes = is_change(&op) || matches!(op, Op::Access { .. });
        assert_eq!(
            error == Some(FsError::ReadOnly),
            writes && !matches!(op, Op::WriteInline { .. }),
            "{op:?}: {error:?}"
        );
        assert_ne!(error, Some(FsError::Access), "{op:?}");
    }
    world.call(a, close(9)).expect("it was opened");
    for op in asked_of(mine, my_file, mine) {
        let error = world.call(a, op.clone()).err();
        assert!(!matches!(error, Some(FsError::Access | FsError::ReadOnly)), "{op:?}: {error:?}");
        if matches!(op, Op::Open { .. } | Op::Create { .. } | Op::Tmpfile { .. }) {
            world.call(a, close(9)).expect("it was opened");
        }
    }
}

#[test]
fn of_the_directories_above_a_path_only_the_way_is_shown() {
    let Site { mut world, home, mine, .. } = site();
    let a = world.client_from_afar(limited(&["r:/home/mine/e", "rw:/home/none/x"]));
    assert_eq!(world.lookup(a, Ino::ROOT, "home").map(|attr| attr.ino), Ok(home));
    assert_eq!(world.lookup(a, home, "mine").map(|attr| attr.ino), Ok(mine));
    assert_eq!(world.lookup(a, home, "none").err(), Some(FsError::NotFound), "on the way to the other one");
    assert_eq!(world.lookup(a, home, "theirs").err(), Some(FsError::Access));
    assert_eq!(world.lookup(a, mine, "f").err(), Some(FsError::Access));
    let shown = |world: &mut World, op: Op| world.call(a, op).is_ok();
    for ino in [Ino::ROOT, home, mine] {
        assert!(shown(&mut world, Op::GetAttr { ino }));
        assert!(shown(&mut world, Op::LookupParent { dir: ino }));
        assert!(shown(&mut world, Op::Access { ino, want: Access { exec: true, ..Access::default() } }));
        assert_eq!(
            world.call(a, Op::GetXattr { ino, name: xattr(b"system.posix_acl_access") }).err(),
            Some(FsError::NoData)
        );
        let readdir = Op::Readdir { dir: ino, cookie: 0, limit: 10, plus: false, handle: None };
        for op in [readdir, Op::GetXattr { ino, name: xattr(b"user.x") }, mkdir(ino, "new"), chmod(ino, 0o700)] {
            assert_eq!(world.call(a, op.clone()).err(), Some(FsError::Access), "{op:?}");
        }
    }
}

#[test]
fn rights_go_by_where_something_is_now_and_what_is_open_stays_open() {
    let Site { mut world, root, home, mine, theirs, my_file, their_file } = site();
    let a = world.client_from_afar(limited(&["rw:/home/mine"]));
    let sub = world.lookup(a, mine, "e").expect("it may look").ino;
    world.open(a, my_file, WRITE, 5);
    world.call(root, rename(mine, "f", theirs, "taken")).expect("nothing is in the way");
    world.call(root, rename(mine, "e", theirs, "taken-too")).expect("nothing is in the way");
    assert_eq!(world.call(a, mkdir(sub, "x")).err(), Some(FsError::Access));
    assert_eq!(world.call(a, unlink(theirs, "taken")).err(), Some(FsError::Access));
    assert!(world.call(a, write_inline(my_file, 5, 0, b"mine")).is_ok(), "it is open");
    assert!(world.call(a, Op::GetAttr { ino: my_file }).is_ok(), "it is open");
    world.call(a, close(5)).expect("it is open");
    assert_eq!(world.call(a, Op::GetAttr { ino: my_file }).err(), Some(FsError::Access));

    world.call(root, rename(theirs, "f", mine, "given")).expect("nothing is in the way");
    assert!(world.call(a, Op::GetAttr { ino: their_file }).is_ok());
    // The directory of the path itself is another one now.
    world.call(root, rename(home, "mine", home, "old")).expect("nothing is in the way");
    assert_eq!(world.call(a, mkdir(mine, "x")).err(), Some(FsError::Access));
    world.call(root, rename(home, "theirs", home, "mine")).expect("nothing is in the way");
    assert!(world.call(a, mkdir(theirs, "x")).is_ok());
}

#[test]
fn files_that_have_no_name_yet_or_no_more_are_those_of_who_has_them_open() {
    let Site { mut world, root, mine, theirs, my_file, .. } = site();
    let a = world.client_from_afar(limited(&["rw:/home/mine"]));
    let op = Op::Tmpfile { dir: mine, mode: 0o644, umask: 0, flags: WRITE, linkable: true, handle: 5 };
    let Ok(Answer::Opened { attr, .. }) = world.call(a, op) else { panic!("it may") };
    assert!(world.call(a, Op::GetAttr { ino: attr.ino }).is_ok());
    assert!(world.call(a, chmod(attr.ino, 0o600)).is_ok());
    let link = |dir: Ino| Op::Link { ino: attr.ino, dir, name: name("named") };
    assert_eq!(world.call(a, link(theirs)).err(), Some(FsError::Access));
    assert!(world.call(a, link(mine)).is_ok());

    world.open(a, my_file, WRITE, 6);
    world.call(a, unlink(mine, "f")).expect("it may");
    assert!(world.call(a, Op::GetAttr { ino: my_file }).is_ok());
    assert!(world.call(a, write_inline(my_file, 6, 0, b"x")).is_ok());

    let theirs_tmp = Op::Tmpfile { dir: theirs, mode: 0o644, umask: 0, flags: WRITE, linkable: true, handle: 5 };
    let Ok(Answer::Opened { attr, .. }) = world.call(root, theirs_tmp) else { panic!("it may") };
    let op = Op::Link { ino: attr.ino, dir: mine, name: name("stolen") };
    assert_eq!(world.call(a, op).err(), Some(FsError::Access));
}

#[test]
fn a_file_with_several_names_is_where_its_newest_one_is() {
    let Site { mut world, root, mine, theirs, my_file, .. } = site();
    let a = world.client_from_afar(limited(&["rw:/home/mine"]));
    let link = |dir: Ino, text: &str| Op::Link { ino: my_file, dir, name: name(text) };
    world.call(a, link(mine, "second")).expect("it may");
    world.call(a, unlink(mine, "f")).expect("it may");
    assert!(world.call(a, Op::GetAttr { ino: my_file }).is_ok());
    world.call(root, link(theirs, "third")).expect("there is room");
    assert_eq!(world.call(a, Op::GetAttr { ino: my_file }).err(), Some(FsError::Access));
    world.call(root, link(mine, "fourth")).expect("there is room");
    assert!(world.call(a, Op::GetAttr { ino: my_file }).is_ok());
}

#[test]
fn after_a_restart_a_session_gets_back_what_it_may_have_had_and_nothing_else() {
    let Site { mut world, root, mine, my_file, their_file, .. } = site();
    let a = world.client_from_afar(limited(&["rw:/home/mine", "r:/home/theirs/e"]));
    world.open(a, my_file, WRITE, 5);
    world.call(a, mkdir(mine, "made")).expect("it may");
    world.checkpoint_one();
    world.crash();
    world.resume(root);
    world.reclaim(root, Reclaim::default());
    world.resume(a);
    let opens =
        vec![(5, my_file, WRITE, Lease::NONE), (6, their_file, OpenFlags { write: false, ..WRITE }, Lease::NONE)];
    world.reclaim(a, Reclaim { opens, ..Reclaim::default() });
    assert!(world.mds.status().grace.is_none(), "all are back");
    assert!(world.call(a, write_inline(my_file, 5, 0, b"mine")).is_ok());
    let read = |ino, handle| Op::ReadInline { ino, handle };
    assert_eq!(world.call(a, read(their_file, 6)).err(), Some(FsError::BadHandle));
}

#[test]
fn a_request_that_was_carried_out_is_answered_again_wherever_its_file_is_by_now() {
    let Site { mut world, root, mine, theirs, .. } = site();
    let a = world.client_from_afar(limited(&["rw:/home/mine"]));
    let seq = world.send(a, mkdir(mine, "new"));
    world.call(root, rename(mine, "new", theirs, "new")).expect("it is there");
    world.reconnect(a);
    world.send_again(a, seq, mkdir(mine, "new"));
    let answer: FsResult<Answer> = world.reply(a, seq).expect("it is answered").0;
    assert!(matches!(answer, Ok(Answer::Entry(_))), "{answer:?}");
}
