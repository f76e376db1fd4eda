//! Subtrees whose owner writes objects of files that others write, too: of each file both have a version until a merge, or the end, says
//! which one counts. The bytes of the other one are somewhere, and nothing is left behind.

use loligo_types::{ConflictKind, Lease, SessionId};

use super::allow::faults;
use super::*;
use crate::{DataAccess, Input};

/// A directory with a file `big` that lives in objects, which its owner is about to change, and a client that works there, too.
struct Scene {
    world: World,
    owner: Owner,
    b: usize,
    dir: Ino,
    big: Ino,
}

fn allow_op(owner: u64, resume: u64) -> SubtreeOp {
    let promise = Promise::NONE;
    SubtreeOp::Decouple { owner, resume, inos: 100, lease_ms: 5000, interfere: Interfere::Allow, promise }
}

impl Scene {
    fn new() -> Scene {
        Scene::with(config())
    }

    fn with(config: crate::Config) -> Scene {
        let mut world = World::with(crate::Config { dirty_ms_max: 50, checkpoint_records: 7, ..config });
        let (a, b) = (world.client(), world.client());
        let dir = world.mkdir(a, Ino::ROOT, "job").ino;
        let big = world.create(a, dir, "big", WRITE, 2).ino;
        world.call(a, close(2)).expect("it is open");
        let owner = Owner::with(&mut world, a, dir, allow_op(77, 0)).expect("nobody has it");
        let mut scene = Scene { world, owner, b, dir, big };
        scene.other_write(big, b"base");
        scene.owner.subtree = with_objects(&scene.owner);
        scene
    }

    fn ask(&mut self, what: impl Fn(u64) -> SubtreeOp) -> FsResult<Answer> {
        let (at, epoch) = (self.owner.at, self.owner.epoch());
        ask(&mut self.world, at, self.dir, what(epoch))
    }

    fn overwrite(&mut self, ino: Ino) -> FsResult<DecoupledRecord> {
        let answer = self.ask(|epoch| SubtreeOp::Overwrite { epoch, inos: vec![ino] })?;
        let Answer::Subtree(answer) = answer else { panic!("no such answer") };
        let SubtreeAnswer::Forked { record, .. } = *answer else { panic!("{answer:?}") };
        Ok(record)
    }

    fn lookup(&mut self, text: &str) -> Ino {
        let (world, dir) = (&mut self.world, self.dir);
        self.owner.made(world, &Op::Lookup { dir, name: name(text) })
    }

    fn cuts(&self, ino: Ino) -> u32 {
        self.world.mds.core.tree.inode(ino).map_or(0, |inode| inode.cuts)
    }

    /// Others give a file these bytes, in its objects.
    fn other_write(&mut self, ino: Ino, bytes: &[u8]) {
        let (b, session) = (self.b, self.world.session(self.b));
        self.world.open(b, ino, WRITE, 50);
        self.other_put(session, ino, bytes);
        self.world.call(b, close(50)).expect("it is open");
    }

    fn other_put(&mut self, session: SessionId, ino: Ino, bytes: &[u8]) {
        assert_eq!(self.world.access.get(&(session, ino)), Some(&DataAccess::Write));
        self.world.objects.write(session, ino, bytes);
        let cuts = self.cuts(ino);
        let told = self.world.call(self.b, set_data(ino, 50, cuts, bytes.len() as u64, true));
        told.expect("it is open");
    }

    /// The owner does so, in its version.
    fn own_write(&mut self, ino: Ino, bytes: &[u8]) {
        let session = self.world.session(self.owner.at);
        assert_eq!(self.world.access.get(&(session, ino)), Some(&DataAccess::Write));
        self.world.objects.write(session, ino, bytes);
        let Ok(Answer::Entry(attr)) = self.owner.run(&mut self.world, &Op::GetAttr { ino }) else { panic!("no file") };
        let op = set_data(ino, 1, attr.cuts, bytes.len() as u64, true);
        self.owner.run(&mut self.world, &op).expect("it is his");
    }

