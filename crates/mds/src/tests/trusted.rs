//! Each inode number that a request can say, said by a client that is limited to a path, of something outside of it. docs/security.md lists them; a new
//! operation does not compile here before it says which numbers it has.

use std::sync::Arc;

use loligo_types::msg::{Reclaim, ToServer};
use loligo_types::{
    Access, Answer, Control, FileLock, FsError, Ino, Interfere, Kind, Lease, LockKind, LockOwner, MergeInto, Need, Op,
    OpenFlags, RenameMode, Replicas, SetAttr, SetTime, StoredJournal, SubtreeAnswer, SubtreeOp, XattrMode,
};

use super::paths::limited;
use super::*;

/// `/mine` with a file that is open, and `/theirs` with a directory and a file.
struct Site {
    world: World,
    root: usize,
    bound: usize,
    mine: Ino,
    my_file: Ino,
    theirs: Ino,
    their_file: Ino,
}

impl Site {
    fn new() -> Site {
        let mut world = World::new();
        let root = world.client();
        let [mine, theirs] = ["mine", "theirs"].map(|text| world.mkdir(root, Ino::ROOT, text).ino);
        let [my_file, their_file] = [mine, theirs].map(|dir| {
            let file = world.create(root, dir, "f", WRITE, 1).ino;
            world.call(root, write_inline(file, 1, 0, b"secret")).expect("it is small");
            world.call(root, close(1)).expect("it is open");
            world.mkdir(root, dir, "d");
            file
        });
        let value: Arc<[u8]> = b"secret"[..].into();
        let set = Op::SetXattr { ino: Ino::ROOT, name: b"user.a"[..].into(), value, mode: XattrMode::Set };
        world.call(root, set).expect("root may");
        let bound = world.client_from_afar(limited(&["rw:/mine"]));
        world.open(bound, my_file, WRITE, 7);
        Site { world, root, bound, mine, my_file, theirs, their_file }
    }

    /// The files outside of the path.
    fn outside(&mut self) -> String {
        let (their_file, theirs) = (self.their_file, self.theirs);
        let inode = self.world.mds.core.tree.inode(their_file).expect("it is in memory").clone();
        let list = Op::Readdir { dir: theirs, cookie: 0, limit: 9, plus: false, handle: None };
        let names = self.world.call(self.root, list);
        let inline = self.world.mds.core.tree.inline(&inode);
        format!("{inode:?} {inline:?} {names:?} {:?}", self.world.mds.core.tree.inode(theirs))
    }
}

/// The numbers of inodes that a request says, beside those in handles.
fn numbers(op: &mut Op) -> Vec<&mut Ino> {
    match op {
        Op::Lookup { dir, .. }
        | Op::Walk { dir, .. }
        | Op::Via { dir, .. }
        | Op::LookupParent { dir }
        | Op::Create { dir, .. }
        | Op::Tmpfile { dir, .. }
        | Op::Mknod { dir, .. }
        | Op::Mkdir { dir, .. }
        | Op::Symlink { dir, .. }
        | Op::Unlink { dir, .. }
        | Op::Rmdir { dir, .. }
        | Op::Readdir { dir, .. } => vec![dir],
        Op::GetAttr { ino }
        | Op::SetAttr { ino, .. }
        | Op::Open { ino, .. }
        | Op::Readlink { ino }
        | Op::GetXattr { ino, .. }
        | Op::ListXattr { ino }
        | Op::SetXattr { ino, .. }
        | Op::RemoveXattr { ino, .. }
        | Op::Access { ino, .. }
        | Op::ReadInline { ino, .. }
        | Op::WriteInline { ino, .. }
        | Op::SetData { ino, .. }
        | Op::Extend { ino, .. }
        | Op::Control(
            Control::SetLock { ino, .. }
            | Control::Unlock { ino, .. }
            | Control::GetLock { ino, .. }
            | Control::CancelLock { ino, .. },
        ) => vec![ino],
        Op::Link { ino, dir, .. } => vec![ino, dir],
        Op::Rename { dir, new_dir, .. } => vec![dir, new_dir],
        Op::Control(Control::Close { .. })
        | Op::StatFs
        | Op::Control(Control::Sync | Control::Persist | Control::GrantInos { .. } | Control::DataAddress { .. }) => {
            Vec::new()
        }
        Op::Control(Control::Subtree { dir, what }) => {
            let mut all = vec![dir];
            all.extend(match &mut **what {
                SubtreeOp::Decouple { .. }
                | SubtreeOp::TakeOver { .. }
                | SubtreeOp::Grant { .. }
                // What a part says stands in `decouple/escape.rs`.
                | SubtreeOp::Part { .. }
                | SubtreeOp::End { .. } => Vec::new(),
                SubtreeOp::Fetch { needs, .. } => needs.iter_mut().map(number_of).collect(),
                SubtreeOp::Merge { used, .. } => vec![used],
                SubtreeOp::Data { inos, .. } | SubtreeOp::Overwrite { inos, .. } => inos.iter_mut().collect(),
                // It is looked at when something was removed.
                SubtreeOp::HoldOpen { .. } => Vec::new(),
                SubtreeOp::Keep { journal, .. } => vec![&mut journal.ino],
            });
            all
        }
    }
}

