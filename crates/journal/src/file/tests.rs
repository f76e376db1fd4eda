//! A journal file: what it gives back, and what is told of one that was cut off, changed, exchanged or put together.

use std::collections::BTreeMap;
use std::convert::Infallible;

use loligo_types::Lsn;
use proptest::prelude::*;

use super::*;
use crate::frame::FRAME_LEN;
use crate::reader::{MemSource, ReadConfig, ReadError, Reader};
use crate::segment::SegmentHeader;

const FS: FsId = *b"file system id 1";
/// Bytes of a record in these tests, frame included.
const RECORD: usize = FRAME_LEN + 100;
/// Where the first record lies.
const FIRST: usize = FILE_HEADER_LEN + SEGMENT_HEADER_LEN;

type Error = FileError<Infallible>;

/// A file of these records; `finish`: to its end.
fn written(owner: Owner, selection: bool, lsns: &[u64], finish: bool) -> Vec<u8> {
    let mut writer = FileWriter::new(FS, owner, selection);
    let mut bytes = writer.header().to_vec();
    for lsn in lsns {
        writer.append(&mut bytes, Lsn(*lsn), &[*lsn as u8; 100]).expect("it follows");
    }
    assert_eq!((writer.bytes(), writer.records()), (bytes.len() as u64, lsns.len() as u64));
    if finish {
        bytes[..FILE_HEADER_LEN].copy_from_slice(&writer.finish());
    }
    bytes
}

fn source(bytes: &[u8]) -> MemSource {
    MemSource(BTreeMap::from([(0, bytes.to_vec())]))
}

/// The records, and how it ends.
fn read(bytes: &[u8]) -> Result<(Vec<u64>, FileTail), Error> {
    let mut reader = FileReader::open(source(bytes))?;
    let mut found = Vec::new();
    while let Some(record) = reader.next_record()? {
        assert_eq!(record.body, [record.lsn.0 as u8; 100], "a wrong body was taken for a good one");
        found.push(record.lsn.0);
    }
    Ok((found, reader.tail().expect("read to the end")))
}

#[test]
fn what_was_written_is_read_and_the_header_says_whose_it_is() {
    for owner in [Owner::Rank(3), Owner::Client(u64::MAX)] {
        let bytes = written(owner, false, &[7, 8, 9], true);
        let reader = FileReader::open(source(&bytes)).expect("a good file");
        let totals = Some(Totals { records: 3, bytes: bytes.len() as u64 });
        assert_eq!(*reader.header(), FileHeader { fs: FS, owner, selection: false, totals });
        let (found, tail) = read(&bytes).expect("a good file");
        assert_eq!((found, tail.next_lsn, tail.torn, tail.missing), (vec![7, 8, 9], Lsn(10), None, 0));
    }
    let (found, tail) = read(&written(Owner::Rank(0), false, &[], true)).expect("a good file");
    assert_eq!((found, tail.next_lsn), (vec![], Lsn(1)));
}

#[test]
fn a_file_that_was_cut_while_it_was_written_ends_with_its_last_whole_record() {
    let bytes = written(Owner::Client(5), false, &[1, 2, 3], false);
    for cut in FILE_HEADER_LEN..=bytes.len() {
        let (found, tail) = read(&bytes[..cut]).unwrap_or_else(|e| panic!("cut at {cut}: {e}"));
        let whole = cut.saturating_sub(FIRST) / RECORD;
        assert_eq!(found.len(), whole, "cut at {cut}");
        let good = if cut < FIRST { FILE_HEADER_LEN } else { FIRST + whole * RECORD };
        // The last bytes of a segment's header are no zeros.
        assert_eq!(tail.torn.map(|torn| torn.offset), (cut > good).then_some(good as u64), "cut at {cut}");
    }
    let zeros = [&bytes[..], &[0; 500]].concat();
    assert_eq!(read(&zeros).expect("zeros are nothing").1.torn, None);
}

#[test]
fn a_finished_file_that_was_cut_says_how_many_records_are_missing() {
    let bytes = written(Owner::Rank(0), false, &[1, 2, 3], true);
    let (found, tail) = read(&bytes[..bytes.len() - 1]).expect("the others are there");
    assert_eq!((found, tail.missing), (vec![1, 2], 1));
    assert_eq!(tail.torn.map(|torn| (torn.offset, torn.bytes)), Some(((FIRST + 2 * RECORD) as u64, RECORD as u64 - 1)));
    let (found, tail) = read(&bytes[..FIRST + RECORD]).expect("the first is there");
    assert_eq!((found, tail.missing, tail.torn), (vec![1], 2, None));
    // What stands behind a finished file is none of it.
    let (found, tail) = read(&[&bytes[..], b"more"].concat()).expect("a good file");
    assert_eq!((found.len(), tail.missing, tail.torn.map(|torn| torn.bytes)), (3, 0, Some(4)));
}