    /// The owner has forked the file and given it these bytes.
    fn forked(&mut self, bytes: &[u8]) -> Ino {
        let copy = self.overwrite(self.big).expect("it is his").copy_of(self.big).expect("it is put down");
        assert_eq!(self.lookup("big"), self.big);
        self.own_write(self.big, bytes);
        copy
    }

    /// The bytes that others see in a file, as far as its size goes.
    fn theirs(&mut self, ino: Ino) -> String {
        let mut bytes = self.world.objects.read(self.world.session(self.b), ino);
        bytes.resize(self.world.mds.core.tree.inode(ino).map_or(0, |inode| inode.size as usize), 0);
        String::from_utf8(bytes).expect("text")
    }

    /// The same of a name below the root.
    fn named(&mut self, path: &[&str]) -> Option<String> {
        let mut ino = self.dir;
        for text in path {
            ino = self.world.lookup(self.b, ino, text).ok()?.ino;
        }
        Some(self.theirs(ino))
    }

    fn kinds(&self) -> Vec<ConflictKind> {
        self.owner.conflicts.iter().map(|conflict| conflict.kind).collect()
    }

    /// It is given back: nothing is left of copies and orphans, and nothing is wrong.
    fn end(&mut self) {
        let what = Box::new(SubtreeOp::End { epoch: self.owner.epoch() });
        let seq = self.world.send(self.owner.at, Op::Control(Control::Subtree { dir: self.dir, what }));
        self.world.wait_alive(20);
        self.world.restore_all();
        self.world.wait_alive(500);
        assert!(matches!(self.world.reply(self.owner.at, seq), Some((Ok(_), _))));
        self.nothing_is_left();
    }

    fn nothing_is_left(&mut self) {
        self.world.wait_alive(500);
        assert_eq!(faults(&mut self.world), Vec::<String>::new());
        for ino in self.world.objects.all() {
            assert!(self.world.mds.core.tree.inode(ino).is_some_and(|inode| inode.nlink > 0), "{ino} is nobody's");
        }
        assert_eq!(self.world.mds.core.tree.orphans().count(), 0);
    }

    fn crash(&mut self) {
        self.world.crash();
        for at in [self.owner.at, self.b] {
            self.world.resume(at);
            self.world.reclaim(at, loligo_types::msg::Reclaim::default());
        }
        let (world, epoch) = (&mut self.world, self.owner.epoch());
        told(ask(world, self.owner.at, self.dir, allow_op(77, epoch))).expect("it goes on");
    }
}

fn with_objects(owner: &Owner) -> Subtree {
    let (settings, record) = (owner.subtree.settings().clone(), owner.subtree.record().clone());
    let root = owner.subtree.inode(record.dir).expect("it is there").clone();
    Subtree::new(settings, record, root).with_objects()
}

#[test]
fn each_side_sees_its_own_bytes_until_the_merge_and_the_owners_count_where_others_changed_nothing() {
    for crash in [false, true] {
        let mut s = Scene::new();
        let copy = s.forked(b"owner's");
        let (mine, big) = (s.world.session(s.owner.at), s.big);
        assert_eq!((s.theirs(big), s.world.objects.read(mine, big)), ("base".into(), b"owner's".to_vec()));
        if crash {
            s.crash();
            assert_eq!(s.theirs(big), "base");
        }
        s.owner.merge(&mut s.world).expect("it is his");
        assert_eq!((s.kinds(), s.named(&["big"])), (vec![], Some("owner's".into())), "crash: {crash}");
        assert!(s.world.frozen.is_empty() && !s.world.objects.all().contains(&copy));
        let right = s.world.access.get(&(mine, big));
        assert!(crash || right == Some(&DataAccess::Read), "it is to be asked for once more");
        s.end();
    }
}

