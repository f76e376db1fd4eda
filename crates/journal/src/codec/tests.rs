//! The codec: what goes in comes out, and no bytes make it panic, allocate without bound, or take half a value.

use loligo_types::msg::Reclaim;
use loligo_types::{
    Event, FileLock, Frag, Ino, Lease, Letter, LockKind, LockOwner, MovedClient, OpenFlags, Rank, Route,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::arbitrary;

fn encoded(origin: Option<&Origin>, events: &[Event]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_record(&mut out, origin, events);
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_record_comes_back_as_it_was(
        origin in option::of(arbitrary::origin()),
        events in vec(arbitrary::event(), 0..6),
    ) {
        let bytes = encoded(origin.as_ref(), &events);
        prop_assert_eq!(decode_origin(&bytes), Ok(origin));
        prop_assert_eq!(decode_record(&bytes), Ok(Record { origin, events }));
    }

    #[test]
    fn what_is_shown_of_a_record_is_what_is_read_of_it_and_can_be_ended(
        events in vec(arbitrary::event(), 1..6), cut in any::<prop::sample::Index>(),
    ) {
        let bytes = encoded(None, &events);
        let mut seen = Vec::new();
        let all = view_record(&bytes, |event| {
            seen.push(match event {
                EventView::Inode(inode) => Event::Inode(Box::new(inode.clone())),
                EventView::Entry { dir, name, ino, kind, remote } => {
                    Event::Entry { dir, name: loligo_types::Name::new(name).unwrap(), ino, kind, remote }
                }
                EventView::Other(event) => event.clone(),
            });
            ControlFlow::Continue(())
        });
        prop_assert_eq!(all, Ok(ControlFlow::Continue(())));
        prop_assert_eq!(&seen, &events);
        let (last, mut count) = (cut.index(events.len()), 0);
        let ended = view_record(&bytes, |_| {
            count += 1;
            if count > last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        prop_assert_eq!((ended, count), (Ok(ControlFlow::Break(())), last + 1));
        let cut = &bytes[..cut.index(bytes.len())];
        prop_assert_eq!(view_record(cut, |_| ControlFlow::Continue(())).is_err(), decode_record(cut).is_err());
    }

    #[test]
    fn a_record_cut_anywhere_or_with_a_byte_more_is_an_error(
        origin in option::of(arbitrary::origin()),
        events in vec(arbitrary::event(), 0..4),
    ) {
        let mut bytes = encoded(origin.as_ref(), &events);
        for len in 0..bytes.len() {
            prop_assert!(decode_record(&bytes[..len]).is_err(), "cut to {} of {}", len, bytes.len());
        }
        let at = bytes.len();
        bytes.push(0);
        prop_assert_eq!(decode_record(&bytes), Err(DecodeError::Trailing { at, left: 1 }));
    }

    #[test]
    fn broken_bytes_are_refused_or_are_another_record(
        events in vec(arbitrary::event(), 1..4), at in any::<prop::sample::Index>(), bit in 0u8..8,
    ) {
        let mut bytes = encoded(None, &events);
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        if let Ok(record) = decode_record(&bytes) {
            // What is understood is a value that can be written again.
            prop_assert_eq!(decode_record(&encoded(record.origin.as_ref(), &record.events)), Ok(record));
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..200)) {
        let _ = decode_record(&bytes);
        let mut versioned = vec![EVENT_VERSION, 0];
        versioned.extend(&bytes);
        let _ = decode_record(&versioned);
    }
}

#[test]
fn a_record_of_another_version_is_told_from_a_broken_one() {
    let mut bytes = encoded(None, &[Event::NextIno(Ino(7))]);
    bytes[0] = 9;
    let error = DecodeError::UnknownVersion { what: "record", found: 9, known: 2 };
    assert_eq!(decode_record(&bytes), Err(error));
    assert_eq!(
        error.to_string(),
        "the record has format version 9, this program knows 2: use the version that wrote it"
    );
}

#[test]
fn an_event_of_the_future_is_named_by_its_code() {
    for code in [0, 32, 255] {
        let error = decode_record(&[EVENT_VERSION, 0, 1, code, 0]).expect_err("no such event");
        assert_eq!(error, DecodeError::UnknownEvent { code, at: 3 });
    }
}

#[test]
fn a_count_or_length_beyond_the_bytes_allocates_nothing() {
    // 2^63 events, then a name and inline data of 2^63 bytes.
    let huge = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01];
    for head in [&[EVENT_VERSION, 0][..], &[EVENT_VERSION, 0, 1, 4, 1], &[EVENT_VERSION, 0, 1, 7, 1]] {
        let bytes = [head, &huge[..], &[0; 20]].concat();
        assert!(decode_record(&bytes).is_err());
    }
}

#[test]
fn letters_do_not_lie_in_letters_however_many() {
    // A letter to rank 0 that holds one event (in a transaction 0), which is a letter again.
    let inner = [18, 1, 0, 1, 0, 1];
    let bytes = [&[EVENT_VERSION, 0, 1][..], &inner.repeat(1 << 20)].concat();
    let error = decode_record(&bytes).expect_err("no letter in a letter");
    assert!(matches!(error, DecodeError::Invalid { what: "a letter in a letter", .. }), "{error}");
}

#[test]
fn numbers_have_one_form_only() {
    for (bytes, good) in [
        (&[0x7f][..], true),
        (&[0x80, 0x01], true),
        (&[0x80, 0x00], false),
        (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], true),
        (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02], false),
        (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], false),
    ] {
        assert_eq!(Cursor::new(bytes).u64().is_ok(), good, "{bytes:02x?}");
    }
}

