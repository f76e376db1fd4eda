//! Any message between processes, for property tests.

use std::sync::Arc;

use loligo_types::link::{Greet, Join, Joined, LinkMsg, Member, Method, NotJoined, Question, Reply};
use loligo_types::msg::Reclaim;
use loligo_types::peer::{Apart, Lent, PeerMsg, TxId, Want};
use loligo_types::{
    Beat, Event, FragHeat, FsError, Ino, Inode, Kind, Letter, Load, LoadField, LoadVec, Loaded, MovedClient, Need,
    PolicyId, Rank, Spread, Target, Time, Weighed,
};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

use super::any::{bytes, frag, ino, kind, lease, map, name, rank, routes};

fn text() -> impl Strategy<Value = String> {
    "[ -~äß]{0,60}"
}

fn error() -> impl Strategy<Value = FsError> {
    select(&FsError::ALL[..])
}

pub fn inode(of: Ino) -> impl Strategy<Value = Inode> {
    (kind(), 0u16..=0o7777, any::<(u32, u32, u64, i64)>()).prop_map(move |(kind, mode, (uid, gid, parent, time))| {
        Inode::new(of, kind, mode, uid, gid, Ino(parent), Time(time))
    })
}

/// A rank's part of a directory.
fn part(of: Ino) -> impl Strategy<Value = Inode> {
    rank().prop_map(move |rank| {
        let mut part = Inode::new(of, Kind::Dir, 0o755, 0, 0, Ino(1), Time(5));
        part.extra.get_or_insert_default().spread = Spread::Part(rank);
        part
    })
}

fn target() -> impl Strategy<Value = Target> {
    (ino(), kind(), any::<bool>()).prop_map(|(ino, kind, remote)| Target { ino, kind, remote })
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        ino().prop_flat_map(inode).prop_map(|inode| Event::Inode(Box::new(inode))),
        ino().prop_map(Event::InodeGone),
        (ino(), name(), target()).prop_map(|(dir, name, Target { ino, kind, remote })| Event::Entry {
            dir,
            name,
            ino,
            kind,
            remote
        }),
        (ino(), bytes(50)).prop_map(|(ino, data)| Event::Inline { ino, data }),
    ]
}

fn client() -> impl Strategy<Value = MovedClient> {
    (any::<(u64, u32)>(), bytes(20), vec((ino(), lease()), 0..3)).prop_map(|((client, uid), name, leases)| {
        MovedClient {
            client,
            name: (*name).into(),
            uid,
            addresses: Vec::new(),
            held: Reclaim { leases, ..Reclaim::default() },
        }
    })
}

fn letter() -> impl Strategy<Value = Letter> {
    let events = || vec(event(), 0..4);
    prop_oneof![
        (any::<u64>(), events()).prop_map(|(tx, events)| Letter::Commit { tx, events }),
        (routes(), events(), vec(client(), 0..3)).prop_map(|(routes, events, clients)| Letter::Import {
            routes,
            events,
            clients
        }),
        (ino().prop_flat_map(part), routes(), events()).prop_map(|(part, routes, events)| Letter::Fragment {
            part: Box::new(part),
            routes,
            events,
            clients: Vec::new()
        }),
        (ino(), any::<(i64, i64)>()).prop_map(|(dir, (entries, bytes))| Letter::Sum { dir, entries, bytes }),
    ]
}

pub fn need() -> impl Strategy<Value = Need> {
    prop_oneof![
        ino().prop_map(Need::Inode),
        (ino(), name()).prop_map(|(dir, name)| Need::Entry { dir, name }),
        (ino(), any::<u64>()).prop_map(|(dir, from_hash)| Need::Range { dir, from_hash }),
        ino().prop_map(Need::Xattrs),
        ino().prop_map(Need::Inline),
        ino().prop_map(Need::Parts),
    ]
}

pub fn loaded() -> impl Strategy<Value = Loaded> {
    let entries = || vec((name(), target()), 0..4);
    prop_oneof![
        ino()
            .prop_flat_map(|ino| (Just(ino), of(inode(ino).prop_map(Box::new))))
            .prop_map(|(i, n)| Loaded::Inode(i, n)),
        (ino(), name(), of(target())).prop_map(|(dir, name, found)| Loaded::Entry { dir, name, found }),
        (ino(), any::<(u64, u64)>(), entries()).prop_map(|(dir, (from_hash, upto_hash), entries)| Loaded::Range {
            dir,
            from_hash,
            upto_hash,
            entries
        }),
        (ino(), vec((bytes(20), bytes(40)), 0..3)).prop_map(|(ino, pairs)| Loaded::Xattrs(ino, pairs)),
        (ino(), of(bytes(40))).prop_map(|(ino, data)| Loaded::Inline(ino, data)),
        ino()
            .prop_flat_map(|dir| (Just(dir), of(part(dir).prop_map(Box::new)), vec(frag(), 0..3)))
            .prop_map(|(dir, part, frags)| Loaded::Part { dir, part, frags }),
    ]
}

