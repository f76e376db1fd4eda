//! Size and rates of a manifest of a data set, on one core: bytes an entry, writing, opening, lookups that read from the file and that do not, pages.
//! Run with `cargo run --release -p loligo-schema --example manifest_rates [ENTRIES] [NAMES_IN_A_DIRECTORY] [FILE]`.

use std::fs::File;
use std::io::BufWriter;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use loligo_schema::manifest::{CACHE_BYTES, ReadAt, Reader, Source, Writer};
use loligo_schema::{Attributes, Body, Slice};
use loligo_types::Time;
use loligo_types::hash::mix;

struct Disk(File);

impl ReadAt for Disk {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> std::io::Result<()> {
        self.0.read_exact_at(into, offset)
    }
}

fn name(of: u64) -> String {
    format!("ILSVRC2012_train_{of:010}.JPEG")
}

fn main() {
    let mut args = std::env::args().skip(1);
    let mut number = |default| args.next().map_or(default, |text| text.parse::<u64>().expect("a number"));
    let (entries, in_dir) = (number(10_000_000), number(1000));
    let path = args.next().unwrap_or_else(|| std::env::temp_dir().join("loligo-manifest").display().to_string());
    let attributes = Attributes { mode: 0o644, uid: Some(1000), gid: Some(1000), mtime: None };
    let dirs = entries.div_ceil(in_dir);
    let start = Instant::now();
    let mut writer = Writer::new(BufWriter::new(File::create(&path).expect("the file"))).expect("the file");
    // Archives of 10,000 samples with gaps between them; files differ in size and time.
    let sources: Vec<u64> = (0..entries.div_ceil(10_000))
        .map(|n| Source {
            ino: 1000 + n,
            change: 1,
            size: 1 << 40,
            name: format!("/data/shard-{n:06}.tar").into_bytes().into(),
        })
        .map(|source| writer.source(&source).expect("the file"))
        .collect();
    for dir in 0..dirs {
        writer.add(0, format!("n{dir:08}").as_bytes(), attributes, None).expect("sorted");
    }
    let mut offset = 0;
    for n in 0..entries {
        let len = 50_000 + mix(n) % 150_000;
        offset = if n % 10_000 == 0 { 512 } else { offset + 512 };
        let slice = Slice { source: sources[(n / 10_000) as usize], offset, len };
        offset = (offset + len).next_multiple_of(512);
        let mtime = Some(Time((1_600_000_000 + (mix(n) % 1000) as i64) * 1_000_000_000));
        let body = Body::Slices([slice].into());
        writer.add(1 + n / in_dir, name(n).as_bytes(), Attributes { mtime, ..attributes }, Some(body)).expect("sorted");
    }
    let (trailer, _) = writer.finish().expect("the file");
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{entries} files in {dirs} directories: {} bytes, {:.2} a file",
        trailer.len,
        trailer.len as f64 / entries as f64
    );
    println!("written in {seconds:.1} s, {:.0} entries/s", entries as f64 / seconds);
    let start = Instant::now();
    let mut reader = Reader::open(Disk(File::open(&path).expect("the file")), trailer.len, CACHE_BYTES).expect("sound");
    println!("opened in {:?}", start.elapsed());
    let count = 20_000;
    let mut most = 0;
    let start = Instant::now();
    for n in 0..count {
        let n = mix(n) % entries;
        let before = reader.reads();
        let item = reader.child(1 + n / in_dir, name(n).as_bytes()).expect("sound").expect("it is there");
        assert_eq!(item.index, 1 + dirs + n);
        most = most.max(reader.reads() - before);
    }
    let each = start.elapsed() / count as u32;
    println!(
        "random lookup by name: {each:?}, {:.2} blocks read, at most {most}",
        reader.reads() as f64 / count as f64
    );
    println!("blocks kept: {} bytes", reader.cached_bytes());
    let start = Instant::now();
    let mut listed = 0;
    for dir in 1..=dirs.min(2000) {
        listed += reader.list(dir, 0, usize::MAX).expect("sound").len();
    }
    println!("listing: {:.0} names/s", listed as f64 / start.elapsed().as_secs_f64());
    let start = Instant::now();
    reader.check(|_| {}).expect("it is sound");
    println!("checked in {:.1} s", start.elapsed().as_secs_f64());
    std::fs::remove_file(&path).expect("the file");
}
