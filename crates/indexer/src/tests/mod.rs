//! Archives, lists and files made here are indexed, and the manifest's slices give their contents; hostile ones are named faults.

mod kerchunk;
mod list;
mod root;
mod tar;
mod zip;

use loligo_schema::manifest::{CACHE_BYTES, Item, MemoryRuns, Reader, Sorter, Source, Twice, Writer};
use loligo_schema::{Attributes, Body};

use crate::{Fault, Input, Options, Sink, Sources, Table};

/// Files that lists and references may name.
const FILES: &[(&str, &[u8])] = &[("/data/a", b"0123456789"), ("b", b"abcdef")];

/// The source with this number: the indexed file is none in lists and references, and the first in archives.
fn sources(own: Option<&[u8]>) -> Vec<(String, Vec<u8>)> {
    own.map(|bytes| ("own".to_string(), bytes.to_vec())).into_iter().collect()
}

fn find(path: &[u8]) -> Result<Source, String> {
    let at = FILES.iter().position(|(name, _)| name.as_bytes() == path).ok_or("it is not there")?;
    Ok(Source { ino: 100 + at as u64, change: 1, size: FILES[at].1.len() as u64, name: path.into() })
}

type Indexer<'a> = &'a dyn Fn(&Input<'_>, &mut dyn Sources, &mut dyn Sink) -> Result<(), Fault>;

/// The lines `path MODE content` of all entries, in the order of the manifest, or the fault.
fn indexed(bytes: &[u8], is_archive: bool, run: Indexer<'_>) -> Result<Vec<String>, String> {
    let mut done = 0;
    let mut progress = |at: u64| done = at;
    let dir = Attributes { mode: 0o755, ..Attributes::default() };
    let mut sorter = Sorter::new(MemoryRuns::default(), 4096, Twice::Last, dir);
    let mut table = Table::new(find);
    let file = bytes.to_vec();
    let input = Input::new(&file, bytes.len() as u64, 1, &mut progress);
    run(&input, &mut table, &mut sorter).map_err(|fault| fault.to_string())?;
    assert!(done <= bytes.len() as u64);
    let mut writer = Writer::new(Vec::new()).expect("memory");
    let mut all = sources(is_archive.then_some(bytes));
    if is_archive {
        let own = Source { ino: 99, change: 1, size: bytes.len() as u64, name: b"own"[..].into() };
        writer.source(&own).expect("sound");
    }
    for source in table.sources() {
        writer.source(source).expect("sound");
        all.push((String::from_utf8_lossy(&source.name).into_owned(), FILES[source.ino as usize - 100].1.to_vec()));
    }
    let (trailer, manifest) = sorter.finish(writer).map_err(|fault| fault.to_string())?;
    let mut reader = Reader::open(&manifest, trailer.len, CACHE_BYTES).expect("sound");
    let mut items: Vec<Item> = Vec::new();
    reader.check(|item| items.push(item.clone())).expect("sound");
    let path = |item: &Item| {
        let mut names = vec![item.name.to_vec()];
        let mut parent = item.parent;
        while parent != 0 {
            names.push(items[parent as usize - 1].name.to_vec());
            parent = items[parent as usize - 1].parent;
        }
        names.reverse();
        String::from_utf8_lossy(&names.join(&b'/')).into_owned()
    };
    let content = |item: &Item| match &item.body {
        None | Some(Body::Dir { .. }) => "/".to_string(),
        Some(Body::Zeros(size)) => format!("zeros {size}"),
        Some(Body::Bytes(bytes)) => format!("inline {}", String::from_utf8_lossy(bytes)),
        Some(Body::Link(target)) => format!("-> {}", String::from_utf8_lossy(target)),
        Some(Body::Slices(slices)) => {
            let mut out = Vec::new();
            for slice in slices.iter() {
                match slice.source {
                    0 => out.extend(std::iter::repeat_n(b'0', slice.len as usize)),
                    source => {
                        let bytes = &all[source as usize - 1].1;
                        out.extend_from_slice(&bytes[slice.offset as usize..][..slice.len as usize]);
                    }
                }
            }
            String::from_utf8_lossy(&out).into_owned()
        }
    };
    Ok(items.iter().map(|item| format!("{} {:o} {}", path(item), item.attributes.mode, content(item))).collect())
}

fn root_options() -> Options {
    Options { is_root: true, ..Options::default() }
}

#[track_caller]
fn refused(result: Result<Vec<String>, String>, text: &str) {
    let fault = result.expect_err(text);
    assert!(fault.contains(text), "{fault}");
}
