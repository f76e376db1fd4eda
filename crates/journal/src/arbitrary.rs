//! Random values of everything that is encoded, for the property tests of this crate.

use std::sync::Arc;

use loligo_types::attr::Extra;
use loligo_types::msg::Reclaim;
use loligo_types::{
    Acl, AclEntry, AclTag, DecoupledRecord, Event, FileLock, Frag, InlinePatch, Ino, InoGrant, InoGrants, Inode,
    Interfere, Kind, LOOKUP_LEASE_MS_MAX, Layout, Lease, Letter, LockKind, LockOwner, LookupLease, Lsn, MovedClient,
    Name, OpenFlags, Origin, Overwritten, Patches, PeerRecord, Place, Placement, Promise, RStat, Rank, Route, Seq,
    SessionId, SessionRecord, Spread, StoredJournal, Target, Time, limits,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// Numbers of every length of varint, the ends included.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![(0u32..64).prop_flat_map(|bits| any::<u64>().prop_map(move |n| n >> bits)), Just(0), Just(u64::MAX)]
}

fn small() -> impl Strategy<Value = u32> {
    number().prop_map(|n| n as u32)
}

fn ino() -> impl Strategy<Value = Ino> {
    number().prop_map(Ino)
}

fn bytes(max: usize) -> impl Strategy<Value = Arc<[u8]>> {
    vec(any::<u8>(), 0..max).prop_map(Into::into)
}

pub fn name() -> impl Strategy<Value = Name> {
    vec(any::<u8>(), 1..40).prop_filter_map("is a name", |bytes| Name::new(&bytes).ok())
}

fn kind() -> impl Strategy<Value = Kind> {
    (1u8..=7).prop_map(|code| Kind::from_code(code).expect("1 to 7 are kinds"))
}

fn object_size() -> impl Strategy<Value = u32> {
    (0u32..=30).prop_map(|bits| 1 << bits)
}

fn rstat() -> impl Strategy<Value = RStat> {
    prop_oneof![
        Just(RStat::default()),
        (any::<i64>(), any::<i64>()).prop_map(|(entries, bytes)| RStat { entries, bytes }),
    ]
}

fn acl() -> impl Strategy<Value = Acl> {
    let tag = prop_oneof![
        Just(AclTag::UserObj),
        Just(AclTag::User),
        Just(AclTag::GroupObj),
        Just(AclTag::Group),
        Just(AclTag::Mask),
        Just(AclTag::Other),
    ];
    let id = prop_oneof![any::<u32>(), Just(u32::MAX), Just(0)];
    vec((tag, id, 0u8..8), 0..6)
        .prop_map(|list| Acl(list.into_iter().map(|(tag, id, perm)| AclEntry { tag, id, perm }).collect()))
}

fn extra() -> impl Strategy<Value = Extra> {
    let symlink = option::of(bytes(40).prop_map(|target| Box::<[u8]>::from(&*target)));
    let rdev = prop_oneof![Just(0), small()];
    let placement = prop_oneof![Just(Placement::Inherited), Just(Placement::Subtree), Just(Placement::Giga)];
    let lease = prop_oneof![Just(0), 1..=LOOKUP_LEASE_MS_MAX + 2];
    let placement = (placement, any::<bool>(), (lease, any::<bool>()));
    let acls = (option::of(acl()), option::of(acl()));
    (symlink, acls, rstat(), option::of(object_size()), any::<bool>(), rdev, placement).prop_map(
        |(symlink, (acl, default_acl), rstat, size, linkable, rdev, (placement, moved, (lease, alone)))| Extra {
            symlink,
            acl,
            default_acl,
            rstat,
            layout: size.map(|object_size| Layout { object_size }),
            linkable,
            rdev,
            // Follows from the inode's, which is asked for more often.
            expected_entries: 0,
            spread: Spread::No,
            placement,
            moved,
            lookup_lease: LookupLease::from_code(if alone && lease != 0 { lease | 1 << 15 } else { lease })
                .unwrap_or_default(),
        },
    )
}

