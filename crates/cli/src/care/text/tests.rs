//! Lines: fixed texts, there and back, and what is refused.

use loligo_types::{Acl, AclEntry, AclTag, Event, Ino, Inode, Kind, Layout, Name, Time};
use proptest::prelude::*;

use super::escape::{escape, unescape};
use super::*;

fn back(event: &Event, xattrs: usize) -> String {
    let line = render(event, xattrs).expect("an event that is in a dump");
    assert_eq!(parse(&line).as_ref(), Ok(event), "{line}");
    line
}

#[test]
fn a_plain_file_and_its_parts_are_these_lines() {
    let mut inode = Inode::new(Ino(256), Kind::File, 0o644, 1000, 100, Ino(1), Time(1_700_000_000_000_000_001));
    inode.size = 6;
    assert_eq!(
        back(&Event::Inode(Box::new(inode)), 0),
        "inode 256 file mode=0644 uid=1000 gid=100 nlink=1 size=6 atime=1700000000.000000001 \
         mtime=1700000000.000000001 ctime=1700000000.000000001 btime=1700000000.000000001 parent=1 change=1 data=inline"
    );
    let name = Name::new(b"a file\\").expect("a name");
    let entry = Event::Entry { dir: Ino(1), name, ino: Ino(256), kind: Kind::File, remote: false };
    assert_eq!(back(&entry, 0), "entry 1 a\\x20file\\x5c 256 file");
    let data = Event::Inline { ino: Ino(256), data: b"hello\n".as_slice().into() };
    assert_eq!(back(&data, 0), "data 256 hello\\x0a");
    assert_eq!(back(&Event::NextIno(Ino(1 << 48 | 300)), 0), "next-ino 281474976710956");
    let xattr = Event::Xattr { ino: Ino(256), name: b"user.a".as_slice().into(), value: [].as_slice().into() };
    assert_eq!(back(&xattr, 0), "xattr 256 user.a \\-");
}

/// The last block of docs/formats/dump.md.
const EXAMPLE: &str = include_str!("../../../../../docs/formats/dump.md");

#[test]
fn the_example_in_the_documentation_is_a_dump() {
    let block = EXAMPLE.rsplit("```text\n").next().and_then(|rest| rest.split("```").next()).expect("a last block");
    let (body, last) = block.trim_end().rsplit_once('\n').expect("several lines");
    let body = format!("{body}\n");
    let lines = body.lines().count() as u64;
    assert_eq!(Tail::parse(last), Some(Tail { lines, crc: crc32c::crc32c(body.as_bytes()) }));
    let mut records = body.lines();
    let head = records.next().expect("a first line");
    assert_eq!(Head::parse(head).map(Head::render).as_deref(), Ok(head));
    for line in records {
        let event = parse(line).unwrap_or_else(|e| panic!("{line}: {e}"));
        let xattrs = usize::from(line.contains(" xattrs=1"));
        assert_eq!(render(&event, xattrs).as_deref(), Some(line));
    }
}

#[test]
fn every_rare_part_comes_back() {
    let mut dir = Inode::new(Ino(7), Kind::Dir, 0o1777, 0, 0, Ino(1), Time(-1));
    dir.has_xattrs = true;
    dir.cuts = 3;
    let entry = |tag, id, perm| AclEntry { tag, id, perm };
    let list = Acl(vec![
        entry(AclTag::UserObj, u32::MAX, 7),
        entry(AclTag::User, 1000, 4),
        entry(AclTag::GroupObj, u32::MAX, 5),
        entry(AclTag::Group, 5, 0),
        entry(AclTag::Mask, u32::MAX, 5),
        entry(AclTag::Other, u32::MAX, 1),
    ]);
    dir.extra_mut().acl = Some(list.clone());
    dir.extra_mut().default_acl = Some(list);
    dir.extra_mut().layout = Some(Layout { object_size: 1 << 20 });
    dir.frag_bits = 5;
    dir.extra_mut().expected_entries = 300_000;
    let line = back(&Event::Inode(Box::new(dir)), 2);
    assert!(line.ends_with(" frag-bits=5 expected-entries=300000"), "{line}");
    for bad in ["frag-bits=25", "expected-entries=0", "expected-entries=1099511627777"] {
        let bad = line.replace("frag-bits=5", bad).replace(" expected-entries=300000", "");
        assert!(parse(&bad).is_err(), "{bad}");
    }
    assert!(parse(&line.replace(" dir ", " fifo ")).is_err());
    assert!(line.contains(" atime=-0.000000001 "), "{line}");
    assert!(line.contains(" acl=u::rwx,u:1000:r--,g::r-x,g:5:---,m::r-x,o::--x "), "{line}");
    let mut link = Inode::new(Ino(8), Kind::Symlink, 0o777, 0, 0, Ino(1), Time(i64::MIN));
    link.extra_mut().symlink = Some(b"../to \xff".as_slice().into());
    back(&Event::Inode(Box::new(link)), 0);
    let mut device = Inode::new(Ino(9), Kind::Char, 0o600, 0, 0, Ino(1), Time(i64::MAX));
    device.extra_mut().rdev = 259;
    back(&Event::Inode(Box::new(device)), 0);
}

