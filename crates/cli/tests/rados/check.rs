//! `loligo store check`: it is silent about a file system that is as it has to be, served or not, and names each kind of damage.

use std::process::Command;

use loligo_rados::{Cluster, Pool, ReadOp, WriteOp};

use crate::history::{Programs, check};
use crate::servers::{LOLIGO, Place, connect};

/// Output of `loligo store check`, and its exit code.
fn store_check(place: &Place) -> (i32, String) {
    let mut command = Command::new(LOLIGO);
    command.args(["store", "check", "--quiet", "--store", &place.store, "--conf", &place.conf]);
    let output = command.output().expect("it runs");
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output.status.code().expect("it ends by itself"), said)
}

#[track_caller]
fn sound(place: &Place) -> String {
    let (code, said) = store_check(place);
    assert_eq!(code, 0, "{said}");
    assert!(!said.contains("wrong:"), "{said}");
    said
}

/// All that an object holds.
struct Copy {
    data: Vec<u8>,
    xattrs: Vec<(String, Vec<u8>)>,
    pairs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// The objects of a file system, as they are.
struct Raw {
    pool: Pool,
    files: Pool,
}

impl Raw {
    fn of(place: &Place) -> Raw {
        let (pool, namespace) = place.store["rados:".len()..].split_once('/').expect("both");
        let cluster = Cluster::connect(&place.conf, "client.admin", &[]).expect("there is a cluster");
        let open = |namespace: &str| cluster.pool(pool, namespace).expect("the pool is there");
        Raw { pool: open(namespace), files: open(&format!("{namespace}.data")) }
    }

    /// Of file data, if it is called as that is.
    fn of_object(&self, object: &str) -> &Pool {
        if object.starts_with(|first: char| first.is_ascii_digit()) { &self.files } else { &self.pool }
    }

    fn names(&self, pool: &Pool) -> Vec<String> {
        let mut all = Vec::new();
        let mut each = |name: &str| {
            all.push(name.to_owned());
            std::ops::ControlFlow::Continue(())
        };
        pool.list(&mut each).expect("list");
        all.sort_unstable();
        all
    }

    fn copy(&self, object: &str) -> Option<Copy> {
        let mut op = ReadOp::new().expect("librados is there");
        let steps = (op.read(0, 1 << 20), op.xattrs(), op.omap_after(b"", 1024).expect("no NUL"));
        let brought = op.run(self.of_object(object), object).ok()?;
        let pairs = brought.omap(steps.2).expect("it was read");
        assert!(!pairs.more, "small enough for a test");
        let data = brought.data(steps.0).expect("it was read").to_vec();
        Some(Copy { data, xattrs: brought.xattrs(steps.1).expect("it was read"), pairs: pairs.pairs })
    }

    fn put(&self, object: &str, copy: Option<&Copy>) {
        let _ = self.change_if(object, |op| _ = op.remove());
        let Some(Copy { data, xattrs, pairs }) = copy else { return };
        self.change(object, |op| {
            op.create().write_full(data);
            op.omap_set(pairs.iter().map(|(key, value)| (key.as_slice(), value.as_slice())));
            for (name, value) in xattrs {
                op.set_xattr(name, value).expect("a name");
            }
        });
    }

    fn change_if(&self, object: &str, fill: impl FnOnce(&mut WriteOp)) -> loligo_rados::Result<u64> {
        let mut op = WriteOp::new().expect("librados is there");
        fill(&mut op);
        op.run(self.of_object(object), object)
    }

    fn change(&self, object: &str, fill: impl FnOnce(&mut WriteOp)) {
        self.change_if(object, fill).expect("it is done");
    }

    /// Changes bytes of what an object holds.
    fn flip(&self, object: &str, at: usize) {
        let mut data = self.copy(object).expect("it is there").data;
        data[at] ^= 0x40;
        self.change(object, |op| _ = op.write_full(&data));
    }

    fn set(&self, object: &str, key: &[u8], value: &[u8]) {
        self.change(object, |op| _ = op.create().omap_set([(key, value)]));
    }

    fn unset(&self, object: &str, key: &[u8]) {
        self.change(object, |op| _ = op.omap_remove([key]));
    }

