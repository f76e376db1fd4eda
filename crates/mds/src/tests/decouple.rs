//! Decoupled subtrees: who sees what when, what survives which crash, and what is refused.

mod allow;
mod away;
mod bounds;
mod cold;
mod escape;
mod fork;
mod into_table;
mod journal;
mod nested;
mod objects;
mod outside;
mod policy;
mod ranks;
mod read;
mod untrue;
mod xattrs;

use std::collections::BTreeMap;

use loligo_journal::encode_record;
use loligo_subtree::{Group, Outcome, Settings, Subtree};
use loligo_types::{
    Answer, Conflict, Control, Cred, DecoupledRecord, Event, FsError, FsResult, Ino, Inode, Interfere, Kind, Lsn,
    MergeInto, Op, Promise, RenameMode, SubtreeAnswer, SubtreeOp, Time,
};

use super::*;

/// A client that has a subtree for itself.
struct Owner {
    at: usize,
    subtree: Subtree,
    cred: Cred,
    /// Conflicts of its merges, and the target of these.
    conflicts: Vec<Conflict>,
    into: MergeInto,
}

fn ask(world: &mut World, at: usize, dir: Ino, what: SubtreeOp) -> FsResult<Answer> {
    world.call(at, Op::Control(Control::Subtree { dir, what: Box::new(what) }))
}

fn decouple_op(owner: u64, resume: u64, inos: u64) -> SubtreeOp {
    SubtreeOp::Decouple { owner, resume, inos, lease_ms: 5000, interfere: Interfere::Block, promise: Promise::NONE }
}

fn told(answer: FsResult<Answer>) -> FsResult<(DecoupledRecord, Inode, Settings)> {
    let Answer::Subtree(answer) = answer? else { panic!("no such answer") };
    let SubtreeAnswer::Decoupled { record, root, inline_max, split } = *answer else { panic!("no such answer") };
    Ok((record, *root, Settings { hash_key: config().hash_key, inline_max, split }))
}

impl Owner {
    fn new(world: &mut World, at: usize, dir: Ino, inos: u64) -> FsResult<Owner> {
        Owner::with(world, at, dir, decouple_op(77, 0, inos))
    }

    fn with(world: &mut World, at: usize, dir: Ino, op: SubtreeOp) -> FsResult<Owner> {
        let cred = Cred { uid: world.clients[at].uid, ..Cred::root() };
        let (record, root, settings) = told(ask(world, at, dir, op))?;
        Ok(Owner {
            at,
            subtree: Subtree::new(settings, record, root),
            cred,
            conflicts: Vec::new(),
            into: MergeInto::Memory,
        })
    }

    fn epoch(&self) -> u64 {
        self.subtree.record().epoch
    }

    fn run(&mut self, world: &mut World, op: &Op) -> FsResult<Answer> {
        let (dir, epoch) = (self.subtree.root(), self.epoch());
        loop {
            match self.subtree.run(op, &self.cred, world.now.wall) {
                Outcome::Done(result) => return result,
                Outcome::Fetch(needs) => {
                    let Answer::Subtree(answer) = ask(world, self.at, dir, SubtreeOp::Fetch { epoch, needs })? else {
                        panic!("no such answer")
                    };
                    let SubtreeAnswer::Records(items) = *answer else { panic!("no such answer") };
                    self.subtree.learn(items);
                }
                Outcome::Numbers => {
                    let (record, ..) = told(ask(world, self.at, dir, SubtreeOp::Grant { epoch, inos: 10 }))?;
                    self.subtree.take_record(record);
                }
            }
        }
    }

    fn made(&mut self, world: &mut World, op: &Op) -> Ino {
        self.run(world, op).expect("it can be made").attr().expect("it has attributes").ino
    }

    fn write(&mut self, world: &mut World, dir: Ino, text: &str, data: &[u8]) -> Ino {
        let ino = self.made(world, &create(dir, text, WRITE, 1));
        self.run(world, &write_inline(ino, 1, 0, data)).expect("it is small");
        ino
    }

    fn send_parts(&mut self, world: &mut World, group: &Group) -> FsResult<()> {
        let (dir, epoch, merge) = (self.subtree.root(), self.epoch(), self.subtree.record().merges + 1);
        for (part, body) in (0..).zip(&group.parts) {
            ask(world, self.at, dir, SubtreeOp::Part { epoch, merge, part, blind: false, body: body.clone() })?;
        }
        Ok(())
    }

    fn merge_op(&self, group: &Group) -> Op {
        let (merge, parts) = (self.subtree.record().merges + 1, group.parts.len() as u32);
        let what = SubtreeOp::Merge { epoch: self.epoch(), merge, parts, used: group.used, into: self.into };
        Op::Control(Control::Subtree { dir: self.subtree.root(), what: Box::new(what) })
    }

