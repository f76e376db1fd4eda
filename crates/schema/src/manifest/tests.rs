//! Manifests of random trees are read back whole, by name, by number and by page; every damage is a named fault.

use std::collections::BTreeMap;

use loligo_types::{Random, Time};

use super::*;
use crate::entry::Slice;

type Tree = BTreeMap<Vec<Vec<u8>>, (Attributes, Option<Body>)>;

const DIR: Attributes = Attributes { mode: 0o755, uid: None, gid: None, mtime: None };

fn attributes(rng: &mut Random) -> Attributes {
    let id = |n: u64| (n > 0).then(|| (n * 1000) as u32);
    let times =
        [None, Some(Time(0)), Some(Time(i64::MIN)), Some(Time(i64::MAX)), Some(Time(1_700_000_000_000_000_000))];
    Attributes {
        mode: [0o644, 0o600, 0o7777, 0][rng.below(4) as usize],
        uid: id(rng.below(3)),
        gid: id(rng.below(2)),
        mtime: times[rng.below(5) as usize],
    }
}

const SIZE: u64 = 1 << 40;

fn body(rng: &mut Random, sources: u64) -> Body {
    let slice = |rng: &mut Random| {
        let (source, len) = (rng.below(sources + 1), rng.below(1 << 20));
        Slice { source, offset: if source == 0 { 0 } else { rng.below(SIZE - (1 << 20)) }, len }
    };
    match rng.below(8) {
        0 => Body::Zeros(rng.below(1 << 50)),
        1 => Body::Bytes((0..rng.below(40)).map(|n| n as u8).collect()),
        2 => Body::Link(format!("../{}", rng.below(1000)).into_bytes().into()),
        3 => Body::Slices((0..rng.below(5)).map(|_| slice(rng)).collect()),
        _ => Body::Slices([slice(rng)].into()),
    }
}

fn tree(rng: &mut Random, count: u64) -> Tree {
    let mut tree = Tree::new();
    let mut dirs: Vec<Vec<Vec<u8>>> = vec![Vec::new()];
    while (tree.len() as u64) < count {
        let dir = dirs[rng.below(dirs.len() as u64) as usize].clone();
        let name = match rng.below(4) {
            0 => vec![1 + rng.below(46) as u8, b'a'],
            1 => vec![b'n'; 1 + rng.below(255) as usize],
            _ => format!("sample-{:05}.jpg", rng.below(100_000)).into_bytes(),
        };
        if loligo_types::Name::check(&name).is_err() {
            continue;
        }
        let path = [dir, vec![name]].concat();
        if tree.contains_key(&path) {
            continue;
        }
        let is_dir = rng.below(6) == 0;
        if is_dir && path.len() < 6 {
            dirs.push(path.clone());
        }
        let content = if is_dir { None } else { Some(body(rng, 3)) };
        tree.insert(path, (attributes(rng), content));
    }
    tree
}

fn sources() -> Vec<Source> {
    let source = |ino| Source { ino, change: 7, size: SIZE, name: format!("/data/{ino}").into_bytes().into() };
    (300..303).map(source).collect()
}

/// Sorts a tree with runs of this size, its entries in random order, and writes it.
fn written(rng: &mut Random, tree: &Tree, run_bytes: usize) -> Vec<u8> {
    let mut order: Vec<_> = tree.iter().collect();
    for at in (1..order.len()).rev() {
        order.swap(at, rng.below(at as u64 + 1) as usize);
    }
    let mut sorter = Sorter::new(MemoryRuns::default(), run_bytes, Twice::Refuse, DIR);
    for (path, (attributes, body)) in order {
        let path = Path::new(path.iter().map(|name| &name[..])).expect("names");
        sorter.add(path, *attributes, body.clone()).expect("it is sound");
    }
    let mut writer = Writer::new(Vec::new()).expect("memory");
    for (number, source) in (1..).zip(sources()) {
        assert_eq!(writer.source(&source), Ok(number));
    }
    sorter.finish(writer).expect("it is sound").1
}

