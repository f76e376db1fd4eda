//! The journals of several ranks over one table: what departed, letters on their way, and ranks that contradict each other.

use loligo_journal::table::{key_entry, key_inode, key_orphan, key_peer, key_route};
use loligo_journal::{Writer, WriterConfig, encode_record};
use loligo_namespace::hash63;
use loligo_rows::{put_event, put_meta};
use loligo_store::Identity;
use loligo_store::mem::MemDisk;
use loligo_types::{Frag, Inode, Kind, Letter, Lsn, PeerRecord, RStat, Route, Time};

use super::*;
use crate::server::format::{FormatOptions, format};

const DIR: Ino = Ino(300);
pub(super) const FILE: Ino = Ino(301);

/// A file system of two ranks, whose table holds these records as rank 0 would write them.
pub(super) fn disk(table: &[Event]) -> MemDisk {
    let disk = MemDisk::new(Identity::new([1; 16], [2; 16]));
    let backend = disk.open().expect("it is not open");
    format(&*backend, &FormatOptions::default()).expect("it is empty");
    let key = hash_key(&*backend);
    let mut batch = Batch::new();
    put_meta(&mut batch, Meta::Ranks, Rank::ZERO, 2);
    for event in table {
        let hash = match event {
            Event::Entry { name, .. } => hash63(key, name.as_bytes()),
            _ => 0,
        };
        put_event(&mut batch, event, hash, Rank::ZERO);
    }
    backend.table().write(&batch, Durability::Sync).expect("memory has room");
    disk
}

/// Writes records into the journal of a rank.
pub(super) fn journal(disk: &MemDisk, rank: u32, records: &[Vec<Event>]) {
    let backend = disk.open().expect("it is not open");
    let config = WriterConfig::new(backend.identity().fs_id, rank);
    let mut writer = Writer::resume(config, &Tail::default());
    for events in records {
        let mut body = Vec::new();
        encode_record(&mut body, None, events);
        writer.append(&body).expect("the writer has not failed");
    }
    let batch = writer.take_batch().expect("there are records");
    let log = backend.log_dir(rank).expect("there is room");
    let mut file = log.create(batch.segment).expect("it is new");
    file.append(&batch.bytes).expect("there is room");
    file.sync().expect("memory is durable");
}

fn open(disk: &MemDisk) -> Offline {
    Offline::open(disk.open().expect("it is not open"), &mut |_| ()).expect("a file system")
}

pub(super) fn inode(ino: Ino, kind: Kind, size: u64) -> Event {
    let mut inode = Inode::new(ino, kind, 0o755, 0, 0, Ino::ROOT, Time(0));
    inode.size = size;
    Event::Inode(Box::new(inode))
}

fn entry(dir: Ino, name: &str, ino: Ino, remote: bool) -> Event {
    let name = Name::new(name.as_bytes()).expect("a name");
    Event::Entry { dir, name, ino, kind: Kind::File, remote }
}

fn letter(seq: u64, letter: Letter) -> Event {
    Event::Letter { to: Rank(1), seq, letter: Arc::new(letter) }
}

fn sent(rank: u16, sent: u64) -> Event {
    Event::Peer(PeerRecord { rank: Rank(rank), sent, acked: 0, received: 0 })
}

fn received(rank: u16, received: u64) -> Event {
    Event::Peer(PeerRecord { rank: Rank(rank), sent: 0, acked: 0, received })
}

/// The size of an inode.
pub(super) fn size(offline: &Offline, ino: Ino) -> Option<u64> {
    match offline.get(&key_inode(ino)).expect("a good row") {
        Some(Row::Inode(inode)) => Some(inode.size),
        _ => None,
    }
}

fn has_entry(offline: &Offline, dir: Ino, name: &str) -> bool {
    let name = Name::new(name.as_bytes()).expect("a name");
    offline.get(&key_entry(dir, offline.hash(&name), &name)).expect("a good row").is_some()
}

