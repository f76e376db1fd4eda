//! Changes of the events of a merge, six bytes each: what an adversary may put in place of what its client did.

use loligo_subtree::Subtree;
use loligo_types::{
    DecoupledRecord, Event, Frag, Ino, Interfere, Kind, Letter, Name, PeerRecord, Place, Rank, Route, Seq, SessionId,
    SessionRecord,
};

use crate::Scene;

/// Numbers that mean something, and some that mean nothing.
pub struct Numbers(Vec<Ino>);

impl Numbers {
    pub fn new(scene: &Scene, apart: &DecoupledRecord, subtree: &Subtree) -> Numbers {
        let own = subtree.used().0;
        let (epoch, others) = (subtree.record().epoch, apart.epoch);
        let Scene { a, job, old, sub, deep, both, b, secret, theirs, apart, orphan, .. } = *scene;
        // Those that it has made something with begin where its journals' end.
        let made = (0..6).map(|n| Ino(epoch + n));
        let free = (0..4).map(|n| Ino(own + n));
        let rest = [own + 30, own + 5000, others, others + 2, others + 9, 0, 2, 1 << 40, u64::MAX].map(Ino);
        let mut all = vec![Ino::ROOT, a, job, old, sub, deep, both, b, secret, theirs, apart, orphan];
        all.extend(made.chain(free).chain(rest));
        Numbers(all)
    }

    fn get(&self, which: u8) -> Ino {
        self.0[usize::from(which) % self.0.len()]
    }
}

const NAMES: [&str; 10] = ["old", "sub", "both", "made", "f", "deep", "x", "secret", "job", "older"];

fn name(which: u8) -> Name {
    Name::new(NAMES[usize::from(which) % NAMES.len()].as_bytes()).expect("a name")
}

fn kind(which: u8) -> Kind {
    Kind::from_code(which % 7 + 1).expect("one to seven are kinds")
}

/// Changes the events; whether anything is other than it was.
pub fn change(events: &mut Vec<Event>, [what, at, code, a, b, more]: [u8; 6], numbers: &Numbers) -> bool {
    let place = if events.is_empty() { 0 } else { usize::from(at) % events.len() };
    let before = events.clone();
    match what % 5 {
        0 => events.insert(place, made(code, (a, b), more, numbers)),
        1 if !events.is_empty() => point(&mut events[place], numbers.get(a), b, more),
        2 if !events.is_empty() => _ = events.remove(place),
        3 if !events.is_empty() => {
            let event = events[place].clone();
            events.insert(usize::from(a) % (events.len() + 1), event);
        }
        4 if !events.is_empty() => {
            let other = usize::from(a) % events.len();
            events.swap(place, other);
        }
        _ => {}
    }
    *events != before
}

/// Turns an event to another number, or to other values.
fn point(event: &mut Event, to: Ino, which: u8, more: u8) {
    match event {
        Event::Inode(inode) => match which % 9 {
            0 => inode.ino = to,
            1 => inode.parent = to,
            2 => inode.kind = kind(more),
            3 => inode.nlink = u32::from(more) % 4,
            4 => inode.size = u64::from(more),
            5 => inode.mode = u16::from(more) << 4,
            6 => inode.uid = u32::from(more),
            7 => inode.place = Place::embedded(to.0),
            _ => inode.accounted.entries += i64::from(more),
        },
        Event::Entry { dir, .. } | Event::EntryGone { dir, .. } if which % 3 == 0 => *dir = to,
        Event::Entry { name: of, .. } | Event::EntryGone { name: of, .. } if which % 3 == 1 => *of = name(more),
        Event::Entry { kind: of, .. } if which % 5 == 2 => *of = kind(more),
        Event::Entry { remote, .. } if which % 7 == 2 => *remote = !*remote,
        Event::Entry { ino, .. }
        | Event::Xattr { ino, .. }
        | Event::XattrGone { ino, .. }
        | Event::Inline { ino, .. }
        | Event::InlineGone(ino)
        | Event::InodeGone(ino)
        | Event::Orphan(ino)
        | Event::OrphanGone(ino)
        | Event::Discard { ino, .. } => *ino = to,
        _ => {}
    }
}

/// An event of any kind.
fn made(code: u8, (a, b): (u8, u8), more: u8, numbers: &Numbers) -> Event {
    let (ino, dir, rank) = (numbers.get(a), numbers.get(b), Rank(u16::from(more) % 3));
    let frag = Frag { bits: 0, value: 0 };
    match code % 26 {
        0 | 1 => Event::Inode(Box::new(crate::inode(ino, kind(more), dir))),
        2 => Event::InodeGone(ino),
        3 | 4 => Event::Entry { dir, name: name(more >> 3), ino, kind: kind(more & 7), remote: more >= 0xf0 },
        5 => Event::EntryGone { dir, name: name(more) },
        6 => {
            let name = [&b"user.a"[..], b"loligo.policy.pin", b"security.capability", b"system.posix_acl_access"];
            Event::Xattr { ino, name: name[usize::from(more) % 4].into(), value: b"0"[..].into() }
        }
        7 => Event::XattrGone { ino, name: b"user.a"[..].into() },
        8 => Event::Inline { ino, data: vec![b; usize::from(more)].into() },
        9 => Event::InlineGone(ino),
        10 => Event::Orphan(ino),
        11 => Event::OrphanGone(ino),
        12 => Event::Discard { ino, from: u64::from(more), object_size: 1 << (16 + u32::from(b) % 14) },
        13 => Event::DiscardGone(ino),
        14 => Event::Session(SessionRecord {
            id: SessionId(ino.0),
            name: b"x"[..].into(),
            local: true,
            uid: 0,
            client: 9,
            answered: Seq(1),
            done: Vec::new(),
            grants: Default::default(),
            addresses: Vec::new(),
        }),
        15 => Event::SessionGone(SessionId(ino.0)),
        16 => Event::NextIno(ino),
        17 => Event::Route(Route { dir: ino, frag, rank, version: u64::from(b) }),
        18 => Event::RouteGone(ino),
        19 => Event::Peer(PeerRecord { rank, sent: 9, acked: 9, received: 9 }),
        20 => Event::Departed([ino].into()),
        21 => Event::DepartedFrag { dir: ino, frag },
        22 => Event::PartGone { dir: ino, rank },
        23 => {
            let letter = Letter::Sum { dir: ino, entries: 1 << 40, bytes: 1 << 40 };
            Event::Letter { to: rank, seq: 1, letter: letter.into() }
        }
        24 => Event::Decoupled(Box::new(DecoupledRecord {
            dir: ino,
            epoch: dir.0,
            owner: 1,
            session: SessionId(1),
            uid: 0,
            name: b"x"[..].into(),
            lease_ms: 60_000,
            grants: vec![(ino, 9)],
            used: ino,
            merges: 0,
            interfere: Interfere::Allow,
            journal: None,
            objects: Vec::new(),
            promise: loligo_types::Promise::NONE,
            overwritten: Vec::new(),
        })),
        _ => match more % 3 {
            0 => Event::DecoupledGone(ino),
            1 => Event::Merge { dir: ino },
            _ => Event::MergePart { dir: ino, part: 0, body: [2, 0, 0].into() },
        },
    }
}