#[test]
fn of_a_file_whose_objects_both_wrote_the_owners_count_and_those_of_others_are_kept_as_a_file() {
    for (crash, later) in [(false, false), (true, false), (true, true)] {
        let mut s = Scene::new();
        s.forked(b"owner's");
        if crash && !later {
            s.crash();
        }
        s.other_write(s.big, b"theirs, longer");
        if crash && later {
            s.crash();
        }
        assert_eq!(s.named(&["big"]), Some("theirs, longer".into()));
        s.owner.merge(&mut s.world).expect("it is his");
        assert_eq!(s.kinds(), [ConflictKind::Data], "{crash} {later}");
        assert_eq!(s.named(&["big"]), Some("owner's".into()));
        assert_eq!(s.named(&[".conflicts", "big~1-1"]), Some("theirs, longer".into()));
        s.end();
    }
}

#[test]
fn whenever_the_rank_dies_in_a_merge_both_versions_are_there_and_nothing_is_left_behind() {
    let mut s = Scene::new();
    s.world.checkpoints = false;
    s.forked(b"owner's");
    s.other_write(s.big, b"theirs, longer");
    let before = s.world.journal.keys().next_back().copied().expect("something was done");
    s.world.keeps = false;
    let group = s.owner.subtree.groups().remove(0);
    s.owner.send_parts(&mut s.world, &group).expect("his");
    let seq = s.world.send(s.owner.at, s.owner.merge_op(&group));
    assert_eq!(s.world.reply(s.owner.at, seq), None, "the others' version is being copied");
    let (to, session) = (s.world.pending_keeps[0].1, s.world.session(s.b));
    assert!(s.world.mds.core.tree.is_orphan(to));
    // Nobody changes it meanwhile.
    s.world.call(s.b, Op::Open { ino: s.big, flags: WRITE, handle: 51 }).expect("it may");
    assert_eq!(s.world.access.get(&(session, s.big)), Some(&DataAccess::Moving));
    let waits = s.world.send(s.b, truncate(s.big, 2));
    assert_eq!(s.world.reply(s.b, waits), None);
    // The rank dies: the orphan goes with the next merge.
    let journal = s.world.journal.clone();
    let cuts: Vec<Lsn> = journal.range(before..).map(|(lsn, _)| *lsn).collect();
    for cut in cuts {
        let mut one = Scene::new();
        one.world.checkpoints = false;
        one.forked(b"owner's");
        one.other_write(one.big, b"theirs, longer");
        one.world.keeps = false;
        one.owner.send_parts(&mut one.world, &group).expect("his");
        let seq = one.world.send(one.owner.at, one.owner.merge_op(&group));
        assert_eq!(one.world.reply(one.owner.at, seq), None);
        one.world.journal.retain(|lsn, _| *lsn <= cut);
        one.world.keeps = true;
        one.world.checkpoints = true;
        one.crash();
        one.owner.merge(&mut one.world).expect("it is sent again");
        assert_eq!(one.named(&["big"]), Some("owner's".into()));
        assert_eq!(one.named(&[".conflicts", "big~1-1"]), Some("theirs, longer".into()));
        one.end();
    }
    s.world.keeps = true;
    s.world.checkpoints = true;
    s.world.wait_alive(10);
    assert!(s.world.reply(s.owner.at, seq).is_some_and(|(result, _)| result.is_ok()));
    assert_eq!(s.world.access.get(&(session, s.big)), Some(&DataAccess::Write), "others go on");
    s.world.wait_alive(10);
    assert!(s.world.reply(s.b, waits).is_some_and(|(result, _)| result.is_ok()));
    assert_eq!(s.named(&["big"]), Some("ow".into()), "what waited is done to what the merge made");
    assert_eq!(s.named(&[".conflicts", "big~1-1"]), Some("theirs, longer".into()));
}

