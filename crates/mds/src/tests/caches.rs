//! Clients that cache what they were lent: while a client holds a lease, what it remembers is the truth.
//!
//! Each client believes in a grant from its delivery on, and in a recall from its delivery on, in the order of the
//! connection. Its own changes are not at issue, so it forgets what it knows when it changes something.

use std::collections::BTreeMap;

use loligo_types::msg::ToClient;
use loligo_types::{Answer, Control, FsError, FsResult, Ino, Lease, Op, OpenFlags, Seq};

use super::*;

/// A client's cache under its leases.
#[derive(Default)]
struct Cache {
    attrs: BTreeMap<Ino, u64>,
    names: BTreeMap<Ino, BTreeMap<String, Option<Ino>>>,
    /// Rights, and the handles they came with.
    rights: BTreeMap<Ino, Lease>,
    asked: BTreeMap<Seq, Op>,
}

impl Cache {
    fn forget(&mut self) {
        self.attrs.clear();
        self.names.clear();
    }

    fn is_changing(&self) -> bool {
        self.asked.values().any(Op::is_change)
    }

    fn learn(&mut self, op: &Op, result: &FsResult<Answer>, granted: &[(Ino, Lease)]) {
        for (ino, bits) in granted {
            match (op, result) {
                (_, Ok(Answer::Entry(attr) | Answer::Opened { attr, .. })) if bits.has(Lease::ATTR) => {
                    assert_eq!(attr.ino, *ino);
                    self.attrs.insert(*ino, attr.change);
                }
                (Op::Lookup { dir, name }, Ok(Answer::Entry(attr))) if bits.has(Lease::NAMES) => {
                    self.names.entry(*dir).or_default().insert(name.to_string(), Some(attr.ino));
                }
                (Op::Lookup { dir, name }, Err(FsError::NotFound)) => {
                    self.names.entry(*dir).or_default().insert(name.to_string(), None);
                }
                _ => {}
            }
        }
        if let (Op::Lookup { dir, name }, Ok(Answer::Entry(attr))) = (op, result)
            && granted.contains(&(*dir, Lease::NAMES))
        {
            self.names.entry(*dir).or_default().insert(name.to_string(), Some(attr.ino));
        }
        if let (Op::Open { ino, .. }, Ok(Answer::Opened { rights, .. })) = (op, result) {
            self.rights.insert(*ino, *rights);
        }
    }

    fn obey(&mut self, ino: Ino, bits: Lease) {
        if bits.has(Lease::ATTR) {
            self.attrs.remove(&ino);
        }
        if bits.has(Lease::NAMES) {
            self.names.remove(&ino);
        }
        if let Some(rights) = self.rights.get_mut(&ino) {
            *rights = rights.without(bits);
        }
    }
}

/// Replies in the order of the connection.
fn deliver(world: &mut World, at: usize, cache: &mut Cache) {
    while let Some(msg) = world.clients[at].inbox.pop_front() {
        let ToClient::Reply { seq, result, granted, .. } = msg else { continue };
        let op = cache.asked.remove(&seq).expect("every answer has a question");
        if op.is_change() {
            cache.forget();
        } else {
            cache.learn(&op, &result, &granted);
        }
    }
}

fn obey(world: &mut World, at: usize, cache: &mut Cache) {
    deliver(world, at, cache);
    if world.clients[at].recalls.is_empty() {
        return;
    }
    let (ino, id, bits) = world.clients[at].recalls.remove(0);
    cache.obey(ino, bits);
    world.message(at, loligo_types::msg::ToServer::RecallDone { ino, id });
}

