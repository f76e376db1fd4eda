//! The bytes on the disk are fixed: each sample encodes to what stands in `tests/golden/*.hex` and is decoded from it,
//! and the drawings in `docs/formats` show the same bytes.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use loligo_journal::table::{Meta, Row, TABLE_VERSION, decode_decoupled, decode_row};
use loligo_journal::{
    FileReader, FileWriter, MemSource, Owner, ReadConfig, Reader, Record, Tail, Writer, WriterConfig, decode_record,
    encode_record,
};
use loligo_types::attr::Extra;
use loligo_types::msg::Reclaim;
use loligo_types::{
    Acl, AclEntry, AclTag, DecoupledRecord, Event, FileLock, Frag, InlinePatch, Ino, InoGrant, InoGrants, Inode,
    Interfere, Kind, Layout, Lease, LeaseTime, Letter, LockKind, LockOwner, LookupLease, Lsn, MovedClient, Name,
    OpenFlags, Origin, Overwritten, Patches, PeerRecord, Place, Placement, Promise, RStat, Rank, Route, Seq, SessionId,
    SessionRecord, Spread, StoredJournal, Target, Time,
};

const EVENT: &str = include_str!("golden/event.hex");
const TABLE: &str = include_str!("golden/table.hex");
const JOURNAL: &str = include_str!("golden/journal.hex");
const JOURNAL_FILE: &str = include_str!("golden/journal-file.hex");

const EVENT_DOC: &str =
    concat!(include_str!("../../../docs/formats/event.md"), include_str!("../../../docs/formats/examples/event.txt"));
const TABLE_DOC: &str =
    concat!(include_str!("../../../docs/formats/table.md"), include_str!("../../../docs/formats/examples/table.txt"));
const JOURNAL_DOC: &str = concat!(
    include_str!("../../../docs/formats/journal.md"),
    include_str!("../../../docs/formats/examples/journal.txt")
);
const JOURNAL_FILE_DOC: &str = concat!(
    include_str!("../../../docs/formats/journal-file.md"),
    include_str!("../../../docs/formats/examples/journal-file.txt")
);

