//! Group commit: what is taken when, where segments end, and what a failure stops.

use loligo_types::Lsn;

use super::*;

const FS: FsId = [7; 16];

fn writer(segment_size: u64) -> Writer {
    Writer::new(WriterConfig { fs: FS, rank: 0, segment_size })
}

/// Takes all there is, each batch synced before the next.
fn drain(writer: &mut Writer) -> Vec<Batch> {
    let mut batches = Vec::new();
    while let Some(batch) = writer.take_batch() {
        writer.synced(batch.last);
        batches.push(batch);
    }
    batches
}

fn append(writer: &mut Writer, len: usize) -> Lsn {
    writer.append(&vec![1; len]).expect("the writer has not failed")
}

#[test]
fn everything_appended_during_one_sync_shares_the_next() {
    let mut w = writer(SEGMENT_SIZE_DEFAULT);
    assert_eq!(append(&mut w, 10), Lsn(1));
    let first = w.take_batch().expect("one record");
    assert!(first.new_segment);
    assert_eq!((first.segment, first.offset, first.first, first.last), (1, 0, Lsn(1), Lsn(1)));
    assert_eq!(w.take_batch(), None);
    for n in 2..=5 {
        assert_eq!(append(&mut w, 10), Lsn(n));
    }
    let second = w.take_batch().expect("four records");
    assert!(!second.new_segment);
    assert_eq!((second.segment, second.offset), (1, first.bytes.len() as u64));
    assert_eq!((second.first, second.last), (Lsn(2), Lsn(5)));
    assert_eq!(second.bytes.len(), 4 * (FRAME_LEN + 10));
    assert_eq!(w.synced(Lsn(1)), Lsn(1));
    assert_eq!(w.synced(Lsn(5)), Lsn(5));
}

#[test]
fn a_segment_ends_before_the_record_that_would_make_it_too_long() {
    let record = FRAME_LEN as u64 + 100;
    let mut w = writer(SEGMENT_HEADER_LEN as u64 + 3 * record);
    for _ in 0..7 {
        append(&mut w, 100);
    }
    let batches = drain(&mut w);
    let shape: Vec<_> = batches.iter().map(|b| (b.segment, b.new_segment, b.first.0, b.last.0)).collect();
    assert_eq!(shape, [(1, true, 1, 3), (2, true, 4, 6), (3, true, 7, 7)]);
    let header = SegmentHeader::decode(&batches[1].bytes).expect("a new segment begins with its header");
    assert_eq!(header, SegmentHeader { fs: FS, rank: 0, id: 2, first: Lsn(4) });
    assert_eq!(w.space(), batches.iter().map(|b| b.bytes.len() as u64).sum::<u64>());
}

#[test]
fn a_new_segment_waits_until_all_before_it_is_durable() {
    let mut w = writer(SEGMENT_HEADER_LEN as u64 + 2 * (FRAME_LEN as u64 + 100));
    append(&mut w, 100);
    let first = w.take_batch().expect("one record");
    append(&mut w, 100);
    append(&mut w, 100);
    let second = w.take_batch().expect("it goes to the same segment");
    assert!(!w.has_pending());
    assert_eq!(w.take_batch(), None);
    w.synced(first.last);
    assert_eq!(w.take_batch(), None);
    w.synced(second.last);
    assert!(w.has_pending());
    assert_eq!(w.take_batch().map(|b| (b.segment, b.new_segment)), Some((2, true)));
}

#[test]
fn a_record_larger_than_a_segment_gets_its_own() {
    let mut w = writer(1000);
    for len in [10, 5000, 10] {
        append(&mut w, len);
    }
    let ids: Vec<_> = drain(&mut w).iter().map(|b| (b.segment, b.first)).collect();
    assert_eq!(ids, [(1, Lsn(1)), (2, Lsn(2)), (3, Lsn(3))]);
}