fn number_of(need: &mut Need) -> &mut Ino {
    match need {
        Need::Inode(ino) | Need::Xattrs(ino) | Need::Inline(ino) | Need::Parts(ino) => ino,
        Need::Entry { dir, .. } | Need::Range { dir, .. } | Need::Hashes { dir, .. } => dir,
    }
}

/// Requests that are all about what the client may have: all operations but those about subtrees, and those that say no number.
fn requests(dir: Ino, file: Ino) -> Vec<Op> {
    let (mode, umask, handle, mtime, by) = (0o644, 0, 7, SetTime::Now, Replicas::Unused);
    let flags = OpenFlags { read: true, ..OpenFlags::default() };
    let bytes: Arc<[u8]> = b"user.a"[..].into();
    let text = || name("f");
    let start = 0;
    let lock = FileLock { kind: LockKind::Posix, owner: LockOwner(1), pid: 1, exclusive: true, start, end: 9 };
    vec![
        Op::Lookup { dir, name: text() },
        Op::Walk { dir, names: [text()].into(), by },
        Op::Via { dir, names: [text()].into(), by, what: Box::new(Op::Open { ino: Ino(0), flags, handle: 8 }) },
        Op::LookupParent { dir },
        Op::GetAttr { ino: file },
        Op::SetAttr { ino: file, set: SetAttr { mode: Some(0o666), ..SetAttr::default() }, handle: None },
        Op::SetAttr { ino: file, set: SetAttr { size: Some(0), ..SetAttr::default() }, handle: Some(7) },
        Op::Open { ino: file, flags, handle: 8 },
        Op::Open { ino: file, flags: OpenFlags { write: true, truncate: true, ..flags }, handle: 8 },
        Op::Create { dir, name: text(), mode, umask, flags, exclusive: false, handle: 8 },
        Op::Tmpfile { dir, mode, umask, flags, linkable: true, handle: 8 },
        Op::Mknod { dir, name: name("node"), kind: Kind::Fifo, mode, umask, rdev: 0 },
        Op::Mkdir { dir, name: name("new"), mode, umask },
        Op::Symlink { dir, name: name("link"), target: bytes.clone() },
        Op::Link { ino: file, dir, name: name("second") },
        Op::Unlink { dir, name: name("second") },
        Op::Rmdir { dir, name: name("new") },
        Op::Rename { dir, name: name("link"), new_dir: dir, new_name: name("moved"), mode: RenameMode::Replace },
        Op::Readlink { ino: file },
        Op::Readdir { dir, cookie: 0, limit: 9, plus: true, handle: None },
        Op::GetXattr { ino: file, name: bytes.clone() },
        Op::ListXattr { ino: file },
        Op::SetXattr { ino: file, name: bytes.clone(), value: bytes.clone(), mode: XattrMode::Set },
        Op::RemoveXattr { ino: file, name: bytes.clone() },
        Op::Access { ino: file, want: Access { read: true, ..Access::default() } },
        Op::ReadInline { ino: file, handle },
        Op::WriteInline { ino: file, handle, offset: None, data: bytes, mtime, kill_priv: false },
        Op::SetData {
            ino: file,
            handle,
            cuts: 0,
            grow_to: Some(9),
            behind: None,
            mtime,
            spilled: false,
            kill_priv: false,
            patches: None,
        },
        Op::Extend { ino: file, handle, len: 1 },
        Op::Control(Control::SetLock { ino: file, handle, lock, wait: false }),
        Op::Control(Control::Unlock { ino: file, handle, lock }),
        Op::Control(Control::GetLock { ino: file, handle, lock }),
        Op::Control(Control::CancelLock { ino: file, owner: LockOwner(1) }),
    ]
}