/// Named samples and their bytes in hexadecimal digits.
type Samples = Vec<(&'static str, String)>;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

fn unhex(hex: &str) -> Vec<u8> {
    let digit = |d: u8| char::from(d).to_digit(16).expect("a hexadecimal digit") as u8;
    hex.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

/// The lines `name hex` of a golden file.
fn lines(golden: &str) -> BTreeMap<&str, &str> {
    golden.lines().filter_map(|line| line.split_once(' ')).collect()
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("a name")
}

const BIRTH: Time = Time(0x0102_0304_0506_0708);
const LATER: Time = Time(0x1112_1314_1516_1718);

const HASH: u64 = 0x0123_4567_89ab_cdef;

fn new_file() -> Inode {
    Inode { place: Place::embedded(HASH), ..Inode::new(Ino(256), Kind::File, 0o644, 1000, 100, Ino::ROOT, BIRTH) }
}

fn parent() -> Inode {
    Inode {
        mtime: LATER,
        ctime: LATER,
        size: 1,
        change: 2,
        ..Inode::new(Ino::ROOT, Kind::Dir, 0o755, 0, 0, Ino::ROOT, BIRTH)
    }
}

/// An inode with everything that can be in it.
fn rare() -> Inode {
    let acl = |perm| {
        Acl(vec![
            AclEntry { tag: AclTag::UserObj, id: u32::MAX, perm: 7 },
            AclEntry { tag: AclTag::User, id: 1000, perm },
        ])
    };
    Inode {
        size: 300,
        nlink: 3,
        atime: Time(-1),
        mtime: LATER,
        ctime: Time(0),
        place: Place::floating(Rank(3)),
        accounted: RStat { entries: 5, bytes: -6 },
        change: u64::MAX,
        cuts: 9,
        frag_bits: 5,
        inline: true,
        has_xattrs: true,
        extra: Some(Box::new(Extra {
            symlink: Some(b"../x".as_slice().into()),
            acl: Some(acl(5)),
            default_acl: Some(acl(4)),
            rstat: RStat { entries: 64, bytes: -65 },
            layout: Some(Layout { object_size: 65_536 }),
            rdev: 0x0801,
            linkable: true,
            expected_entries: 300,
            spread: Spread::No,
            placement: Placement::Inherited,
            moved: false,
            lookup_lease: LookupLease::NONE,
        })),
        ..Inode::new(Ino(0x1234), Kind::Block, 0o7777, u32::MAX, 128, Ino(300), BIRTH)
    }
}

/// A directory that lives where its number says, and says itself where others are to live.
fn placing() -> Inode {
    let ino = Ino(0x0002_0000_0000_0123).scattered(Rank(5)).expect("it fits");
    let mut dir = Inode::new(ino, Kind::Dir, 0o755, 0, 0, Ino::ROOT, BIRTH);
    dir.extra_mut().placement = Placement::Giga;
    dir
}

/// The same after it was given to another rank.
fn moved() -> Inode {
    let mut dir = placing();
    dir.moves_away();
    dir
}

/// One that clients may go by for a quarter of a second, and nothing that is made in it.
fn leased() -> Inode {
    let mut dir = Inode::new(Ino(0x123), Kind::Dir, 0o755, 0, 0, Ino::ROOT, BIRTH);
    dir.extra_mut().lookup_lease = LookupLease { time: LeaseTime::Ms(250), alone: true };
    dir
}

fn session() -> SessionRecord {
    SessionRecord {
        id: SessionId(7),
        name: b"host:1"[..].into(),
        client: 0x0102,
        local: true,
        uid: 1000,
        answered: Seq(40),
        done: vec![(Seq(40), Ino(256), 1), (Seq(300), Ino(0), 0)],
        grants: InoGrants(vec![InoGrant { first: Ino(300), count: 128, used: vec![(0, 2), (5, 6)] }]),
        addresses: Vec::new(),
    }
}

fn route() -> Route {
    let frag = Frag::new(3, 5).expect("5 has three bits");
    Route { dir: Ino(256), frag, rank: Rank(2), version: 300 }
}

fn peer() -> PeerRecord {
    PeerRecord { rank: Rank(2), sent: 300, acked: 298, received: 7 }
}

fn letter(seq: u64, letter: Letter) -> Event {
    Event::Letter { to: Rank(2), seq, letter: Arc::new(letter) }
}

/// With what a client holds on the file: open for reading and writing, two leases, a lock on all of it.
fn import() -> Letter {
    let flags = OpenFlags { read: true, write: true, truncate: false, append: true, exec: false };
    let lock =
        FileLock { kind: LockKind::Posix, exclusive: true, owner: LockOwner(9), pid: 300, start: 16, end: u64::MAX };
    let held = Reclaim {
        opens: vec![(5, Ino(256), flags, Lease(3))],
        leases: vec![(Ino(256), Lease(7)), (Ino(255), Lease(1))],
        locks: vec![(Ino(256), 5, lock)],
    };
    let client = MovedClient { client: 0x0102, name: b"host:1"[..].into(), uid: 1000, addresses: Vec::new(), held };
    Letter::Import { routes: vec![route()], events: vec![Event::InlineGone(Ino(256))], clients: vec![client] }
}

fn addresses() -> Vec<Box<[u8]>> {
    vec![b"10.0.0.7:0/12"[..].into()]
}

/// Of a client that holds nothing, and that the store knows.
fn import_direct() -> Letter {
    let client = MovedClient { client: 3, uid: 1000, addresses: addresses(), ..MovedClient::default() };
    Letter::Import { routes: Vec::new(), events: Vec::new(), clients: vec![client] }
}

/// A part in which nothing has changed.
fn fragment() -> Letter {
    let part = Box::new(parent().new_part(Rank(2)));
    Letter::Fragment { part, routes: vec![route()], events: vec![Event::InlineGone(Ino(256))], clients: Vec::new() }
}

fn bytes(text: &str) -> Arc<[u8]> {
    text.as_bytes().into()
}

fn decoupled() -> DecoupledRecord {
    DecoupledRecord {
        dir: Ino(256),
        epoch: 1000,
        owner: 0x0102_0304_0506_0708,
        session: SessionId(300),
        uid: 7,
        name: b"job"[..].into(),
        lease_ms: 60_000,
        grants: vec![(Ino(1000), 100), (Ino(2000), 1)],
        used: Ino(1050),
        merges: 3,
        interfere: Interfere::Allow,
        journal: Some(StoredJournal { ino: Ino(1001), bytes: 70_000 }),
        objects: vec![(Ino(1000), 64)],
        promise: Promise::NONE,
        overwritten: Vec::new(),
    }
}

/// One that others read, and of which its owner may have overwritten two files.
fn read() -> DecoupledRecord {
    let overwritten = vec![Overwritten { file: Ino(300), copy: Ino(2100), count: 2 }];
    DecoupledRecord { interfere: Interfere::Read, overwritten, ..promised() }
}

/// One in which others work, and of two files of which they and its owner each have a version.
fn forked() -> DecoupledRecord {
    DecoupledRecord { interfere: Interfere::Allow, ..read() }
}

/// One whose owner has said what it gives: weak/local.
fn promised() -> DecoupledRecord {
    DecoupledRecord { promise: Promise { consistency: 1, durability: 1 }, ..decoupled() }
}

/// Five bytes, two at the start and three behind a gap.
fn patches() -> Patches {
    Patches::new(vec![(0, 2), (5000, 3)], bytes("abcde")).expect("within the limits")
}

fn events() -> Vec<(&'static str, Event)> {
    let ino = Ino(256);
    vec![
        ("inode", Event::Inode(Box::new(new_file()))),
        ("inode-parent", Event::Inode(Box::new(parent()))),
        ("inode-rare", Event::Inode(Box::new(rare()))),
        ("inode-placement", Event::Inode(Box::new(placing()))),
        ("inode-moved", Event::Inode(Box::new(moved()))),
        ("inode-lookup-lease", Event::Inode(Box::new(leased()))),
        ("inode-gone", Event::InodeGone(ino)),
        ("entry", Event::Entry { dir: Ino::ROOT, name: name("file"), ino, kind: Kind::File, remote: false }),
        ("entry-remote", Event::Entry { dir: Ino::ROOT, name: name("far"), ino, kind: Kind::Dir, remote: true }),
        ("entry-gone", Event::EntryGone { dir: Ino::ROOT, name: name("file") }),
        ("xattr", Event::Xattr { ino, name: bytes("user.a"), value: bytes("xyz") }),
        ("xattr-gone", Event::XattrGone { ino, name: bytes("user.a") }),
        ("inline", Event::Inline { ino, data: bytes("data") }),
        ("inline-gone", Event::InlineGone(ino)),
        ("orphan", Event::Orphan(ino)),
        ("orphan-gone", Event::OrphanGone(ino)),
        ("discard", Event::Discard { ino, from: 5000, object_size: 4 << 20 }),
        ("discard-gone", Event::DiscardGone(ino)),
        ("session", Event::Session(session())),
        (
            "session-direct",
            Event::Session(SessionRecord { grants: InoGrants::default(), addresses: addresses(), ..session() }),
        ),
        ("session-gone", Event::SessionGone(SessionId(7))),
        ("next-ino", Event::NextIno(Ino(1 << 20))),
        ("route", Event::Route(route())),
        ("route-gone", Event::RouteGone(ino)),
        ("letter-commit", letter(300, Letter::Commit { tx: 77, events: vec![Event::InlineGone(ino)] })),
        ("letter-import", letter(1, import())),
        ("letter-import-direct", letter(1, import_direct())),
        ("letter-sum", letter(2, Letter::Sum { dir: ino, entries: 64, bytes: -65 })),
        ("peer", Event::Peer(peer())),
        ("departed", Event::Departed([Ino(256), Ino(300), Ino(299)].into())),
        ("departed-frag", Event::DepartedFrag { dir: ino, frag: Frag { bits: 3, value: 5 } }),
        ("part-gone", Event::PartGone { dir: ino, rank: Rank(2) }),
        ("letter-fragment", letter(4, fragment())),
        ("decoupled", Event::Decoupled(Box::new(decoupled()))),
        ("decoupled-promised", Event::Decoupled(Box::new(promised()))),
        ("decoupled-read", Event::Decoupled(Box::new(read()))),
        ("decoupled-forked", Event::Decoupled(Box::new(forked()))),
        ("decoupled-gone", Event::DecoupledGone(ino)),
        ("merge-part", Event::MergePart { dir: ino, part: 300, body: [2, 0, 0].into() }),
        ("merge", Event::Merge { dir: ino }),
        ("data", Event::Data { ino, object_size: 4 << 20, patches: Arc::new(patches()) }),
        ("data-in-place", Event::DataInPlace { ino, upto: Lsn(300) }),
        ("pad", Event::Pad { len: 5 }),
        ("inline-patch", Event::InlinePatch(Box::new(inline_patch()))),
    ]
}

/// Three bytes behind six thousand.
fn inline_patch() -> InlinePatch {
    let bytes = (*b"abc").into();
    InlinePatch {
        ino: Ino(256),
        whole: Lsn(300),
        base_len: 6000,
        base_crc: 0x1234_5678,
        len: 6003,
        offset: 6000,
        bytes,
    }
}

fn create() -> Record {
    let origin = Origin { session: SessionId(7), seq: Seq(300), answered: Seq(299), ino: Ino(256), value: 1 };
    let [file, entry, root] = ["inode", "entry", "inode-parent"]
        .map(|name| events().into_iter().find(|(event, _)| *event == name).expect("it is there").1);
    Record { origin: Some(origin), events: vec![file, entry, root] }
}

fn records() -> Vec<(&'static str, Record)> {
    let single = events().into_iter().map(|(name, event)| (name, Record { origin: None, events: vec![event] }));
    single.chain([("create", create()), ("empty", Record::default())]).collect()
}

fn rows() -> Vec<(&'static str, Row)> {
    let ino = Ino(256);
    vec![
        ("inode", Row::Inode(Box::new(new_file()))),
        ("inode-rare", Row::Inode(Box::new(rare()))),
        (
            "entry",
            Row::Entry {
                dir: Ino::ROOT,
                hash: HASH,
                name: name("file"),
                target: Target { ino, kind: Kind::File, remote: false },
            },
        ),
        (
            "entry-remote",
            Row::Entry {
                dir: Ino::ROOT,
                hash: HASH,
                name: name("far"),
                target: Target { ino, kind: Kind::Dir, remote: true },
            },
        ),
        ("xattr", Row::Xattr { ino, name: bytes("user.a"), value: bytes("xyz") }),
        ("inline", Row::Inline { ino, data: bytes("data") }),
        ("orphan", Row::Orphan { ino, rank: Rank(2) }),
        ("discard", Row::Discard { ino, rank: Rank(2), from: 5000, object_size: 4 << 20 }),
        ("session", Row::Session(session())),
        ("meta-format", Row::Meta { meta: Meta::Format, rank: Rank::ZERO, value: TABLE_VERSION }),
        ("meta-next-ino", Row::Meta { meta: Meta::NextIno, rank: Rank(2), value: 1 << 20 }),
        ("meta-replay-from", Row::Meta { meta: Meta::ReplayFrom, rank: Rank(2), value: 300 }),
        ("meta-clean", Row::Meta { meta: Meta::Clean, rank: Rank::ZERO, value: 1 }),
        ("meta-data-epoch", Row::Meta { meta: Meta::DataEpoch, rank: Rank::ZERO, value: 7 }),
        ("meta-rank-state", Row::Meta { meta: Meta::RankState, rank: Rank(2), value: 4 }),
        ("meta-map-epoch", Row::Meta { meta: Meta::MapEpoch, rank: Rank::ZERO, value: 9 }),
        ("meta-policy", Row::Meta { meta: Meta::Policy, rank: Rank::ZERO, value: 7 }),
        ("meta-copying", Row::Meta { meta: Meta::Copying, rank: Rank::ZERO, value: 1 }),
        ("note", Row::Note { name: "a/7".into(), data: bytes("text") }),
        ("meta-ranks", Row::Meta { meta: Meta::Ranks, rank: Rank::ZERO, value: 3 }),
        ("route", Row::Route { of: Rank(1), route: route() }),
        ("peer", Row::Peer { of: Rank(1), peer: peer() }),
        ("part", Row::Inode(Box::new(parent().new_part(Rank(2))))),
        ("decoupled", Row::Decoupled { rank: Rank(2), record: Box::new(decoupled()) }),
    ]
}

fn encoded(record: &Record) -> Vec<u8> {
    let mut out = Vec::new();
    encode_record(&mut out, record.origin.as_ref(), &record.events);
    out
}

/// Segment 5 of a rank 2: record 10 (durable before it: 9) and record 11 (durable before it: 9 too, as one batch).
fn segment() -> Vec<u8> {
    let fs = std::array::from_fn(|n| 0xa0 + n as u8);
    let tail = Tail { next_lsn: Lsn(10), next_segment: 5, ..Tail::default() };
    let mut writer = Writer::resume(WriterConfig::new(fs, 2), &tail);
    let gone = Record { origin: None, events: vec![Event::OrphanGone(Ino(256))] };
    for record in [gone, Record::default()] {
        writer.append(&encoded(&record)).expect("the writer has not failed");
    }
    writer.take_batch().expect("two records").bytes
}

/// Compares with a golden file; all differences at once, in the form of the file.
fn check(file: &str, golden: &str, samples: &Samples) {
    let known = lines(golden);
    let differing: Vec<String> = samples
        .iter()
        .filter(|(name, hex)| known.get(name) != Some(&hex.as_str()))
        .map(|(name, hex)| format!("{name} {hex}"))
        .collect();
    assert!(differing.is_empty(), "not as in tests/golden/{file}:\n{}\n", differing.join("\n"));
    assert_eq!(known.len(), samples.len(), "tests/golden/{file} has lines that no sample makes");
}

#[test]
fn every_event_has_its_bytes() {
    let samples = records().iter().map(|(name, record)| (*name, hex(&encoded(record)))).collect();
    check("event.hex", EVENT, &samples);
    for (name, record) in records() {
        assert_eq!(decode_record(&unhex(lines(EVENT)[name])), Ok(record), "{name}");
    }
}

#[test]
fn what_was_said_of_a_decoupled_subtree_before_there_was_more_to_say_is_read() {
    let plain = DecoupledRecord { interfere: Interfere::Block, journal: None, objects: Vec::new(), ..decoupled() };
    let event = "020001178002e8070807060504030201ac0207036a6f62e0d4039a080302e80764d00f01";
    let record = Record { origin: None, events: vec![Event::Decoupled(Box::new(plain.clone()))] };
    assert_eq!(decode_record(&unhex(event)), Ok(record));
    let value = unhex("0202e8070807060504030201ac0207036a6f62e0d4039a080302e80764d00f01");
    assert_eq!(decode_decoupled(Ino(256), &value), Ok((Rank(2), plain)));
}

#[test]
fn every_row_has_its_bytes() {
    let samples = rows()
        .iter()
        .map(|(name, row)| {
            let (key, value) = row.encode();
            (*name, format!("{} {}", hex(&key), hex(&value)))
        })
        .collect();
    check("table.hex", TABLE, &samples);
    for (name, row) in rows() {
        let (key, value) = lines(TABLE)[name].split_once(' ').expect("key and value");
        assert_eq!(decode_row(&unhex(key), &unhex(value)), Ok(row), "{name}");
    }
}

#[test]
fn a_segment_has_its_bytes() {
    check("journal.hex", JOURNAL, &vec![("segment", hex(&segment()))]);
    let source = MemSource(BTreeMap::from([(5, unhex(lines(JOURNAL)["segment"]))]));
    let mut reader = Reader::open(source, ReadConfig { from: Lsn(10), ..ReadConfig::default() }).expect("good bytes");
    let mut bodies = Vec::new();
    while let Some(record) = reader.next_record().expect("good bytes") {
        bodies.push((record.lsn, decode_record(record.body).expect("good bytes")));
    }
    assert_eq!(bodies.iter().map(|(lsn, record)| (lsn.0, record.events.len())).collect::<Vec<_>>(), [(10, 1), (11, 0)]);
}

/// A finished selection of a rank's journal, and a client's journal that is being written.
fn files() -> Samples {
    let mut bodies = [Vec::new(), Vec::new()];
    encode_record(&mut bodies[0], None, &[Event::OrphanGone(Ino(256))]);
    encode_record(&mut bodies[1], None, &[]);
    let fs = std::array::from_fn(|n| 0xa0 + n as u8);
    let mut selection = FileWriter::new(fs, Owner::Rank(2), true);
    let mut bytes = selection.header().to_vec();
    selection.append(&mut bytes, Lsn(10), &bodies[0]).expect("it is the first");
    selection.append(&mut bytes, Lsn(15), &bodies[1]).expect("there may be holes");
    bytes.splice(..64, selection.finish());
    let mut client = FileWriter::new(fs, Owner::Client(258), false);
    let mut open = client.header().to_vec();
    client.append(&mut open, Lsn(1), &bodies[0]).expect("it is the first");
    vec![("selection", hex(&bytes)), ("client", hex(&open))]
}

#[test]
fn a_journal_file_has_its_bytes() {
    check("journal-file.hex", JOURNAL_FILE, &files());
    for (name, want) in [("selection", &[10, 15][..]), ("client", &[1])] {
        let source = MemSource(BTreeMap::from([(0, unhex(lines(JOURNAL_FILE)[name]))]));
        let mut reader = FileReader::open(source).expect("good bytes");
        let mut found = Vec::new();
        while let Some(record) = reader.next_record().expect("good bytes") {
            decode_record(record.body).expect("good bytes");
            found.push(record.lsn.0);
        }
        assert_eq!((found.as_slice(), reader.tail().expect("the end").torn), (want, None), "{name}");
    }
}

/// The blocks ` ```hex NAME ` of a document: pairs of digits up to a `;`, which begins a remark.
fn blocks(document: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut current: Option<(String, String)> = None;
    for line in document.lines() {
        match (&mut current, line.strip_prefix("```")) {
            (None, Some(head)) => {
                current = head.strip_prefix("hex ").map(|name| (name.trim().to_string(), String::new()));
            }
            (Some(_), Some(_)) => found.extend(current.take()),
            (Some((_, hex)), None) => {
                let bytes = line.split(';').next().unwrap_or_default();
                hex.extend(bytes.chars().filter(|c| !c.is_whitespace()));
            }
            (None, None) => {}
        }
    }
    found
}

#[test]
fn the_documents_show_the_same_bytes() {
    let shown = [
        (
            "event.md",
            EVENT_DOC,
            EVENT,
            &["create", "inode-rare", "session", "route", "letter-import", "letter-sum", "departed"][..],
        ),
        (
            "table.md",
            TABLE_DOC,
            TABLE,
            &["inode", "entry", "xattr", "discard", "session", "meta-replay-from", "route", "peer"],
        ),
        ("journal.md", JOURNAL_DOC, JOURNAL, &["segment"]),
        ("journal-file.md", JOURNAL_FILE_DOC, JOURNAL_FILE, &["selection", "client"]),
    ];
    for (file, document, golden, needed) in shown {
        let (blocks, golden) = (blocks(document), lines(golden));
        for (name, hex) in &blocks {
            let golden = golden.get(name.as_str()).map(|hex| hex.replace(' ', ""));
            assert_eq!(Some(hex), golden.as_ref(), "docs/formats/{file}, block {name}");
        }
        for name in needed {
            assert!(blocks.contains_key(*name), "docs/formats/{file} must show {name}");
        }
    }
}