fn open(bytes: &[u8]) -> Result<Reader<Vec<u8>>, Fault> {
    Reader::open(bytes.to_vec(), bytes.len() as u64, CACHE_BYTES)
}

/// All entries by path, with their numbers, as listings in pages give them.
fn listed(reader: &mut Reader<Vec<u8>>, rng: &mut Random) -> BTreeMap<Vec<Vec<u8>>, Item> {
    let mut all = BTreeMap::new();
    let mut dirs = vec![(0, Vec::new())];
    while let Some((dir, path)) = dirs.pop() {
        let (entries, subdirs) = reader.counts(dir).expect("sound").expect("a directory");
        let (mut next, mut found) = (0, 0);
        while next < entries {
            let page = reader.list(dir, next, 1 + rng.below(50) as usize).expect("sound");
            for (ordinal, item) in (next..).zip(&page) {
                assert_eq!(reader.ordinal(item).expect("sound"), Some(ordinal));
                let path = [path.clone(), vec![item.name.to_vec()]].concat();
                if item.is_dir() {
                    found += 1;
                    dirs.push((item.index, path.clone()));
                }
                assert_eq!(all.insert(path, item.clone()), None);
            }
            next += page.len() as u64;
        }
        assert_eq!((next, found), (entries, subdirs));
        assert_eq!(reader.list(dir, entries, 10).expect("sound"), []);
    }
    all
}

#[test]
fn random_trees_are_read_back_by_page_by_name_and_by_number() {
    for (seed, count, run) in [(1, 1, 1000), (2, 40, 1000), (3, 3000, 20_000), (4, 30_000, 1 << 30), (5, 15, 1)] {
        let mut rng = Random::new(seed);
        let tree = tree(&mut rng, count);
        let bytes = written(&mut rng, &tree, run);
        let mut reader = open(&bytes).expect("it is sound");
        let all = listed(&mut reader, &mut rng);
        assert_eq!(all.len(), tree.len());
        for ((path, item), (expected, (attributes, body))) in all.iter().zip(&tree) {
            assert_eq!((path, &item.attributes, &item.body), (expected, attributes, body));
            assert_eq!(reader.item(item.index).expect("sound").as_ref(), Some(item));
            assert_eq!(reader.resolve(path.iter().map(|name| &name[..])).expect("sound").as_ref(), Some(item));
            assert_eq!(reader.child(item.index, b"nothing").expect("sound"), None);
            assert_eq!(reader.child(item.parent, &[&item.name[..], b"!"].concat()).expect("sound"), None);
            let entry = reader.entry(item.index).expect("sound").expect("it is there");
            assert_eq!(
                (&entry.name, entry.parent, entry.body.kind() == loligo_types::Kind::Dir),
                (&item.name, item.parent, item.is_dir())
            );
        }
        let mut seen = Vec::new();
        reader.check(|item| seen.push(item.clone())).expect("it is sound");
        let mut expected: Vec<Item> = all.into_values().collect();
        expected.sort_by_key(|item| item.index);
        assert_eq!(seen, expected);
        let trailer = *reader.trailer();
        assert_eq!(
            (trailer.entries, trailer.dirs),
            (count, expected.iter().filter(|item| item.is_dir()).count() as u64)
        );
        assert_eq!(trailer.len, bytes.len() as u64);
        assert_eq!((reader.item(0), reader.item(count + 1)), (Ok(None), Ok(None)));
        assert_eq!(reader.source(3).expect("sound"), sources()[2]);
        assert!(matches!(reader.source(4), Err(Fault::NoSource { source_number: 4, sources: 3 })));
    }
}