#[test]
fn a_version_of_others_that_a_merge_waits_for_is_there_although_orphans_are_looked_for_meanwhile() {
    let mut s = Scene::new();
    s.forked(b"owner's");
    s.other_write(s.big, b"theirs, longer");
    s.crash();
    s.world.keeps = false;
    let group = s.owner.subtree.groups().remove(0);
    s.owner.send_parts(&mut s.world, &group).expect("his");
    let seq = s.world.send(s.owner.at, s.owner.merge_op(&group));
    // So long after its start the rank ends orphans that nobody has claimed.
    s.world.wait_alive(5000);
    assert_eq!(s.world.reply(s.owner.at, seq), None, "the others' version is being copied");
    s.world.keeps = true;
    s.world.wait_alive(100);
    assert!(s.world.reply(s.owner.at, seq).is_some_and(|(result, _)| result.is_ok()));
    assert_eq!(s.named(&["big"]), Some("owner's".into()));
    assert_eq!(s.named(&[".conflicts", "big~1-1"]), Some("theirs, longer".into()));
}

#[test]
fn a_version_that_is_being_copied_for_a_merge_which_is_given_up_leaves_nothing() {
    let mut s = Scene::new();
    s.forked(b"owner's");
    s.other_write(s.big, b"theirs, longer");
    s.world.keeps = false;
    let group = s.owner.subtree.groups().remove(0);
    s.owner.send_parts(&mut s.world, &group).expect("his");
    let seq = s.world.send(s.owner.at, s.owner.merge_op(&group));
    assert_eq!(s.world.reply(s.owner.at, seq), None, "the others' version is being copied");
    // The first part anew: what was prepared is given up.
    s.owner.send_parts(&mut s.world, &group).expect("his");
    s.world.wait_alive(5000);
    s.world.keeps = true;
    s.world.wait_alive(100);
    s.owner.merge(&mut s.world).expect("it is sent again");
    assert_eq!(s.named(&[".conflicts", "big~1-1"]), Some("theirs, longer".into()));
    s.end();
}

#[test]
fn a_merge_that_says_nothing_of_the_bytes_leaves_both_versions_to_a_later_one() {
    for (crash, others) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut s = Scene::new();
        let copy = s.overwrite(s.big).expect("it is his").copy_of(s.big).expect("it is put down");
        // It tells of that later.
        s.world.objects.write(s.world.session(s.owner.at), s.big, b"own");
        if others {
            s.other_write(s.big, b"theirs, longer");
        }
        s.owner.run(&mut s.world, &mkdir(s.dir, "d")).expect("it is his");
        s.owner.merge(&mut s.world).expect("it is his");
        assert_eq!(s.world.mds.core.tree.decoupled(s.dir).and_then(|record| record.copy_of(s.big)), Some(copy));
        if crash {
            s.crash();
            s.overwrite(s.big).expect("it is his still");
        }
        assert_eq!(s.lookup("big"), s.big);
        s.own_write(s.big, b"owner's, and much longer");
        assert_eq!(s.named(&["big"]), Some(if others { "theirs, longer" } else { "base" }.into()));
        s.owner.merge(&mut s.world).expect("it is his");
        assert_eq!(s.named(&["big"]), Some("owner's, and much longer".into()), "{crash} {others}");
        let kept = others.then(|| "theirs, longer".to_string());
        assert_eq!(s.named(&[".conflicts", "big~2-1"]), kept, "{crash} {others}");
        s.end();
    }
}

#[test]
fn what_the_owner_removed_and_others_wrote_is_kept_with_what_they_wrote() {
    for others in [false, true] {
        let mut s = Scene::new();
        s.forked(b"owner's, and much longer");
        if others {
            s.other_write(s.big, b"theirs, longer");
        }
        s.owner.run(&mut s.world, &unlink(s.dir, "big")).expect("it is there");
        let group = s.owner.subtree.groups().remove(0);
        s.owner.send_parts(&mut s.world, &group).expect("his");
        let seq = s.world.send(s.owner.at, s.owner.merge_op(&group));
        assert_eq!(s.world.pending_restores.len(), usize::from(others), "it is put back first");
        assert!(!others || s.world.reply(s.owner.at, seq).is_none());
        s.world.restore_all();
        s.world.wait_alive(10);
        assert!(matches!(s.world.reply(s.owner.at, seq), Some((Ok(_), _))));
        s.owner.subtree.merged(1, group.used);
        assert_eq!(s.named(&["big"]), None);
        assert_eq!(s.named(&[".conflicts", "big~1-1"]), others.then(|| "theirs, longer".into()));
        s.end();
    }
}