fn lent() -> impl Strategy<Value = Lent> {
    let apart = (ino(), ino(), any::<bool>()).prop_map(|(ino, root, allows)| Apart { ino, root, allows });
    (vec(loaded(), 0..5), vec((ino(), any::<u32>()), 0..3), vec((ino(), rank()), 0..3), vec(apart, 0..3))
        .prop_map(|(items, opens, elsewhere, apart)| Lent { items, opens, elsewhere, apart })
}

fn counts() -> impl Strategy<Value = LoadVec> {
    let n = || 0.0f64..1e9;
    (n(), n(), n(), n(), n()).prop_map(|(ird, iwr, readdir, fetch, store)| LoadVec { ird, iwr, readdir, fetch, store })
}

fn load() -> impl Strategy<Value = Load> {
    let numbers = vec(0u32..100_000_000, Load::NUMBERS.len());
    (numbers, counts(), counts()).prop_map(|(numbers, own, besides)| {
        let mut load = Load { own, besides, ..Load::default() };
        for (field, number) in load.fields().into_iter().zip(numbers) {
            match field {
                LoadField::Wide(n) => *n = f64::from(number) * 1.1,
                LoadField::Narrow(n) => *n = number as f32 / 7.0,
                LoadField::Count(n) => *n = number,
            }
        }
        load
    })
}

fn beat() -> impl Strategy<Value = Beat> {
    let n = || 0.0f64..1e9;
    let weighed =
        (any::<u32>(), n(), n()).prop_map(|(policy, auth, all)| Weighed { policy: PolicyId(policy), auth, all });
    (rank(), any::<(u64, u32)>(), load(), weighed).prop_map(|(rank, (seq, age_ms), load, weighed)| Beat {
        rank,
        seq,
        age_ms,
        load,
        weighed,
    })
}

fn heat() -> impl Strategy<Value = FragHeat> {
    (ino(), frag(), counts()).prop_map(|(dir, frag, load)| FragHeat { dir, frag, load })
}

pub fn peer() -> impl Strategy<Value = PeerMsg> {
    let tx = || (any::<u64>(), rank()).prop_map(|(number, rank)| TxId { number, rank });
    let want = (need(), lease(), any::<bool>()).prop_map(|(need, recall, shown)| {
        let shown = shown && matches!(need, Need::Parts(_));
        Want { need, recall, shown }
    });
    prop_oneof![
        (any::<(u64, u64, u64)>(), map(), routes()).prop_map(|((life, received, sent), map, routes)| PeerMsg::Hello {
            life,
            received,
            sent,
            map,
            routes
        }),
        (any::<u64>(), letter()).prop_map(|(seq, letter)| PeerMsg::Letter { seq, letter: Arc::new(letter) }),
        any::<u64>().prop_map(|upto| PeerMsg::Received { upto }),
        any::<u64>().prop_map(|upto| PeerMsg::Acked { upto }),
        routes().prop_map(PeerMsg::Routes),
        ino().prop_map(PeerMsg::Gone),
        (tx(), any::<(u32, u64)>(), vec(want, 0..5)).prop_map(|(tx, (round, client), wants)| PeerMsg::Borrow {
            tx,
            round,
            client,
            wants
        }),
        (tx(), any::<u32>(), lent()).prop_map(|(tx, round, lent)| PeerMsg::Lent { tx, round, lent }),
        (tx(), any::<u32>(), error()).prop_map(|(tx, round, error)| PeerMsg::Denied { tx, round, error }),
        tx().prop_map(|tx| PeerMsg::Ready { tx }),
        (tx(), any::<bool>()).prop_map(|(tx, again)| PeerMsg::Return { tx, again }),
        (any::<u64>(), ino()).prop_map(|(moving, dir)| PeerMsg::Offer { moving, dir }),
        (ino(), rank()).prop_map(|(dir, to)| PeerMsg::GiveBack { dir, to }),
        (any::<u64>(), of(error())).prop_map(|(moving, refused)| PeerMsg::Accept { moving, refused }),
        ino().prop_map(|dir| PeerMsg::Summon { dir }),
        ino().prop_map(|dir| PeerMsg::Stays { dir }),
        Just(PeerMsg::Empty),
        Just(PeerMsg::Farewell),
        any::<u64>().prop_map(|client| PeerMsg::ClientGone { client }),
        vec(beat(), 0..5).prop_map(PeerMsg::Beat),
        (any::<u64>(), ino()).prop_map(|(number, ino)| PeerMsg::AskWay { number, ino }),
        ino().prop_map(|ino| PeerMsg::AskBorn { ino }),
        ino().prop_map(|ino| PeerMsg::Born { ino }),
        (ino(), name()).prop_map(|(dir, name)| PeerMsg::AskName { dir, name }),
        (ino(), name(), of((1u64..).prop_map(Ino))).prop_map(|(dir, name, ino)| PeerMsg::NameIs { dir, name, ino }),
        (ino(), any::<u64>()).prop_map(|(ino, sent_ms)| PeerMsg::AskReplica { ino, sent_ms }),
        (any::<u64>(), ino().prop_flat_map(inode))
            .prop_map(|(sent_ms, inode)| PeerMsg::Replica { sent_ms, inode: Box::new(inode) }),
        ino().prop_map(|ino| PeerMsg::NoReplica { ino }),
        ino().prop_map(|ino| PeerMsg::DropReplica { ino }),
        (ino(), any::<u32>()).prop_map(|(ino, promised_ms)| PeerMsg::ReplicaDropped { ino, promised_ms }),
        any::<u64>().prop_map(|sent_ms| PeerMsg::KeepReplicas { sent_ms }),
        any::<u64>().prop_map(|sent_ms| PeerMsg::ReplicasKept { sent_ms }),
        (any::<u64>(), ino(), vec(any::<u64>(), 0..5), ino(), vec((ino(), vec(any::<u8>(), 0..50)), 0..3)).prop_map(
            |(number, ino, up, at, texts)| {
                let bounds = texts.into_iter().map(|(dir, text)| (dir, text.into())).collect();
                PeerMsg::Way { number, ino, up, at, bounds }
            }
        ),
        vec(loaded(), 0..5).prop_map(PeerMsg::Cached),
        vec(heat(), 0..5).prop_map(PeerMsg::Heat),
    ]
}