    fn merge(&mut self, world: &mut World) -> FsResult<()> {
        for group in self.subtree.groups() {
            self.send_parts(world, &group)?;
            let (seq, mut ticks) = (world.send(self.at, self.merge_op(&group)), 0);
            let result = loop {
                if let Some((result, _)) = world.reply(self.at, seq) {
                    break result;
                }
                world.wait_alive(10);
                ticks += 1;
                assert!(ticks < 1000, "the merge does not end");
            };
            let Answer::Subtree(answer) = result? else { panic!("no such answer") };
            let SubtreeAnswer::Merged { merges, conflicts, told } = *answer else { panic!("no such answer") };
            assert!(conflicts as usize >= told.len());
            self.conflicts.extend(told);
            self.subtree.merged(merges, group.used);
        }
        if self.subtree.may_change_meanwhile() {
            let (dir, again) = (self.subtree.root(), decouple_op(77, self.epoch(), 1));
            let (_, root, _) = told(ask(world, self.at, dir, again))?;
            self.subtree.forget(root);
        }
        Ok(())
    }

    fn end(&mut self, world: &mut World) -> FsResult<Answer> {
        ask(world, self.at, self.subtree.root(), SubtreeOp::End { epoch: self.epoch() })
    }
}

/// Two clients, and a directory with something in it.
fn scene() -> (World, usize, usize, Ino, Ino) {
    let mut world = World::new();
    let (a, b) = (world.client(), world.client());
    let dir = world.mkdir(a, Ino::ROOT, "job").ino;
    let old = world.create(a, dir, "old", WRITE, 1).ino;
    world.call(a, write_inline(old, 1, 0, b"before")).expect("it is small");
    world.call(a, close(1)).expect("it is open");
    (world, a, b, dir, old)
}

#[test]
fn what_the_owner_makes_is_there_for_all_with_the_merge_and_for_nobody_before() {
    let (mut world, a, b, dir, old) = scene();
    let mut owner = Owner::new(&mut world, a, dir, 100).expect("nobody has it");
    let sub = owner.made(&mut world, &mkdir(dir, "sub"));
    owner.write(&mut world, sub, "f", b"data");
    owner.run(&mut world, &unlink(dir, "old")).expect("it is there");
    owner.run(&mut world, &chmod(sub, 0o700)).expect("it is his");
    assert_eq!(world.lookup(b, dir, "sub"), Err(FsError::Busy));
    assert_eq!(world.call(b, Op::GetAttr { ino: old }), Err(FsError::Busy));
    let root = world.lookup(b, Ino::ROOT, "job").expect("the root is seen");
    assert_eq!((root.size, root.nlink), (1, 2), "as it was");
    owner.merge(&mut world).expect("it is his");
    assert_eq!(world.lookup(b, dir, "sub"), Err(FsError::Busy), "it is decoupled still");
    let root = world.lookup(b, Ino::ROOT, "job").expect("the root is seen");
    assert_eq!((root.size, root.nlink), (1, 3));
    owner.run(&mut world, &mkdir(dir, "late")).expect("it is his");
    owner.end(&mut world).expect("it is his");
    let seen = world.lookup(b, dir, "sub").expect("merged");
    assert_eq!((seen.ino, seen.mode, seen.size), (sub, 0o700, 1));
    let file = world.lookup(b, sub, "f").expect("merged");
    assert_eq!(file.size, 4);
    let opened = world.call(b, Op::Open { ino: file.ino, flags: READ, handle: 5 }).expect("it may");
    let Answer::Opened { data: Some(data), .. } = opened else { panic!("{opened:?}") };
    assert_eq!(&*data, b"data");
    assert_eq!(world.lookup(b, dir, "old"), Err(FsError::NotFound));
    assert_eq!(owner.merge(&mut world), Err(FsError::Stale), "it is not its any more");
}