#[test]
fn no_number_in_any_request_reaches_what_is_outside_of_a_path() {
    let mut site = Site::new();
    let before = site.outside();
    for op in requests(site.mine, site.my_file) {
        let count = numbers(&mut op.clone()).len();
        assert!(count > 0, "{op:?}");
        for at in 0..count {
            for outside in [site.theirs, site.their_file] {
                let mut bad = op.clone();
                *numbers(&mut bad)[at] = outside;
                let error = site.world.call(site.bound, bad.clone()).err();
                assert!(matches!(error, Some(FsError::Access | FsError::BadHandle)), "{bad:?}: {error:?}");
            }
        }
    }
    assert_eq!(site.outside(), before);
    // So it is with a number that it was granted as with one that it was not.
    let making = || Op::Mkdir { dir: site.mine, name: name("numbered"), mode: 0o755, umask: 0 };
    for ino in [site.their_file, site.theirs, Ino::ROOT, Ino(1 << 40)] {
        site.world.clients[site.bound].next_seq += 1;
        let seq = loligo_types::Seq(site.world.clients[site.bound].next_seq);
        site.world.send_numbered(site.bound, seq, making(), Some(ino));
        let result = site.world.reply(site.bound, seq).expect("it is answered").0;
        assert_eq!(result.err(), Some(FsError::NotGranted), "{ino}");
    }
    assert_eq!(site.outside(), before);
}

#[test]
fn the_owner_of_a_subtree_that_is_limited_to_a_path_gets_nothing_else_by_its_numbers() {
    let mut site = Site::new();
    let Site { bound, mine, my_file, theirs, their_file, .. } = site;
    site.world.call(bound, close(7)).expect("it is open");
    let job = site.world.mkdir(bound, mine, "job").ino;
    let before = site.outside();
    let ask =
        |world: &mut World, dir, what| world.call(bound, Op::Control(Control::Subtree { dir, what: Box::new(what) }));
    let decouple = SubtreeOp::Decouple {
        owner: 7,
        resume: 0,
        inos: 9,
        lease_ms: 5000,
        interfere: Interfere::Block,
        promise: loligo_types::Promise::NONE,
    };
    assert_eq!(ask(&mut site.world, theirs, decouple.clone()).err(), Some(FsError::Access));
    let Ok(Answer::Subtree(answer)) = ask(&mut site.world, job, decouple) else { panic!("it may have that") };
    let SubtreeAnswer::Decoupled { record, .. } = *answer else { panic!("no such answer") };
    let (epoch, used) = (record.epoch, record.used);
    let needs = |ino| {
        let name = name("f");
        [
            Need::Inode(ino),
            Need::Xattrs(ino),
            Need::Inline(ino),
            Need::Entry { dir: ino, name },
            Need::Range { dir: ino, from_hash: 0 },
            Need::Hashes { dir: ino, from_hash: 0 },
            Need::Parts(ino),
        ]
    };
    for ino in [theirs, their_file, my_file, Ino::ROOT] {
        for need in needs(ino) {
            let result = ask(&mut site.world, job, SubtreeOp::Fetch { epoch, needs: vec![need.clone()] });
            assert_eq!(result.err(), Some(FsError::Busy), "{need:?}");
        }
        let result = ask(&mut site.world, job, SubtreeOp::Data { epoch, inos: vec![ino] });
        assert!(matches!(result, Err(FsError::NotFound | FsError::Invalid)), "{ino}: {result:?}");
        let journal = StoredJournal { ino, bytes: 9 };
        assert_eq!(ask(&mut site.world, job, SubtreeOp::Keep { epoch, journal }).err(), Some(FsError::Invalid));
        let part = |body: &[u8]| SubtreeOp::Part { epoch, merge: 1, part: 0, blind: false, body: body.into() };
        ask(&mut site.world, job, part(&[2, 0, 0])).expect("it says nothing");
        let merge = SubtreeOp::Merge { epoch, merge: 1, parts: 1, used: ino, into: MergeInto::Memory };
        assert_eq!(ask(&mut site.world, job, merge).err(), Some(FsError::Invalid), "{ino}");
    }
    // Nor by what it has, of another directory: the epoch of one is no right to another.
    for what in [
        SubtreeOp::TakeOver { owner: 7, now: false },
        SubtreeOp::Grant { epoch, inos: 9 },
        SubtreeOp::Fetch { epoch, needs: vec![Need::Inode(their_file)] },
        SubtreeOp::Data { epoch, inos: vec![their_file] },
        SubtreeOp::End { epoch },
    ] {
        assert_eq!(ask(&mut site.world, theirs, what.clone()).err(), Some(FsError::Access), "{what:?}");
    }
    assert_eq!(site.outside(), before);
    assert!(ask(&mut site.world, job, SubtreeOp::Data { epoch, inos: vec![used] }).is_ok());
    let access = |world: &World, ino| world.access.get(&(world.session(bound), ino)).copied();
    assert_eq!(access(&site.world, used), Some(crate::DataAccess::Write));
    assert_eq!(access(&site.world, their_file), None);
}