fn check(world: &World, caches: &[Cache], seed: u64) {
    for (at, cache) in caches.iter().enumerate() {
        if cache.is_changing() {
            continue;
        }
        let pending = |ino: Ino| world.clients[at].recalls.iter().any(|(other, ..)| *other == ino);
        for (ino, change) in &cache.attrs {
            let now = world.mds.core.tree.inode(*ino).map(|inode| inode.change);
            // Of an inode that is gone for good nobody can see anything any more.
            assert!(
                pending(*ino) || now.is_none_or(|now| now == *change),
                "seed {seed}: client {at} {ino:?} {change} is {now:?}"
            );
        }
        for (dir, names) in &cache.names {
            for (text, known) in names {
                let now = match world.mds.core.tree.entry(*dir, &name(text)) {
                    loligo_namespace::Lookup::Present(target) => Some(target.ino),
                    _ => None,
                };
                assert!(pending(*dir) || now == *known, "seed {seed}: client {at} {dir:?}/{text} {known:?} is {now:?}");
            }
        }
        for (other, theirs) in caches.iter().enumerate().filter(|(other, _)| *other != at) {
            let buffered = cache.rights.iter().filter(|(_, rights)| rights.has(Lease::BUFFER));
            for (ino, _) in buffered {
                let held = theirs.rights.get(ino).copied().unwrap_or_default();
                assert!(held.is_none(), "seed {seed}: client {at} buffers {ino:?}, client {other} has {held:?}");
            }
        }
    }
}

fn random_op(random: &mut Random, files: &[Ino], step: u64) -> Op {
    let text = random.name();
    let any = files.get(random.below(files.len() as u64 + 1) as usize).copied().unwrap_or(Ino::ROOT);
    let dir = Ino::ROOT;
    match random.below(12) {
        0..=2 => Op::Lookup { dir, name: name(&text) },
        3..=5 => Op::GetAttr { ino: any },
        6 => chmod(any, 0o600 + random.below(64) as u16),
        7 => unlink(dir, &text),
        8 => Op::Mknod { dir, name: name(&text), kind: loligo_types::Kind::File, mode: 0o644, umask: 0, rdev: 0 },
        9 => truncate(any, random.below(100)),
        10 => Op::Rename {
            dir,
            name: name(&text),
            new_dir: dir,
            new_name: name(&random.name()),
            mode: Default::default(),
        },
        _ => {
            let flags = if random.below(2) == 0 { READ } else { OpenFlags { read: true, write: true, ..READ } };
            Op::Open { ino: any, flags, handle: step }
        }
    }
}

fn run(seed: u64, steps: u64) -> usize {
    let mut random = Random::new(seed);
    let mut world = World::with(crate::Config { contended_ms: 0, ..config() });
    for _ in 0..3 {
        let at = world.client();
        world.clients[at].obeys = false;
    }
    let mut caches: Vec<Cache> = (0..3).map(|_| Cache::default()).collect();
    let mut files: Vec<Ino> = Vec::new();
    let mut believed = 0;
    for step in 0..steps {
        world.syncs = random.below(3) > 0;
        let at = random.below(3) as usize;
        match random.below(8) {
            0..=2 => {
                let op = random_op(&mut random, &files, step);
                if op.is_change() {
                    caches[at].forget();
                }
                let seq = world.send(at, op.clone());
                caches[at].asked.insert(seq, op);
            }
            3..=6 => obey(&mut world, at, &mut caches[at]),
            _ => {
                if !caches[at].asked.values().any(|op| matches!(op, Op::Open { .. })) {
                    caches[at].rights.clear();
                    let op = Op::Control(Control::Close { handles: (0..step).collect(), lost: false });
                    let seq = world.send(at, op.clone());
                    caches[at].asked.insert(seq, op);
                }
            }
        }
        (0..3).for_each(|at| deliver(&mut world, at, &mut caches[at]));
        files = world
            .mds
            .core
            .tree
            .next_ino()
            .0
            .checked_sub(8)
            .map_or(Vec::new(), |last| (last..last + 8).map(Ino).collect());
        files.retain(|ino| world.mds.core.tree.inode(*ino).is_some());
        believed += caches.iter().map(|cache| cache.attrs.len() + cache.names.len()).sum::<usize>();
        check(&world, &caches, seed);
    }
    // Everybody obeys in the end, and everything is answered.
    world.syncs = true;
    for _ in 0..1000 {
        world.pump();
        (0..3).for_each(|at| obey(&mut world, at, &mut caches[at]));
    }
    check(&world, &caches, seed);
    let open: Vec<_> = caches.iter().flat_map(|cache| &cache.asked).collect();
    assert!(open.is_empty(), "seed {seed}: not answered {open:?} {:?}", world.mds.status());
    believed
}

#[test]
fn what_a_client_caches_under_a_lease_is_the_truth() {
    let believed: usize = (1..=150).map(|seed| run(seed, 300)).sum();
    assert!(believed > 10_000, "the test believes in something: {believed}");
}