#[test]
fn what_is_outstanding_is_counted_until_it_is_durable() {
    let mut w = writer(SEGMENT_SIZE_DEFAULT);
    assert_eq!(w.outstanding(), Outstanding::default());
    append(&mut w, 100);
    append(&mut w, 100);
    let batch = w.take_batch().expect("two records");
    append(&mut w, 50);
    let bytes = (batch.bytes.len() + FRAME_LEN + 50) as u64;
    assert_eq!(w.outstanding(), Outstanding { records: 3, bytes });
    w.synced(Lsn(2));
    assert_eq!(w.outstanding(), Outstanding { records: 1, bytes: (FRAME_LEN + 50) as u64 });
    w.take_batch();
    w.synced(Lsn(3));
    assert_eq!(w.outstanding(), Outstanding::default());
}

#[test]
fn a_report_of_what_was_not_taken_makes_nothing_durable() {
    let mut w = writer(SEGMENT_SIZE_DEFAULT);
    append(&mut w, 10);
    assert_eq!(w.synced(Lsn(1)), Lsn(0));
    w.take_batch();
    append(&mut w, 10);
    assert_eq!(w.synced(Lsn(2)), Lsn(1));
    assert_eq!(w.synced(Lsn(0)), Lsn(1));
}

#[test]
fn a_failure_is_for_ever() {
    let mut w = writer(SEGMENT_SIZE_DEFAULT);
    append(&mut w, 10);
    w.take_batch();
    append(&mut w, 10);
    w.fail();
    assert!(w.is_failed());
    assert_eq!(w.append(b"x"), Err(AppendError::Failed));
    assert_eq!(w.take_batch(), None);
    assert!(!w.has_pending());
    assert_eq!(w.synced(Lsn(2)), Lsn(0), "what was not known durable never becomes so");
}

#[test]
fn records_of_impossible_sizes_are_refused_and_take_no_number() {
    let mut w = writer(SEGMENT_SIZE_DEFAULT);
    assert_eq!(w.append(b""), Err(AppendError::Size(0)));
    assert_eq!(w.append(&vec![0; BODY_MAX + 1]), Err(AppendError::Size(BODY_MAX + 1)));
    assert_eq!(append(&mut w, BODY_MAX), Lsn(1));
}

#[test]
fn trimming_keeps_the_newest_segment_with_a_durable_record() {
    let record = FRAME_LEN as u64 + 100;
    let mut w = writer(SEGMENT_HEADER_LEN as u64 + 2 * record);
    for _ in 0..6 {
        append(&mut w, 100);
    }
    let space = w.space();
    assert_eq!(w.trim(Lsn(7)), [0u64; 0], "nothing is durable yet");
    drain(&mut w);
    assert_eq!(w.trim(Lsn(2)), [0u64; 0]);
    assert_eq!(w.trim(Lsn(4)), [1]);
    assert_eq!(w.space(), space / 3 * 2);
    assert_eq!(w.trim(Lsn(100)), [2]);
    assert_eq!(w.trim(Lsn(100)), [0u64; 0]);
    append(&mut w, 100);
    assert_eq!(w.trim(Lsn(100)), [0u64; 0], "segment 4 begins with a record that is not durable");
    let last = w.take_batch().expect("one record").last;
    w.synced(last);
    assert_eq!(w.trim(Lsn(100)), [3]);
    assert_eq!(w.segments().map(|s| s.id).collect::<Vec<_>>(), [4]);
}

#[test]
fn buffers_are_used_again() {
    let mut w = writer(SEGMENT_SIZE_DEFAULT);
    append(&mut w, 5000);
    let batch = w.take_batch().expect("one record");
    let (place, capacity) = (batch.bytes.as_ptr(), batch.bytes.capacity());
    w.recycle(batch.bytes);
    append(&mut w, 10);
    let batch = w.take_batch().expect("one record");
    assert_eq!((batch.bytes.as_ptr(), batch.bytes.capacity()), (place, capacity));
    assert_eq!(batch.bytes.len(), FRAME_LEN + 10);
}