#[test]
fn nobody_comes_in_by_any_request_neither_by_name_nor_by_number_nor_through_what_was_known_before() {
    let (mut world, a, b, dir, old) = scene();
    let outside = world.create(b, Ino::ROOT, "out", WRITE, 9).ino;
    let d = |text: &str| name(text);
    let _owner = Owner::new(&mut world, a, dir, 100).expect("nobody has it");
    let busy = [
        Op::Lookup { dir, name: d("old") },
        Op::LookupParent { dir: old },
        Op::GetAttr { ino: old },
        chmod(old, 0o600),
        Op::Open { ino: old, flags: READ, handle: 20 },
        create(dir, "x", WRITE, 21),
        Op::Tmpfile { dir, mode: 0o600, umask: 0, flags: WRITE, linkable: true, handle: 22 },
        Op::Mknod { dir, name: d("p"), kind: Kind::Fifo, mode: 0o600, umask: 0, rdev: 0 },
        mkdir(dir, "m"),
        Op::Symlink { dir, name: d("s"), target: b"t"[..].into() },
        Op::Link { ino: outside, dir, name: d("l") },
        Op::Link { ino: old, dir: Ino::ROOT, name: d("l") },
        unlink(dir, "old"),
        Op::Rmdir { dir, name: d("old") },
        Op::Rename { dir, name: d("old"), new_dir: Ino::ROOT, new_name: d("n"), mode: RenameMode::Replace },
        Op::Rename { dir: Ino::ROOT, name: d("out"), new_dir: dir, new_name: d("n"), mode: RenameMode::Replace },
        Op::Readlink { ino: old },
        Op::Readdir { dir, cookie: 0, limit: 9, plus: true, handle: None },
        Op::GetXattr { ino: old, name: b"user.a"[..].into() },
        Op::ListXattr { ino: old },
        Op::SetXattr {
            ino: old,
            name: b"user.a"[..].into(),
            value: b"v"[..].into(),
            mode: loligo_types::XattrMode::Set,
        },
        Op::RemoveXattr { ino: old, name: b"user.a"[..].into() },
        Op::Access { ino: old, want: loligo_types::Access { read: true, write: false, exec: false } },
        Op::Rmdir { dir: Ino::ROOT, name: d("job") },
    ];
    for op in busy {
        for at in [a, b] {
            assert_eq!(world.call(at, op.clone()), Err(FsError::Busy), "{op:?}");
        }
    }
    // The root is an entry like others, and stays where programs find it.
    assert!(world.call(b, Op::GetAttr { ino: dir }).is_ok());
    assert!(world.call(b, chmod(dir, 0o750)).is_ok());
    let rename = |from, to, mode| {
        let (name, new_name) = (name(from), name(to));
        Op::Rename { dir: Ino::ROOT, name, new_dir: Ino::ROOT, new_name, mode }
    };
    world.mkdir(b, Ino::ROOT, "empty");
    for op in [
        rename("job", "moved", RenameMode::Replace),
        rename("job", "moved", RenameMode::NoReplace),
        rename("job", "empty", RenameMode::Exchange),
        rename("empty", "job", RenameMode::Exchange),
        // What its owner made would be gone.
        rename("empty", "job", RenameMode::Replace),
    ] {
        for at in [a, b] {
            assert_eq!(world.call(at, op.clone()), Err(FsError::Busy), "{op:?}");
        }
    }
    assert!(world.call(b, mkdir(Ino::ROOT, "elsewhere")).is_ok());
    assert!(world.lookup(b, Ino::ROOT, "job").is_ok_and(|attr| attr.ino == dir));
}

#[test]
fn it_is_not_decoupled_while_it_is_used_or_something_above_or_below_it_is_decoupled() {
    let (mut world, a, b, dir, old) = scene();
    let sub = world.mkdir(b, dir, "sub").ino;
    world.open(b, old, READ, 7);
    let seq = world.send(a, Op::Control(Control::Subtree { dir, what: Box::new(decouple_op(77, 0, 10)) }));
    world.wait_alive(1400);
    assert_eq!(world.reply(a, seq), None, "a file in it is open, and may be closed soon");
    world.wait_alive(200);
    assert_eq!(world.reply(a, seq).map(|(result, _)| result), Some(Err(FsError::Busy)));
    let seq = world.send(a, Op::Control(Control::Subtree { dir, what: Box::new(decouple_op(77, 0, 10)) }));
    world.wait_alive(500);
    world.call(b, close(7)).expect("it is open");
    world.wait_alive(100);
    let Some((Ok(answer), _)) = world.reply(a, seq) else { panic!("it is closed") };
    let (record, ..) = told(Ok(answer)).expect("decoupled");
    ask(&mut world, a, dir, SubtreeOp::End { epoch: record.epoch }).expect("his");
    let mut inner = Owner::new(&mut world, b, sub, 10).expect("free");
    assert_eq!(Owner::new(&mut world, a, dir, 100).err(), Some(FsError::Busy), "what is below is another's");
    inner.end(&mut world).expect("his");
    let _outer = Owner::new(&mut world, a, dir, 100).expect("free");
    assert_eq!(Owner::new(&mut world, b, sub, 10).err(), Some(FsError::Busy));
    assert_eq!(Owner::new(&mut world, b, Ino::ROOT, 10).err(), Some(FsError::Invalid));
    assert_eq!(Owner::new(&mut world, b, old, 10).err(), Some(FsError::Busy));
    let alien = world.client_as(
        1000,
        crate::Peer { uid: Some(1000), groups: vec![1000], trusted: false, local: false, identity: None },
    );
    world.clients[alien].uid = 1000;
    let free = world.mkdir(b, Ino::ROOT, "free").ino;
    assert_eq!(Owner::new(&mut world, alien, free, 10).err(), Some(FsError::Perm), "it is not his");
    assert_eq!(Owner::new(&mut world, b, free, 0).err(), Some(FsError::Invalid));
    assert_eq!(Owner::new(&mut world, b, free, 1 << 40).err(), Some(FsError::Invalid));
}

