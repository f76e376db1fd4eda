//! Time to index a tar archive to a manifest, with sorting, on one core. Run with
//! `cargo run --release -p loligo-indexer --example tar_rate ARCHIVE [MANIFEST]`; `make N` in place of the archive writes one of N small members.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::time::Instant;

use loligo_indexer::{Input, Options, tar};
use loligo_schema::Attributes;
use loligo_schema::manifest::{MemoryRuns, ReadAt, Sorter, Source, Twice, Writer};

struct Disk(File);

impl ReadAt for Disk {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> std::io::Result<()> {
        self.0.read_exact_at(into, offset)
    }
}

fn make(path: &str, count: u64) {
    let mut out = ::tar::Builder::new(BufWriter::with_capacity(1 << 20, File::create(path).expect("the file")));
    for n in 0..count {
        let mut header = ::tar::Header::new_gnu();
        header.set_size(100);
        header.set_mode(0o644);
        header.set_mtime(1_700_000_000 + n % 1000);
        let name = format!("set/{:04}/sample-{n:09}.jpg", n % 1000);
        out.append_data(&mut header, name, &[b'x'; 100][..]).expect("the file");
    }
    out.into_inner().and_then(|mut out| out.flush()).expect("the file");
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args[1] == "make" {
        return make(&args[3], args[2].parse().expect("a number"));
    }
    let file = File::open(&args[1]).expect("the archive");
    let len = file.metadata().expect("the archive").len();
    let start = Instant::now();
    let mut progress = |_| {};
    let disk = Disk(file);
    let input = Input::new(&disk, len, 1, &mut progress);
    let mut sorter =
        Sorter::new(MemoryRuns::default(), 64 << 20, Twice::Last, Attributes { mode: 0o755, ..Attributes::default() });
    tar::index(&input, &Options::default(), &mut sorter).expect("it is sound");
    println!("{} members read in {:?}", sorter.count(), start.elapsed());
    let path = args.get(2).map_or("/dev/null", String::as_str);
    let mut writer = Writer::new(BufWriter::new(File::create(path).expect("the manifest"))).expect("the manifest");
    writer.source(&Source { ino: 1, change: 1, size: len, name: args[1].as_bytes().into() }).expect("the manifest");
    let (trailer, _) = sorter.finish(writer).expect("it is sound");
    let each = trailer.len as f64 / trailer.entries as f64;
    println!("{} entries, {} bytes ({each:.1} each), in all {:?}", trailer.entries, trailer.len, start.elapsed());
}
