//! A journal file that was written well, or of arbitrary bytes, and then damaged: reading never panics, ends, and gives only records that
//! were written, in order. The first bytes say what is written, the rest what is done to it.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use loligo_journal::file::FileSegments;
use loligo_journal::{FileReader, FileWriter, MemSource, Owner, ReadConfig, inspect};
use loligo_types::Lsn;

const FS: [u8; 16] = *b"a file system id";

/// Writes a record of the length that each byte names; 0 leaves a hole.
fn write(plan: &[u8], finish: bool) -> Vec<u8> {
    let mut writer = FileWriter::new(FS, Owner::Rank(1), true);
    let mut bytes = writer.header().to_vec();
    let mut lsn = Lsn(1);
    for step in plan {
        if *step > 0 {
            writer.append(&mut bytes, lsn, &vec![lsn.0 as u8; usize::from(*step)]).expect("it follows");
        }
        lsn = lsn.next();
    }
    if finish {
        bytes.splice(..64, writer.finish());
    }
    bytes
}

/// Three bytes are one blow: two of the place, and what happens there.
fn damage(bytes: &mut Vec<u8>, blows: &[u8]) {
    for blow in blows.chunks_exact(3) {
        let place = usize::from(u16::from_le_bytes([blow[0], blow[1]])) % (bytes.len() + 1);
        match blow[2] {
            0 => bytes.truncate(place),
            1 => drop(bytes.drain(place..(place + 64).min(bytes.len()))),
            2 => bytes[place..].iter_mut().take(64).for_each(|byte| *byte = 0),
            3 => drop(bytes.splice(place..place, blows.iter().copied())),
            bits => bytes[place..].iter_mut().take(1).for_each(|byte| *byte ^= bits),
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let [steps, how, bytes @ ..] = bytes else { return };
    let (plan, blows) = bytes.split_at(usize::from(*steps).min(bytes.len()));
    let arbitrary = how & 2 != 0;
    let mut file = if arbitrary { plan.to_vec() } else { write(plan, how & 1 != 0) };
    let untouched = blows.len() < 3 && !arbitrary;
    damage(&mut file, blows);

    let source = MemSource(BTreeMap::from([(0, file)]));
    let mut reader = match FileReader::open(source.clone()) {
        Ok(reader) => reader,
        Err(error) => return assert!(!untouched, "{error}"),
    };
    let mut last = 0;
    let mut count = 0;
    loop {
        match reader.next_record() {
            Ok(Some(record)) => {
                assert!(record.lsn.0 > last);
                last = record.lsn.0;
                count += 1;
                let is_written =
                    plan.get(last as usize - 1).is_some_and(|len| record.body == vec![last as u8; usize::from(*len)]);
                assert!(is_written || arbitrary, "record {last}");
            }
            Ok(None) => break,
            Err(error) => return assert!(!untouched, "{error}"),
        }
    }
    let tail = reader.tail().expect("read to the end");
    assert_eq!(tail.records, count);
    assert!(!untouched || (tail.torn.is_none() && tail.missing == 0));
    let _ = inspect::verify(FileSegments::new(source, &tail), ReadConfig::default());
});
