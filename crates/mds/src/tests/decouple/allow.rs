//! Subtrees in which others work while their owner does: each pair of what both may do, and what comes of it. Any of them at random
//! stands in `mixed.rs`.

use loligo_journal::table::{Meta, Row, decode_row};
use loligo_namespace::{Loaded, Tree, fsck, invariants};
use loligo_types::{ConflictKind, Rank};

use super::*;

mod mixed;
mod pairs;
mod rights;

fn allow_op(inos: u64) -> SubtreeOp {
    SubtreeOp::Decouple {
        owner: 77,
        resume: 0,
        inos,
        lease_ms: 5000,
        interfere: Interfere::Allow,
        promise: loligo_types::Promise::NONE,
    }
}

fn rename(dir: Ino, text: &str, new_dir: Ino, new: &str) -> Op {
    Op::Rename { dir, name: name(text), new_dir, new_name: name(new), mode: RenameMode::Replace }
}

fn rmdir(dir: Ino, text: &str) -> Op {
    Op::Rmdir { dir, name: name(text) }
}

/// The inode of a name in a directory, as a client finds it.
fn ino(world: &mut World, at: usize, dir: Ino, text: &str) -> Ino {
    world.lookup(at, dir, text).expect("it is there").ino
}

/// A client writes a small file.
pub fn put(world: &mut World, at: usize, dir: Ino, text: &str, data: &[u8]) -> Ino {
    let ino = world.create(at, dir, text, WRITE, 1).ino;
    world.call(at, truncate(ino, 0)).expect("it is his");
    world.call(at, write_inline(ino, 1, 0, data)).expect("it is small");
    world.call(at, close(1)).expect("it is open");
    ino
}

/// Writes over a file that is there.
fn overwrite(world: &mut World, at: usize, ino: Ino, data: &[u8]) {
    world.open(at, ino, WRITE, 1);
    world.call(at, write_inline(ino, 1, 0, data)).expect("it is small");
    world.call(at, close(1)).expect("it is open");
}

/// All below a directory: each path with its inode, and what it holds.
fn listing(world: &mut World, at: usize, dir: Ino) -> BTreeMap<String, (Ino, Option<String>)> {
    let mut found = BTreeMap::new();
    let mut todo = vec![(String::new(), dir)];
    while let Some((path, dir)) = todo.pop() {
        let op = Op::Readdir { dir, cookie: 0, limit: 1000, plus: true, handle: None };
        let Ok(Answer::Entries { entries, .. }) = world.call(at, op) else { panic!("{path} is not readable") };
        for entry in entries {
            let path = format!("{path}/{}", entry.name);
            if entry.kind == Kind::Dir {
                todo.push((path.clone(), entry.ino));
                found.insert(path, (entry.ino, None));
                continue;
            }
            let answer = world.call(at, Op::Open { ino: entry.ino, flags: READ, handle: 99 });
            let Ok(Answer::Opened { data, .. }) = answer else { panic!("{path}: {answer:?}") };
            world.call(at, close(99)).expect("it is open");
            let data = data.map(|data| String::from_utf8_lossy(&data).into_owned());
            found.insert(path, (entry.ino, Some(data.unwrap_or_default())));
        }
    }
    found
}

/// The paths alone, with what files hold.
fn shown(world: &mut World, at: usize, dir: Ino) -> String {
    let all = listing(world, at, dir);
    let line = |(path, (_, data)): (&String, &(Ino, Option<String>))| match data {
        Some(data) => format!("{path}={data}"),
        None => format!("{path}/"),
    };
    all.iter().map(line).collect::<Vec<_>>().join(" ")
}

