//! An owner that says of its subtree what is not so: counts, links and sums that do not fit, names of nothing, inodes without a name. Nobody but
//! it is to have the harm.

use super::*;
use crate::tests::cluster_harness::{rename, rmdir};

/// Draws numbers, the same with the same seed.
struct Draw(loligo_types::Random);

impl Draw {
    fn below(&mut self, limit: u64) -> u64 {
        self.0.below(limit)
    }

    fn odd(&mut self) -> u64 {
        [0, 1, 2, 3, 1 << 20, 1 << 40, u64::MAX - 1, u64::MAX][self.below(8) as usize]
    }
}

/// Says something else, or nothing, of one event in three, or in thirty.
fn lie(draw: &mut Draw, events: Vec<Event>) -> Vec<Event> {
    let mut told = Vec::new();
    let seldom = [3, 10, 30][draw.below(3) as usize];
    for mut event in events {
        if draw.below(seldom) > 0 {
            told.push(event);
            continue;
        }
        match &mut event {
            Event::Inode(inode) => match draw.below(11) {
                0 => continue,
                1 => inode.nlink = draw.odd() as u32,
                2 => inode.frag_bits = draw.odd() as u8,
                3 => inode.accounted.entries = draw.odd() as i64,
                4 => inode.accounted.bytes = draw.odd() as i64,
                5 => inode.change = draw.odd(),
                6 => inode.cuts = draw.odd() as u32,
                7 => inode.inline = !inode.inline,
                9 => inode.extra_mut().rstat.bytes = draw.odd() as i64,
                8 => inode.has_xattrs = !inode.has_xattrs,
                _ => inode.size = draw.odd(),
            },
            Event::Entry { ino, kind, .. } => match draw.below(3) {
                0 => continue,
                1 => *kind = if *kind == Kind::Dir { Kind::File } else { Kind::Dir },
                _ => *ino = Ino(ino.0 + draw.below(3)),
            },
            _ if draw.below(2) == 0 => continue,
            _ => {}
        }
        told.push(event);
    }
    told
}

/// Makes a tree and merges it with lies. Whether it was taken.
fn merge_lies(world: &mut World, owner: &mut Owner, draw: &mut Draw, old: Ino) -> bool {
    let dir = owner.subtree.root();
    let sub = owner.made(world, &mkdir(dir, "sub"));
    let deep = owner.made(world, &mkdir(sub, "deep"));
    for (dir, text) in [(dir, "a"), (sub, "b"), (sub, "c"), (deep, "d")] {
        owner.write(world, dir, text, b"some data");
    }
    let linked = owner.write(world, sub, "one", b"x");
    owner.run(world, &Op::Link { ino: linked, dir: deep, name: name("two") }).expect("his");
    owner.run(world, &Op::Symlink { dir: sub, name: name("s"), target: b"t"[..].into() }).expect("his");
    owner.run(world, &chmod(old, 0o600)).expect("his");
    owner.run(world, &rename(dir, "old", sub, "older")).expect("his");
    let groups = owner.subtree.groups();
    let [group] = &groups[..] else { panic!("it is short") };
    let parts = group.parts.iter().map(|body| {
        let events = loligo_journal::decode_record(body).expect("it is whole").events;
        let mut body = Vec::new();
        encode_record(&mut body, None, &lie(draw, events));
        body.into()
    });
    let group = Group { parts: parts.collect(), ..group.clone() };
    if owner.send_parts(world, &group).is_err() {
        return false;
    }
    let op = owner.merge_op(&group);
    let seq = world.send(owner.at, op);
    for _ in 0..1000 {
        if let Some((result, _)) = world.reply(owner.at, seq) {
            return result.is_ok();
        }
        world.wait_alive(10);
    }
    panic!("the merge does not end")
}

