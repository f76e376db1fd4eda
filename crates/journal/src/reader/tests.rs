//! Recovery: the outcomes, each apart from the others, and crashes at every place.

mod crashes;
mod lost;

use loligo_types::Lsn;

use super::*;
use crate::writer::{Writer, WriterConfig};

const FS: FsId = *b"file system id 1";
const RANK: u32 = 3;
/// Bytes of a record in these tests, frame included.
const RECORD: u64 = FRAME_LEN as u64 + 100;
/// Four records fit in a segment.
const SEGMENT: u64 = SEGMENT_HEADER_LEN as u64 + 4 * RECORD;

type Error = ReadError<std::convert::Infallible>;

fn config() -> WriterConfig {
    WriterConfig { fs: FS, rank: RANK, segment_size: SEGMENT }
}

fn body(lsn: u64) -> Vec<u8> {
    vec![lsn as u8; 100]
}

/// A journal of records 1..=last, each made durable before the next was appended.
fn synced_journal(last: u64) -> MemSource {
    let (mut writer, mut source) = (Writer::new(config()), MemSource::default());
    for lsn in 1..=last {
        writer.append(&body(lsn)).expect("the writer has not failed");
        let batch = writer.take_batch().expect("a record was appended");
        source.write(&batch);
        writer.synced(batch.last);
    }
    source
}

/// A journal whose records after `durable` were written in one batch and not synced.
fn unsynced_journal(durable: u64, last: u64) -> MemSource {
    let mut source = synced_journal(durable);
    let big = WriterConfig { segment_size: 1 << 20, ..config() };
    let mut writer = Writer::resume(big, &read(&source, 1).expect("a good journal").1);
    (durable + 1..=last).for_each(|lsn| {
        writer.append(&body(lsn)).expect("the writer has not failed");
    });
    source.write(&writer.take_batch().expect("records were appended"));
    source
}

/// The records read and the tail.
fn read(source: &MemSource, from: u64) -> Result<(Vec<u64>, Tail), Error> {
    let mut source = source.clone();
    let config = ReadConfig { fs: Some(FS), rank: Some(RANK), from: Lsn(from), synced: None };
    let mut reader = Reader::open(&mut source, config)?;
    let mut found = Vec::new();
    while let Some(record) = reader.next_record()? {
        assert_eq!(record.body, body(record.lsn.0), "a wrong body was taken for a good one");
        found.push(record.lsn.0);
    }
    Ok((found, reader.tail().expect("read to the end")))
}

fn segment(source: &mut MemSource, id: u64) -> &mut Vec<u8> {
    source.0.get_mut(&id).expect("the segment exists")
}

/// Offset of the n-th record (from 0) of a segment.
fn at(n: u64) -> usize {
    (SEGMENT_HEADER_LEN as u64 + n * RECORD) as usize
}

