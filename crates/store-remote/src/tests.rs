//! Requests and answers come back as they were, their bytes are fixed (and drawn in docs/formats/store.md), and no bytes do
//! harm. The calls themselves: `tests/store.rs`.

use loligo_store::{Durability, Extent, ObjectId, Segment, StatFs, StoreError, TableSize};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;

use crate::{Answer, Request};

/// Parts of requests and answers.
#[derive(Clone, Debug)]
struct Parts {
    code: u8,
    bytes: Vec<Vec<u8>>,
    numbers: Vec<u64>,
    texts: (String, String),
    flag: bool,
    gaps: Vec<Option<u8>>,
}

fn parts() -> impl Strategy<Value = Parts> {
    let bytes = vec(vec(any::<u8>(), 0..40), 3..7);
    let texts = ("[ -~ä]{0,20}", "[ -~ä]{0,20}");
    (any::<u8>(), bytes, vec(any::<u64>(), 4..8), texts, any::<bool>(), vec(of(any::<u8>()), 0..4))
        .prop_map(|(code, bytes, numbers, texts, flag, gaps)| Parts { code, bytes, numbers, texts, flag, gaps })
}

fn id(parts: &Parts) -> ObjectId {
    ObjectId::new(parts.numbers[0], parts.numbers[1])
}

fn request(parts: &Parts) -> Request<'_> {
    let [one, two, three] = [&parts.bytes[0][..], &parts.bytes[1][..], &parts.bytes[2][..]];
    let all: Vec<&[u8]> = parts.bytes.iter().map(Vec::as_slice).collect();
    let (rank, number, offset, len) = (parts.numbers[0] as u32, parts.numbers[1], parts.numbers[2], parts.numbers[3]);
    let id = id(parts);
    let durability = if parts.flag { Durability::Sync } else { Durability::Buffered };
    match parts.code % 36 {
        0 => Request::Attach { version: rank, ticket: number },
        1 => Request::Get { key: one },
        2 => Request::MultiGet { keys: all },
        3 => Request::Scan { start: one, end: two, limit: number },
        4 => Request::Write { durability, puts: vec![(one, two), (two, three)], deletes: all },
        5 => Request::Flush,
        6 => Request::TableSize,
        7 => Request::LogDir { rank },
        8 => Request::LogList { rank },
        9 => Request::LogCreate { rank, id: number },
        10 => Request::LogOpenAppend { rank, id: number },
        11 => Request::LogOpen { rank, id: number },
        12 => Request::LogTruncate { rank, id: number, len },
        13 => Request::LogDelete { rank, id: number },
        14 => Request::LogSyncDir { rank },
        15 => Request::Append { bytes: one },
        16 => Request::SyncFile,
        17 => Request::ReadFile { offset, len: rank },
        18 => Request::FileLen,
        19 => Request::Read { id, offset, len: rank },
        20 => Request::WriteAt { id, offset, data: one },
        21 => Request::Truncate { id, len },
        22 => Request::Punch { id, offset, len },
        23 => Request::Sync { id },
        24 => Request::SyncMany { ino: number, indexes: parts.numbers.clone() },
        25 => Request::SyncRemovals { ino: number },
        26 => Request::SyncAll,
        27 => Request::Delete { id },
        28 => Request::Len { id },
        29 => Request::Extents { id, offset, len },
        30 => Request::ObjectsOf { ino: number },
        31 => Request::ListObjects,
        32 => Request::Ranks,
        33 => Request::CloseFile,
        34 => Request::LogSynced { rank },
        35 => Request::WriteLogged { id, offset, data: one },
        36 => Request::Spoil { id, offset, len },
        _ => Request::StatFs,
    }
}

fn error(parts: &Parts) -> StoreError {
    let (a, b) = parts.texts.clone();
    match parts.numbers[3] % 12 {
        0 => StoreError::Full { what: a },
        1 => StoreError::ReadOnly { what: a, cause: b },
        2 => StoreError::Foreign { dir: a, found: b },
        3 => StoreError::AlreadyFormatted { dir: a, fs_id: b },
        4 => StoreError::NewerVersion { what: a, found: parts.numbers[0] as u32, known: parts.numbers[1] as u32 },
        5 => StoreError::InUse { dir: a, owner: b },
        6 => StoreError::Corrupt { place: a, detail: b },
        7 => StoreError::NotFound { what: a },
        8 => StoreError::Io { what: a, cause: b },
        9 => StoreError::Lost { what: a, cause: b },
        10 => StoreError::Fenced { what: a, cause: b },
        _ => StoreError::NoDescriptor { what: a },
    }
}

