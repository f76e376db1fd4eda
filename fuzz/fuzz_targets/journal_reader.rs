//! A journal that was written well, or of arbitrary bytes, and then damaged: reading never panics, ends, and gives only
//! records that were written, in order. The first bytes say what is written, the rest what is done to it.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use loligo_journal::{MemSource, ReadConfig, Reader, Tail, Writer, WriterConfig, inspect};
use loligo_types::Lsn;

const FS: [u8; 16] = *b"a file system id";

/// A record's body: its number, again and again.
fn body(lsn: u64, len: usize) -> Vec<u8> {
    vec![lsn as u8; len + 1]
}

/// Writes records of the lengths that the bytes name; 0 syncs. Says how many came to a segment.
fn write(plan: &[u8], segment_size: u64) -> (MemSource, u64) {
    let config = WriterConfig { fs: FS, rank: 1, segment_size };
    let (mut writer, mut source) = (Writer::resume(config, &Tail::default()), MemSource::default());
    let mut written = Lsn(0);
    for step in plan.iter().chain([&0]) {
        if *step == 0 {
            writer.synced(written);
        } else {
            let lsn = writer.next_lsn();
            writer.append(&body(lsn.0, usize::from(*step))).expect("the writer has not failed");
        }
        while let Some(batch) = writer.take_batch() {
            source.write(&batch);
            written = batch.last;
        }
    }
    (source, written.0)
}

/// Four bytes are one blow: the segment, two of the place, and what happens there.
fn damage(source: &mut MemSource, blows: &[u8]) {
    for blow in blows.chunks_exact(4) {
        let ids: Vec<u64> = source.0.keys().copied().collect();
        let Some(id) = ids.get(usize::from(blow[0]) % ids.len().max(1)) else { return };
        let bytes = source.0.get_mut(id).expect("listed");
        let place = usize::from(u16::from_le_bytes([blow[1], blow[2]])) % (bytes.len() + 1);
        match blow[3] {
            0 => bytes.truncate(place),
            1 => {
                source.0.remove(id);
            }
            2 => bytes[place..].iter_mut().take(64).for_each(|byte| *byte = 0),
            3 => drop(bytes.splice(place..place, blows.iter().copied())),
            bits => bytes[place..].iter_mut().take(1).for_each(|byte| *byte ^= bits),
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let [steps, size, from, bytes @ ..] = bytes else { return };
    let (plan, blows) = bytes.split_at(usize::from(*steps).min(bytes.len()));
    let (mut source, last) = write(plan, 100 + 16 * u64::from(*size));
    if *steps == 255 {
        source = MemSource(BTreeMap::from([(1, plan.to_vec()), (2, blows.to_vec())]));
    }
    let untouched = blows.len() < 4 && *steps != 255;
    damage(&mut source, blows);
    let _ = inspect::verify(source.clone(), ReadConfig::default());

    let config = ReadConfig { fs: Some(FS), rank: Some(1), from: Lsn(u64::from(*from)), synced: None };
    let mut reader = match Reader::open(source, config) {
        Ok(reader) => reader,
        Err(error) => return assert!(!untouched || u64::from(*from) > last + 1, "{error}"),
    };
    let mut next = u64::from(*from).max(1);
    loop {
        match reader.next_record() {
            Ok(Some(record)) => {
                assert!(record.lsn.0 <= last || *steps == 255);
                assert!(record.lsn.0 == next || *from == 0, "{} instead of {next}", record.lsn);
                assert!(record.body.iter().all(|byte| *byte == record.lsn.0 as u8) || *steps == 255);
                next = record.lsn.0 + 1;
            }
            Ok(None) => break,
            Err(error) => return assert!(!untouched || u64::from(*from) > last + 1, "{error}"),
        }
    }
    let tail = reader.tail().expect("read to the end");
    assert!(!untouched || tail.next_lsn.0 == last + 1);
    // A writer can go on from every end that was found.
    let mut writer = Writer::resume(WriterConfig::new(FS, 1), &tail);
    assert_eq!(writer.append(b"more").ok(), Some(tail.next_lsn));
});