#[test]
fn bytes_that_were_changed_are_told_from_bytes_that_never_came() {
    let damaged = |finish: bool, at: usize| {
        let mut bytes = written(Owner::Rank(0), false, &[1, 2, 3], finish);
        bytes[at] ^= 1;
        bytes
    };
    let second = FIRST + RECORD;
    let bad = |proof| Error::BadChecksum { offset: second as u64, lsn: Some(Lsn(2)), proof };
    // Of a finished file all was there.
    assert_eq!(read(&damaged(true, second + FRAME_LEN)), Err(bad(None)));
    // Of another one it may never have come, unless somebody knew that it had.
    let (found, tail) = read(&damaged(false, second + FRAME_LEN)).expect("it may have been cut off");
    assert_eq!((found, tail.torn.map(|torn| torn.records)), (vec![1], Some(1)));
    let mut writer = FileWriter::new(FS, Owner::Client(5), false);
    let mut bytes = writer.header().to_vec();
    for lsn in 1..=3 {
        writer.append(&mut bytes, Lsn(lsn), &[lsn as u8; 100]).expect("it follows");
        writer.synced(Lsn(lsn));
    }
    bytes[second + 3] ^= 1;
    assert_eq!(read(&bytes), Err(bad(Some(Lsn(3)))));
    // The header of a segment behind it proves the same.
    let mut bytes = damaged(false, second + FRAME_LEN);
    let next = SegmentHeader { fs: FS, rank: 0, id: 2, first: Lsn(4) };
    bytes.extend_from_slice(&next.encode());
    assert_eq!(read(&bytes), Err(bad(Some(Lsn(4)))));
    let first = Error::BadChecksum { offset: FILE_HEADER_LEN as u64, lsn: None, proof: None };
    assert_eq!(read(&damaged(true, FILE_HEADER_LEN + 20)), Err(first));
    assert_eq!(read(&damaged(true, 20)), Err(Error::BadHeader));
}

#[test]
fn what_was_sealed_is_damaged_when_it_cannot_be_read_and_what_follows_a_seal_that_was_cut_is_torn() {
    let mut writer = FileWriter::new(FS, Owner::Client(5), false);
    let mut bytes = writer.header().to_vec();
    assert!(writer.seal().is_empty(), "there is nothing to be sealed");
    for lsn in 1..=3 {
        writer.append(&mut bytes, Lsn(lsn), &[lsn as u8; 100]).expect("it follows");
    }
    let before = bytes.len();
    bytes.extend(writer.seal());
    let sealed = bytes.len();
    for lsn in 4..=5 {
        writer.append(&mut bytes, Lsn(lsn), &[lsn as u8; 100]).expect("it follows");
    }
    assert_eq!(writer.bytes(), bytes.len() as u64);
    let (found, tail) = read(&bytes).expect("a good file");
    assert_eq!((found, tail.next_lsn, tail.torn), (vec![1, 2, 3, 4, 5], Lsn(6), None));
    for at in FIRST..before {
        let mut changed = bytes[..sealed].to_vec();
        changed[at] ^= 1;
        assert!(matches!(read(&changed), Err(FileError::BadChecksum { .. })), "byte {at}: {:?}", read(&changed));
    }
    for cut in before..=bytes.len() {
        let (found, tail) = read(&bytes[..cut]).unwrap_or_else(|e| panic!("cut at {cut}: {e}"));
        let (whole, good) = match cut.checked_sub(sealed) {
            None => (3, before),
            Some(more) => (3 + more / RECORD, sealed + more / RECORD * RECORD),
        };
        // Zeros at the end are none of a write.
        let torn = bytes[good..cut].iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1);
        assert_eq!((found.len(), tail.torn.map_or(0, |torn| torn.bytes)), (whole, torn), "cut at {cut}");
    }
}

#[test]
fn a_record_that_was_cut_out_is_a_gap_unless_the_file_is_a_selection() {
    let mut bytes = written(Owner::Rank(0), false, &[1, 2, 3], false);
    bytes.drain(FIRST + RECORD..FIRST + 2 * RECORD);
    let gap = Error::Gap { offset: (FIRST + RECORD) as u64, expected: Lsn(2), found: Lsn(3) };
    assert_eq!(read(&bytes), Err(gap));
    let mut writer = FileWriter::new(FS, Owner::Rank(0), false);
    let mut out = Vec::new();
    writer.append(&mut out, Lsn(5), b"x").expect("the first");
    let order = FileAppendError::Order { expected: Lsn(6), found: Lsn(7), later: false };
    assert_eq!(writer.append(&mut out, Lsn(7), b"x"), Err(order));

    let bytes = written(Owner::Rank(0), true, &[2, 3, 9, 20, 21], true);
    let (found, tail) = read(&bytes).expect("it is meant to have holes");
    assert_eq!(found, [2, 3, 9, 20, 21]);
    assert_eq!(tail.segments.iter().map(|s| (s.id, s.first.0)).collect::<Vec<_>>(), [(1, 2), (2, 9), (3, 20)]);
    // The same segments in a file that does not say so.
    let header = FileHeader { fs: FS, owner: Owner::Rank(0), selection: false, totals: None };
    let bytes = [&header.encode()[..], &bytes[FILE_HEADER_LEN..]].concat();
    assert!(matches!(read(&bytes), Err(Error::Gap { expected: Lsn(4), found: Lsn(9), .. })));
}

