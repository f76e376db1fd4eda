//! An event as names and values, the one source of both its text and its JSON. File contents are left out.

use std::collections::BTreeMap;

use loligo_types::{Acl, Event, Inode, Kind, Letter, Placement, Rank, Route, SessionRecord, Spread};
use serde::Serialize;

use super::text::escape;

/// A value for showing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A number.
    Number(i128),
    /// Text; bytes that are not text are escaped (see [`escape`]).
    Text(String),
    /// Yes or no.
    Flag(bool),
    /// Numbers with names.
    List(Vec<BTreeMap<&'static str, u64>>),
}

type Fields = Vec<(&'static str, Value)>;

fn number(n: impl Into<i128>) -> Value {
    Value::Number(n.into())
}

fn text(bytes: &[u8]) -> Value {
    Value::Text(escape(bytes))
}

/// Name of a kind, as in `find -type` written out.
fn kind_name(kind: Kind) -> Value {
    Value::Text(
        match kind {
            Kind::File => "file",
            Kind::Dir => "dir",
            Kind::Symlink => "symlink",
            Kind::Fifo => "fifo",
            Kind::Socket => "socket",
            Kind::Char => "char",
            Kind::Block => "block",
        }
        .to_string(),
    )
}

/// The fields of an event, in the order of its bytes.
pub fn fields(event: &Event) -> Fields {
    match event {
        Event::Inode(inode) => inode_fields(inode),
        Event::InodeGone(ino)
        | Event::InlineGone(ino)
        | Event::Orphan(ino)
        | Event::OrphanGone(ino)
        | Event::DiscardGone(ino)
        | Event::RouteGone(ino)
        | Event::NextIno(ino) => vec![("ino", number(ino.0))],
        Event::Entry { dir, name, ino, kind, remote } => vec![
            ("dir", number(dir.0)),
            ("name", text(name.as_bytes())),
            ("ino", number(ino.0)),
            ("kind", kind_name(*kind)),
            ("remote", Value::Flag(*remote)),
        ],
        Event::EntryGone { dir, name } => vec![("dir", number(dir.0)), ("name", text(name.as_bytes()))],
        Event::Xattr { ino, name, value } => {
            vec![("ino", number(ino.0)), ("name", text(name)), ("value_bytes", number(value.len() as u64))]
        }
        Event::XattrGone { ino, name } => vec![("ino", number(ino.0)), ("name", text(name))],
        Event::Inline { ino, data } => vec![("ino", number(ino.0)), ("bytes", number(data.len() as u64))],
        Event::Discard { ino, from, object_size } => {
            vec![("ino", number(ino.0)), ("from", number(*from)), ("object_size", number(*object_size))]
        }
        Event::Session(session) => session_fields(session),
        Event::SessionGone(id) => vec![("id", number(id.0))],
        Event::Route(route) => route_fields(route),
        Event::Letter { to, seq, letter } => letter_fields(*to, *seq, letter),
        Event::Peer(peer) => vec![
            ("rank", number(peer.rank.0)),
            ("sent", number(peer.sent)),
            ("acked", number(peer.acked)),
            ("received", number(peer.received)),
        ],
        Event::Departed(inos) => vec![("inodes", number(inos.len() as u64))],
        Event::DepartedFrag { dir, frag } => vec![("dir", number(dir.0)), ("frag", Value::Text(frag.to_string()))],
        Event::PartGone { dir, rank } => vec![("dir", number(dir.0)), ("rank", number(rank.0))],
        // Who knows the owner's number may go on in its name.
        Event::Decoupled(record) => vec![
            ("dir", number(record.dir.0)),
            ("epoch", number(record.epoch)),
            ("uid", number(record.uid)),
            ("name", text(&record.name)),
            ("lease_ms", number(record.lease_ms)),
            ("used", number(record.used.0)),
            ("merges", number(record.merges)),
            ("inos", number(record.grants.iter().map(|(_, count)| count).sum::<u64>())),
        ],
        Event::DecoupledGone(dir) | Event::Merge { dir } => vec![("dir", number(dir.0))],
        Event::Data { ino, patches, .. } => {
            let (first, places) = (patches.places().first().map_or(0, |place| place.0), patches.places().len());
            vec![
                ("ino", number(ino.0)),
                ("places", number(places as u64)),
                ("first", number(first)),
                ("bytes", number(patches.len() as u64)),
            ]
        }
        Event::DataInPlace { ino, upto } => vec![("ino", number(ino.0)), ("upto", number(upto.0))],
        Event::Pad { len } => vec![("bytes", number(*len))],
        Event::InlinePatch(patch) => vec![
            ("ino", number(patch.ino.0)),
            ("whole", number(patch.whole.0)),
            ("offset", number(patch.offset)),
            ("bytes", number(patch.bytes.len() as u64)),
            ("len", number(patch.len)),
        ],
        Event::MergePart { dir, part, body } => {
            vec![("dir", number(dir.0)), ("part", number(*part)), ("bytes", number(body.len() as u64))]
        }
    }
}

fn route_fields(route: &Route) -> Fields {
    vec![
        ("dir", number(route.dir.0)),
        ("frag", Value::Text(route.frag.to_string())),
        ("rank", number(route.rank.0)),
        ("version", number(route.version)),
    ]
}

/// A letter in short: whom to, and how much of what.
fn letter_fields(to: Rank, seq: u64, letter: &Letter) -> Fields {
    let mut all = vec![("to", number(to.0)), ("seq", number(seq))];
    match letter {
        Letter::Commit { tx, events } => {
            all.extend([("letter", text(b"commit")), ("tx", number(*tx)), ("events", number(events.len() as u64))]);
        }
        Letter::Import { routes, events, clients } => all.extend([
            ("letter", text(b"import")),
            ("routes", number(routes.len() as u64)),
            ("events", number(events.len() as u64)),
            ("clients", number(clients.len() as u64)),
        ]),
        Letter::Fragment { part, routes, events, clients } => all.extend([
            ("letter", text(b"fragment")),
            ("dir", number(part.ino.0)),
            ("routes", number(routes.len() as u64)),
            ("events", number(events.len() as u64)),
            ("clients", number(clients.len() as u64)),
        ]),
        Letter::Sum { dir, entries, bytes } => all.extend([
            ("letter", text(b"sum")),
            ("dir", number(dir.0)),
            ("entries", number(*entries)),
            ("bytes", number(*bytes)),
        ]),
    }
    all
}

fn inode_fields(inode: &Inode) -> Fields {
    let mut all = vec![
        ("ino", number(inode.ino.0)),
        ("kind", kind_name(inode.kind)),
        ("mode", Value::Text(format!("{:04o}", inode.mode))),
        ("uid", number(inode.uid)),
        ("gid", number(inode.gid)),
        ("nlink", number(inode.nlink)),
        ("size", number(inode.size)),
        ("atime_ns", number(inode.atime.0)),
        ("mtime_ns", number(inode.mtime.0)),
        ("ctime_ns", number(inode.ctime.0)),
        ("btime_ns", number(inode.btime.0)),
        ("parent", number(inode.parent.0)),
        ("place", Value::Text(format!("{:016x}", inode.place.0))),
        ("change", number(inode.change)),
        ("inline", Value::Flag(inode.inline)),
    ];
    match inode.spread() {
        Spread::No => {}
        Spread::Home => all.push(("spread", text(b"home"))),
        Spread::Part(rank) => all.push(("part_of_rank", number(rank.0))),
    }
    if inode.placement() != Placement::Inherited {
        all.push(("placement", text(inode.placement().name().as_bytes())));
    }
    if !inode.lookup_lease().is_none() {
        all.push(("lookup_lease", text(inode.lookup_lease().text().as_bytes())));
    }
    if inode.has_moved() {
        all.push(("moved", Value::Flag(true)));
    }
    let rare = [
        ("rdev", i128::from(inode.extra.as_ref().map_or(0, |extra| extra.rdev))),
        ("cuts", i128::from(inode.cuts)),
        ("frag_bits", i128::from(inode.frag_bits)),
        ("expected_entries", i128::from(inode.expected_entries())),
        ("accounted_entries", i128::from(inode.accounted.entries)),
        ("accounted_bytes", i128::from(inode.accounted.bytes)),
        ("below_entries", i128::from(inode.rstat().entries)),
        ("below_bytes", i128::from(inode.rstat().bytes)),
    ];
    all.extend(rare.into_iter().filter(|(_, n)| *n != 0).map(|(name, n)| (name, number(n))));
    if inode.has_xattrs {
        all.push(("has_xattrs", Value::Flag(true)));
    }
    if let Some(extra) = &inode.extra {
        all.extend(extra.symlink.as_ref().map(|target| ("symlink", text(target))));
        all.extend(extra.acl.as_ref().map(|acl| ("acl", acl_list(acl))));
        all.extend(extra.default_acl.as_ref().map(|acl| ("default_acl", acl_list(acl))));
        all.extend(extra.layout.map(|layout| ("object_size", number(layout.object_size))));
        all.extend(extra.linkable.then_some(("linkable", Value::Flag(true))));
    }
    all
}

fn acl_list(acl: &Acl) -> Value {
    let entry = |e: &loligo_types::AclEntry| {
        BTreeMap::from([("tag", e.tag as u64), ("id", u64::from(e.id)), ("perm", u64::from(e.perm))])
    };
    Value::List(acl.0.iter().map(entry).collect())
}

fn session_fields(session: &SessionRecord) -> Fields {
    let done = session.done.iter();
    let done = done.map(|(seq, ino, value)| BTreeMap::from([("seq", seq.0), ("ino", ino.0), ("value", *value)]));
    vec![
        ("id", number(session.id.0)),
        ("name", text(&session.name)),
        ("local", Value::Flag(session.local)),
        ("uid", number(session.uid)),
        ("client", number(session.client)),
        ("answered", number(session.answered.0)),
        ("done", Value::List(done.collect())),
        ("inos_granted", number(session.grants.left())),
    ]
}