#[test]
fn a_cold_lookup_reads_two_blocks_and_the_cache_is_bounded() {
    let mut writer = Writer::new(Vec::new()).expect("memory");
    let source = writer.source(&sources()[0]).expect("sound");
    for n in 0..200_000u64 {
        let slice = Slice { source, offset: n * 5000, len: 4000 };
        let name = format!("sample-{n:09}.jpg");
        writer
            .add(0, name.as_bytes(), Attributes { mode: 0o644, ..DIR }, Some(Body::Slices([slice].into())))
            .expect("sorted");
    }
    let (trailer, bytes) = writer.finish().expect("memory");
    assert!(trailer.len / trailer.entries < 16, "{} bytes for {}", trailer.len, trailer.entries);
    let mut reader = Reader::open(&bytes, trailer.len, 0).expect("sound");
    for n in (0..200_000u64).step_by(997) {
        let mut cold = Reader::open(&bytes, trailer.len, CACHE_BYTES).expect("sound");
        let name = format!("sample-{n:09}.jpg");
        assert_eq!(cold.child(0, name.as_bytes()).expect("sound").expect("there").index, n + 1);
        assert!(cold.reads() <= 2, "{}", cold.reads());
        assert_eq!(cold.item(n + 1).expect("sound").expect("there").name[..], *name.as_bytes());
        assert!(cold.reads() <= 2, "a number reads the same blocks");
        assert_eq!(reader.child(0, name.as_bytes()).expect("sound").expect("there").index, n + 1);
        assert!(reader.cached_bytes() <= 2 * BLOCK_MAX, "one block");
    }
}

#[test]
fn damage_anywhere_is_a_fault_and_never_other_content() {
    let mut rng = Random::new(77);
    let tree = tree(&mut rng, 50);
    let bytes = written(&mut rng, &tree, 1 << 20);
    let read = |bytes: &[u8]| -> Result<(), Fault> {
        let mut reader = open(bytes)?;
        reader.check(|_| {})
    };
    read(&bytes).expect("it is sound");
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << rng.below(8);
        read(&damaged).expect_err("one bit is another one");
    }
    for len in 0..bytes.len() {
        read(&bytes[..len]).expect_err("the end is missing");
    }
    let longer = [&bytes[..], &[0]].concat();
    assert!(matches!(read(&longer), Err(Fault::NotManifest(_))));
}

#[test]
fn blocks_with_right_checksums_and_wrong_content_are_faults() {
    let mut rng = Random::new(78);
    let tree = tree(&mut rng, 60);
    let bytes = written(&mut rng, &tree, 1 << 20);
    let mut faults = BTreeMap::<String, u32>::new();
    // The block of entries is the first one behind the header.
    let len = {
        let mut reader = open(&bytes).expect("sound");
        reader.check(|_| {}).expect("sound");
        let root = reader.root().clone();
        let payload = reader.load(root.entries[0].offset, root.entries[0].len).expect("sound");
        index::read(&payload, 0, Section::Entries).expect("sound")[0].len as usize
    };
    for at in 16..16 + len {
        for _ in 0..3 {
            let mut forged = bytes.clone();
            forged[at] ^= 1 << rng.below(8);
            let checksum = crc32c::crc32c(&forged[16..16 + len]).to_le_bytes();
            forged[16 + len..20 + len].copy_from_slice(&checksum);
            seal(&mut forged);
            let mut reader = open(&forged).expect("its head is sound");
            let result = reader.check(|_| {});
            for number in (0..=tree.len() as u64).step_by(5) {
                let _ = (reader.entry(number), reader.list(number, 0, 100), reader.child(number, b"sample-00001.jpg"));
            }
            if let Err(fault) = result {
                let kind = format!("{fault:?}");
                *faults.entry(kind.split([' ', '(']).next().expect("a word").into()).or_default() += 1;
            }
        }
    }
    for kind in ["Block", "Unsorted", "NoSource", "Count", "PastEnd", "NoDirectory"] {
        assert!(faults.contains_key(kind), "{kind} in {faults:?}");
    }
}

/// Makes the checksums of the content and of the trailer right.
fn seal(bytes: &mut [u8]) {
    let end = bytes.len() - trailer::TRAILER_LEN;
    let content = crc32c::crc32c(&bytes[..end]).to_le_bytes();
    bytes[end + 76..end + 80].copy_from_slice(&content);
    let checksum = crc32c::crc32c(&bytes[end..end + 84]).to_le_bytes();
    bytes[end + 84..].copy_from_slice(&checksum);
}