#[test]
fn what_departed_is_as_the_new_rank_says() {
    let disk = disk(&[]);
    let mine = vec![
        inode(DIR, Kind::Dir, 1),
        entry(DIR, "old", FILE, false),
        Event::Xattr { ino: FILE, name: b"user.a"[..].into(), value: b"old"[..].into() },
        inode(FILE, Kind::File, 1),
        inode(Ino(400), Kind::File, 40),
    ];
    journal(&disk, 0, &[mine, vec![Event::Departed([DIR, FILE].into()), inode(Ino(401), Kind::File, 41)]]);
    journal(&disk, 1, &[vec![inode(FILE, Kind::File, 2), entry(DIR, "new", FILE, false)]]);
    let mut offline = open(&disk);
    for settled in [false, true] {
        assert_eq!(size(&offline, FILE), Some(2), "settled: {settled}");
        assert_eq!(size(&offline, DIR), None, "nobody says anything of it, nor does the table");
        assert_eq!((size(&offline, Ino(400)), size(&offline, Ino(401))), (Some(40), Some(41)));
        assert!(has_entry(&offline, DIR, "new") && !has_entry(&offline, DIR, "old"));
        let xattr = loligo_journal::table::key_xattr(FILE, b"user.a");
        assert_eq!(offline.get(&xattr).expect("no row"), None);
        assert_eq!(offline.damage(), [""; 0]);
        offline.settle().expect("memory has room");
    }
}

#[test]
fn letters_that_did_not_arrive_are_applied_once_and_in_order() {
    let disk = disk(&[inode(DIR, Kind::Dir, 0)]);
    let route = Route { dir: DIR, frag: Frag::WHOLE, rank: Rank(1), version: 3 };
    let commit = |size| Letter::Commit { tx: 1, events: vec![inode(FILE, Kind::File, size)] };
    let import = Letter::Import { routes: vec![route], events: vec![entry(DIR, "in", FILE, false)], clients: vec![] };
    let sum = Letter::Sum { dir: DIR, entries: 2, bytes: -5 };
    let dir = |entries| {
        let mut dir = Inode::new(DIR, Kind::Dir, 0o755, 0, 0, Ino::ROOT, Time(0));
        dir.extra_mut().rstat = RStat { entries, bytes: 0 };
        Event::Inode(Box::new(dir))
    };
    // As it was when it was lent, which is long ago, and as it is to be.
    let lent = Letter::Commit { tx: 2, events: vec![dir(1), dir(8)] };
    journal(
        &disk,
        0,
        &[
            vec![letter(1, commit(1)), sent(1, 1)],
            vec![letter(2, commit(2)), sent(1, 2)],
            vec![letter(3, import), letter(4, sum.clone()), sent(1, 4)],
            vec![letter(5, sum), sent(1, 5)],
            vec![letter(6, lent), sent(1, 6)],
        ],
    );
    // It has the first one, and has gone on from there.
    journal(&disk, 1, &[vec![inode(FILE, Kind::File, 1), received(0, 1)]]);
    for _ in 0..2 {
        let mut offline = open(&disk);
        assert_eq!(offline.damage(), [""; 0]);
        assert_eq!(size(&offline, FILE), Some(2));
        assert!(has_entry(&offline, DIR, "in"));
        let Some(Row::Inode(dir)) = offline.get(&key_inode(DIR)).expect("a good row") else { panic!("no directory") };
        assert_eq!(dir.rstat(), RStat { entries: 11, bytes: -10 }, "the second time, too");
        let row = offline.get(&key_route(Rank(1), DIR, Frag::WHOLE)).expect("a good row");
        assert_eq!(row, Some(Row::Route { of: Rank(1), route }));
        let peer = |of: u16, other: u16| match offline.get(&key_peer(Rank(of), Rank(other))).expect("a good row") {
            Some(Row::Peer { peer, .. }) => (peer.sent, peer.acked, peer.received),
            _ => (0, 0, 0),
        };
        assert_eq!((peer(0, 1), peer(1, 0)), ((6, 6, 0), (0, 0, 6)));
        offline.settle().expect("memory has room");
        offline.close().expect("it closes");
    }
}