/// All that is wrong in the table once everything is in it.
pub fn faults(world: &mut World) -> Vec<String> {
    for _ in 0..100 {
        if world.mds.core.tree.oldest_dirty().is_none() && world.mds.core.tree.unsettled() == 0 {
            break;
        }
        world.wait_alive(1000);
    }
    assert_eq!(world.mds.core.tree.oldest_dirty(), None, "all is in the table");
    let frag = world.mds.core.tree.config().frag;
    let setup = loligo_namespace::Config { inline_max: world.config.inline_max, rank: Rank::ZERO, frag };
    let mut tree = Tree::new(world.config.hash_key, setup);
    let mut dirs: BTreeMap<Ino, Vec<_>> = BTreeMap::new();
    let mut xattrs: BTreeMap<Ino, Vec<_>> = BTreeMap::new();
    let mut events = Vec::new();
    for (key, value) in &world.table {
        match decode_row(key, value).expect("the table holds what was written") {
            Row::Inode(inode) => {
                if inode.kind == Kind::Dir {
                    dirs.entry(inode.ino).or_default();
                }
                events.push(Event::Inode(inode.clone()));
                tree.load(Loaded::Inode(inode.ino, Some(inode)));
            }
            Row::Entry { dir, name, target, .. } => {
                let (ino, kind, remote) = (target.ino, target.kind, target.remote);
                events.push(Event::Entry { dir, name: name.clone(), ino, kind, remote });
                dirs.entry(dir).or_default().push((name, target));
            }
            Row::Xattr { ino, name, value } => {
                events.push(Event::Xattr { ino, name: name.clone(), value: value.clone() });
                xattrs.entry(ino).or_default().push((name, value));
            }
            Row::Inline { ino, data } => {
                events.push(Event::Inline { ino, data: data.clone() });
                tree.load(Loaded::Inline(ino, Some(data)));
            }
            Row::Orphan { ino, .. } => {
                events.push(Event::Orphan(ino));
                tree.load(Loaded::Orphan(ino));
            }
            Row::Meta { meta: Meta::NextIno, value, .. } => {
                events.push(Event::NextIno(Ino(value)));
                tree.load(Loaded::NextIno(Ino(value)));
            }
            _ => {}
        }
    }
    for (dir, entries) in dirs {
        tree.load(Loaded::Range { dir, from_hash: 0, upto_hash: u64::MAX, entries });
    }
    for (ino, items) in xattrs {
        tree.load(Loaded::Xattrs(ino, items));
    }
    let mut faults = invariants::check(&tree);
    faults.extend(fsck::check_all(world.config.hash_key, &events).findings.into_iter().map(|finding| finding.text));
    faults
}

/// A directory with files `f` and `g`, an empty directory `d`, and `e` with a file `x`, which one client has decoupled and in which another
/// one works.
struct Scene {
    world: World,
    owner: Owner,
    b: usize,
    dir: Ino,
    f: Ino,
    g: Ino,
    d: Ino,
    e: Ino,
    x: Ino,
}

impl Scene {
    fn new() -> Scene {
        let mut world = World::with(crate::Config { dirty_ms_max: 50, checkpoint_records: 7, ..config() });
        let (a, b) = (world.client(), world.client());
        let dir = world.mkdir(a, Ino::ROOT, "job").ino;
        let [f, g] = ["f", "g"].map(|text| put(&mut world, a, dir, text, b"base"));
        let [d, e] = ["d", "e"].map(|text| world.mkdir(a, dir, text).ino);
        let x = put(&mut world, a, e, "x", b"base");
        let owner = Owner::with(&mut world, a, dir, allow_op(100)).expect("nobody has it");
        let mut scene = Scene { world, owner, b, dir, f, g, d, e, x };
        // It comes to them by their names, as a program does.
        for (dir, text) in [(dir, "f"), (dir, "g"), (dir, "d"), (dir, "e"), (e, "x")] {
            scene.own(Op::Lookup { dir, name: name(text) }).expect("it is there");
        }
        scene
    }

    /// The owner does something by itself.
    fn own(&mut self, op: Op) -> FsResult<Ino> {
        let answer = self.owner.run(&mut self.world, &op)?;
        Ok(answer.attr().map_or(Ino(0), |attr| attr.ino))
    }

