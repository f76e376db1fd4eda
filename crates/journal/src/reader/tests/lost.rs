//! Journals that end before what was durable, as the store has put it down.

use super::*;

/// Reads with a mark: so many bytes of a segment were durable.
fn read_marked(source: &MemSource, from: u64, segment: u64, bytes: u64) -> Result<Tail, Error> {
    let mut source = source.clone();
    let synced = Some(Synced { segment, bytes });
    let mut reader = Reader::open(&mut source, ReadConfig { fs: Some(FS), rank: Some(RANK), from: Lsn(from), synced })?;
    while reader.next_record()?.is_some() {}
    Ok(reader.tail().expect("read to the end"))
}

#[test]
fn a_journal_that_reaches_its_mark_is_whole_and_so_is_one_that_is_beyond() {
    let source = synced_journal(10);
    let end = at(2) as u64;
    for (segment, bytes) in [(3, end), (3, at(1) as u64), (3, 0), (2, at(4) as u64), (1, at(4) as u64)] {
        assert_eq!(read_marked(&source, 1, segment, bytes).map(|tail| tail.next_lsn), Ok(Lsn(11)));
    }
    // A mark may lag: the segment that it names was trimmed since.
    let mut trimmed = source.clone();
    trimmed.0.remove(&1);
    assert_eq!(read_marked(&trimmed, 5, 1, at(4) as u64).map(|tail| tail.next_lsn), Ok(Lsn(11)));
}

#[test]
fn the_loss_of_the_newest_segment_is_no_end() {
    let mut source = synced_journal(10);
    source.0.remove(&3);
    assert_eq!(read(&source, 1).expect("nothing tells").1.next_lsn, Lsn(9));
    let lost = Err(ReadError::Lost { segment: 3, synced: at(2) as u64, left: None });
    assert_eq!(read_marked(&source, 1, 3, at(2) as u64), lost);
    // Also of the only one, and of all.
    source.0.clear();
    assert_eq!(read_marked(&source, 1, 3, at(2) as u64), lost);
    // It was made, durably, and nothing was written to it yet: somebody removed it all the same.
    assert!(matches!(read_marked(&synced_journal(8), 1, 3, 0), Err(ReadError::Lost { left: None, .. })));
}

#[test]
fn a_newest_segment_that_was_cut_is_no_end() {
    let whole = synced_journal(10);
    let end = at(2) as u64;
    for len in 0..end as usize {
        let mut source = whole.clone();
        segment(&mut source, 3).truncate(len);
        let found = read_marked(&source, 1, 3, end);
        let records = [at(1), at(0)].into_iter().find(|at| *at <= len).unwrap_or(0);
        if len == records || len == 0 {
            assert_eq!(found, Err(ReadError::Lost { segment: 3, synced: end, left: Some(records as u64) }));
        } else {
            let broken =
                matches!(found, Err(ReadError::BadChecksum { segment: 3, offset, .. }) if offset == records as u64);
            assert!(broken, "cut to {len}: {found:?}");
        }
    }
    let mut source = whole;
    segment(&mut source, 3).truncate(at(1));
    segment(&mut source, 3).resize(end as usize + 4096, 0);
    let left = Some(at(1) as u64);
    assert_eq!(read_marked(&source, 1, 3, end), Err(ReadError::Lost { segment: 3, synced: end, left }));
}

#[test]
fn damage_to_the_last_batch_that_was_durable_is_no_torn_write() {
    let end = at(2) as u64;
    for byte in at(1)..at(2) {
        let mut source = synced_journal(10);
        segment(&mut source, 3)[byte] ^= 1;
        assert!(read(&source, 1).expect("nothing tells").1.torn.is_some());
        let found = read_marked(&source, 1, 3, end);
        assert!(matches!(found, Err(ReadError::BadChecksum { segment: 3, lsn: Lsn(10), .. })), "{found:?}");
    }
}

#[test]
fn a_torn_write_behind_the_mark_is_cut_off_in_silence() {
    let mut source = unsynced_journal(6, 9);
    let newest = *source.0.keys().last().expect("there is one");
    let whole = segment(&mut source, newest).len();
    segment(&mut source, newest)[whole - 3] ^= 1;
    let tail = read_marked(&source, 1, 2, at(2) as u64).expect("what was durable is there");
    assert_eq!((tail.next_lsn, tail.torn.map(|torn| torn.segment)), (Lsn(9), Some(newest)));
}