#[test]
fn what_others_hold_of_it_is_asked_back_before_it_is_given() {
    let (mut world, a, b, dir, _) = scene();
    world.clients[b].want = BOTH;
    world.clients[b].obeys = false;
    world.lookup(b, dir, "old").expect("it is there");
    let seq = world.send(a, Op::Control(Control::Subtree { dir, what: Box::new(decouple_op(77, 0, 10)) }));
    assert_eq!(world.reply(a, seq), None);
    assert_eq!(world.clients[b].recalls.len(), 2, "the attributes of the file and the names of the directory");
    world.clients[b].obeys = true;
    world.pump();
    assert!(world.reply(a, seq).is_some_and(|(result, _)| result.is_ok()));
    let (_, granted) = world.call_granted(b, Op::GetAttr { ino: dir });
    assert_eq!(granted.len(), 1, "of the root its attributes");
}

/// The same things done at the rank and in a decoupled subtree.
fn compare(seed: u64, merges: usize, each: usize) {
    let (mut plain, mut random) = (World::new(), Random::new(seed));
    let mut world = World::with(crate::Config { dirty_ms_max: 50, checkpoint_records: 7, ..config() });
    let (p, a) = (plain.client(), world.client());
    let mut dirs = Vec::new();
    for (world, at) in [(&mut plain, p), (&mut world, a)] {
        let job = world.mkdir(at, Ino::ROOT, "job").ino;
        let sub = world.mkdir(at, job, "n0").ino;
        for n in 0..5 {
            world.create(at, sub, &format!("n{n}"), WRITE, 1);
            world.call(at, close(1)).expect("open");
        }
        world.wait_alive(300);
        dirs = vec![job, sub];
    }
    let mut owner = Owner::new(&mut world, a, dirs[0], 20).expect("free");
    // The numbers of its journals are granted with it.
    plain.call(p, Op::Control(Control::GrantInos { count: 2 })).expect("it has none");
    owner.into = if seed.is_multiple_of(2) { MergeInto::Memory } else { MergeInto::Table };
    // Some in one group, some in many.
    owner.subtree = owner.subtree.with_groups(if seed.is_multiple_of(3) { 300 } else { 1 << 20 });
    let mut files = Vec::new();
    for merge in 0..merges {
        for step in 0..each {
            let dir = dirs[random.below(dirs.len() as u64) as usize];
            let new_dir = dirs[random.below(dirs.len() as u64) as usize];
            let any = if files.is_empty() { dir } else { files[random.below(files.len() as u64) as usize] };
            let text = random.name();
            let linked = if any == dirs[0] { dirs[1 % dirs.len()] } else { any };
            let op = match random.below(14) {
                0 | 1 => mkdir(dir, &text),
                2 | 3 => create(dir, &text, WRITE, 1),
                4 => unlink(dir, &text),
                5 => Op::Rmdir { dir, name: name(&text) },
                6 | 7 => {
                    let mode = if random.below(4) == 0 { RenameMode::Exchange } else { RenameMode::Replace };
                    Op::Rename { dir, name: name(&text), new_dir, new_name: name(&random.name()), mode }
                }
                8 if linked != dirs[0] => Op::Link { ino: linked, dir, name: name(&text) },
                9 => chmod(any, 0o600 + random.below(64) as u16),
                10 => Op::SetXattr {
                    ino: any,
                    name: format!("user.{}", random.below(3)).into_bytes().into(),
                    value: vec![1; random.below(20) as usize].into(),
                    mode: loligo_types::XattrMode::Set,
                },
                11 => truncate(any, random.below(60)),
                12 => write_inline(any, 1, random.below(30), b"some data"),
                _ => Op::Lookup { dir, name: name(&text) },
            };
            plain.now.wall = world.now.wall;
            let there = owner.run(&mut world, &op);
            // At the rank through a handle, as a program would.
            let handle = matches!(op, Op::WriteInline { .. });
            if handle && plain.call(p, Op::Open { ino: any, flags: WRITE, handle: 1 }).is_err() {
                assert!(there.is_err(), "{op:?}");
                continue;
            }
            let here = plain.call(p, op.clone());
            plain.call(p, close(1)).expect("whatever is open");
            let of = |result: &FsResult<Answer>| match result {
                Ok(answer) => Ok(answer.attr().copied()),
                Err(error) => Err(*error),
            };
            if there != Err(FsError::NotFound) && there != Err(FsError::Stale) {
                assert_eq!(of(&there), of(&here), "seed {seed}, merge {merge}, step {step}: {op:?}");
            } else {
                assert!(here.is_err());
            }
            if let Ok(Some(attr)) = of(&here) {
                let list = if attr.kind == Kind::Dir { &mut dirs } else { &mut files };
                if !list.contains(&attr.ino) {
                    list.push(attr.ino);
                }
            }
            dirs.retain(|dir| plain.mds.core.tree.inode(*dir).is_some_and(|inode| inode.nlink > 0));
            files.retain(|file| plain.mds.core.tree.inode(*file).is_some_and(|inode| inode.nlink > 0));
        }
        if random.below(2) == 0 {
            owner.merge(&mut world).expect("his");
            if random.below(2) == 0 {
                world.wait_alive(300);
            }
        }
    }
    owner.merge(&mut world).expect("his");
    owner.end(&mut world).expect("his");
    let picture = plain.walk(p);
    assert_eq!(world.walk(a), picture, "seed {seed}");
    for world in [&mut plain, &mut world] {
        // Sums come up level by level.
        (0..20).for_each(|_| world.wait_alive(100));
    }
    let sums = |world: &mut World, at| {
        let sum = |name: &str| Op::GetXattr { ino: Ino::ROOT, name: name.as_bytes().into() };
        [world.call(at, sum("loligo.rentries")), world.call(at, sum("loligo.rbytes"))]
    };
    assert_eq!(sums(&mut world, a), sums(&mut plain, p), "seed {seed}");
    world.crash();
    world.resume(a);
    world.reclaim(a, loligo_types::msg::Reclaim::default());
    assert_eq!(world.walk(a), picture, "seed {seed}");
}