    fn own_write(&mut self, ino: Ino, data: &[u8]) {
        self.owner.run(&mut self.world, &write_inline(ino, 1, 0, data)).expect("it is small");
    }

    fn own_put(&mut self, dir: Ino, text: &str, data: &[u8]) -> Ino {
        self.owner.write(&mut self.world, dir, text, data)
    }

    /// Others do something at the rank.
    fn other(&mut self, op: Op) -> Ino {
        let result = self.world.call(self.b, op.clone());
        result.unwrap_or_else(|error| panic!("{op:?}: {error}")).attr().map_or(Ino(0), |attr| attr.ino)
    }

    fn other_put(&mut self, dir: Ino, text: &str, data: &[u8]) -> Ino {
        put(&mut self.world, self.b, dir, text, data)
    }

    fn other_write(&mut self, ino: Ino, data: &[u8]) {
        overwrite(&mut self.world, self.b, ino, data);
    }

    /// The owner merges: what is there then, and what did not go together. The same after a restart, and nothing is wrong with it.
    fn merged(&mut self) -> (String, Vec<ConflictKind>) {
        self.owner.conflicts.clear();
        self.owner.merge(&mut self.world).expect("it is his");
        let there = shown(&mut self.world, self.b, self.dir);
        let sizes = self.world.walk(self.b);
        self.owner.end(&mut self.world).expect("it is his");
        assert_eq!(faults(&mut self.world), Vec::<String>::new(), "{there}");
        self.world.crash();
        for at in [self.owner.at, self.b] {
            self.world.resume(at);
            self.world.reclaim(at, loligo_types::msg::Reclaim::default());
        }
        assert_eq!(self.world.walk(self.b), sizes, "as before the restart");
        assert_eq!(shown(&mut self.world, self.b, self.dir), there);
        (there, self.owner.conflicts.iter().map(|conflict| conflict.kind).collect())
    }
}

#[test]
fn others_see_what_was_before_and_what_they_do_and_after_the_merge_what_the_owner_did_as_well() {
    let mut s = Scene::new();
    s.own_put(s.dir, "own", b"own");
    s.own(unlink(s.dir, "g")).expect("it is there");
    s.other_put(s.dir, "theirs", b"theirs");
    let (_, granted) = s.world.call_granted(s.b, Op::Lookup { dir: s.dir, name: name("f") });
    assert!(!granted.is_empty(), "leases as anywhere");
    let before = "/d/ /e/ /e/x=base /f=base /g=base /theirs=theirs";
    assert_eq!(shown(&mut s.world, s.b, s.dir), before);
    assert_eq!(s.merged(), ("/d/ /e/ /e/x=base /f=base /own=own /theirs=theirs".into(), vec![]));
}

#[test]
fn names_do_not_cross_the_root_while_others_may_work_there_and_it_is_neither_removed_nor_renamed_nor_decoupled_twice() {
    let mut s = Scene::new();
    let out = s.other_put(Ino::ROOT, "out", b"out");
    for op in [
        rename(s.dir, "f", Ino::ROOT, "f"),
        rename(Ino::ROOT, "out", s.dir, "out"),
        Op::Link { ino: s.f, dir: Ino::ROOT, name: name("l") },
        Op::Link { ino: out, dir: s.d, name: name("l") },
    ] {
        assert_eq!(s.world.call(s.b, op.clone()), Err(FsError::CrossDevice), "{op:?}");
    }
    for op in [rmdir(Ino::ROOT, "job"), rename(Ino::ROOT, "job", Ino::ROOT, "moved")] {
        assert_eq!(s.world.call(s.b, op.clone()), Err(FsError::Busy), "{op:?}");
    }
    for dir in [s.dir, s.d] {
        assert_eq!(Owner::new(&mut s.world, s.b, dir, 10).err(), Some(FsError::Busy));
    }
    s.other(Op::Link { ino: s.f, dir: s.d, name: name("l") });
    s.own_put(s.d, "own", b"own");
    let (there, _) = s.merged();
    assert_eq!(there, "/d/ /d/l=base /d/own=own /e/ /e/x=base /f=base /g=base");
}