pub fn inode() -> impl Strategy<Value = Inode> {
    // Times from a small set, so that they are often equal.
    let time = prop_oneof![Just(Time(0)), Just(Time(1_700_000_000_123_456_789)), any::<i64>().prop_map(Time)];
    let numbers = (ino(), ino(), number(), number(), small(), small(), small());
    let rare = (number(), prop_oneof![Just(0), small()], rstat(), option::of(extra()));
    let frags = (prop_oneof![Just(0), 0..=Frag::BITS_MAX], prop_oneof![Just(0), 0..=limits::EXPECTED_ENTRIES_MAX]);
    (numbers, rare, vec(time, 4), kind(), 0u16..0o10000, any::<(bool, bool)>(), frags).prop_map(
        |(
            (ino, parent, size, change, uid, gid, nlink),
            (place, cuts, accounted, extra),
            times,
            kind,
            mode,
            (inline, x),
            (frag_bits, expected_entries),
        )| {
            let mut extra = extra;
            if expected_entries != 0 {
                extra.get_or_insert_with(Extra::default).expected_entries = expected_entries;
            }
            let mut inode = Inode {
                frag_bits,
                size,
                nlink,
                place: Place(place),
                cuts,
                accounted,
                change,
                inline,
                has_xattrs: x,
                extra: extra.map(Box::new),
                atime: times[0],
                mtime: times[1],
                ctime: times[2],
                btime: times[3],
                ..Inode::new(ino, kind, mode, uid, gid, parent, Time(0))
            };
            if kind == Kind::Dir && inode.extra.is_some() && x {
                inode.extra_mut().spread = if inline { Spread::Home } else { Spread::Part(Rank(uid as u16)) };
            }
            inode
        },
    )
}

fn addresses() -> impl Strategy<Value = Vec<Box<[u8]>>> {
    vec(bytes(30).prop_map(|address| Box::from(&*address)), 0..3)
}

pub fn session() -> impl Strategy<Value = SessionRecord> {
    let done = vec((number().prop_map(Seq), ino(), number()), 0..5);
    (number(), bytes(30), number(), any::<bool>(), small(), number(), done, vec(grant(), 0..4), addresses()).prop_map(
        |(id, name, client, local, uid, answered, done, grants, addresses)| SessionRecord {
            addresses,
            id: SessionId(id),
            name: Box::from(&*name),
            client,
            local,
            uid,
            answered: Seq(answered),
            done,
            grants: InoGrants(grants),
        },
    )
}

fn grant() -> impl Strategy<Value = InoGrant> {
    (0..1u64 << 62, vec((1u32..100, 1u32..100), 0..4), 1u32..1000).prop_map(|(first, ranges, rest)| {
        let (mut at, mut used) = (0, Vec::new());
        for (gap, len) in ranges {
            used.push((at + gap, at + gap + len));
            at += gap + len;
        }
        InoGrant { first: Ino(first), count: at + rest, used }
    })
}

pub fn rank() -> impl Strategy<Value = Rank> {
    prop_oneof![0u16..3, any::<u16>()].prop_map(Rank)
}

pub fn target() -> impl Strategy<Value = Target> {
    (ino(), kind(), any::<bool>()).prop_map(|(ino, kind, remote)| Target { ino, kind, remote })
}

fn frag() -> impl Strategy<Value = Frag> {
    (0..=Frag::BITS_MAX, any::<u32>())
        .prop_map(|(bits, value)| Frag::new(bits, value & ((1 << bits) - 1)).expect("the value has no more bits"))
}

pub fn route() -> impl Strategy<Value = Route> {
    (ino(), frag(), rank(), number()).prop_map(|(dir, frag, rank, version)| Route { dir, frag, rank, version })
}