#[test]
fn names_that_are_none_are_refused() {
    for name in [&b""[..], b".", b"..", b"a/b", b"a\0b", &[b'x'; 256]] {
        let mut bytes = vec![EVENT_VERSION, 0, 1, 4, 1];
        put_bytes(&mut bytes, name);
        assert!(matches!(decode_record(&bytes), Err(DecodeError::Invalid { what: "name", .. })), "{name:?}");
    }
}

#[test]
fn a_directory_cut_finer_than_its_names_are_told_apart_is_refused() {
    let dir = |frag_bits, expected| {
        let (kind, time) = (loligo_types::Kind::Dir, loligo_types::Time(0));
        let directory = loligo_types::Inode::new(Ino(7), kind, 0o755, 0, 0, Ino(1), time);
        let mut dir = loligo_types::Inode { frag_bits, ..directory };
        dir.extra_mut().expected_entries = expected;
        encoded(None, &[Event::Inode(Box::new(dir))])
    };
    for (bits, expected, good) in [(24, 1 << 40, true), (25, 0, false), (0, (1 << 40) + 1, false)] {
        assert_eq!(decode_record(&dir(bits, expected)).is_ok(), good, "{bits} bits, {expected} entries");
    }
    // Nothing said, in a form of its own.
    let mut bytes = dir(1, 0);
    let at = bytes.len() - 3;
    assert_eq!(bytes[at..], [1, 0, 0], "bits, entries expected, flags of the rare parts");
    bytes[at] = 0;
    assert!(decode_record(&bytes).is_err());
}

#[test]
fn an_object_size_that_nobody_can_divide_by_is_refused() {
    for (size, good) in [(0u64, false), (3, false), (4096, true), (1 << 30, true), (1 << 31, false), (1 << 32, false)] {
        let mut bytes = vec![EVENT_VERSION, 0, 1, 11, 1, 0];
        put_u64(&mut bytes, size);
        assert_eq!(decode_record(&bytes).is_ok(), good, "{size}");
    }
}

/// The decoder holds each count against what is left of the record: nothing is smaller than it assumes.
#[test]
fn the_smallest_things_of_each_kind_come_back_at_the_end_of_a_record() {
    let none = OpenFlags { read: false, write: false, truncate: false, append: false, exec: false };
    let end = u64::MAX;
    let lock = FileLock { kind: LockKind::Posix, owner: LockOwner(0), pid: 0, exclusive: false, start: 0, end };
    let all = [
        Reclaim::default(),
        Reclaim { opens: vec![(0, Ino(0), none, Lease::NONE)], ..Reclaim::default() },
        Reclaim { leases: vec![(Ino(0), Lease::NONE)], ..Reclaim::default() },
        Reclaim { locks: vec![(Ino(0), 0, lock)], ..Reclaim::default() },
    ];
    for held in all {
        let clients = vec![MovedClient { held, ..MovedClient::default() }];
        let route = Route { dir: Ino(0), frag: Frag::WHOLE, rank: Rank::ZERO, version: 0 };
        for routes in [vec![], vec![route]] {
            let letter = Letter::Import { routes, events: Vec::new(), clients: clients.clone() };
            let events = vec![Event::Letter { to: Rank::ZERO, seq: 0, letter: letter.into() }];
            assert_eq!(decode_record(&encoded(None, &events)), Ok(Record { origin: None, events }));
        }
    }
}
