//! Cost of encoding, framing and decoding on this machine: `cargo run --release -p loligo-journal --example record_cost`.

use std::hint::black_box;
use std::time::Instant;

use loligo_journal::table::{decode_inode, encode_inode, key_entry};
use loligo_journal::{MemSource, ReadConfig, Reader, Writer, WriterConfig, decode_record, encode_record};
use loligo_types::{Event, Ino, Inode, Kind, Name, Origin, Seq, SessionId, Time};

const ROUNDS: u32 = 1_000_000;

/// Runs `work` often and prints nanoseconds for one.
fn cost(what: &str, mut work: impl FnMut()) {
    for _ in 0..ROUNDS / 10 {
        work();
    }
    let start = Instant::now();
    for _ in 0..ROUNDS {
        work();
    }
    println!("{what:<44} {:>8.1} ns", start.elapsed().as_nanos() as f64 / f64::from(ROUNDS));
}

fn main() {
    let now = Time(1_700_000_000_123_456_789);
    let name = Name::new(b"file.00000012345").expect("a name");
    let file = Inode::new(Ino(10_000_000), Kind::File, 0o644, 1000, 1000, Ino(300), now);
    let mut dir = Inode::new(Ino(300), Kind::Dir, 0o755, 1000, 1000, Ino::ROOT, Time(now.0 - 5_000_000_000));
    (dir.mtime, dir.ctime, dir.size, dir.change) = (now, now, 12_345, 12_346);
    let events = [
        Event::Inode(Box::new(file.clone())),
        Event::Entry { dir: dir.ino, name: name.clone(), ino: file.ino, kind: Kind::File, remote: false },
        Event::Inode(Box::new(dir)),
    ];
    let origin = Origin { session: SessionId(7), seq: Seq(123_456), answered: Seq(123_400), ino: file.ino, value: 1 };

    let mut body = Vec::new();
    encode_record(&mut body, Some(&origin), &events);
    println!("a create's record: {} bytes, and 24 of its frame", body.len());
    let mut out = Vec::with_capacity(1024);
    cost("encode_record", || {
        out.clear();
        encode_record(&mut out, black_box(Some(&origin)), black_box(&events));
        black_box(&out);
    });
    cost("decode_record", || {
        black_box(decode_record(black_box(&body)).expect("good bytes"));
    });
    let mut writer = Writer::new(WriterConfig::new([1; 16], 0));
    cost("Writer::append, a batch taken every 64", || {
        let lsn = writer.append(black_box(&body)).expect("the writer has not failed");
        if lsn.0.is_multiple_of(64) {
            while let Some(batch) = writer.take_batch() {
                writer.synced(batch.last);
                writer.recycle(batch.bytes);
            }
            writer.trim(lsn);
        }
    });
    let value = encode_inode(&file);
    println!("a file's row: {} bytes", 9 + value.len());
    cost("table::encode_inode", || {
        black_box(encode_inode(black_box(&file)));
    });
    cost("table::decode_inode", || {
        black_box(decode_inode(file.ino, black_box(&value)).expect("good bytes"));
    });
    cost("table::key_entry", || {
        black_box(key_entry(Ino(300), black_box(1 << 60), &name));
    });
    read(&body);
}

/// Reads a journal of a million such records.
fn read(body: &[u8]) {
    let mut writer = Writer::new(WriterConfig::new([1; 16], 0));
    let mut source = MemSource::default();
    for _ in 0..ROUNDS {
        let lsn = writer.append(body).expect("the writer has not failed");
        if lsn.0.is_multiple_of(1000) {
            while let Some(batch) = writer.take_batch() {
                source.write(&batch);
                writer.synced(batch.last);
            }
        }
    }
    let start = Instant::now();
    let mut reader = Reader::open(source, ReadConfig::default()).expect("a good journal");
    let mut events = 0;
    while let Some(record) = reader.next_record().expect("a good journal") {
        events += decode_record(record.body).expect("good bytes").events.len();
    }
    let each = start.elapsed().as_nanos() as f64 / f64::from(ROUNDS);
    println!("{:<44} {each:>8.1} ns ({events} events)", "Reader::next_record and decode_record");
}
