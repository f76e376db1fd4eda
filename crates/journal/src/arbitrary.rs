//! Random values of everything that is encoded, for the property tests of this crate.

use std::sync::Arc;

use loligo_types::attr::Extra;
use loligo_types::{
    Acl, AclEntry, AclTag, Event, Ino, Inode, Kind, Layout, Name, Origin, RStat, Seq, SessionId, SessionRecord, Time,
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
    (symlink, option::of(acl()), option::of(acl()), rstat(), option::of(object_size()), any::<bool>()).prop_map(
        |(symlink, acl, default_acl, rstat, size, linkable)| Extra {
            symlink,
            acl,
            default_acl,
            rstat,
            layout: size.map(|object_size| Layout { object_size }),
            linkable,
        },
    )
}

pub fn inode() -> impl Strategy<Value = Inode> {
    // Times from a small set, so that they are often equal.
    let time = prop_oneof![Just(Time(0)), Just(Time(1_700_000_000_123_456_789)), any::<i64>().prop_map(Time)];
    let numbers = (ino(), ino(), number(), number(), small(), small(), small());
    let rare = (prop_oneof![Just(0), small()], prop_oneof![Just(0), small()], rstat(), option::of(extra()));
    (numbers, rare, vec(time, 4), kind(), 0u16..0o10000, any::<bool>(), any::<bool>()).prop_map(
        |(
            (ino, parent, size, change, uid, gid, nlink),
            (rdev, cuts, accounted, extra),
            times,
            kind,
            mode,
            inline,
            x,
        )| {
            Inode {
                size,
                nlink,
                rdev,
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
            }
        },
    )
}

pub fn session() -> impl Strategy<Value = SessionRecord> {
    let done = vec((number().prop_map(Seq), ino(), number()), 0..5);
    (number(), bytes(30), any::<bool>(), small(), number(), done).prop_map(|(id, name, local, uid, answered, done)| {
        SessionRecord { id: SessionId(id), name: Box::from(&*name), local, uid, answered: Seq(answered), done }
    })
}

pub fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => inode().prop_map(|inode| Event::Inode(Box::new(inode))),
        1 => ino().prop_map(Event::InodeGone),
        4 => (ino(), name(), ino(), kind()).prop_map(|(dir, name, ino, kind)| Event::Entry { dir, name, ino, kind }),
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
    ]
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