#[test]
fn whatever_is_done_decoupled_and_merged_comes_out_as_if_it_had_been_done_at_the_rank() {
    for seed in 0..200 {
        compare(seed, 1 + seed as usize % 5, 25);
    }
}

#[test]
fn a_merge_is_there_whole_or_not_at_all_whenever_the_rank_dies() {
    let (mut world, a, _, dir, _) = scene();
    let mut owner = Owner::new(&mut world, a, dir, 10_000).expect("free");
    for n in 0..2500 {
        owner.write(&mut world, dir, &format!("file{n}"), b"x");
    }
    let before = world.journal.keys().next_back().copied().expect("something was done");
    owner.merge(&mut world).expect("his");
    world.wait_alive(100);
    let all = std::mem::take(&mut world.journal);
    assert!(all.range(before.next()..).count() > 3, "several parts and their end");
    let (mut none, mut whole) = (0, 0);
    for cut in all.range(before..).map(|(lsn, _)| *lsn).collect::<Vec<Lsn>>() {
        let mut world = World::new();
        world.journal = all.range(..=cut).map(|(lsn, record)| (*lsn, record.clone())).collect();
        world.crash();
        world.wait(20_000);
        let b = world.client();
        // The owner is gone, and so is its lease.
        match world.lookup(b, dir, "file0") {
            Ok(_) => {
                whole += 1;
                assert_eq!(world.lookup(b, Ino::ROOT, "job").map(|attr| attr.size), Ok(2501));
                assert!((0..2500).all(|n| world.lookup(b, dir, &format!("file{n}")).is_ok()));
            }
            Err(error) => {
                none += 1;
                assert_eq!(error, FsError::NotFound);
                assert_eq!(world.lookup(b, Ino::ROOT, "job").map(|attr| attr.size), Ok(1));
            }
        }
    }
    assert!(none >= 3 && whole >= 1, "{none} {whole}");
}