fn answer(parts: &Parts) -> Answer<'_> {
    let rows = parts.bytes.chunks_exact(2).map(|row| (&row[0][..], &row[1][..])).collect();
    let pairs: Vec<(u64, u64)> = parts.numbers.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    let numbers = &parts.numbers;
    match parts.code % 13 {
        0 => Answer::Done,
        1 => Answer::Failed(error(parts)),
        2 => {
            let of = |gap: &Option<u8>| gap.map(|at| &parts.bytes[usize::from(at) % parts.bytes.len()][..]);
            Answer::Values(parts.gaps.iter().map(of).collect())
        }
        3 => Answer::Rows { rows, more: parts.flag },
        4 => Answer::Bytes(&parts.bytes[0]),
        5 => Answer::Len(parts.flag.then_some(numbers[0])),
        6 => Answer::Segments(pairs.into_iter().map(|(id, len)| Segment { id, len }).collect()),
        7 => Answer::Extents(pairs.into_iter().map(|(offset, len)| Extent { offset, len }).collect()),
        8 => Answer::Numbers(numbers.clone()),
        9 => {
            let objects = pairs.into_iter().map(|(ino, index)| (ObjectId::new(ino, index), numbers[3])).collect();
            Answer::Objects { objects, more: parts.flag }
        }
        10 => Answer::TableSize(TableSize { keys: numbers[0], bytes: numbers[1] }),
        11 => Answer::StatFs(StatFs {
            total_bytes: numbers[0],
            free_bytes: numbers[1],
            total_inodes: numbers[2],
            free_inodes: numbers[3],
        }),
        _ => Answer::Identity(&parts.bytes[0]),
    }
}

fn bytes_of(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out);
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn requests_and_answers_come_back(parts in parts()) {
        let request = request(&parts);
        let bytes = bytes_of(|out| request.encode(out));
        prop_assert_eq!(Request::decode(&bytes), Ok(request));
        let answer = answer(&parts);
        let bytes = bytes_of(|out| answer.encode(out));
        prop_assert_eq!(Answer::decode(&bytes), Ok(answer));
    }

    #[test]
    fn what_is_cut_or_too_long_is_refused(parts in parts(), at in any::<prop::sample::Index>()) {
        let mut bytes = bytes_of(|out| request(&parts).encode(out));
        prop_assert!(Request::decode(&bytes[..at.index(bytes.len())]).is_err());
        bytes.push(0);
        prop_assert!(Request::decode(&bytes).is_err());
        let mut bytes = bytes_of(|out| answer(&parts).encode(out));
        prop_assert!(Answer::decode(&bytes[..at.index(bytes.len())]).is_err());
        bytes.push(0);
        prop_assert!(Answer::decode(&bytes).is_err());
    }

    #[test]
    fn any_bytes_are_refused_or_read_and_written_the_same(bytes in vec(any::<u8>(), 0..100)) {
        if let Ok(request) = Request::decode(&bytes) {
            prop_assert_eq!(&bytes_of(|out| request.encode(out)), &bytes);
        }
        if let Ok(answer) = Answer::decode(&bytes) {
            prop_assert_eq!(&bytes_of(|out| answer.encode(out)), &bytes);
        }
    }
}

/// Bytes of a block of docs/formats/store.md or examples/store.txt: the part before the semicolons.
fn drawn(name: &str) -> String {
    let doc = concat!(
        include_str!("../../../docs/formats/store.md"),
        include_str!("../../../docs/formats/examples/store.txt")
    );
    let start = format!("```hex {name}\n");
    let block = doc.split_once(&start).and_then(|(_, rest)| rest.split_once("```")).map(|(block, _)| block);
    let block = block.unwrap_or_else(|| panic!("docs/formats/{{store.md,examples/store.txt}} have no block {name}"));
    let bytes = block.lines().map(|line| line.split(';').next().unwrap_or_default());
    bytes.flat_map(str::chars).filter(|c| !c.is_whitespace()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[test]
fn the_bytes_of_requests_are_fixed() {
    let golden = |name: &str, request: Request<'_>| {
        assert_eq!(hex(&bytes_of(|out| request.encode(out))), drawn(name), "{name}");
    };
    golden("attach", Request::Attach { version: 3, ticket: 7 });
    let puts: Vec<(&[u8], &[u8])> = vec![(b"k", b"vv")];
    golden("write", Request::Write { durability: Durability::Sync, puts, deletes: vec![b"d"] });
    golden("scan", Request::Scan { start: b"a", end: b"", limit: 9 });
    golden("log-create", Request::LogCreate { rank: 2, id: 3 });
    golden("log-synced", Request::LogSynced { rank: 2 });
    golden("append", Request::Append { bytes: b"abc" });
    golden("write-logged", Request::WriteLogged { id: ObjectId::new(256, 1), offset: 4096, data: b"abc" });
    golden("write-at", Request::WriteAt { id: ObjectId::new(256, 1), offset: 4096, data: b"abc" });
}

#[test]
fn the_bytes_of_answers_are_fixed() {
    let golden = |name: &str, answer: Answer<'_>| {
        assert_eq!(hex(&bytes_of(|out| answer.encode(out))), drawn(name), "{name}");
    };
    golden("done", Answer::Done);
    golden("failed", Answer::Failed(StoreError::Full { what: "disk".into() }));
    golden("no-descriptor", Answer::Failed(StoreError::NoDescriptor { what: "disk".into() }));
    golden("values", Answer::Values(vec![Some(b"v"), None]));
    golden("rows", Answer::Rows { rows: vec![(b"k", b"v")], more: true });
    golden("len", Answer::Len(Some(300)));
}