#[test]
fn a_foreign_file_another_version_and_a_wrong_length_are_told_apart() {
    let (_, bytes) = Writer::new(Vec::new()).expect("memory").finish().expect("an empty tree");
    let mut reader = open(&bytes).expect("it is sound");
    reader.check(|_| panic!("it is empty")).expect("it is sound");
    assert_eq!((reader.counts(0), reader.counts(1)), (Ok(Some((0, 0))), Ok(None)));
    let fault = |bytes: &[u8]| open(bytes).map(|_| ()).expect_err("it is wrong").to_string();
    assert!(fault(b"").contains("have room for a header"));
    assert!(fault(&[b'x'; 200]).contains("does not begin with `LOLIGOMF`"));
    let mut newer = bytes.clone();
    newer[8] = 9;
    assert!(fault(&newer).contains("the manifest has version 9, and this program knows version 1"));
    let mut twice = bytes.clone();
    twice.extend_from_slice(&bytes);
    assert!(fault(&twice).contains("has 280 bytes and its trailer says 140"), "{}", fault(&twice));
}

#[test]
fn entries_that_a_manifest_cannot_hold_are_refused_by_name() {
    let mut writer = Writer::new(Vec::new()).expect("memory");
    let file = || Some(Body::Zeros(1));
    let mut add = |parent, name: &[u8], body| writer.add(parent, name, DIR, body).map_err(|fault| fault.to_string());
    assert_eq!(add(0, b"dir", None), Ok(1));
    assert_eq!(add(0, b"file", file()), Ok(2));
    assert_eq!(add(0, b"file", None), Err("`file` stands twice; remove one".into()));
    let refused = |result: Result<u64, String>, text: &str| {
        let shown = result.expect_err(text);
        assert!(shown.contains(text), "{shown}");
    };
    refused(add(0, b"a", file()), "entry 3 (`a`) does not come behind the one before it");
    refused(add(2, b"x", file()), "`x` is in entry 2, which is no directory");
    refused(add(9, b"x", file()), "`x` is in entry 9, which is no directory");
    for name in [&b""[..], b".", b"..", b"a/b", b"a\0", &[b'x'; 256]] {
        refused(add(1, name, file()), "is no name");
    }
    let slice = |source, offset, len| Some(Body::Slices([Slice { source, offset, len }].into()));
    refused(add(1, b"x", slice(1, 0, 1)), "a slice is of source 1, and there are 0");
    refused(add(1, b"x", slice(0, 0, u64::MAX)), "longer than a file may be");
    refused(add(1, b"x", slice(0, 1, 1)), "a slice of zeros has an offset");
    let many: std::sync::Arc<[Slice]> = vec![Slice { source: 0, offset: 0, len: 1 }; SLICES_MAX + 1].into();
    refused(add(1, b"x", Some(Body::Slices(many))), "slices of one file: 1025, at most 1024");
    refused(add(1, b"x", Some(Body::Bytes(vec![0; INLINE_MAX + 1].into()))), "bytes of a file in the manifest");
    refused(add(1, b"x", Some(Body::Link(b""[..].into()))), "its target is empty");
    refused(add(1, b"x", Some(Body::Zeros(u64::MAX))), "larger than a file may be");
    assert_eq!(add(1, b"x", Some(Body::Zeros(loligo_types::limits::FILE_SIZE_MAX))), Ok(3));
    refused(add(1, b"y", Some(Body::Zeros(loligo_types::limits::FILE_SIZE_MAX))), "bytes of all files");
    refused(add(0, b"z", file()), "does not come behind");
    let (trailer, _) = writer.finish().expect("memory");
    assert_eq!((trailer.entries, trailer.dirs, trailer.files), (3, 1, 2));
}