#[test]
fn a_file_whose_place_nobody_can_tell_is_not_a_bound_clients_because_it_says_so() {
    let mut site = Site::new();
    let Site { root, bound, mine, .. } = site;
    site.world.call(bound, close(7)).expect("it is open");
    // It has a name in another directory; the one that counts it is gone.
    let side = site.world.mkdir(root, Ino::ROOT, "side").ino;
    let lost = site.world.create(root, site.theirs, "lost", WRITE, 1).ino;
    site.world.call(root, close(1)).expect("it is open");
    site.world.call(root, Op::Link { ino: lost, dir: side, name: name("lost") }).expect("root may");
    site.world.call(root, unlink(side, "lost")).expect("root may");
    site.world.call(root, Op::Rmdir { dir: Ino::ROOT, name: name("side") }).expect("it is empty");
    let job = site.world.mkdir(bound, mine, "job").ino;
    let ask =
        |world: &mut World, at, what| world.call(at, Op::Control(Control::Subtree { dir: job, what: Box::new(what) }));
    for (at, may) in [(bound, false), (root, true)] {
        let decouple = SubtreeOp::Decouple {
            owner: 7,
            resume: 0,
            inos: 9,
            lease_ms: 5000,
            interfere: Interfere::Block,
            promise: loligo_types::Promise::NONE,
        };
        let Ok(Answer::Subtree(answer)) = ask(&mut site.world, at, decouple) else { panic!("it may have that") };
        let SubtreeAnswer::Decoupled { record, .. } = *answer else { panic!("no such answer") };
        let epoch = record.epoch;
        let data = ask(&mut site.world, at, SubtreeOp::Data { epoch, inos: vec![lost] });
        assert_eq!(data.is_ok(), may, "{data:?}");
        let fetch = SubtreeOp::Fetch { epoch, needs: vec![Need::Inode(lost)] };
        assert_eq!(ask(&mut site.world, at, fetch).is_ok(), may);
        ask(&mut site.world, at, SubtreeOp::End { epoch }).expect("it has it");
    }
}