/// A request that anybody may make of these inodes.
fn anything(draw: &mut Draw, inos: &[Ino]) -> Op {
    let (ino, other) = (inos[draw.below(inos.len() as u64) as usize], inos[draw.below(inos.len() as u64) as usize]);
    let text = ["a", "b", "c", "d", "one", "two", "s", "sub", "deep", "old", "older", "new"][draw.below(12) as usize];
    let handle = 100 + draw.below(4);
    match draw.below(16) {
        0 => Op::Lookup { dir: ino, name: name(text) },
        1 => Op::GetAttr { ino },
        2 => Op::Readdir { dir: ino, cookie: 0, limit: 9, plus: true, handle: None },
        3 => create(ino, text, WRITE, handle),
        4 | 5 => unlink(ino, text),
        6 => rmdir(ino, text),
        7 => rename(ino, text, other, "new"),
        8 => Op::Link { ino, dir: other, name: name("new") },
        9 => mkdir(ino, text),
        10 => truncate(ino, draw.below(20)),
        11 => Op::Open { ino, flags: WRITE, handle },
        12 => close(handle),
        13 => write_inline(ino, handle, draw.below(9), b"more"),
        14 => Op::ListXattr { ino },
        _ => Op::Readlink { ino },
    }
}

#[test]
fn an_owner_that_tells_lies_harms_nobody_else_and_stops_no_server() {
    lies(Interfere::Block);
}

#[test]
fn an_owner_that_tells_lies_where_others_may_work_harms_nobody_else_and_stops_no_server() {
    lies(Interfere::Allow);
}

fn lies(interfere: Interfere) {
    let (mut taken, mut refused) = (0, 0);
    for seed in 0..1000 {
        let mut draw = Draw(loligo_types::Random::new(seed));
        let (mut world, a, mut b, dir, old) = scene();
        let others = world.mkdir(b, Ino::ROOT, "others").ino;
        let kept = world.create(b, others, "kept", WRITE, 9).ino;
        let op = SubtreeOp::Decouple {
            owner: 77,
            resume: 0,
            inos: 100,
            lease_ms: 5000,
            interfere,
            promise: loligo_types::Promise::NONE,
        };
        let mut owner = Owner::with(&mut world, a, dir, op).expect("free");
        match merge_lies(&mut world, &mut owner, &mut draw, old) {
            true => taken += 1,
            false => refused += 1,
        }
        if draw.below(2) == 0 {
            let _ = owner.end(&mut world);
        }
        let made = (0..12).map(|n| Ino(owner.subtree.used().0.saturating_sub(n)));
        let made = made.filter(|ino| owner.subtree.record().is_granted(*ino));
        let inos: Vec<Ino> = [dir, old].into_iter().chain(made).collect();
        for round in 0..60 {
            if round == 30 && draw.below(2) == 0 {
                world.crash();
                world.wait(20_000);
                b = world.client();
            }
            let op = anything(&mut draw, &inos);
            let seq = world.send(b, op);
            let _ = world.reply(b, seq);
            if draw.below(8) == 0 {
                world.wait_alive(100);
            }
        }
        assert_eq!(world.fatal, None, "seed {seed}");
        let seen = world.lookup(b, others, "kept").map(|attr| (attr.ino, attr.nlink));
        assert_eq!(seen, Ok((kept, 1)), "seed {seed}");
    }
    assert!(taken > 50 && refused > 50, "{taken} {refused}");
}

#[test]
fn a_merge_that_one_record_of_the_journal_cannot_decide_is_refused_and_the_rank_goes_on() {
    let (mut world, a, b, dir, old) = scene();
    let mut owner = Owner::new(&mut world, a, dir, 100).expect("nobody has it");
    owner.run(&mut world, &chmod(old, 0o600)).expect("it is his");
    let group = owner.subtree.groups().remove(0);
    let mut cuts = Vec::new();
    encode_record(&mut cuts, None, &vec![Event::Discard { ino: old, from: u64::MAX, object_size: 1 << 20 }; 12_000]);
    assert!(cuts.len() <= loligo_types::limits::MERGE_PART_MAX);
    let many = (16 << 20) / cuts.len() + 1;
    let parts = group.parts.iter().cloned().chain(std::iter::repeat_n(cuts.into(), many)).collect();
    let long = Group { parts, ..group };
    owner.send_parts(&mut world, &long).expect("each is his to send");
    assert_eq!(world.call(a, owner.merge_op(&long)), Err(FsError::Quota));
    assert!(world.call(b, mkdir(Ino::ROOT, "other")).is_ok());
    owner.merge(&mut world).expect("without them it fits");
}