    fn xattr(&self, object: &str, name: &str, value: u64) {
        self.change(object, |op| _ = op.create().set_xattr(name, &value.to_le_bytes()).expect("a name"));
    }
}

/// A record of the index (docs/formats/rados.md).
fn range(id: u64, generation: u64, cut: Option<(u64, &[u8])>) -> Vec<u8> {
    let mut record = vec![1];
    [id, generation, 0, 0].iter().for_each(|number| record.extend(number.to_le_bytes()));
    match cut {
        None => record.push(0),
        Some((to, at)) => {
            record.push(1);
            record.extend(to.to_le_bytes());
            record.extend((at.len() as u32).to_le_bytes());
            record.extend(at);
        }
    }
    record
}

/// The place of a file system with two ranks, whose rank 0 has a journal of several objects, and with a file of several objects.
fn filled() -> Option<Place> {
    let place = Place::formatted()?;
    let mut server = place.serve(0, &["--ranks", "2"]);
    server.until_serves();
    let fs = connect(&place.address(1));
    fs.write("/large", vec![7; 9_000_000]).expect("there is room");
    for number in 0..100 {
        fs.write(format!("/small.{number}"), vec![number; 3_500]).expect("there is room");
    }
    fs.sync_all().expect("there is room");
    drop(fs);
    server.kill();
    Some(place)
}

#[test]
fn each_kind_of_damage_is_found_and_named() {
    let Some(place) = filled() else { return };
    let said = sound(&place);
    assert!(said.contains("has not said for") && said.contains("2 journals"), "{said}");
    let raw = Raw::of(&place);
    let names = raw.names(&raw.pool);
    let segment: Vec<&String> = names.iter().filter(|name| name.starts_with("journal.0.")).collect();
    assert!(segment.len() >= 3, "a segment of some objects: {names:?}");
    let (id, _) = segment[0]["journal.0.".len()..].split_once('.').expect("segment and piece");
    let [first, second] = [0, 1].map(|number| format!("journal.0.{id}.{number}"));
    let hint = raw.names(&raw.files).into_iter().find(|name| name.len() == 16).expect("a large file");
    type Hurt = fn(&Raw, &str);
    let cases: Vec<(&str, Hurt, i32, &str)> = vec![
        ("loligo", |raw, object| raw.flip(object, 20), 3, "its checksum is"),
        ("loligo", |raw, object| raw.put(object, None), 3, "says who the file system is, is missing"),
        ("slots", |raw, object| raw.set(object, b"rank.0", b"\x01\x01"), 3, "who owns rank.0 cannot be read"),
        ("slots", |raw, object| raw.set(object, b"rank.0", b"\x09\x01"), 3, "format version 9"),
        ("slots", |raw, object| raw.set(object, b"other", b"\x01\x01"), 3, "which is no slot"),
        ("slots", |raw, object| raw.unset(object, b"rank.0"), 3, "has had 0 owners only"),
        ("servers", |raw, object| raw.set(object, b"want.0", b"\x01"), 3, "object servers"),
        ("servers", |raw, object| raw.set(object, b"other", b"\x01"), 3, "object servers"),
        ("table", |raw, object| raw.put(object, None), 3, "the index of the table, is missing"),
        ("table", |raw, object| raw.unset(object, b"r"), 3, "no range begins with the first key"),
        ("table", |raw, object| raw.unset(object, b"n"), 3, "beyond the number of the next one"),
        (
            "table",
            |raw, object| raw.set(object, b"r", b"\x01\x02"),
            3,
            "the range of the table that begins with the first key",
        ),
        ("table", |raw, object| raw.set(object, b"x", b"\x01\x02"), 3, "was not written by this program"),
        ("table", |raw, object| raw.set(object, b"rzz", &range(0, 1, None)), 3, "stands twice"),
        (
            "table",
            |raw, object| {
                raw.set(object, b"rzz", &range(1, 1, None));
                raw.set(object, b"n", &2u64.to_le_bytes());
            },
            3,
            "object table.1, the range of the table from key 7a7a on, is missing",
        ),
        (
            "table",
            |raw, object| raw.set(object, b"r", &range(0, 5, None)),
            3,
            "has generation 1, and the index of the table says 5",
        ),
        (
            "table",
            |raw, object| {
                raw.set(object, b"r", &range(0, 2, Some((1, b""))));
                raw.set(object, b"n", &2u64.to_le_bytes());
            },
            3,
            "is being cut at the first key, which is none of its own",
        ),
        (
            "table",
            |raw, object| {
                raw.set(object, b"r", &range(0, 2, Some((1, b"zz"))));
                raw.set(object, b"n", &2u64.to_le_bytes());
            },
            0,
            "is being cut in two, into table.1",
        ),
        ("table.0", |raw, object| raw.put(object, None), 3, "is missing"),
        ("table.0", |raw, object| raw.xattr(object, "generation", 9), 3, "has generation 9"),
        ("table.0", |raw, object| raw.xattr(object, "epoch.rank.1", 77), 3, "knows epoch 77 of rank.1"),
        ("table.0", |raw, object| raw.set(object, b"\x01\x07", b""), 3, "are not in the range of the table that it is"),
        ("table.7", |raw, object| raw.xattr(object, "generation", 1), 3, "that its index does not name"),
        (
            "batch.rank.0",
            |raw, object| raw.change(object, |op| _ = op.write_full(b"\x01half")),
            3,
            "cannot be finished",
        ),
        (
            "batch.rank.0",
            |raw, object| {
                let mut bytes = vec![1, 1, 0, 0, 0, 1, 0, 0, 0, b'a', 0];
                bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
                raw.change(object, |op| _ = op.write_full(&bytes));
            },
            0,
            "a change of 1 rows of the table is under way",
        ),
        (
            "journals",
            |raw, object| raw.unset(object, b"00000000"),
            3,
            "rank 0 has a journal, and object journals does not name it",
        ),
        ("journals", |raw, object| raw.set(object, b"x", b"\x01"), 3, "object journals: key 78 was not written"),
        ("journal.0", |raw, object| raw.set(object, b"x", b"\x01"), 3, "the list of segments of rank 0"),
        (
            "journal.0",
            |raw, object| {
                let list = raw.copy(object).expect("it is there");
                raw.unset(object, &list.pairs.last().expect("a segment").0);
            },
            3,
            "its records are read by nobody",
        ),
        (
            "journal.0",
            |raw, object| {
                let list = raw.copy(object).expect("it is there");
                raw.set(object, &list.pairs.last().expect("a segment").0, b"\x02");
            },
            0,
            "is being removed",
        ),
        (
            "journal.0.0000000000000000.0",
            |raw, object| raw.xattr(object, "epoch.rank.0", 1),
            3,
            "left of one that was removed",
        ),
        (&second, |raw, object| raw.put(object, None), 3, "is missing, and"),
        (
            &second,
            |raw, object| raw.change(object, |op| _ = op.truncate(1000)),
            3,
            "has 1000 of 131072 bytes, and there are more behind it",
        ),
        (&second, |raw, object| raw.xattr(object, "epoch.rank.0", 0), 3, "could still write there"),
        (
            &second,
            |raw, object| {
                let copy = raw.copy(object).expect("it is there");
                raw.put(object, Some(&Copy { xattrs: Vec::new(), ..copy }));
            },
            3,
            "does not know whose it is",
        ),
        (&first, |raw, object| raw.flip(object, 20), 3, "journal of rank 0"),
        (&first, |raw, object| raw.flip(object, 70_000), 3, "the checksum of record"),
        (&hint, |raw, object| raw.put(object, None), 3, "which has to say so, is missing"),
        (&hint, |raw, object| raw.xattr(object, "upto", 1), 3, "says that all are below 1"),
        (
            &hint,
            |raw, object| raw.change(object, |op| _ = op.set_xattr("upto", b"x").expect("a name")),
            3,
            "has no upto of 8 bytes",
        ),
    ];
    for (object, hurt, code, words) in cases {
        let before = raw.copy(object);
        hurt(&raw, object);
        let (is, said) = store_check(&place);
        assert!(is == code && said.contains(words), "{object}: exit code {is}, no `{words}` in:\n{said}");
        raw.put(object, before.as_ref());
    }
    let slots = raw.copy("slots").expect("it is there");
    let (_, rank) = slots.pairs.iter().find(|(key, _)| key == b"rank.0").expect("it is owned");
    let mut earlier = rank.clone();
    earlier[2..10].fill(0);
    raw.set("slots", b"rank.0", &earlier);
    let (code, said) = store_check(&place);
    assert!(code == 3 && said.contains("every write to it is refused"), "{said}");
    raw.set("slots", b"rank.0", rank);
    // All of it was mended by putting back what was there.
    sound(&place);
}

#[test]
fn a_range_that_is_cut_halfway_and_keys_beyond_their_range_are_told() {
    let Some(place) = filled() else { return };
    let raw = Raw::of(&place);
    // As if rows from `zz` on had been cut off, with one that belongs before.
    raw.set("table", b"rzz", &range(1, 1, None));
    raw.set("table", b"n", &2u64.to_le_bytes());
    raw.xattr("table.1", "generation", 1);
    let said = sound(&place);
    assert!(said.contains("1 of 2 ranges of the table are empty") && said.contains("in 2 ranges"), "{said}");
    raw.set("table.1", b"a", b"");
    let (code, said) = store_check(&place);
    assert!(code == 3 && said.contains("object table.1: 1 of its keys are not in the range"), "{said}");
    raw.unset("table.1", b"a");
    raw.set("table.0", b"zzz", b"");
    let (code, said) = store_check(&place);
    assert!(code == 3 && said.contains("object table.0: 1 of its keys are not in the range"), "{said}");
    raw.unset("table.0", b"zzz");
    // Cut, and its new half never filled.
    raw.set("table", b"rzz", &range(1, 2, Some((2, b"zzz"))));
    raw.set("table", b"n", &3u64.to_le_bytes());
    raw.xattr("table.1", "generation", 3);
    let (code, said) = store_check(&place);
    assert!(
        code == 3 && said.contains("object table.2, into which a range of the table was cut, is missing"),
        "{said}"
    );
    raw.xattr("table.2", "generation", 0);
    let (code, said) = store_check(&place);
    assert!(code == 3 && said.contains("object table.2 has generation 0 in the midst of a cut"), "{said}");
    raw.xattr("table.2", "generation", 1);
    assert!(sound(&place).contains("range 1 of the table is being cut in two"), "{said}");
}

#[test]
fn a_journal_that_was_exchanged_for_an_older_one_is_told() {
    let Some(place) = filled() else { return };
    // Stopped cleanly, the table has all of it.
    let mut server = place.serve(0, &[]);
    server.until_serves();
    server.end();
    sound(&place);
    let raw = Raw::of(&place);
    for object in raw.names(&raw.pool).into_iter().filter(|name| name.starts_with("journal.0")) {
        raw.put(&object, None);
    }
    let (code, said) = store_check(&place);
    assert!(code == 3 && said.contains("it ends before record 1, and the table says that it has come to"), "{said}");
}

#[test]
fn of_a_file_system_that_is_served_and_changed_all_the_time_nothing_wrong_is_told() {
    let Some(place) = Place::formatted() else { return };
    let small = ["--ranks", "2", "--set", "journal_bytes=4MiB"];
    let mut server = place.serve(0, &small);
    server.until_serves();
    let programs = Programs::start(&place.address(1), 3);
    for _ in 0..8 {
        programs.until_more(100);
        let said = sound(&place);
        assert!(said.contains("a server runs: s0"), "{said}");
    }
    check(&place.address(1), &programs.end());
    server.end();
    let said = sound(&place);
    assert!(!said.contains("note") && !said.contains("a server runs"), "{said}");
}

#[test]
fn nor_while_servers_are_killed_and_replaced() {
    let Some(place) = Place::formatted() else { return };
    let small = ["--ranks", "2", "--set", "journal_bytes=4MiB", "--set", "lease_ms=3000"];
    let mut server = place.serve(0, &small);
    server.until_serves();
    let mut other = place.serve(1, &small);
    let programs = Programs::start(&place.address(2), 3);
    for _ in 0..6 {
        programs.until_more(60);
        let number = server.number;
        server.kill();
        // While the other one takes over, most of the time.
        sound(&place);
        other.until_serves();
        sound(&place);
        server = other;
        other = place.serve(number, &small);
    }
    check(&place.address(2), &programs.end());
    drop(other);
    server.end();
    sound(&place);
}

#[test]
fn what_is_no_file_system_is_refused_with_what_to_do() {
    let Some(place) = Place::new() else { return };
    let (code, said) = store_check(&place);
    assert!(code == 1 && said.contains("loligo format --store"), "{said}");
}