#[test]
fn what_others_have_open_without_a_name_is_not_brought_back_by_a_bound_client_after_a_restart() {
    let mut site = Site::new();
    let Site { root, bound, mine, theirs, .. } = site;
    site.world.call(bound, close(7)).expect("it is open");
    let job = site.world.mkdir(bound, mine, "job").ino;
    let orphan = site.world.create(root, theirs, "orphan", WRITE, 1).ino;
    site.world.call(root, unlink(theirs, "orphan")).expect("root may");
    let ask =
        |world: &mut World, what| world.call(bound, Op::Control(Control::Subtree { dir: job, what: Box::new(what) }));
    let decouple = |resume| SubtreeOp::Decouple {
        owner: 7,
        resume,
        inos: 9,
        lease_ms: 60_000,
        interfere: Interfere::Allow,
        promise: loligo_types::Promise::NONE,
    };
    let Ok(Answer::Subtree(answer)) = ask(&mut site.world, decouple(0)) else { panic!("it may have that") };
    let SubtreeAnswer::Decoupled { record, .. } = *answer else { panic!("no such answer") };
    let epoch = record.epoch;
    site.world.crash();
    for at in [root, bound] {
        site.world.resume(at);
        let opens = if at == root { vec![(1, orphan, WRITE, Lease::NONE)] } else { Vec::new() };
        site.world.reclaim(at, Reclaim { opens, ..Reclaim::default() });
    }
    ask(&mut site.world, decouple(epoch)).expect("it goes on");
    let fetch = SubtreeOp::Fetch { epoch, needs: vec![Need::Inode(orphan)] };
    assert_eq!(ask(&mut site.world, fetch).err(), Some(FsError::Busy));
    let inode = site.world.mds.core.tree.inode(orphan).expect("it is open").clone();
    let mut made = inode.clone();
    (made.nlink, made.parent) = (1, job);
    let events = [
        loligo_types::Event::Inode(Box::new(loligo_types::Inode { nlink: 1, ..inode })),
        loligo_types::Event::Inode(Box::new(made)),
        loligo_types::Event::Entry { dir: job, name: name("x"), ino: orphan, kind: Kind::File, remote: false },
    ];
    let mut body = Vec::new();
    loligo_journal::encode_record(&mut body, None, &events);
    let part = SubtreeOp::Part { epoch, merge: 1, part: 0, blind: false, body: body.into() };
    assert_eq!(ask(&mut site.world, part).err(), Some(FsError::Invalid));
}

#[test]
fn another_request_with_the_number_of_one_that_was_carried_out_is_looked_at_as_any() {
    let mut site = Site::new();
    let Site { root, bound, mine, theirs, their_file, .. } = site;
    let before = site.outside();
    let seq = site.world.send(bound, mkdir(mine, "job"));
    let job = site.world.reply(bound, seq).expect("it is answered").0.expect("it may").attr().expect("some").ino;
    let again = |world: &mut World, op: Op| {
        world.send_again(bound, seq, op);
        world.reply(bound, seq).expect("it is answered").0
    };
    let decouple = |dir| {
        let what = SubtreeOp::Decouple {
            owner: 7,
            resume: 0,
            inos: 9,
            lease_ms: 5000,
            interfere: Interfere::Block,
            promise: loligo_types::Promise::NONE,
        };
        Op::Control(Control::Subtree { dir, what: Box::new(what) })
    };
    assert_eq!(again(&mut site.world, decouple(theirs)).err(), Some(FsError::Access));
    assert!(again(&mut site.world, decouple(job)).is_ok(), "what it may it may");
    // Of something that has left its path it opens nothing by a number that it was once used for.
    let seq = site.world.send(bound, mkdir(mine, "left"));
    let flags = OpenFlags { read: true, ..OpenFlags::default() };
    site.world
        .call(
            root,
            Op::Rename {
                dir: mine,
                name: name("left"),
                new_dir: theirs,
                new_name: name("left"),
                mode: RenameMode::Replace,
            },
        )
        .expect("root may");
    site.world.send_again(bound, seq, Op::Open { ino: their_file, flags, handle: 20 });
    let _ = site.world.reply(bound, seq);
    assert_eq!(site.world.reply(bound, seq).map(|(result, _)| result.err()), Some(Some(FsError::Access)));
    site.world.call(root, Op::Rmdir { dir: theirs, name: name("left") }).expect("it is empty");
    let after = site.outside();
    // Times of the directory have changed, its names have not.
    assert_eq!(
        after.split("Entries").nth(1).map(|all| all.split("Some(Inode").next()),
        before.split("Entries").nth(1).map(|all| all.split("Some(Inode").next())
    );
}