#[test]
fn leases_and_rights_of_others_on_what_a_merge_changes_are_asked_back_first() {
    let mut s = Scene::new();
    s.own_write(s.f, b"owner");
    s.own_put(s.dir, "own", b"own");
    s.world.lookup(s.b, s.dir, "f").expect("it is there");
    s.world.open(s.b, s.f, READ, 8);
    let held = Op::Readdir { dir: s.dir, cookie: 0, limit: 9, plus: true, handle: None };
    s.world.call(s.b, held).expect("it may");
    s.world.clients[s.b].obeys = false;
    let group = s.owner.subtree.groups().remove(0);
    s.owner.send_parts(&mut s.world, &group).expect("his");
    let seq = s.world.send(s.owner.at, s.owner.merge_op(&group));
    assert_eq!(s.world.reply(s.owner.at, seq), None);
    assert!(s.world.clients[s.b].recalls.iter().any(|(ino, ..)| *ino == s.f), "{:?}", s.world.clients[s.b].recalls);
    // What came in meanwhile is in the merge as well.
    s.other_put(s.d, "late", b"late");
    s.world.clients[s.b].obeys = true;
    s.world.pump();
    assert!(s.world.reply(s.owner.at, seq).is_some_and(|(result, _)| result.is_ok()));
    assert_eq!(shown(&mut s.world, s.b, s.dir), "/d/ /d/late=late /e/ /e/x=base /f=owner /g=base /own=own");
}

#[test]
fn what_somebody_has_open_that_loses_stays_readable_through_its_handle() {
    let mut s = Scene::new();
    s.own(unlink(s.dir, "g")).expect("it is there");
    s.own(unlink(s.dir, "f")).expect("it is there");
    s.other_write(s.f, b"theirs");
    for (file, handle) in [(s.f, 7), (s.g, 8)] {
        s.world.open(s.b, file, READ, handle);
    }
    s.owner.merge(&mut s.world).expect("his");
    for (ino, handle, data) in [(s.f, 7, &b"theirs"[..]), (s.g, 8, b"base")] {
        let answer = s.world.call(s.b, Op::ReadInline { ino, handle });
        let Ok(Answer::Bytes(read)) = answer else { panic!("{answer:?}") };
        assert_eq!(&*read, data);
        s.world.call(s.b, close(handle)).expect("open");
    }
    s.world.wait_alive(200);
    assert_eq!(s.merged().0, "/.conflicts/ /.conflicts/f~1-1=theirs /d/ /e/ /e/x=base");
}

#[test]
fn a_merge_with_what_others_did_is_there_whole_or_not_at_all_whenever_the_rank_dies() {
    let mut s = Scene::new();
    s.world.checkpoints = false;
    for n in 0..300 {
        s.own_put(s.d, &format!("file{n}"), b"own");
    }
    s.own(unlink(s.dir, "g")).expect("it is there");
    s.other_put(s.d, "file7", b"theirs");
    s.other(rename(s.dir, "g", s.e, "g"));
    s.other(unlink(s.dir, "f"));
    let before = s.world.journal.keys().next_back().copied().expect("something was done");
    let (old, dir) = (shown(&mut s.world, s.b, s.dir), s.dir);
    s.owner.merge(&mut s.world).expect("his");
    let new = shown(&mut s.world, s.b, s.dir);
    assert!(new.contains("/.conflicts/file7~1-1=theirs") && new.contains("/.conflicts/g~1-1=base"), "{new}");
    s.world.wait_alive(100);
    let (mut none, mut whole) = (0, 0);
    for cut in s.world.journal.range(before..).map(|(lsn, _)| *lsn).collect::<Vec<Lsn>>() {
        let mut world = World::new();
        world.table = s.world.table.clone();
        world.trimmed = s.world.trimmed;
        world.journal = s.world.journal.range(..=cut).map(|(lsn, record)| (*lsn, record.clone())).collect();
        world.crash();
        world.wait(20_000);
        let b = world.client();
        let there = shown(&mut world, b, dir);
        assert!(there == old || there == new, "{there}");
        (none, whole) = if there == old { (none + 1, whole) } else { (none, whole + 1) };
        assert_eq!(faults(&mut world), Vec::<String>::new());
    }
    assert!(whole >= 1, "{none} {whole}");
}

