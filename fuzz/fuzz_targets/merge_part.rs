//! An arbitrary merge at a rank in memory: what the owner of a decoupled subtree did, with events changed, added, taken away and doubled, or any
//! bytes in place of its parts. Whatever it says, the rank goes on, the merge is answered, nothing outside of the subtree changes, and the tree
//! stays a tree.
//!
//! It is the driver of the machine's own scenarios (`crates/mds/src/tests/harness.rs`). The first byte says who the owner is and how it merges, the
//! second what it did, the third where its parts end; behind them are changes of six bytes each, or the bytes of the parts.
#![no_main]

// The harness has these from its crate.
use loligo_mds::{Config, ConnId, DataAccess, Input, Mds, Member, Now, Output, Peer, TableMeta, admin, peer};

#[path = "merge_part/check.rs"]
mod check;
#[path = "merge_part/events.rs"]
mod events;
#[allow(dead_code)]
#[path = "../../crates/mds/src/tests/harness.rs"]
mod harness;
#[allow(dead_code)]
#[path = "../../crates/mds/src/tests/requests.rs"]
mod requests;
#[allow(dead_code)]
#[path = "../../crates/mds/src/tests/rows.rs"]
mod rows;
#[allow(dead_code)]
#[path = "../../crates/mds/src/tests/stored.rs"]
mod stored;

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use loligo_mds::{Identity, Rights, Squash};
use loligo_subtree::{Outcome, Settings, Subtree};
use loligo_types::{
    Answer, Control, Cred, Event, FsError, FsResult, Ino, Inode, Interfere, MergeInto, Op, RenameMode, SubtreeAnswer,
    SubtreeOp, XattrMode,
};

use harness::{READ, WRITE, World, chmod, close, config, create, mkdir, name, unlink, write_inline};

/// Bits of the first byte.
const LIMITED: u8 = 1;
const ALLOW: u8 = 2;
const BLIND: u8 = 4;
const INTO_TABLE: u8 = 8;
const ANY_BYTES: u8 = 16;

/// `/a/job` with a file, a directory with a file, and a file that has a name outside, too; `/b` with a file, a directory and a file in it; `/c`,
/// which another client has decoupled; and a file without a name that is open there.
struct Scene {
    world: World,
    root: usize,
    a: Ino,
    job: Ino,
    old: Ino,
    sub: Ino,
    deep: Ino,
    both: Ino,
    b: Ino,
    secret: Ino,
    theirs: Ino,
    apart: Ino,
    orphan: Ino,
}

fn put(world: &mut World, at: usize, dir: Ino, text: &str, data: &[u8]) -> Ino {
    let ino = world.create(at, dir, text, WRITE, 1).ino;
    world.call(at, write_inline(ino, 1, 0, data)).expect("it is small");
    world.call(at, close(1)).expect("it is open");
    ino
}

fn ask(world: &mut World, at: usize, dir: Ino, what: SubtreeOp) -> FsResult<SubtreeAnswer> {
    match world.call(at, Op::Control(Control::Subtree { dir, what: Box::new(what) }))? {
        Answer::Subtree(answer) => Ok(*answer),
        Answer::Done => Ok(SubtreeAnswer::Records(Vec::new())),
        other => panic!("no such answer: {other:?}"),
    }
}

fn decouple(owner: u64, inos: u64, interfere: Interfere) -> SubtreeOp {
    SubtreeOp::Decouple { owner, resume: 0, inos, lease_ms: 60_000, interfere, promise: loligo_types::Promise::NONE }
}

impl Scene {
    fn new() -> Scene {
        let mut world = World::with(Config { dirty_ms_max: 50, checkpoint_records: 7, ..config() });
        let root = world.client();
        let [a, b, apart] = ["a", "b", "apart"].map(|text| world.mkdir(root, Ino::ROOT, text).ino);
        let job = world.mkdir(root, a, "job").ino;
        let old = put(&mut world, root, job, "old", b"before");
        let sub = world.mkdir(root, job, "sub").ino;
        let deep = put(&mut world, root, sub, "deep", b"before");
        let both = put(&mut world, root, b, "both", b"of both");
        let secret = put(&mut world, root, b, "secret", b"secret");
        world.call(root, chmod(secret, 0o600)).expect("root may");
        let theirs = world.mkdir(root, b, "theirs").ino;
        put(&mut world, root, theirs, "deep", b"theirs");
        // The newest name counts, so it is in the subtree.
        world.call(root, Op::Link { ino: both, dir: job, name: name("both") }).expect("root may");
        let orphan = world.create(root, b, "orphan", WRITE, 9).ino;
        world.call(root, unlink(b, "orphan")).expect("root may");
        Scene { world, root, a, job, old, sub, deep, both, b, secret, theirs, apart, orphan }
    }