#[test]
fn what_was_sent_before_the_rank_died_is_sent_again_and_merged_once() {
    let (mut world, a, b, dir, _) = scene();
    let mut owner = Owner::new(&mut world, a, dir, 100).expect("free");
    owner.write(&mut world, dir, "f", b"data");
    let group = owner.subtree.groups().remove(0);
    owner.send_parts(&mut world, &group).expect("his");
    world.crash();
    world.resume(a);
    world.reclaim(a, loligo_types::msg::Reclaim::default());
    world.resume(b);
    world.reclaim(b, loligo_types::msg::Reclaim::default());
    let op = owner.merge_op(&group);
    assert_eq!(world.call(a, op), Err(FsError::WouldBlock), "this life knows of no parts");
    owner.merge(&mut world).expect("it is his still, in the same session");
    let merged = world.call(
        a,
        Op::Control(Control::Subtree {
            dir,
            what: Box::new(SubtreeOp::Merge {
                epoch: owner.epoch(),
                merge: 1,
                parts: 1,
                used: owner.subtree.used(),
                into: owner.into,
            }),
        }),
    );
    assert_eq!(
        merged,
        Ok(Answer::Subtree(Box::new(SubtreeAnswer::Merged { merges: 1, conflicts: 0, told: Vec::new() })))
    );
    owner.end(&mut world).expect("his");
    assert_eq!(world.lookup(b, Ino::ROOT, "job").map(|attr| attr.size), Ok(2));
}

#[test]
fn an_owner_that_comes_back_in_time_goes_on_and_one_that_does_not_has_lost_it() {
    let (mut world, a, b, dir, _) = scene();
    let mut owner = Owner::new(&mut world, a, dir, 100).expect("free");
    owner.write(&mut world, dir, "f", b"data");
    let epoch = owner.epoch();
    world.disconnect(a);
    world.wait_alive(2000);
    assert_eq!(world.lookup(b, dir, "old"), Err(FsError::Busy), "its session is over, its lease is not");
    // Another process of the owner knows its number.
    let c = world.client();
    assert_eq!(told(ask(&mut world, c, dir, decouple_op(78, epoch, 10))).err(), Some(FsError::Stale));
    assert_eq!(told(ask(&mut world, c, dir, decouple_op(77, epoch + 1, 10))).err(), Some(FsError::Stale));
    let (record, ..) = told(ask(&mut world, c, dir, decouple_op(77, epoch, 10))).expect("it knows the number");
    assert_eq!(record.epoch, epoch);
    owner.at = c;
    owner.merge(&mut world).expect("his");
    world.disconnect(c);
    world.wait_alive(2000);
    assert_eq!(world.lookup(b, dir, "f"), Err(FsError::Busy));
    world.wait_alive(6000);
    assert_eq!(world.lookup(b, dir, "f").map(|attr| attr.size), Ok(4), "it was taken back");
    assert_eq!(world.mds.status().decouplings_lost, 1);
    let d = world.client();
    assert_eq!(told(ask(&mut world, d, dir, decouple_op(77, epoch, 10))).err(), Some(FsError::Stale));
    assert!(Owner::new(&mut world, b, dir, 10).is_ok(), "anybody may have it anew");
}