#[test]
fn lost_letters_and_letters_to_nobody_are_damage() {
    let disk = disk(&[]);
    let commit = |size| Letter::Commit { tx: 1, events: vec![inode(FILE, Kind::File, size)] };
    let to_nobody = Event::Letter { to: Rank(9), seq: 1, letter: Arc::new(commit(9)) };
    journal(&disk, 0, &[vec![letter(3, commit(3)), letter(6, commit(6)), sent(1, 8), to_nobody]]);
    let offline = open(&disk);
    assert_eq!(
        offline.damage(),
        [
            "rank 0 has a letter to rank 9, which there is not",
            "letters 1 to 2 of rank 0 to rank 1 are in no journal",
            "letters 4 to 5 of rank 0 to rank 1 are in no journal",
            "letters 7 to 8 of rank 0 to rank 1 are in no journal",
        ]
    );
    assert_eq!(size(&offline, FILE), Some(6), "what there is counts");
}

#[test]
fn more_letters_applied_than_were_written_are_damage() {
    let disk = disk(&[]);
    journal(&disk, 0, &[vec![sent(1, 2)]]);
    journal(&disk, 1, &[vec![received(0, 3)]]);
    let found = "rank 1 has applied letters of rank 0 up to 3, but that one knows of 2 only";
    assert_eq!(open(&disk).damage(), [found]);
}

#[test]
fn two_ranks_that_claim_a_row_are_damage_unless_they_agree() {
    let disk = disk(&[]);
    journal(&disk, 0, &[vec![inode(FILE, Kind::File, 1), inode(Ino(400), Kind::File, 4), Event::Orphan(Ino(7))]]);
    journal(&disk, 1, &[vec![inode(FILE, Kind::File, 2), inode(Ino(400), Kind::File, 4), Event::OrphanGone(Ino(7))]]);
    let offline = open(&disk);
    let claim = "rank 0 and rank 1 both say in their journals what inode 301 is; what rank 0 says counts";
    assert_eq!(offline.damage(), [claim]);
    assert_eq!(size(&offline, FILE), Some(1));
    assert!(offline.get(&key_orphan(Ino(7))).expect("a good row").is_some(), "it went from one to the other");
}

#[test]
fn each_rank_goes_on_behind_its_own_journal_and_with_its_own_numbers() {
    let disk = disk(&[]);
    let far = Ino(Ino::first_of(Rank(1)).0 + 5);
    journal(&disk, 0, &[vec![inode(Ino(500), Kind::File, 0)], vec![]]);
    journal(&disk, 1, &[vec![inode(far, Kind::File, 0), inode(Ino(600), Kind::File, 0)]]);
    let offline = open(&disk);
    assert_eq!(
        offline.tails().iter().map(|(rank, tail)| (rank.0, tail.next_lsn.0)).collect::<Vec<_>>(),
        [(0, 3), (1, 2)]
    );
    let want = BTreeMap::from([(Rank(0), Ino(501)), (Rank(1), Ino(far.0 + 1))]);
    assert_eq!(*offline.next_inos(), want, "an inode that came from elsewhere does not raise the counter");
    offline.close().expect("it closes");
    let backend = disk.open().expect("it is not open");
    for (rank, next) in [(0, 3), (1, 2)] {
        let head = read_head(&*backend.table(), Rank(rank)).expect("a head");
        assert_eq!((head.replay_from.0, head.next_ino), (next, want[&Rank(rank)]));
        assert!(head.clean);
    }
}

#[test]
fn what_was_begun_is_a_file_system_once_it_is_finished_and_never_before() {
    let disk = MemDisk::new(Identity::new([1; 16], [2; 16]));
    let begin =
        || Offline::begin(disk.open().expect("it is not open"), &FormatOptions::default()).expect("it is empty");
    let mut cut_off = begin();
    cut_off.write(&[inode(FILE, Kind::File, 1)]).expect("there is room");
    drop(cut_off);
    let refused = Offline::open(disk.open().expect("it is not open"), &mut |_| ()).err();
    assert!(matches!(refused, Some(crate::ServerError::Rows(loligo_rows::Error::NotFormatted))), "{refused:?}");
    begin().finish().expect("there is room");
    let whole = open(&disk);
    assert!(whole.was_clean());
    assert!(whole.get(&key_inode(Ino::ROOT)).expect("a row").is_some());
    drop(whole);
    let again = Offline::begin(disk.open().expect("it is not open"), &FormatOptions::default()).err();
    assert!(matches!(again, Some(crate::ServerError::AlreadyFormatted)), "{again:?}");
}