#[test]
fn directories_that_nobody_names_appear_and_paths_that_clash_are_refused() {
    let path = |text: &str| Path::new(text.split('/').map(str::as_bytes));
    let sort = |twice, all: &[(&str, Option<Body>)]| {
        let mut sorter = Sorter::new(MemoryRuns::default(), 200, twice, DIR);
        for (text, body) in all {
            sorter.add(path(text)?, Attributes { mode: 0o600, ..DIR }, body.clone())?;
        }
        let (_, bytes) = sorter.finish(Writer::new(Vec::new())?)?;
        let mut shown = Vec::new();
        open(&bytes)?.check(|item| {
            let size = item.body.as_ref().map_or("/".into(), |body| format!("={}", body.size()));
            shown.push(format!(
                "{}.{}{size}:{:o}",
                item.parent,
                String::from_utf8_lossy(&item.name),
                item.attributes.mode
            ));
        })?;
        Ok::<String, Fault>(shown.join(" "))
    };
    let file = |size| Some(Body::Zeros(size));
    let all = [("b/c/d", file(1)), ("a", file(2)), ("b/a", None), ("b/c/e", file(3)), ("b", None), ("b/a/x", file(4))];
    let expected = "0.a=2:600 0.b/:600 2.a/:600 2.c/:755 3.x=4:600 4.d=1:600 4.e=3:600";
    assert_eq!(sort(Twice::Refuse, &all), Ok(expected.into()));
    let twice = [("a", file(1)), ("b", file(1)), ("a", file(7))];
    assert_eq!(sort(Twice::Last, &twice), Ok("0.a=7:600 0.b=1:600".into()));
    assert_eq!(sort(Twice::Refuse, &twice), Err(Fault::Duplicate { path: "a".into() }));
    let clash = [("a/b/c", file(1)), ("a/b", file(1))];
    for twice in [Twice::Last, Twice::Refuse] {
        assert_eq!(sort(twice, &clash), Err(Fault::FileAndDir { path: "a/b".into() }));
    }
    for wrong in ["", "a//b", "../x", "a/.", "a/b\0c"] {
        assert!(matches!(path(wrong), Err(Fault::Name { .. })), "{wrong}");
    }
    assert!(matches!(Path::new([]), Err(Fault::Entry { .. })));
    assert!(matches!(path(&vec!["d"; 257].join("/")), Err(Fault::TooMany { .. })));
}

/// The bytes of docs/formats/examples/manifest.txt.
#[test]
fn the_bytes_of_a_manifest_are_these() {
    let doc = include_str!("../../../../docs/formats/examples/manifest.txt");
    let block = doc.split("```hex manifest\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let digits: String = block.lines().map(|line| line.split(';').next().unwrap_or("")).collect();
    let digits: Vec<u8> = digits.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let digit = |byte: u8| char::from(byte).to_digit(16).expect("a hexadecimal digit") as u8;
    let expected: Vec<u8> = digits.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect();
    let mut writer = Writer::new(Vec::new()).expect("memory");
    let tar = Source { ino: 256, change: 3, size: 10_240, name: b"/a.tar"[..].into() };
    let source = writer.source(&tar).expect("it is sound");
    let file = Attributes { mode: 0o644, uid: Some(1000), gid: Some(100), mtime: Some(Time(1_000_000_000)) };
    let slice = |offset, len| Some(Body::Slices([Slice { source, offset, len }].into()));
    let mut add =
        |parent, name: &str, attributes, body| writer.add(parent, name.as_bytes(), attributes, body).expect("sorted");
    assert_eq!(add(0, "a.jpg", file, slice(512, 1000)), 1);
    assert_eq!(add(0, "b.jpg", file, slice(2048, 300)), 2);
    assert_eq!(add(0, "dir", DIR, None), 3);
    assert_eq!(add(0, "link", file, Some(Body::Link(b"a.jpg"[..].into()))), 4);
    assert_eq!(add(3, "note", file, Some(Body::Bytes(b"hi"[..].into()))), 5);
    assert_eq!(add(3, "zeros", file, Some(Body::Zeros(4096))), 6);
    let (_, bytes) = writer.finish().expect("memory");
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(bytes, expected, "{hex}");
    open(&expected).and_then(|mut reader| reader.check(|_| {})).expect("it is sound");
}