pub fn peer() -> impl Strategy<Value = PeerRecord> {
    (rank(), number(), number(), number()).prop_map(|(rank, sent, acked, received)| PeerRecord {
        rank,
        sent,
        acked,
        received,
    })
}

fn lease() -> impl Strategy<Value = Lease> {
    (0u8..32).prop_map(Lease)
}

fn lock() -> impl Strategy<Value = FileLock> {
    let kind = any::<bool>().prop_map(|posix| if posix { LockKind::Posix } else { LockKind::Flock });
    (kind, any::<bool>(), number(), small(), number(), number()).prop_map(
        |(kind, exclusive, owner, pid, start, end)| FileLock {
            kind,
            exclusive,
            owner: LockOwner(owner),
            pid,
            start,
            end,
        },
    )
}

fn client() -> impl Strategy<Value = MovedClient> {
    let flags = any::<[bool; 5]>().prop_map(|[read, write, truncate, append, exec]| OpenFlags {
        read,
        write,
        truncate,
        append,
        exec,
    });
    let held = (
        vec((number(), ino(), flags, lease()), 0..3),
        vec((ino(), lease()), 0..4),
        vec((ino(), number(), lock()), 0..3),
    );
    (number(), bytes(30), small(), addresses(), held).prop_map(
        |(client, name, uid, addresses, (opens, leases, locks))| MovedClient {
            addresses,
            client,
            name: Box::from(&*name),
            uid,
            held: Reclaim { opens, leases, locks },
        },
    )
}

fn letter() -> impl Strategy<Value = Letter> {
    prop_oneof![
        (number(), vec(record_event(), 0..4)).prop_map(|(tx, events)| Letter::Commit { tx, events }),
        (vec(route(), 0..3), vec(record_event(), 0..4), vec(client(), 0..3))
            .prop_map(|(routes, events, clients)| Letter::Import { routes, events, clients }),
        (inode(), rank(), vec(route(), 0..3), vec(record_event(), 0..4), vec(client(), 0..3)).prop_map(
            |(mut dir, rank, routes, events, clients)| {
                dir.kind = Kind::Dir;
                Letter::Fragment { part: Box::new(dir.new_part(rank)), routes, events, clients }
            }
        ),
        (ino(), any::<i64>(), any::<i64>()).prop_map(|(dir, entries, bytes)| Letter::Sum { dir, entries, bytes }),
    ]
}

pub fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        12 => record_event(),
        1 => inline_patch().prop_map(|patch| Event::InlinePatch(Box::new(patch))),
        2 => route().prop_map(Event::Route),
        1 => ino().prop_map(Event::RouteGone),
        1 => peer().prop_map(Event::Peer),
        1 => vec(ino(), 0..6).prop_map(|inos| Event::Departed(inos.into())),
        1 => route().prop_map(|route| Event::DepartedFrag { dir: route.dir, frag: route.frag }),
        1 => (ino(), rank()).prop_map(|(dir, rank)| Event::PartGone { dir, rank }),
        3 => (rank(), number(), letter())
            .prop_map(|(to, seq, letter)| Event::Letter { to, seq, letter: Arc::new(letter) }),
    ]
}