#[test]
fn what_the_journals_would_change_is_counted_and_a_journal_elsewhere_counts_in_place_of_the_rank_s() {
    let disk = disk(&[inode(FILE, Kind::File, 1), inode(Ino(400), Kind::File, 4)]);
    // One row as the table has it, one new, one changed, one gone.
    let xattr = Event::Xattr { ino: FILE, name: b"user.a"[..].into(), value: b"v"[..].into() };
    journal(
        &disk,
        0,
        &[vec![inode(FILE, Kind::File, 1), xattr], vec![inode(DIR, Kind::Dir, 0), entry(DIR, "a", FILE, false)]],
    );
    let put = |put| Pending { put, removed: 0 };
    let opened = open(&disk);
    let want = BTreeMap::from([("entry", put(1)), ("inode", put(1)), ("next_ino", put(1)), ("xattr", put(1))]);
    assert_eq!(opened.pending().expect("a good table"), want);
    drop(opened);

    let other = MemDisk::new(Identity::new([1; 16], [3; 16]));
    journal(&other, 0, &[vec![inode(FILE, Kind::File, 2), Event::InodeGone(Ino(400))]]);
    let there = other.open().expect("it is not open");
    let mut source = loligo_rows::LogSource::new(there.log_dir(0).expect("it is there"));
    let backend = disk.open().expect("it is not open");
    let opened = Offline::open_with(backend, (Rank::ZERO, &mut source), &mut |_| ()).expect("a file system");
    assert_eq!((size(&opened, FILE), size(&opened, Ino(400)), size(&opened, DIR)), (Some(2), None, None));
    let found = opened.pending().expect("a good table");
    assert_eq!(found.get("inode"), Some(&Pending { put: 1, removed: 1 }));
    assert_eq!(found.get("entry"), None);
    drop(opened);

    let mut opened = open(&disk);
    opened.settle().expect("memory has room");
    assert_eq!(opened.pending().expect("a good table"), BTreeMap::new());
    opened.close().expect("it closes");
    assert_eq!(open(&disk).pending().expect("a good table"), BTreeMap::new());
}

#[test]
fn data_that_only_a_journal_has_is_written_into_objects_before_the_journal_is_not_needed() {
    let data = |offset: u64, text: &str| {
        let patches = loligo_types::Patches::of(&[(offset, Arc::from(text.as_bytes()))]).expect("within the limits");
        Event::Data { ino: FILE, object_size: 4096, patches: Arc::new(patches) }
    };
    let disk = disk(&[inode(Ino::ROOT, Kind::Dir, 0), inode(FILE, Kind::File, 5000)]);
    let cut = Event::Discard { ino: FILE, from: 4098, object_size: 4096 };
    let in_place = Event::DataInPlace { ino: FILE, upto: Lsn(1) };
    journal(
        &disk,
        0,
        &[vec![data(0, "old")], vec![in_place], vec![data(4094, "abcdefgh")], vec![cut], vec![data(1, "x")]],
    );
    let mut offline = open(&disk);
    assert_eq!(offline.data_bytes(), 5, "four bytes before the cut, and one after it");
    offline.settle().expect("there is room");
    assert_eq!(offline.data_bytes(), 0);
    drop(offline);
    disk.crash(&loligo_store::mem::CrashPlan::lose_all());
    let blobs = disk.open().expect("it is not open").blobs();
    let read = Effect::Read { ino: FILE, object_size: 4096, offset: 0, len: 4100 };
    let Ok(loligo_types::DataAnswer::Bytes(bytes)) = loligo_osd::execute(&*blobs, &read) else { panic!("no bytes") };
    assert_eq!((&bytes[..3], &bytes[4093..]), (&b"\0x\0"[..], &b"\0abcd\0\0"[..]));
}