    /// The client that gets the subtree.
    fn owner(&mut self, limited: bool) -> usize {
        if !limited {
            return self.world.client();
        }
        let rights = Rights::of(vec!["rw:/a".parse().expect("a right")]).expect("rights").squashing(Squash::None);
        let identity = Arc::new(Identity { key: [1; 32], name: "limited".into(), rights });
        let peer = Peer { uid: None, groups: Vec::new(), trusted: true, local: false, identity: Some(identity) };
        self.world.client_from_afar(peer)
    }

    /// The tree outside of the subtree.
    fn outside(&mut self) -> Vec<String> {
        let mut told = Vec::new();
        for (dir, text) in [(self.b, "secret"), (self.theirs, "deep")] {
            let found = self.world.lookup(self.root, dir, text).expect("it is there");
            let opened = self.world.call(self.root, Op::Open { ino: found.ino, flags: READ, handle: 50 });
            let Ok(Answer::Opened { data, .. }) = opened else { panic!("{text}: {opened:?}") };
            self.world.call(self.root, close(50)).expect("it is open");
            let (ino, mode, uid, nlink, size, mtime) =
                (found.ino, found.mode, found.uid, found.nlink, found.size, found.mtime);
            told.push(format!("{text}: {ino} {mode} {uid} {nlink} {size} {mtime:?} {data:?}"));
        }
        for dir in [Ino::ROOT, self.a, self.b, self.theirs] {
            let list = Op::Readdir { dir, cookie: 0, limit: 100, plus: false, handle: None };
            told.push(format!("{:?}", self.world.call(self.root, list)));
            let attr = self.world.call(self.root, Op::GetAttr { ino: dir }).expect("it is there");
            let attr = *attr.attr().expect("it has some");
            told.push(format!("{dir} {:?} {} {} {}", attr.kind, attr.mode, attr.nlink, attr.uid));
        }
        told
    }
}

/// Does some of what an owner may do; the events that this is put down as.
fn work(scene: &mut Scene, at: usize, subtree: &mut Subtree, which: u8) -> Vec<Event> {
    let Scene { job, old, sub, both, .. } = *scene;
    let set = |ino| Op::SetXattr { ino, name: b"user.a"[..].into(), value: b"b"[..].into(), mode: XattrMode::Set };
    let rename = |dir, text: &str, new_dir, new_text: &str| Op::Rename {
        dir,
        name: name(text),
        new_dir,
        new_name: name(new_text),
        mode: RenameMode::Replace,
    };
    let mut run = |op: Op| loop {
        match subtree.run(&op, &Cred::root(), scene.world.now.wall) {
            Outcome::Done(result) => return result.ok().and_then(|answer| answer.attr().map(|attr| attr.ino)),
            Outcome::Numbers => panic!("it has numbers enough"),
            Outcome::Fetch(needs) => {
                let epoch = subtree.record().epoch;
                match ask(&mut scene.world, at, job, SubtreeOp::Fetch { epoch, needs }) {
                    Ok(SubtreeAnswer::Records(items)) => drop(subtree.learn(items)),
                    other => panic!("what is below the root may be fetched: {other:?}"),
                }
            }
        }
    };
    for text in ["old", "sub", "both"] {
        run(Op::Lookup { dir: job, name: name(text) });
    }
    let made = run(mkdir(job, "made")).expect("it is its own");
    let file = run(create(made, "f", WRITE, 1)).expect("it is its own");
    run(write_inline(file, 1, 0, b"some data"));
    let steps = [
        rename(job, "old", made, "older"),
        chmod(both, 0o640),
        unlink(job, "both"),
        rename(job, "sub", made, "sub"),
        Op::Link { ino: old, dir: sub, name: name("linked") },
        set(made),
        unlink(made, "f"),
        unlink(sub, "deep"),
    ];
    for (bit, step) in steps.into_iter().enumerate() {
        if which >> bit & 1 == 1 {
            run(step);
        }
    }
    let parts = subtree.groups().into_iter().flat_map(|group| group.parts);
    parts.flat_map(|part| loligo_journal::decode_record(&part).expect("it is whole").events).collect()
}