#[test]
fn what_others_removed_and_the_owner_wrote_is_back_with_what_the_owner_wrote() {
    for others in [false, true] {
        let mut s = Scene::new();
        s.forked(b"owner's");
        if others {
            s.other_write(s.big, b"theirs, longer");
        }
        s.world.call(s.b, unlink(s.dir, "big")).expect("it is there");
        s.owner.merge(&mut s.world).expect("it is his");
        assert_eq!(s.named(&["big"]), Some("owner's".into()));
        assert_eq!(s.named(&[".conflicts", "big~1-1"]), others.then(|| "theirs, longer".into()));
        assert!(s.kinds().contains(&ConflictKind::Returned));
        s.end();
    }
}

#[test]
fn what_both_removed_is_gone_with_all_its_versions() {
    for hold in [false, true] {
        let mut s = Scene::new();
        s.forked(b"owner's");
        s.other_write(s.big, b"theirs, longer");
        s.world.open(s.b, s.big, READ, 60);
        s.world.call(s.b, unlink(s.dir, "big")).expect("it is there");
        if hold {
            let big = s.big;
            s.ask(|epoch| SubtreeOp::HoldOpen { epoch, first: true, inos: vec![big] }).expect("it is his");
        }
        s.owner.run(&mut s.world, &unlink(s.dir, "big")).expect("it knows it still");
        s.owner.run(&mut s.world, &mkdir(s.dir, "d")).expect("it is his");
        s.owner.merge(&mut s.world).expect("it is his");
        assert_eq!(s.theirs(s.big), "theirs, longer", "who has it open reads on");
        s.world.call(s.b, close(60)).expect("it is open");
        s.end();
    }
}

#[test]
fn without_a_merge_others_versions_are_what_is_there_and_nobody_changes_them_before_that_is_durable() {
    for lost in [false, true] {
        let mut s = Scene::new();
        s.forked(b"owner's, and much longer");
        s.other_write(s.big, b"theirs");
        let session = s.world.session(s.b);
        s.world.open(s.b, s.big, WRITE, 50);
        if lost {
            s.world.disconnect(s.owner.at);
            s.world.wait_alive(20_000);
        } else {
            let what = Box::new(SubtreeOp::End { epoch: s.owner.epoch() });
            s.world.send(s.owner.at, Op::Control(Control::Subtree { dir: s.dir, what }));
        }
        assert_eq!(s.world.pending_restores.len(), 1);
        assert_eq!(s.world.access.get(&(session, s.big)), Some(&DataAccess::Moving), "lost: {lost}");
        s.world.syncs = false;
        s.world.restore_all();
        s.world.input(Input::Tick);
        s.world.wait_alive(200);
        assert!(s.world.mds.core.tree.decoupled(s.dir).is_none(), "lost: {lost}");
        assert_eq!(s.world.access.get(&(session, s.big)), Some(&DataAccess::Moving), "a crash would put it back again");
        assert!(!s.world.frozen.is_empty());
        s.world.syncs = true;
        s.world.pump();
        assert!(s.world.frozen.is_empty());
        assert_eq!(s.theirs(s.big), "theirs");
        s.other_put(session, s.big, b"theirs, longer");
        s.world.call(s.b, close(50)).expect("it is open");
        s.nothing_is_left();
        assert_eq!(s.theirs(s.big), "theirs, longer");
    }
}

