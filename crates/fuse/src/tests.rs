//! Layouts against bytes written down from `fuse.h`, nonsense, and the handshake with kernels old and new.

use std::time::Duration;

use proptest::prelude::*;

use crate::init::answer;
use crate::*;

fn request(opcode: u32, body: &[u8]) -> Vec<u8> {
    let len = 40 + body.len() as u32;
    let mut bytes = [len, opcode].map(u32::to_ne_bytes).concat();
    bytes.extend([7u64, 300].map(u64::to_ne_bytes).concat());
    bytes.extend([1000u32, 100, 4242, 0].map(u32::to_ne_bytes).concat());
    bytes.extend_from_slice(body);
    bytes
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_ne_bytes()).collect()
}

fn longs(longs: &[u64]) -> Vec<u8> {
    longs.iter().flat_map(|w| w.to_ne_bytes()).collect()
}

#[test]
fn a_lookup_names_its_caller_and_its_name() {
    let bytes = request(1, b"name\0");
    let request = Request::parse(&bytes).expect("a request");
    assert_eq!(request.header, Header { opcode: 1, unique: 7, node: 300, uid: 1000, gid: 100, pid: 4242 });
    assert_eq!(request.operation, Operation::Lookup { name: b"name" });
}

#[test]
fn two_names_are_told_apart() {
    let body = [longs(&[9]), words(&[1, 0]), b"from\0to\0".to_vec()].concat();
    let bytes = request(45, &body);
    let expected = Operation::Rename { name: b"from", new_dir: 9, new_name: b"to", flags: 1 };
    assert_eq!(Request::parse(&bytes).expect("a request").operation, expected);
}

#[test]
fn a_write_brings_its_data_and_where_it_comes_from() {
    let body = [longs(&[5, 4096]), words(&[3, 5]), longs(&[0]), words(&[2, 0]), b"abc".to_vec()].concat();
    let expected = Operation::Write {
        fh: 5,
        offset: 4096,
        data: b"abc",
        how: WriteFlags { cache: true, kill_priv: true, direct: false },
        flags: 2,
    };
    assert_eq!(Request::parse(&request(16, &body)).expect("a request").operation, expected);
}

#[test]
fn calls_around_the_page_cache_are_told_from_those_that_fill_pages() {
    let write = |how| [longs(&[5, 0]), words(&[1, how]), longs(&[9]), words(&[2, 0]), b"x".to_vec()].concat();
    let read = |how| [longs(&[5, 0]), words(&[4096, how]), longs(&[9]), words(&[0, 0])].concat();
    for (how, expected) in [(0, false), (2, true), (6, true), (3, false)] {
        let bytes = request(16, &write(how));
        let Operation::Write { how, .. } = Request::parse(&bytes).expect("a request").operation else {
            panic!("a write")
        };
        assert_eq!(how.direct, expected);
    }
    for (how, expected) in [(0, false), (2, true)] {
        let operation = Operation::Read { fh: 5, offset: 0, size: 4096, direct: expected };
        assert_eq!(Request::parse(&request(15, &read(how))).expect("a request").operation, operation);
    }
}

#[test]
fn a_flock_is_told_from_a_record_lock() {
    let body = |flags| [longs(&[5, 6, 0, u64::MAX >> 1]), words(&[1, 77, flags, 0])].concat();
    for (flags, flock) in [(0, false), (1, true)] {
        let bytes = request(33, &body(flags));
        let Operation::SetLock { lock, wait } = Request::parse(&bytes).expect("a request").operation else {
            panic!("a lock")
        };
        assert!(wait);
        assert_eq!((lock.flock, lock.owner, lock.typ, lock.pid), (flock, 6, 1, 77));
    }
}