/// Sends parts and merges them; what comes of it.
fn merge(scene: &mut Scene, at: usize, epoch: u64, how: u8, parts: &[Arc<[u8]>], used: Ino) -> FsResult<()> {
    let world = &mut scene.world;
    for (part, body) in (0..).zip(parts) {
        let body = body.clone();
        let what = SubtreeOp::Part { epoch, merge: 1, part, blind: how & BLIND != 0, body };
        ask(world, at, scene.job, what)?;
    }
    let into = if how & INTO_TABLE == 0 { MergeInto::Memory } else { MergeInto::Table };
    let what = SubtreeOp::Merge { epoch, merge: 1, parts: parts.len() as u32, used, into };
    let seq = world.send(at, Op::Control(Control::Subtree { dir: scene.job, what: Box::new(what) }));
    for _ in 0..1000 {
        if let Some((result, _)) = world.reply(at, seq) {
            return result.map(drop);
        }
        world.wait_alive(10);
    }
    panic!("the merge does not end")
}

fn body(events: &[Event]) -> Arc<[u8]> {
    let mut bytes = Vec::new();
    loligo_journal::encode_record(&mut bytes, None, events);
    bytes.into()
}

fuzz_target!(|bytes: &[u8]| {
    let [how, which, cut, rest @ ..] = bytes else { return };
    let mut scene = Scene::new();
    // Somebody else has numbers of another subtree.
    let other = scene.world.client();
    let apart = ask(&mut scene.world, other, scene.apart, decouple(78, 50, Interfere::Block));
    let Ok(SubtreeAnswer::Decoupled { record: apart, .. }) = apart else { panic!("nobody has it") };
    let at = scene.owner(how & LIMITED != 0);
    let before = scene.outside();
    let interfere = if how & ALLOW == 0 { Interfere::Block } else { Interfere::Allow };
    let Ok(SubtreeAnswer::Decoupled { record, root, inline_max, split }) =
        ask(&mut scene.world, at, scene.job, decouple(77, 100, interfere))
    else {
        panic!("nobody has it")
    };
    let epoch = record.epoch;
    let settings = Settings { hash_key: config().hash_key, inline_max, split };
    let mut subtree = Subtree::new(settings, record, *root);
    let (parts, honest): (Vec<Arc<[u8]>>, bool) = if how & ANY_BYTES == 0 {
        let mut all = work(&mut scene, at, &mut subtree, *which);
        let numbers = events::Numbers::new(&scene, &apart, &subtree);
        let changes = rest.as_chunks::<6>().0;
        let changed = changes.iter().take(8).filter(|change| events::change(&mut all, **change, &numbers)).count();
        let (one, two) = all.split_at(usize::from(*cut).min(all.len()));
        ([one, two].into_iter().filter(|events| !events.is_empty()).map(body).collect(), changed == 0)
    } else {
        let (one, two) = rest.split_at(usize::from(*cut).min(rest.len()));
        ([one, two].into_iter().filter(|bytes| !bytes.is_empty()).map(Arc::from).collect(), false)
    };
    let used = Ino(subtree.used().0 + 20);
    let result = merge(&mut scene, at, epoch, *how, &parts, used);
    if honest && how & BLIND == 0 && !parts.is_empty() {
        assert_eq!(result, Ok(()), "what is honest is merged");
    }
    if how & (BLIND | LIMITED) == BLIND | LIMITED && !parts.is_empty() {
        assert!(result.is_err(), "a limited client merges nothing blind");
    }
    assert_eq!(scene.world.fatal, None);
    let end = ask(&mut scene.world, at, scene.job, SubtreeOp::End { epoch });
    assert!(matches!(end, Ok(_) | Err(FsError::Stale)), "{end:?}");
    assert_eq!(scene.outside(), before);
    check::is_sound(scene, honest);
});

/// An inode of the rank that a change may name.
fn inode(ino: Ino, kind: loligo_types::Kind, parent: Ino) -> Inode {
    Inode::new(ino, kind, 0o666, 0, 0, parent, loligo_types::Time(5))
}