#[test]
fn what_is_decoupled_is_shown_with_its_owner_its_numbers_and_merges_and_how_long_the_owner_may_be_away() {
    let (mut world, a, b, dir, _) = scene();
    assert_eq!((world.mds.status().decoupled, world.mds.status().decoupled_count), (vec![], Default::default()));
    let other = world.mkdir(b, dir, "sub").ino;
    let away = crate::DecoupledCount { all: 2, away: 1 };
    let mut owner = Owner::new(&mut world, a, other, 100).expect("free");
    let free = world.mkdir(b, Ino::ROOT, "free").ino;
    let _second = Owner::new(&mut world, b, free, 10).expect("free");
    for n in 0..3 {
        owner.write(&mut world, other, &format!("file{n}"), b"data");
    }
    let shown = |world: &World| world.mds.status().decoupled.into_iter().find(|one| one.dir == other);
    let first = crate::DecoupledStatus {
        shared: false,
        read: false,
        dir: other,
        epoch: owner.subtree.record().epoch,
        path: Some("/job/sub".into()),
        name: "client 0".into(),
        uid: 0,
        away: None,
        granted: 100,
        left: 100,
        merges: 0,
        parts: 0,
        part_bytes: 0,
        merging: false,
        stored: None,
    };
    assert_eq!(shown(&world), Some(first.clone()));
    let group = owner.subtree.groups().remove(0);
    owner.send_parts(&mut world, &group).expect("his");
    let (parts, part_bytes) = (group.parts.len(), group.bytes);
    assert_eq!((parts, part_bytes > 0), (1, true));
    assert_eq!(shown(&world), Some(crate::DecoupledStatus { parts: 1, part_bytes, ..first.clone() }));
    let (op, used) = (owner.merge_op(&group), group.used);
    let seq = world.send(a, op);
    let merging = crate::DecoupledStatus { left: 97, merges: 1, merging: true, ..first.clone() };
    assert_eq!(shown(&world), Some(merging.clone()), "it is decided, and on its way into memory");
    world.wait_alive(100);
    assert!(world.reply(a, seq).is_some_and(|(result, _)| result.is_ok()));
    owner.subtree.merged(1, used);
    let merged = crate::DecoupledStatus { merging: false, ..merging };
    assert_eq!(shown(&world), Some(merged.clone()));
    // Its session ends; the other one's owner stays.
    world.disconnect(a);
    world.wait_alive(2000);
    let gone = shown(&world).and_then(|one| one.away).expect("nobody speaks for it");
    assert!(gone.for_ms > 0 && gone.for_ms + gone.left_ms == 5000, "{gone:?}");
    world.wait_alive(1000);
    let later = shown(&world).and_then(|one| one.away).expect("nobody speaks for it");
    assert_eq!((later.for_ms - gone.for_ms, gone.left_ms - later.left_ms), (1000, 1000));
    let status = world.mds.status();
    assert_eq!(
        (status.decoupled[0].dir, status.decoupled_count),
        (other, away),
        "what is taken back soonest comes first"
    );
    assert_eq!(status.decoupled[1].away, None);
    // Whoever knows its number speaks for it in another session.
    let c = world.client();
    told(ask(&mut world, c, other, decouple_op(77, owner.epoch(), 10))).expect("it knows the number");
    assert_eq!(shown(&world), Some(merged));
    world.disconnect(c);
    world.wait_alive(8000);
    assert_eq!(shown(&world), None, "it was taken back");
    let status = world.mds.status();
    assert_eq!((status.decoupled_count, status.decouplings_lost), (crate::DecoupledCount { all: 1, away: 0 }, 1));
    // One that nobody could tell of yet after a restart has its whole time again.
    world.crash();
    world.wait(2000);
    let after = world.mds.status();
    let left_ms = after.decoupled[0].away.map(|away| away.left_ms);
    assert!(left_ms.is_some_and(|left_ms| left_ms > 2000), "{after:?}");
}

#[test]
fn nothing_is_merged_that_is_not_the_owners_to_make() {
    let (mut world, a, b, dir, old) = scene();
    let outside = world.create(b, Ino::ROOT, "out", WRITE, 9);
    let other = world.mkdir(b, Ino::ROOT, "other").ino;
    let owner = Owner::new(&mut world, a, dir, 100).expect("free");
    let (epoch, own) = (owner.epoch(), owner.subtree.used());
    let of = |ino: Ino, parent: Ino| Inode::new(ino, Kind::File, 0o644, 0, 0, parent, Time(5));
    let entry = |dir: Ino, ino: Ino| Event::Entry { dir, name: name("x"), ino, kind: Kind::File, remote: false };
    let bad: Vec<Vec<Event>> = vec![
        vec![Event::Inode(Box::new(of(Ino(own.0 + 100), dir)))],
        vec![Event::Inode(Box::new(of(own, other)))],
        vec![Event::Inode(Box::new(of(outside.ino, dir)))],
        vec![Event::InodeGone(outside.ino)],
        vec![Event::InodeGone(dir)],
        vec![entry(dir, outside.ino)],
        vec![entry(Ino::ROOT, own)],
        vec![entry(dir, dir)],
        vec![Event::EntryGone { dir: Ino::ROOT, name: name("out") }],
        vec![Event::Inline { ino: outside.ino, data: b"mine"[..].into() }],
        vec![Event::Xattr { ino: old, name: b"loligo.policy.pin"[..].into(), value: b"1"[..].into() }],
        vec![Event::Inode(Box::new(Inode::new(old, Kind::Dir, 0o755, 0, 0, dir, Time(5))))],
        vec![Event::Orphan(old)],
        vec![Event::NextIno(Ino(1 << 40))],
        vec![Event::SessionGone(world.session(b))],
        vec![Event::DecoupledGone(dir)],
        vec![Event::Merge { dir }],
    ];
    let part = |body: &[u8]| SubtreeOp::Part { epoch, merge: 1, part: 0, blind: false, body: body.into() };
    for events in bad {
        let mut body = Vec::new();
        encode_record(&mut body, None, &events);
        assert_eq!(ask(&mut world, a, dir, part(&body)), Err(FsError::Invalid), "{events:?}");
    }
    assert_eq!(ask(&mut world, a, dir, part(b"no record at all")), Err(FsError::Invalid));
    assert_eq!(ask(&mut world, b, dir, part(&[2, 0, 0])), Err(FsError::Stale), "another's");
    let merge = |epoch, merge, used| SubtreeOp::Merge { epoch, merge, parts: 1, used, into: MergeInto::Memory };
    assert_eq!(ask(&mut world, a, dir, part(&[2, 0, 0])), Ok(Answer::Done));
    assert_eq!(ask(&mut world, a, dir, merge(epoch, 1, Ino(own.0 + 101))), Err(FsError::Invalid));
    assert_eq!(ask(&mut world, a, dir, part(&[2, 0, 0])), Ok(Answer::Done));
    assert_eq!(ask(&mut world, a, dir, merge(epoch + 1, 1, own)), Err(FsError::Stale));
    let fetch = |ino| SubtreeOp::Fetch { epoch, needs: vec![loligo_types::Need::Inode(ino)] };
    assert_eq!(ask(&mut world, a, dir, fetch(outside.ino)), Err(FsError::Busy), "it is not in there");
    assert!(ask(&mut world, a, dir, fetch(old)).is_ok());
}