#[test]
fn a_user_opens_nothing_of_others_with_the_number_of_a_request_that_was_carried_out() {
    let mut site = Site::new();
    let root = site.root;
    let user = crate::Peer { uid: Some(1000), groups: vec![1000], trusted: false, local: false, identity: None };
    let at = site.world.client_as(1000, user);
    let home = site.world.mkdir(root, Ino::ROOT, "home").ino;
    let set = SetAttr { uid: Some(1000), gid: Some(1000), ..SetAttr::default() };
    site.world.call(root, Op::SetAttr { ino: home, set, handle: None }).expect("root may");
    let file = site.world.create(root, home, "f", WRITE, 1).ino;
    site.world.call(root, chmod(file, 0o600)).expect("root may");
    // He may name it anew, in his directory, and not open it.
    let second =
        Op::Rename { dir: home, name: name("f"), new_dir: home, new_name: name("g"), mode: RenameMode::Replace };
    let link = Op::Link { ino: file, dir: home, name: name("h") };
    for op in [second, link] {
        let seq = site.world.send(at, op);
        site.world.reply(at, seq).expect("it is answered").0.expect("the directory is his");
        for flags in [READ, WRITE, OpenFlags { truncate: true, write: true, ..WRITE }] {
            site.world.send_again(at, seq, Op::Open { ino: file, flags, handle: 5 });
            let (result, _) = site.world.reply(at, seq).expect("it is answered");
            assert!(!matches!(result, Ok(Answer::Opened { .. })), "{result:?}");
            assert_eq!(site.world.access.get(&(site.world.session(at), file)), None);
        }
    }
    // His own new file is his whatever its mode, also when the answer was lost.
    let making =
        Op::Create { dir: home, name: name("new"), mode: 0, umask: 0, flags: WRITE, exclusive: true, handle: 6 };
    let seq = site.world.send(at, making.clone());
    let _ = site.world.reply(at, seq);
    site.world.reconnect(at);
    site.world.send_again(at, seq, making);
    let (result, _) = site.world.reply(at, seq).expect("it is answered");
    assert!(matches!(result, Ok(Answer::Opened { created: true, .. })), "{result:?}");
}

#[test]
fn of_leases_that_a_bound_client_says_to_have_had_it_gets_nothing_but_recalls() {
    let mut site = Site::new();
    let Site { root, bound, theirs, their_file, .. } = site;
    site.world.crash();
    site.world.resume(root);
    site.world.reclaim(root, Reclaim::default());
    site.world.resume(bound);
    let leases = vec![(their_file, Lease::ATTR), (theirs, Lease::NAMES)];
    let opens = vec![(9, their_file, READ, Lease::CACHE)];
    site.world.reclaim(bound, Reclaim { opens, leases, ..Reclaim::default() });
    site.world.clients[bound].obeys = false;
    assert_eq!(site.world.access.get(&(site.world.session(bound), their_file)), None, "it has nothing open");
    // Who changes something waits for it no longer than for anybody who does not obey.
    let seq = site.world.send(root, chmod(their_file, 0o640));
    assert!(site.world.clients[bound].recalls.iter().any(|(ino, ..)| *ino == their_file));
    for _ in 0..100 {
        site.world.message(root, ToServer::Ping);
        site.world.wait(100);
    }
    assert!(site.world.reply(root, seq).is_some_and(|(result, _)| result.is_ok()));
}

#[test]
fn of_a_directory_above_a_path_only_the_names_of_xattrs_are_listed_that_may_be_read() {
    let mut site = Site::new();
    let set =
        |name: &[u8]| Op::SetXattr { ino: Ino::ROOT, name: name.into(), value: b"v"[..].into(), mode: XattrMode::Set };
    for name in [&b"security.one"[..], b"trusted.two", b"user.three"] {
        site.world.call(site.root, set(name)).expect("root may");
    }
    let list = |ino| Op::ListXattr { ino };
    let Ok(Answer::Bytes(names)) = site.world.call(site.bound, list(Ino::ROOT)) else { panic!("it may be listed") };
    assert_eq!(&*names, b"security.one\0");
    let Ok(Answer::Bytes(names)) = site.world.call(site.root, list(Ino::ROOT)) else { panic!("it may be listed") };
    assert_eq!(names.split(|byte| *byte == 0).filter(|name| !name.is_empty()).count(), 4);
    // Below its path it sees all of them.
    let mine = site.mine;
    let own = Op::SetXattr { ino: mine, name: b"user.own"[..].into(), value: b"v"[..].into(), mode: XattrMode::Set };
    site.world.call(site.bound, own).expect("it may");
    let Ok(Answer::Bytes(names)) = site.world.call(site.bound, list(mine)) else { panic!("it may be listed") };
    assert_eq!(&*names, b"user.own\0");
}