#[test]
fn a_file_is_forked_when_that_is_durable_and_others_hold_nothing_back() {
    let mut s = Scene::new();
    let (_, rights) = s.world.open(s.b, s.big, WRITE, 50);
    assert!(rights.has(Lease::BUFFER));
    s.world.clients[s.b].obeys = false;
    let (what, at) = (Box::new(SubtreeOp::Overwrite { epoch: s.owner.epoch(), inos: vec![s.big] }), s.owner.at);
    let seq = s.world.send(at, Op::Control(Control::Subtree { dir: s.dir, what }));
    assert_eq!((s.world.reply(at, seq), s.world.frozen.len()), (None, 0), "what it holds back is asked for");
    s.world.clients[s.b].obeys = true;
    s.world.pump();
    assert!(s.world.reply(at, seq).is_some_and(|(result, _)| result.is_ok()));
    assert_eq!(s.world.frozen.len(), 1);
    // What was written and not told of lies where the owner's version is: it is written again.
    let stale = s.world.call(s.b, set_data(s.big, 50, 0, 9, true));
    assert_eq!(stale, Err(FsError::Stale));
    let mut s = Scene::new();
    s.world.syncs = false;
    let what = Box::new(SubtreeOp::Overwrite { epoch: s.owner.epoch(), inos: vec![s.big] });
    let seq = s.world.send(at, Op::Control(Control::Subtree { dir: s.dir, what }));
    assert_eq!((s.world.reply(at, seq), s.world.frozen.len()), (None, 0), "a crash would forget it");
    s.world.syncs = true;
    s.world.pump();
    assert!(s.world.reply(at, seq).is_some_and(|(result, _)| result.is_ok()) && s.world.frozen.len() == 1);
}

#[test]
fn clients_that_reach_objects_by_themselves_do_so_with_no_file_of_two_versions() {
    let direct = Some("pool".into());
    let mut s = Scene::with(crate::Config { direct, ..config() });
    let (_, rights) = s.world.open(s.b, s.big, WRITE, 50);
    assert!(rights.has(Lease::BUFFER));
    s.world.call(s.b, close(50)).expect("it is open");
    s.overwrite(s.big).expect("it is his");
    let (_, rights) = s.world.open(s.b, s.big, WRITE, 51);
    assert!(rights.is_none(), "its bytes go by the server");
}

#[test]
fn an_owner_that_answers_by_itself_gives_back_what_it_had_there_and_is_none_of_the_others() {
    let mut s = Scene::new();
    let (at, dir, big) = (s.owner.at, s.dir, s.big);
    let lookup = Op::Lookup { dir, name: name("big") };
    let open = |first| move |epoch| SubtreeOp::HoldOpen { epoch, first, inos: vec![big] };
    assert!(!s.world.call_granted(at, lookup.clone()).1.is_empty(), "as anybody");
    s.world.open(at, big, READ, 70);
    let what = Box::new(open(true)(s.owner.epoch()));
    let seq = s.world.send(at, Op::Control(Control::Subtree { dir, what }));
    s.world.wait_alive(3000);
    assert!(matches!(s.world.reply(at, seq), Some((Err(FsError::Busy), _))), "a program has it open");
    assert!(s.world.call(at, Op::GetAttr { ino: big }).is_ok(), "it works there as before");
    s.world.call(at, close(70)).expect("it is open");
    assert_eq!(s.ask(open(true)), Ok(Answer::Done));
    let slot = s.world.mds.sessions.find(s.world.session(at));
    assert!(s.world.mds.leases.holders(big).all(|(holder, held)| held.is_none() || Some(holder) != slot));
    for op in
        [lookup.clone(), Op::GetAttr { ino: big }, Op::Open { ino: big, flags: READ, handle: 71 }, mkdir(dir, "d")]
    {
        assert_eq!(s.world.call(at, op.clone()), Err(FsError::Busy), "{op:?}");
    }
    assert!(s.world.call(at, Op::GetAttr { ino: dir }).is_ok(), "the root is seen");
    assert_eq!(s.ask(open(false)), Ok(Answer::Done));
    assert!(s.world.call(s.b, lookup).is_ok() && s.world.call(s.b, mkdir(dir, "d")).is_ok(), "others go on");
    s.end();
    assert!(s.world.call(at, Op::GetAttr { ino: big }).is_ok());
}