#[test]
fn all_bytes_survive_and_readable_text_stays_readable() {
    let all: Vec<u8> = (0..=255).collect();
    for bytes in [&all[..], b"", b"-", b"\\-", "Gr\u{fc}\u{df}e \u{2028}".as_bytes()] {
        let word = escape(bytes);
        assert!(!word.is_empty() && !word.contains(char::is_whitespace), "{word:?}");
        assert_eq!(unescape(&word).as_deref(), Some(bytes));
    }
    assert_eq!(escape("Gr\u{fc}\u{df}e".as_bytes()), "Gr\u{fc}\u{df}e");
    for bad in ["", "\\", "\\x", "\\x1", "\\xzz", "\\x+1", "a\\-"] {
        assert_eq!(unescape(bad), None, "{bad}");
    }
}

#[test]
fn lines_that_are_not_of_a_dump_are_refused_with_a_reason() {
    let good = "inode 9 fifo mode=0600 uid=0 gid=0 nlink=1 size=0 atime=0.000000000 mtime=0.000000000 \
                ctime=0.000000000 btime=0.000000000 parent=1 change=1";
    assert!(parse(good).is_ok());
    for (bad, why) in [
        ("", "no line"),
        ("entry 1 a 2", "kind is missing"),
        ("entry 0 a 2 file", "no inode number"),
        ("entry 1 .. 2 file", "name"),
        ("entry 1 a/b 2 file", "name"),
        ("entry 1 a 2 file x", "too much"),
        ("data 1 \\q", "escaped"),
        (&good.replace("mode=0600", "mode=17777"), "mode"),
        (&good.replace("mode=0600 ", ""), "mode is missing"),
        (&good.replace("atime=0.0", "atime=0.+"), "atime"),
        (&format!("{good} target=x"), "symlinks only"),
        (&format!("{good} colour=red"), "not known"),
        (&format!("{good} uid=1"), "twice"),
        (&good.replace("fifo", "symlink"), "target is missing"),
    ] {
        let error = parse(bad).expect_err(bad);
        assert!(error.contains(why), "{bad}: {error}");
    }
}

#[test]
fn first_and_last_line_come_back_and_newer_versions_are_named() {
    let head = Head { inodes: 1, entries: 2, xattrs: 3, inline: 4, objects: 5, object_bytes: 6, next_ino: 7 };
    let line = head.render();
    assert_eq!(line, "loligo-dump 1 inodes=1 entries=2 xattrs=3 inline=4 objects=5 object-bytes=6 next-ino=7");
    assert_eq!(Head::parse(&line), Ok(head));
    assert!(Head::parse(&line.replace("dump 1", "dump 2")).expect_err("newer").contains("newer"));
    assert!(Head::parse("PK\u{3}\u{4}").expect_err("foreign").contains("no dump"));
    assert!(Head::parse(&line.replace("xattrs", "x")).is_err());
    let tail = Tail { lines: 12, crc: 0xab };
    assert_eq!(tail.render(), "end lines=12 crc32c=000000ab");
    assert_eq!(Tail::parse(&tail.render()), Some(tail));
    assert_eq!(Tail::parse("end lines=12 crc32c=ab"), None);
}

fn any_inode() -> impl Strategy<Value = Inode> {
    let times = prop::array::uniform4(any::<i64>());
    let numbers = (any::<u32>(), any::<u32>(), any::<u32>(), 0..=loligo_types::limits::FILE_SIZE_MAX, any::<u64>());
    let rare = (any::<u32>(), any::<u32>(), any::<bool>(), prop::collection::vec(any::<u8>(), 0..40), any::<bool>());
    (1u64.., 1u8..=7, 0u16..=0o7777, numbers, times, rare).prop_map(|(ino, kind, mode, numbers, times, rare)| {
        let kind = Kind::from_code(kind).expect("a kind");
        let (uid, gid, nlink, size, change) = numbers;
        let (rdev, cuts, inline, target, has_xattrs) = rare;
        let mut inode = Inode::new(Ino(ino), kind, mode, uid, gid, Ino(change / 3), Time(times[0]));
        (inode.mtime, inode.ctime, inode.btime) = (Time(times[1]), Time(times[2]), Time(times[3]));
        (inode.nlink, inode.size, inode.change, inode.cuts) = (nlink, size, change, cuts);
        if rdev != 0 {
            inode.extra_mut().rdev = rdev;
        }
        inode.inline = inline && kind == Kind::File;
        inode.has_xattrs = has_xattrs;
        if kind == Kind::Symlink {
            inode.extra_mut().symlink = Some(target.into());
        }
        inode
    })
}

proptest! {
    #[test]
    fn any_inode_comes_back(inode in any_inode()) {
        let xattrs = usize::from(inode.has_xattrs);
        back(&Event::Inode(Box::new(inode)), xattrs);
    }

    #[test]
    fn any_bytes_come_back(ino in 1u64.., name in prop::collection::vec(any::<u8>(), 1..60), value in prop::collection::vec(any::<u8>(), 0..200)) {
        back(&Event::Xattr { ino: Ino(ino), name: name.clone().into(), value: value.clone().into() }, 0);
        back(&Event::Inline { ino: Ino(ino), data: value.into() }, 0);
        if let Ok(name) = Name::new(&name) {
            back(&Event::Entry { dir: Ino(ino), name, ino: Ino(ino), kind: Kind::Block, remote: false }, 0);
        }
    }

    #[test]
    fn hostile_lines_are_refused_and_nothing_more(line in "(inode|entry|xattr|data|end|loligo-dump 1)( [ -~]{0,20}){0,12}|.{0,80}") {
        let _ = (parse(&line), Head::parse(&line), Tail::parse(&line));
    }
}
