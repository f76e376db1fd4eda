//! Rows of the table of properties that decide by the arguments of an operation, and rules that hold for all rows.

use super::*;
use crate::{FileLock, LockKind, LockOwner, Time};

const INO: Ino = Ino(300);

fn name(text: &[u8]) -> Name {
    Name::new(text).expect("a good name")
}

fn open(write: bool, truncate: bool) -> Op {
    Op::Open { ino: INO, flags: OpenFlags { read: true, write, truncate, ..OpenFlags::default() }, handle: 7 }
}

fn set_xattr(name: &[u8]) -> Op {
    Op::SetXattr { ino: INO, name: name.into(), value: b"v"[..].into(), mode: XattrMode::Set }
}

fn rename(mode: RenameMode) -> Op {
    Op::Rename { dir: INO, name: name(b"old"), new_dir: Ino(400), new_name: name(b"new"), mode }
}

fn via(what: Op) -> Op {
    let what = Box::new(what.done_at(Ino(0)).expect("it can be at the end of a way"));
    Op::Via { dir: INO, names: [name(b"d")].into(), by: Replicas::Unused, what }
}

fn lock(exclusive: bool) -> Op {
    let lock = FileLock { kind: LockKind::Posix, owner: LockOwner(1), pid: 1, exclusive, start: 0, end: 9 };
    Op::Control(Control::SetLock { ino: INO, handle: 7, lock, wait: true })
}

fn some() -> Vec<Op> {
    let mkdir = Op::Mkdir { dir: INO, name: name(b"d"), mode: 0o755, umask: 0 };
    let flags = OpenFlags { write: true, ..OpenFlags::default() };
    let inline = |data: &[u8]| Op::WriteInline {
        ino: INO,
        handle: 7,
        offset: None,
        data: data.into(),
        mtime: SetTime::At(Time(0)),
        kill_priv: false,
    };
    vec![
        Op::Lookup { dir: INO, name: name(b"f") },
        Op::LookupParent { dir: INO },
        Op::GetAttr { ino: INO },
        Op::SetAttr { ino: INO, set: SetAttr { size: Some(3), ..SetAttr::default() }, handle: Some(7) },
        open(false, false),
        open(true, true),
        Op::Create { dir: INO, name: name(b"f"), mode: 0o644, umask: 0, flags, exclusive: true, handle: 7 },
        Op::Tmpfile { dir: INO, mode: 0o644, umask: 0, flags, linkable: true, handle: 7 },
        mkdir.clone(),
        Op::Link { ino: Ino(500), dir: INO, name: name(b"l") },
        Op::Unlink { dir: INO, name: name(b"f") },
        Op::Rmdir { dir: INO, name: name(b"d") },
        rename(RenameMode::Replace),
        rename(RenameMode::Whiteout),
        Op::Readdir { dir: INO, cookie: 9, limit: 10, plus: true, handle: Some(7) },
        set_xattr(b"user.a"),
        Op::StatFs,
        inline(b"abc"),
        Op::Extend { ino: INO, handle: 7, len: 10 },
        via(mkdir),
        via(open(true, true)),
        via(Op::Readlink { ino: INO }),
        lock(true),
        Op::Control(Control::Persist),
        Op::Control(Control::GrantInos { count: 3 }),
    ]
}

#[test]
fn rules_that_hold_for_all_rows() {
    for op in some() {
        let (props, [first, second]) = (op.props(), op.subjects());
        assert!(!props.repeatable || !props.changes && props.opens.is_none() && props.handle.is_none(), "{op:?}");
        assert!(!props.only_reads || !props.changes && !props.makes_inode, "{op:?}");
        assert!(!props.changes || !matches!(props.again, Again::Repeat), "{op:?}");
        assert!(props.handle.is_none() || first.ino().is_some(), "{op:?}");
        assert!(!props.rests_on_handle || props.handle.is_some(), "{op:?}");
        assert!(matches!(second, Subject::Nothing) || first.name().is_some(), "{op:?}");
        assert!(props.names_lease != NamesLease::Second || second.name().is_some(), "{op:?}");
        assert!(!props.makes_inode || props.changes || matches!(op, Op::Create { .. }), "{op:?}");
    }
}

#[test]
fn arguments_decide() {
    assert!(!open(true, false).is_change() && open(true, true).is_change());
    assert!(open(false, false).props().only_reads && !open(true, false).props().only_reads);
    assert!(set_xattr(b"user.a").props().may_lag && !set_xattr(b"loligo.policy.pin").props().may_lag);
    assert_eq!(set_xattr(b"loligo.policy.pin").props().by_owner, ByOwner::Never);
    assert_eq!(set_xattr(b"system.posix_acl_access").props().dirs, DirEffect::Restricts);
    assert!(rename(RenameMode::Whiteout).makes_inode() && !rename(RenameMode::Exchange).makes_inode());
    assert!(lock(false).props().only_reads && !lock(true).props().only_reads);
}

#[test]
fn a_way_takes_from_its_end_only_whether_it_may_be_done() {
    let make = via(Op::Mkdir { dir: INO, name: name(b"d"), mode: 0o755, umask: 0 });
    assert!(make.is_change() && make.props().needs_write && !make.makes_inode() && !make.props().repeatable);
    assert_eq!((make.props().shows, make.about()), (Shows::AtEnd, About::Names(INO)));
    assert!(via(Op::Readlink { ino: INO }).props().repeatable);
    let opening = via(open(false, false));
    assert!(opening.opens().is_some() && !opening.props().repeatable && opening.props().want == Lease::ATTR);
}