#[test]
fn a_newer_version_and_foreign_files_and_segments_are_told_apart() {
    let mut newer = written(Owner::Rank(0), false, &[1], true);
    newer[8] = 9;
    let crc = crc32c::crc32c(&newer[..60]);
    newer[60..64].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(read(&newer), Err(Error::UnknownVersion { offset: 0, found: 9 }));
    for (bytes, segment) in [(&b""[..], false), (b"loligo-dump 1 ", false), (&newer[FILE_HEADER_LEN..], true)] {
        assert_eq!(read(bytes), Err(Error::NoJournalFile { segment }));
    }
    // Two files put together.
    let (one, other) = (written(Owner::Rank(0), false, &[1], false), written(Owner::Rank(1), false, &[2], false));
    let both = [&one[..], &other[FILE_HEADER_LEN..]].concat();
    let foreign = SegmentHeader { fs: FS, rank: 1, id: 1, first: Lsn(2) };
    assert_eq!(read(&both), Err(Error::Foreign { offset: one.len() as u64, header: foreign }));
    let mut segment = written(Owner::Rank(0), false, &[1], false);
    let at = FILE_HEADER_LEN;
    segment[at + 8] = 3;
    let crc = crc32c::crc32c(&segment[at..at + 60]);
    segment[at + 60..at + 64].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(read(&segment), Err(Error::UnknownVersion { offset: at as u64, found: 3 }));
}

#[test]
fn recovery_reads_the_segments_of_a_file_as_those_of_a_journal() {
    let bytes = written(Owner::Rank(3), false, &[5, 6, 7], true);
    let records = |bytes: &[u8], from: u64| {
        let tail = read(bytes).expect("a good file").1;
        let segments = FileSegments::new(source(bytes), &tail);
        let config = ReadConfig { fs: Some(FS), rank: Some(3), from: Lsn(from), synced: None };
        let mut reader = Reader::open(segments, config)?;
        let mut found = Vec::new();
        while let Some(record) = reader.next_record()? {
            found.push(record.lsn.0);
        }
        Ok::<_, ReadError<Infallible>>(found)
    };
    assert_eq!(records(&bytes, 6), Ok(vec![6, 7]));
    assert!(matches!(records(&bytes, 4), Err(ReadError::Gap { expected: Lsn(4), found: Some(Lsn(5)), .. })));
    assert_eq!(records(&bytes[..bytes.len() - 1], 5), Ok(vec![5, 6]));
    let holes = written(Owner::Rank(3), true, &[5, 7], true);
    assert!(matches!(records(&holes, 5), Err(ReadError::Gap { expected: Lsn(6), .. })));
}

#[test]
fn no_change_of_a_byte_brings_a_record_that_was_not_written() {
    let bytes = written(Owner::Rank(3), false, &[1, 2, 3], true);
    for at in 0..bytes.len() {
        for bit in [1, 0x80] {
            let mut changed = bytes.clone();
            changed[at] ^= bit;
            // `read` compares each body with what was written.
            assert!(read(&changed).is_err(), "byte {at}");
        }
    }
}

proptest! {
    #[test]
    fn what_goes_in_comes_out(
        steps in proptest::collection::vec((1u64..4, 1usize..300), 0..20),
        number in any::<u64>(),
        finish in any::<bool>(),
    ) {
        let mut writer = FileWriter::new(FS, Owner::Client(number), true);
        let (mut bytes, mut lsn, mut want) = (writer.header().to_vec(), 0, Vec::new());
        for (step, len) in steps {
            lsn += step;
            let body = vec![lsn as u8; len];
            writer.append(&mut bytes, Lsn(lsn), &body).expect("it follows");
            want.push((lsn, body));
        }
        if finish {
            bytes[..FILE_HEADER_LEN].copy_from_slice(&writer.finish());
        }
        let mut reader = FileReader::open(source(&bytes)).expect("a good file");
        prop_assert_eq!(reader.header().owner, Owner::Client(number));
        let mut found = Vec::new();
        while let Some(record) = reader.next_record().expect("a good file") {
            found.push((record.lsn.0, record.body.to_vec()));
        }
        prop_assert_eq!(found, want);
        prop_assert_eq!(reader.tail().expect("the end").torn, None);
    }
}