#[test]
fn an_owner_that_is_not_root_changes_of_others_only_what_it_may() {
    let (mut world, a, _, dir, old) = scene();
    let theirs = world.mkdir(a, dir, "theirs").ino;
    let deep = world.create(a, theirs, "deep", WRITE, 2).ino;
    world.call(a, close(2)).expect("it is open");
    let user = crate::Peer { uid: Some(1000), groups: vec![1000], trusted: false, local: false, identity: None };
    let at = world.client_as(1000, user);
    let set = loligo_types::SetAttr { uid: Some(1000), gid: Some(1000), ..Default::default() };
    world.call(a, Op::SetAttr { ino: dir, set, handle: None }).expect("root may");
    let cred = Cred { uid: 1000, gid: 1000, groups: Vec::new() };
    let ask = |world: &mut World, what| world.call(at, Op::Control(Control::Subtree { dir, what: Box::new(what) }));
    let (record, root, settings) = told(ask(&mut world, decouple_op(5, 0, 10))).expect("it is his");
    let epoch = record.epoch;
    let part = |events: &[Event]| {
        let mut body = Vec::new();
        encode_record(&mut body, None, events);
        SubtreeOp::Part { epoch, merge: 1, part: 0, blind: false, body: body.into() }
    };
    let before = world.mds.core.tree.inode(old).expect("there").clone();
    let setuid = Inode { mode: 0o4777, ..before.clone() };
    let taken = Inode { uid: 1000, ..before.clone() };
    let device = Inode::new(Ino(epoch), Kind::Char, 0o666, 1000, 1000, dir, Time(5));
    let foreign = Inode::new(Ino(epoch), Kind::File, 0o4755, 0, 0, dir, Time(5));
    for inode in [setuid, taken, device, foreign] {
        let events = [Event::Inode(Box::new(inode))];
        assert_eq!(ask(&mut world, part(&events)), Err(FsError::Invalid), "{events:?}");
    }
    let inline = [Event::Inline { ino: old, data: b"mine"[..].into() }];
    assert_eq!(ask(&mut world, part(&inline)), Err(FsError::Access), "its mode lets only root write");
    // Nor may it cut, take away or move what lies in a directory of another's.
    let kept = |ino: Ino| world.mds.core.tree.inode(ino).expect("there").clone();
    let (cut, moved) = (Inode { size: 0, ..kept(old) }, Inode { parent: dir, ..kept(deep) });
    let denied = [
        Event::Inode(Box::new(cut)),
        Event::Inode(Box::new(moved)),
        Event::InodeGone(deep),
        Event::EntryGone { dir: theirs, name: name("deep") },
        Event::Discard { ino: deep, from: 0, object_size: 4096 },
        Event::XattrGone { ino: deep, name: b"user.a"[..].into() },
    ];
    for event in denied {
        assert_eq!(ask(&mut world, part(std::slice::from_ref(&event))), Err(FsError::Access), "{event:?}");
    }
    // It may take a name away from its own directory, as it might at the rank.
    let (subtree, conflicts, into) = (Subtree::new(settings, record, root), Vec::new(), MergeInto::Memory);
    let mut owner = Owner { at, subtree, cred, conflicts, into };
    owner.run(&mut world, &unlink(dir, "old")).expect("the directory is his");
    assert_eq!(owner.run(&mut world, &mkdir(dir, "d")).map(|_| ()), Ok(()));
    owner.merge(&mut world).expect("his");
    // Another one gets the directory while it is decoupled.
    let set = loligo_types::SetAttr { uid: Some(7), ..Default::default() };
    world.call(a, Op::SetAttr { ino: dir, set, handle: None }).expect("root may");
    let _ = owner.run(&mut world, &mkdir(dir, "late"));
    assert_eq!(owner.merge(&mut world), Err(FsError::Access), "it may not write there any more");
}