/// Messages that only servers on several machines send each other.
fn between_servers() -> impl Strategy<Value = LinkMsg> {
    let greet = (any::<(u32, u32)>(), any::<([u8; 16], u64, u64, [u8; 32])>())
        .prop_map(|(versions, (fs_id, from, to, nonce))| LinkMsg::Greet(Greet { versions, fs_id, from, to, nonce }));
    let here = btree_map(any::<u16>(), any::<u64>(), 0..5).prop_map(|ranks| LinkMsg::Here {
        ranks: ranks.into_iter().map(|(rank, epoch)| (Rank(rank), epoch)).collect(),
    });
    let question = (any::<u64>(), select(vec![Method::Get, Method::Post]), "/[ -~]{0,40}", text()).prop_map(
        |(number, method, path, text)| LinkMsg::Question {
            number,
            question: Box::new(Question { method, path, text }),
        },
    );
    let reply = (any::<u64>(), 100u16..1000, text())
        .prop_map(|(number, status, text)| LinkMsg::Reply { number, reply: Box::new(Reply { status, text }) });
    prop_oneof![
        greet,
        any::<(u32, [u8; 32], [u8; 32])>().prop_map(|(version, nonce, proof)| LinkMsg::Prove { version, nonce, proof }),
        any::<[u8; 32]>().prop_map(|proof| LinkMsg::Proof { proof }),
        here,
        Just(LinkMsg::Beat),
        question,
        reply,
    ]
}

pub fn link() -> impl Strategy<Value = LinkMsg> {
    let join = (any::<(u32, u32, u32)>(), of(any::<[u8; 16]>()), btree_set(any::<u16>(), 0..5)).prop_map(
        |((low, high, pid), fs_id, ranks)| {
            LinkMsg::Join(Join { versions: (low, high), fs_id, ranks: ranks.into_iter().map(Rank).collect(), pid })
        },
    );
    let joined = (any::<(u32, [u8; 16], u64, u64, u64)>(), text(), map()).prop_map(
        |((version, fs_id, process, ticket, data_epoch), store, map)| {
            LinkMsg::Joined(Joined { version, fs_id, process, ticket, store, data_epoch, map })
        },
    );
    let why = select(vec![
        NotJoined::Version,
        NotJoined::OtherFileSystem,
        NotJoined::NotAuthorized,
        NotJoined::NoSuchRank,
        NotJoined::InUse,
        NotJoined::Malformed,
        NotJoined::Stopping,
    ]);
    let member =
        prop_oneof![Just(Member::Drains), text().prop_map(Member::Refused), Just(Member::Drained), Just(Member::Left)];
    prop_oneof![
        join,
        joined,
        (why, text()).prop_map(|(why, text)| LinkMsg::Refused { why, text }),
        vec((rank(), text()), 0..4).prop_map(|addresses| LinkMsg::Ready { addresses }),
        (rank(), any::<u64>()).prop_map(|(rank, process)| LinkMsg::Up { rank, process }),
        rank().prop_map(|rank| LinkMsg::Down { rank }),
        map().prop_map(LinkMsg::Map),
        (rank(), rank(), any::<u64>(), peer()).prop_map(|(from, to, process, msg)| LinkMsg::Peer {
            from,
            to,
            process,
            msg: Box::new(msg)
        }),
        (rank(), member).prop_map(|(rank, member)| LinkMsg::Member { rank, member }),
        rank().prop_map(|rank| LinkMsg::Leave { rank }),
        rank().prop_map(|rank| LinkMsg::Left { rank }),
        select(vec![LinkMsg::Stop, LinkMsg::Stopped, LinkMsg::AllStopped]),
        between_servers(),
    ]
}