/// An event of a rank's own records.
fn record_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => inode().prop_map(|inode| Event::Inode(Box::new(inode))),
        1 => ino().prop_map(Event::InodeGone),
        4 => (ino(), name(), target()).prop_map(|(dir, name, Target { ino, kind, remote })| {
            Event::Entry { dir, name, ino, kind, remote }
        }),
        1 => (ino(), name()).prop_map(|(dir, name)| Event::EntryGone { dir, name }),
        1 => (ino(), bytes(20), bytes(99)).prop_map(|(ino, name, value)| Event::Xattr { ino, name, value }),
        1 => (ino(), bytes(20)).prop_map(|(ino, name)| Event::XattrGone { ino, name }),
        1 => (ino(), bytes(300)).prop_map(|(ino, data)| Event::Inline { ino, data }),
        1 => ino().prop_map(Event::InlineGone),
        1 => ino().prop_map(Event::Orphan),
        1 => ino().prop_map(Event::OrphanGone),
        1 => (ino(), number(), object_size())
            .prop_map(|(ino, from, object_size)| Event::Discard { ino, from, object_size }),
        1 => ino().prop_map(Event::DiscardGone),
        1 => session().prop_map(Event::Session),
        1 => number().prop_map(|id| Event::SessionGone(SessionId(id))),
        1 => ino().prop_map(Event::NextIno),
        1 => decoupled().prop_map(|record| Event::Decoupled(Box::new(record))),
        1 => ino().prop_map(Event::DecoupledGone),
        1 => (ino(), any::<u32>(), bytes(300)).prop_map(|(dir, part, body)| Event::MergePart { dir, part, body }),
        1 => ino().prop_map(|dir| Event::Merge { dir }),
        2 => (ino(), object_size(), patches())
            .prop_map(|(ino, object_size, patches)| Event::Data { ino, object_size, patches: Arc::new(patches) }),
        1 => (ino(), number()).prop_map(|(ino, upto)| Event::DataInPlace { ino, upto: Lsn(upto) }),
        1 => (0..9000u32).prop_map(|len| Event::Pad { len }),
    ]
}

fn inline_patch() -> impl Strategy<Value = InlinePatch> {
    (ino(), number(), any::<u32>(), 0..3000usize, vec(any::<u8>(), 0..200), vec(any::<u8>(), 0..300)).prop_map(
        |(ino, whole, crc, same, a, b)| {
            let base = [vec![7; same], a].concat();
            let data = [vec![7; same], b].concat();
            InlinePatch::between(ino, Lsn(whole), (&base, crc), &data).expect("both are short")
        },
    )
}

fn patches() -> impl Strategy<Value = Patches> {
    vec((0..1u64 << 40, vec(any::<u8>(), 1..200)), 1..4).prop_map(|pieces| {
        let pieces: Vec<(u64, Arc<[u8]>)> = pieces.into_iter().map(|(at, data)| (at, data.into())).collect();
        Patches::of(&pieces).expect("within the limits")
    })
}

fn decoupled() -> impl Strategy<Value = DecoupledRecord> {
    let grants = vec((1u64..1000, 1u64..1000), 0..4);
    (ino(), number(), any::<(u64, u64, u32, u32)>(), bytes(20), number(), number(), grants).prop_map(
        |(dir, epoch, (owner, session, uid, lease_ms), name, used, merges, steps)| {
            let session = SessionId(session);
            let name = name.as_ref().into();
            let used = Ino(used);
            let interfere = [Interfere::Allow, Interfere::Block, Interfere::Read][(epoch % 3) as usize];
            let journal = (uid % 3 == 0).then_some(StoredJournal { ino: Ino(merges | 1), bytes: epoch });
            let record = DecoupledRecord {
                dir,
                epoch,
                owner,
                session,
                uid,
                name,
                lease_ms,
                used,
                merges,
                interfere,
                ..DecoupledRecord::default()
            };
            let promise = Promise::from_code((merges % 6) as u8).unwrap_or_default();
            let mut record = DecoupledRecord { journal, promise, ..record };
            let mut at = 0;
            for (gap, count) in steps {
                record.grant(Ino(at + gap), count);
                record.objects.push((Ino(at + gap), count));
                if interfere != Interfere::Block {
                    record.overwritten.push(Overwritten { file: Ino(at + gap), copy: Ino(count), count });
                }
                at += gap + count;
            }
            record
        },
    )
}

pub fn origin() -> impl Strategy<Value = Origin> {
    (number(), number(), number(), ino(), number()).prop_map(|(session, seq, answered, ino, value)| Origin {
        session: SessionId(session),
        seq: Seq(seq),
        answered: Seq(answered),
        ino,
        value,
    })
}