#[test]
fn a_merge_is_answered_again_with_what_did_not_go_together_and_its_parts_are_sent_anew_after_a_crash() {
    let mut s = Scene::new();
    s.own_put(s.dir, "new", b"own");
    s.other_put(s.dir, "new", b"theirs");
    let group = s.owner.subtree.groups().remove(0);
    s.owner.send_parts(&mut s.world, &group).expect("his");
    s.world.crash();
    for at in [s.owner.at, s.b] {
        s.world.resume(at);
        s.world.reclaim(at, loligo_types::msg::Reclaim::default());
    }
    let op = s.owner.merge_op(&group);
    assert_eq!(s.world.call(s.owner.at, op.clone()), Err(FsError::WouldBlock), "this life knows of no parts");
    s.owner.send_parts(&mut s.world, &group).expect("his");
    let first = s.world.call(s.owner.at, op.clone()).expect("his");
    assert_eq!(s.world.call(s.owner.at, op), Ok(first.clone()), "it is told again");
    let Answer::Subtree(answer) = first else { panic!("no such answer") };
    let SubtreeAnswer::Merged { merges: 1, conflicts: 1, told } = *answer else { panic!("{answer:?}") };
    assert_eq!((&*told[0].name, &*told[0].kept), (&b"new"[..], &b"new~1-1"[..]));
    assert_eq!(s.world.mds.status().subtree_conflicts, 1);
}

#[test]
fn what_others_removed_is_there_for_the_owner_until_the_merge_also_over_a_restart_and_goes_then() {
    let mut s = Scene::new();
    s.own(chmod(s.f, 0o600)).expect("it is his");
    s.other(unlink(s.dir, "f"));
    s.other(unlink(s.dir, "g"));
    s.world.wait_alive(500);
    s.world.crash();
    for at in [s.owner.at, s.b] {
        s.world.resume(at);
        s.world.reclaim(at, loligo_types::msg::Reclaim::default());
    }
    s.world.wait_alive(20_000);
    assert_eq!(s.world.mds.core.tree.orphans().count(), 2, "they are held");
    assert_eq!(s.merged(), ("/d/ /e/ /e/x=base /f=base".into(), vec![ConflictKind::Returned]));
    assert_eq!(s.world.mds.core.tree.orphans().count(), 0, "nothing is held for ever");
}