#[test]
fn only_what_is_marked_valid_is_set_and_times_before_1970_stay() {
    let body = |valid| {
        [
            words(&[valid, 0]),
            longs(&[5, 1, 0, (-2i64).cast_unsigned(), 9, 0]),
            words(&[500_000_000, 8, 0, 0o100_600, 0, 10, 20, 0]),
        ]
        .concat()
    };
    let parse = |valid| match Request::parse(&request(4, &body(valid))).expect("a request").operation {
        Operation::SetAttr(set) => set,
        other => panic!("{other:?}"),
    };
    assert_eq!(parse(0), SetAttr::default());
    let all = parse(0b101_1111);
    assert_eq!((all.mode, all.uid, all.gid, all.size), (Some(0o100_600), Some(10), Some(20), Some(1)));
    assert_eq!((all.atime, all.mtime, all.fh), (Some(SetTime::At(-2, 500_000_000)), None, Some(5)));
    assert_eq!(parse(1 << 5 | 1 << 8).mtime, Some(SetTime::Now));
}

#[test]
fn forgets_come_alone_and_many_at_a_time() {
    let collect = |bytes: &[u8]| {
        let Operation::Forget { nodes } = Request::parse(bytes).expect("a request").operation else { panic!() };
        let mut seen = Vec::new();
        nodes.for_each(|node, n| seen.push((node, n)));
        seen
    };
    assert_eq!(collect(&request(2, &longs(&[3]))), vec![(300, 3)]);
    let many = [words(&[2, 0]), longs(&[10, 1, 11, 2])].concat();
    assert_eq!(collect(&request(42, &many)), vec![(10, 1), (11, 2)]);
    let cut = [words(&[3, 0]), longs(&[10, 1, 11, 2])].concat();
    assert!(Request::parse(&request(42, &cut)).is_err(), "it says three and has two");
}

#[test]
fn extensions_at_the_end_are_not_taken_for_a_name() {
    let mut bytes = request(1, b"n\0......12345678");
    bytes[36..38].copy_from_slice(&1u16.to_ne_bytes());
    assert_eq!(Request::parse(&bytes).expect("a request").operation, Operation::Lookup { name: b"n" });
    bytes[36..38].copy_from_slice(&100u16.to_ne_bytes());
    assert!(matches!(Request::parse(&bytes), Err(ParseError::Body(_))), "more than there is");
}

#[test]
fn what_is_not_known_can_be_answered() {
    let bytes = request(4095, &[1, 2, 3]);
    assert_eq!(Request::parse(&bytes).expect("a request").operation, Operation::Unknown);
    assert_eq!(Request::parse(&bytes[..39]), Err(ParseError::NoHeader(39)));
    let lookup = request(1, b"no end");
    assert!(matches!(Request::parse(&lookup), Err(ParseError::Body(header)) if header.unique == 7));
}

proptest! {
    #[test]
    fn any_bytes_are_a_request_or_an_error(opcode in 0u32..60, body in proptest::collection::vec(any::<u8>(), 0..160)) {
        let _ = Request::parse(&request(opcode, &body));
        let _ = Request::parse(&body);
    }
}

const WISH: Wish = Wish {
    capabilities: Capabilities::POSIX_LOCKS.and(Capabilities::DIRECT_IO_ALLOW_MMAP),
    max_write: 1 << 20,
    max_background: 64,
};

#[test]
fn a_handshake_takes_what_is_offered_and_wished() {
    let mut body = words(&[7, 44, 1 << 17, u32::MAX, 1 << 4]);
    body.resize(64, 0);
    let (offer, out) = answer(&body, &WISH).expect("agreed");
    let offer = offer.expect("an offer");
    assert_eq!(offer.minor, 44);
    assert!(offer.capabilities.has(Capabilities::DIRECT_IO_ALLOW_MMAP));
    assert_eq!(out.len(), 64);
    let flags = 1 << 1 | 1 << 5 | 1 << 22 | 1 << 30;
    assert_eq!(out[..24], words(&[7, 44, 1 << 17, flags, 64 | 48 << 16, 1 << 20])[..]);
    assert_eq!(out[24..36], words(&[1, 256, 1 << 4])[..]);
}

#[test]
fn a_newer_kernel_is_met_at_our_version_and_an_older_one_is_refused() {
    let (offer, out) = answer(&words(&[8, 0, 0, 0]), &WISH).expect("it is told");
    assert!(offer.is_none());
    assert_eq!(out[..8], words(&[MAJOR, MINOR])[..]);
    let (_, out) = answer(&words(&[7, 99, 0, 0]), &WISH).expect("agreed");
    assert_eq!(out[4..8], words(&[MINOR])[..]);
    assert!(matches!(answer(&words(&[7, 30, 0, 0]), &WISH), Err(InitError::Version(7, 30))));
    assert!(matches!(answer(&words(&[7]), &WISH), Err(InitError::NotInit)));
}