#[test]
fn a_whole_journal_is_read_from_any_record_on() {
    let source = synced_journal(10);
    assert_eq!(source.0.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
    for from in 1..=11 {
        let (found, tail) = read(&source, from).expect("a good journal");
        assert_eq!(found, (from..=10).collect::<Vec<_>>());
        assert_eq!((tail.next_lsn, tail.next_segment, tail.torn), (Lsn(11), 4, None));
        assert_eq!(tail.segments.iter().map(|s| (s.id, s.first.0)).collect::<Vec<_>>(), [(1, 1), (2, 5), (3, 9)]);
        assert_eq!(tail.segments[0].bytes, SEGMENT);
    }
}

#[test]
fn a_journal_that_has_not_begun_is_empty_and_a_missing_one_is_a_gap() {
    assert_eq!(read(&MemSource::default(), 1), Ok((vec![], Tail::default())));
    let missing = Error::Gap { segment: 0, offset: 0, expected: Lsn(7), found: None };
    assert_eq!(read(&MemSource::default(), 8), Err(missing));
}

// Outcome one: a torn tail.

#[test]
fn a_torn_tail_is_cut_at_every_byte_and_counted() {
    let whole = synced_journal(6);
    for cut in at(1)..at(2) {
        let mut source = whole.clone();
        segment(&mut source, 2).truncate(cut);
        let (found, tail) = read(&source, 1).expect("a torn tail is no error");
        assert_eq!(found, [1, 2, 3, 4, 5]);
        let last = source.0[&2][at(1)..].iter().rposition(|byte| *byte != 0);
        let bytes = last.map_or(0, |last| last as u64 + 1);
        let torn = Torn { segment: 2, offset: at(1) as u64, bytes, records: 0 };
        assert_eq!(tail.torn, (bytes > 0).then_some(torn));
        assert_eq!(tail.next_lsn, Lsn(6));
    }
}

#[test]
fn zeros_behind_the_last_record_are_the_end() {
    let mut source = synced_journal(6);
    segment(&mut source, 2).resize(1 << 20, 0);
    let (found, tail) = read(&source, 1).expect("a good journal");
    assert_eq!((found.len(), tail.torn), (6, None));
}

#[test]
fn a_torn_header_of_the_newest_segment_is_a_torn_tail() {
    for cut in [0, 1, 30, SEGMENT_HEADER_LEN - 1] {
        let mut source = synced_journal(5);
        segment(&mut source, 2).truncate(cut);
        let (found, tail) = read(&source, 1).expect("a torn tail is no error");
        assert_eq!((found, tail.next_lsn, tail.next_segment), (vec![1, 2, 3, 4], Lsn(5), 3));
        assert_eq!(tail.torn.map(|torn| torn.bytes), (cut > 0).then_some(cut as u64));
    }
    let mut first = synced_journal(1);
    segment(&mut first, 1).truncate(20);
    assert_eq!(read(&first, 1).expect("nothing was ever durable").1.next_lsn, Lsn(1));
}

#[test]
fn a_batch_of_which_only_later_sectors_came_to_the_disk_is_a_torn_tail() {
    // Records 5..=12 in one unsynced batch in segment 2: its first part is zeros, the rest is whole.
    let mut source = unsynced_journal(4, 12);
    segment(&mut source, 2)[at(1)..at(3)].fill(0);
    let (found, tail) = read(&source, 1).expect("none of it was durable");
    assert_eq!(found, [1, 2, 3, 4, 5]);
    assert_eq!(tail.torn, Some(Torn { segment: 2, offset: at(1) as u64, bytes: 7 * RECORD, records: 5 }));
    // The same with the header of the segment missing.
    segment(&mut source, 2)[..at(3)].fill(0);
    let (found, tail) = read(&source, 1).expect("none of it was durable");
    assert_eq!((found, tail.next_lsn), (vec![1, 2, 3, 4], Lsn(5)));
    assert_eq!(tail.torn.map(|torn| (torn.segment, torn.records)), Some((2, 5)));
}

#[test]
fn what_an_older_use_of_the_same_file_left_is_never_taken() {
    // The file of segment 2 still holds whole records of another segment, file system and rank behind its own.
    let others = [
        (WriterConfig { fs: *b"file system id 2", ..config() }, 2),
        (WriterConfig { rank: 4, ..config() }, 2),
        (config(), 7),
    ];
    for (other, id) in others {
        let tail = Tail { next_lsn: Lsn(6), next_segment: id, ..Tail::default() };
        let mut writer = Writer::resume(other, &tail);
        (6..9).for_each(|lsn| {
            writer.append(&body(lsn)).expect("the writer has not failed");
        });
        let old = writer.take_batch().expect("three records").bytes;
        let mut source = synced_journal(5);
        segment(&mut source, 2).extend(&old[SEGMENT_HEADER_LEN..]);
        let (found, tail) = read(&source, 1).expect("what is left over is a torn tail");
        assert_eq!((found, tail.next_lsn), (vec![1, 2, 3, 4, 5], Lsn(6)));
        assert_eq!(tail.torn.map(|torn| torn.records), Some(0));
    }
}

#[test]
fn a_writer_goes_on_behind_a_torn_tail_and_all_is_read_again() {
    let mut source = synced_journal(6);
    segment(&mut source, 2).truncate(at(2) - 1);
    let (_, tail) = read(&source, 1).expect("a torn tail is no error");
    let mut writer = Writer::resume(config(), &tail);
    assert_eq!((writer.next_lsn(), writer.durable()), (Lsn(6), Lsn(5)));
    assert_eq!(writer.append(&body(6)), Ok(Lsn(6)));
    let batch = writer.take_batch().expect("one record");
    assert_eq!((batch.segment, batch.new_segment), (3, true));
    source.write(&batch);
    let (found, tail) = read(&source, 1).expect("the torn bytes of segment 2 are no damage");
    assert_eq!(found, [1, 2, 3, 4, 5, 6]);
    assert_eq!(tail.torn.map(|torn| torn.segment), Some(2));
}

// Outcome two: a gap.

#[test]
fn a_missing_segment_is_a_gap() {
    let mut source = synced_journal(12);
    source.0.remove(&2);
    let gap = Error::Gap { segment: 3, offset: 0, expected: Lsn(5), found: Some(Lsn(9)) };
    assert_eq!(read(&source, 1), Err(gap));
    assert_eq!(read(&source, 9).expect("what is wanted is there").0, [9, 10, 11, 12]);
    source.0.remove(&1);
    let gap = Error::Gap { segment: 3, offset: 0, expected: Lsn(8), found: Some(Lsn(9)) };
    assert_eq!(read(&source, 8), Err(gap));
}

#[test]
fn a_missing_newest_segment_is_a_gap_when_the_table_knows_of_it() {
    let mut source = synced_journal(10);
    source.0.remove(&3);
    let gap = Error::Gap { segment: 2, offset: SEGMENT, expected: Lsn(9), found: None };
    assert_eq!(read(&source, 10), Err(gap.clone()));
    assert_eq!(
        gap.to_string(),
        "journal segment 2, offset 560: record 9 is missing (the journal ends before it): a segment was removed or \
         exchanged; restore it, or look at what is there with `loligo journal inspect`"
    );
}

#[test]
fn a_missing_record_is_a_gap() {
    let mut source = synced_journal(4);
    segment(&mut source, 1).drain(at(1)..at(2));
    let gap = Error::Gap { segment: 1, offset: at(1) as u64, expected: Lsn(2), found: Some(Lsn(3)) };
    assert_eq!(read(&source, 1), Err(gap));
}

#[test]
fn records_cut_off_from_an_older_segment_are_a_gap() {
    let mut source = synced_journal(9);
    segment(&mut source, 1).truncate(at(3));
    let gap = Error::Gap { segment: 2, offset: 0, expected: Lsn(4), found: Some(Lsn(5)) };
    assert_eq!(read(&source, 1), Err(gap));
}

// Outcome three: a bad checksum.

#[test]
fn a_changed_bit_in_a_durable_record_is_damage_wherever_it_is() {
    let whole = synced_journal(3);
    for byte in at(1)..at(2) {
        let mut source = whole.clone();
        segment(&mut source, 1)[byte] ^= 0x20;
        let damage = Error::BadChecksum { segment: 1, offset: at(1) as u64, lsn: Lsn(2), proof: Some(Lsn(3)) };
        assert_eq!(read(&source, 1), Err(damage), "byte {byte}");
    }
}

#[test]
fn damage_in_an_older_segment_is_found_without_a_later_record_in_it() {
    let mut source = synced_journal(9);
    segment(&mut source, 1)[at(3) + 50] ^= 1;
    let damage = Error::BadChecksum { segment: 1, offset: at(3) as u64, lsn: Lsn(4), proof: None };
    assert_eq!(read(&source, 1), Err(damage.clone()));
    assert_eq!(read(&source, 5).expect("segment 1 is not needed").0, [5, 6, 7, 8, 9]);
    assert_eq!(
        damage.to_string(),
        "journal segment 1, offset 436: the checksum of record 4 is wrong: the disk returned other bytes than were \
         written; restore the segment, or look at it with `loligo journal inspect`"
    );
}

#[test]
fn a_changed_segment_header_is_damage_when_records_were_durable_behind_it() {
    for byte in 0..SEGMENT_HEADER_LEN {
        let mut source = synced_journal(10);
        segment(&mut source, 2)[byte] ^= 4;
        let damage = Error::BadChecksum { segment: 2, offset: 0, lsn: Lsn(5), proof: Some(Lsn(9)) };
        assert_eq!(read(&source, 1), Err(damage), "byte {byte}");
        let mut newest = synced_journal(7);
        segment(&mut newest, 2)[byte] ^= 4;
        let damage = Error::BadChecksum { segment: 2, offset: 0, lsn: Lsn(5), proof: Some(Lsn(6)) };
        assert_eq!(read(&newest, 1), Err(damage), "byte {byte}");
    }
    let mut only = synced_journal(4);
    segment(&mut only, 1)[0] ^= 1;
    assert!(matches!(read(&only, 3), Err(Error::BadChecksum { segment: 1, offset: 0, .. })));
}

#[test]
fn damage_far_from_the_record_that_proves_it_is_found() {
    // The proof lies across the border of two pieces that are looked at.
    let mut writer = Writer::new(WriterConfig { segment_size: 1 << 24, ..config() });
    let mut source = MemSource::default();
    let chunk = 256 << 10;
    for len in [100, chunk - 300, 100, 100, 100] {
        writer.append(&vec![9; len]).expect("the writer has not failed");
        let batch = writer.take_batch().expect("a record was appended");
        source.write(&batch);
        writer.synced(batch.last);
    }
    segment(&mut source, 1)[at(0) + 50] ^= 1;
    let mut reader = Reader::open(source, ReadConfig::default()).expect("the header is good");
    let damage = Error::BadChecksum { segment: 1, offset: 64, lsn: Lsn(1), proof: Some(Lsn(2)) };
    assert_eq!(reader.next_record(), Err(damage));
    assert_eq!(reader.next_record(), Ok(None), "an error is the end");
    assert_eq!(reader.tail(), None);
}

// Outcome four: an unknown version; and segments of somebody else.

#[test]
fn a_segment_of_an_unknown_version_is_named_and_not_taken_for_damage() {
    let mut source = synced_journal(6);
    let bytes = segment(&mut source, 2);
    bytes[8] = 2;
    let crc = crc32c::crc32c(&bytes[..60]).to_le_bytes();
    bytes[60..64].copy_from_slice(&crc);
    let unknown = Error::UnknownVersion { segment: 2, found: 2 };
    assert_eq!(read(&source, 1), Err(unknown.clone()));
    assert_eq!(
        unknown.to_string(),
        "journal segment 2 has format version 2, this program knows 1: use the version of loligo that wrote it"
    );
}

#[test]
fn a_segment_of_another_journal_or_place_is_refused() {
    for (fs, rank, id) in [([9; 16], RANK, 2), (FS, 4, 2), (FS, RANK, 5)] {
        let mut source = synced_journal(4);
        let header = SegmentHeader { fs, rank, id, first: Lsn(5) };
        source.0.insert(2, header.encode().to_vec());
        assert_eq!(read(&source, 1), Err(Error::Foreign { segment: 2, header }));
    }
}

#[test]
fn looking_needs_to_know_neither_the_file_system_nor_the_first_record() {
    let mut source = synced_journal(10);
    source.0.remove(&1);
    let mut reader = Reader::open(&mut source, ReadConfig::default()).expect("a good journal");
    assert_eq!((reader.fs(), reader.rank()), (FS, RANK));
    let first = reader.next_record().expect("a good record").expect("there are records");
    assert_eq!((first.lsn, first.segment, first.offset), (Lsn(5), 2, 64));
}

#[test]
fn an_error_of_the_source_is_passed_on() {
    struct Broken;
    impl Source for Broken {
        type Error = &'static str;
        fn list(&mut self) -> Result<Vec<(u64, u64)>, &'static str> {
            Ok(vec![(1, 100)])
        }
        fn read_at(&mut self, _: u64, _: u64, _: &mut [u8]) -> Result<usize, &'static str> {
            Err("the disk is on fire")
        }
    }
    let error = Reader::open(Broken, ReadConfig::default()).err().expect("it cannot be read");
    assert_eq!(error.to_string(), "the journal cannot be read: the disk is on fire");
}