#[test]
fn what_others_removed_and_the_owner_has_open_is_there_over_merges_until_the_owner_says_otherwise() {
    let mut s = Scene::new();
    let (dir, at, epoch) = (s.dir, s.owner.at, s.owner.epoch());
    let open = |first, inos: &[Ino]| SubtreeOp::HoldOpen { epoch, first, inos: inos.to_vec() };
    assert_eq!(ask(&mut s.world, s.b, dir, open(true, &[s.f])), Err(FsError::Stale), "another's");
    assert_eq!(ask(&mut s.world, at, dir, open(true, &[s.x])), Ok(Answer::Done));
    assert_eq!(ask(&mut s.world, at, dir, open(true, &[s.f])), Ok(Answer::Done));
    assert_eq!(ask(&mut s.world, at, dir, open(false, &[s.g])), Ok(Answer::Done));
    for (dir, text) in [(s.dir, "f"), (s.dir, "g"), (s.e, "x")] {
        s.other(unlink(dir, text));
    }
    s.own_put(s.dir, "own", b"own");
    s.owner.merge(&mut s.world).expect("his");
    s.world.wait_alive(100);
    let there = |s: &Scene| [s.f, s.g, s.x].map(|ino| s.world.mds.core.tree.is_orphan(ino));
    assert_eq!(there(&s), [true, true, false], "what it does not have open any more is gone");
    let fetch = SubtreeOp::Fetch { epoch, needs: vec![loligo_types::Need::Inode(s.f)] };
    assert!(ask(&mut s.world, at, dir, fetch).is_ok());
    s.world.crash();
    for at in [s.owner.at, s.b] {
        s.world.resume(at);
        s.world.reclaim(at, loligo_types::msg::Reclaim::default());
    }
    s.world.wait_alive(100);
    assert_eq!(there(&s), [true, true, false], "until the next merge nothing goes");
    assert_eq!(ask(&mut s.world, at, dir, open(true, &[s.g])), Ok(Answer::Done));
    s.own_put(s.dir, "more", b"own");
    s.owner.merge(&mut s.world).expect("his");
    s.world.wait_alive(100);
    assert_eq!(there(&s), [false, true, false]);
    assert_eq!(s.merged().0, "/d/ /e/ /more=own /own=own");
    s.world.wait_alive(100);
    assert_eq!(there(&s), [false; 3], "it is not decoupled any more");
}

#[test]
fn data_in_an_inode_come_to_the_owner_with_the_inode_that_they_are_of() {
    let mut s = Scene::new();
    // The owner has fetched the inode, and not the data yet.
    s.other_write(s.f, b"theirs, longer");
    let end = |ino: Ino| Op::WriteInline {
        ino,
        handle: 1,
        offset: None,
        data: b", owners"[..].into(),
        mtime: loligo_types::SetTime::Now,
        kill_priv: false,
    };
    s.own(end(s.f)).expect("it is small");
    s.own(chmod(s.g, 0o640)).expect("his");
    s.other_write(s.g, b"theirs, longer");
    s.own(end(s.g)).expect("it is small");
    let (there, kinds) = s.merged();
    // The owner might have written over what it had not seen: a copy is kept.
    let kept = "/.conflicts/ /.conflicts/f~1-1=theirs, longer /.conflicts/g~1-1=theirs, longer";
    assert_eq!(there, format!("{kept} /d/ /e/ /e/x=base /f=theirs, longer, owners /g=theirs, longer, owners"));
    assert_eq!(kinds, [ConflictKind::Data; 2]);
}

#[test]
fn what_others_removed_before_the_owner_fetched_it_and_it_wrote_then_is_back() {
    let mut s = Scene::new();
    let (world, dir) = (&mut s.world, s.dir);
    // The owner has heard of the name, and not of the file yet.
    s.owner.run(world, &Op::Readdir { dir, cookie: 0, limit: 100, plus: false, handle: None }).expect("it is there");
    world.call(s.b, unlink(dir, "g")).expect("it is there");
    s.own_write(s.g, b"owner");
    let (there, kinds) = s.merged();
    assert_eq!((there, kinds), ("/d/ /e/ /e/x=base /f=base /g=owner".into(), vec![ConflictKind::Returned]));
}

#[test]
fn what_the_owner_writes_into_a_file_that_it_has_open_and_others_removed_brings_that_not_back() {
    let mut s = Scene::new();
    let (at, dir, f) = (s.owner.at, s.dir, s.f);
    s.other(unlink(dir, "f"));
    let open = SubtreeOp::HoldOpen { epoch: s.owner.epoch(), first: true, inos: vec![f] };
    assert_eq!(ask(&mut s.world, at, dir, open), Ok(Answer::Done));
    s.own_put(dir, "own", b"own");
    s.owner.merge(&mut s.world).expect("his");
    assert!(s.world.mds.core.tree.is_orphan(f));
    s.own_write(f, b"owner");
    assert_eq!(s.merged(), ("/d/ /e/ /e/x=base /g=base /own=own".into(), vec![]));
}