#[test]
fn entries_of_a_directory_are_aligned_and_end_where_the_room_does() {
    let mut buffer = DirectoryBuffer::new(64);
    assert!(!buffer.add(300, 12, 0o040_000, b"d"));
    let expected = [longs(&[300, 12]), words(&[1, 4]), b"d\0\0\0\0\0\0\0".to_vec()].concat();
    assert_eq!(buffer.bytes(), expected);
    assert!(!buffer.add(301, 13, 0o100_000, b"12345678"));
    assert!(buffer.add(302, 14, 0o100_000, b""), "no room");
    assert_eq!(buffer.bytes().len(), 64);
}

#[test]
fn a_notification_is_a_header_with_the_code_in_place_of_the_error() {
    assert_eq!(Notify::Epoch.message(), [words(&[16, 8]), longs(&[0])].concat());
    let grown = Notify::Grown { node: 300, size: 5000 }.message();
    assert_eq!(grown, [words(&[16 + 24 + 1, 4]), longs(&[0, 300, 4999]), words(&[1, 0])].concat());
    let inode = Notify::Inode { node: 300, offset: -1, len: 0 }.message();
    assert_eq!(inode, [words(&[40, 2]), longs(&[0, 300, u64::MAX, 0])].concat());
    let entry = Notify::Entry { parent: 300, name: b"abc" }.message();
    assert_eq!(entry, [words(&[36, 3]), longs(&[0, 300]), words(&[3, 1]), b"abc\0".to_vec()].concat());
}

/// A device that is a pipe: what is answered can be read.
fn told(tell: impl FnOnce(Reply)) -> Vec<u8> {
    let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
    tell(Reply::new(&Device::from(writer), 9));
    let mut bytes = vec![0; 1024];
    let n = rustix::io::read(&reader, &mut bytes).expect("an answer");
    bytes.truncate(n);
    bytes
}

#[test]
fn a_reply_that_is_dropped_is_an_error_for_who_waits() {
    let expected = [words(&[16, (-libc::EIO).cast_unsigned()]), longs(&[9])].concat();
    assert_eq!(told(drop), expected);
    assert_eq!(told(|r| r.shaped::<()>().error(Errno(libc::EIO))), expected);
}

#[test]
fn answers_have_the_lengths_of_their_structures() {
    let attr = Attr { ino: 300, mode: 0o100_644, rdev: 0x1234_5678, ..Attr::default() };
    let second = Duration::from_millis(1500);
    let len = |bytes: Vec<u8>| {
        assert_eq!(bytes[..4], (bytes.len() as u32).to_ne_bytes());
        bytes.len() - 16
    };
    assert_eq!(len(told(|r| ReplyEmpty::ok(r.shaped()))), 0);
    assert_eq!(len(told(|r| ReplyEntry::entry(r.shaped(), second, second, &attr))), 128);
    assert_eq!(len(told(|r| ReplyAttr::attr(r.shaped(), second, &attr))), 104);
    assert_eq!(len(told(|r| ReplyCreate::created(r.shaped(), second, second, &attr, 1, OpenFlags::NONE))), 144);
    assert_eq!(len(told(|r| ReplyStatfs::statfs(r.shaped(), &Kstatfs::default()))), 80);
    assert_eq!(len(told(|r| ReplyLock::locked(r.shaped(), 0, 1, 2, 3))), 24);
    let entry = told(|r| ReplyEntry::entry(r.shaped(), second, Duration::ZERO, &attr));
    assert_eq!(entry[16..56], [longs(&[300, 0, 0, 1]), words(&[0, 500_000_000])].concat());
    assert_eq!(entry[16 + 40 + 60..][..4], words(&[0o100_644])[..]);
    assert_eq!(told(|r| ReplyCopied::copied(r.shaped(), 5, false))[16..], words(&[5, 0])[..]);
}
