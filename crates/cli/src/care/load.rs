//! `loligo load`: a file system in a new data directory from the text of a dump.
//!
//! Until all of the text was read and found right, the directory counts as unfinished and no server takes it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use loligo_driver::{FormatOptions, Offline};
use loligo_namespace::hash63;
use loligo_store::StoreError;
use loligo_store_local::{FormatOptions as StoreFormat, LocalStore};
use loligo_types::{Event, Frag, Ino, Inode, Kind, Place, RStat, Rank, Route};
use serde_json::json;

use super::offline;
use super::text::{Head, Tail, parse};
use crate::args::Order;
use crate::at::Store;
use crate::output::{Context, Failure, Outcome, UNCHANGED, counted, human_bytes, human_files, note, put};
use crate::progress::{self, Bar, Unit};
use crate::service::format;

/// Longest line: the largest value with each byte escaped, and some.
const LINE_MAX: u64 = 512 << 10;
/// Records written at a time.
const BATCH: usize = 1000;

/// Reads the text into the directory.
pub fn run(data: &Path, input: &Path, order: Order) -> Outcome {
    if order.json {
        progress::none();
    }
    crate::target::refuse_mount(data)?;
    let data = std::path::absolute(data).context(|| format!("data directory {}", data.display()))?;
    let (mut reader, name): (Box<dyn BufRead>, String) = if input == Path::new("-") {
        (Box::new(BufReader::with_capacity(1 << 20, std::io::stdin())), "stdin".to_string())
    } else {
        let file = File::open(input).context(|| format!("input file {}", input.display()))?;
        (Box::new(BufReader::with_capacity(1 << 20, file)), input.display().to_string())
    };
    let mut text = Text { reader: &mut *reader, name, line: 0, crc: 0 };
    // Before anything is made.
    let head = text.head()?;
    if order.dry_run {
        // The whole text is read and checked.
        check_target(&data)?;
        let seen = records(head, &mut text, None)?;
        return told(&data, head, seen, order);
    }
    match LocalStore::format(&data, &StoreFormat::default()) {
        Ok(_) => {}
        Err(error @ StoreError::AlreadyFormatted { .. }) => {
            // What a `format` or a load left that was cut off before the first row is as good as empty.
            if format::has_file_system(&Store::Local(data.clone()), &*offline::store(&data, false)?)? {
                return Err(Failure::new(error.to_string()));
            }
        }
        Err(error) => return Err(Failure::new(error.to_string())),
    }
    let loaded = load(&data, head, &mut text);
    let loaded = loaded.inspect_err(|_| clear(&data))?;
    told(&data, head, loaded, order)
}

/// Says what was loaded, or would be.
fn told(data: &Path, head: Head, loaded: Head, order: Order) -> Outcome {
    if order.json {
        return put(json!({
            "data": data.display().to_string(),
            "loaded": !order.dry_run,
            "inodes": loaded.inodes,
            "entries": loaded.entries,
            "xattrs": loaded.xattrs,
            "files_without_data": head.objects,
            "bytes_without_data": head.object_bytes,
        }));
    }
    let mut told = format!(
        "{} {} and {} into {}",
        if order.dry_run { "would load" } else { "loaded" },
        counted(loaded.inodes, "inode"),
        counted(loaded.entries, "entry"),
        data.display()
    );
    if head.objects > 0 {
        told.push_str(&format!(
            "\nwithout data: {} ({}), with the right size but reading as zeros; the data was in objects, which a dump does not hold",
            human_files(head.objects),
            human_bytes(head.object_bytes)
        ));
    }
    if order.dry_run {
        told.push_str(&format!("\n{UNCHANGED}"));
    }
    put(told)
}

/// Refuses a directory into which nothing could be loaded, without a change there.
fn check_target(data: &Path) -> Outcome {
    let store = Store::Local(data.to_path_buf());
    if store.identify().is_ok() {
        return match format::has_file_system(&store, &*offline::store(data, false)?)? {
            true => Err(Failure::new(format!("{} holds a file system already", data.display()))
                .remedy("name a directory that is empty or not there yet")),
            false => Ok(()),
        };
    }
    match format::is_new(&store) {
        true => Ok(()),
        false => Err(Failure::new(format!("{} is not empty", data.display()))
            .remedy("name a directory that is empty or not there yet")),
    }
}

/// Empties a directory that was made, or was empty, before.
fn clear(data: &Path) {
    for entry in std::fs::read_dir(data).into_iter().flatten().flatten() {
        let path = entry.path();
        let removed = if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
        if let Err(e) = removed {
            note(format_args!("loligo: {} could not be removed: {e}", path.display()));
        }
    }
}

fn load(data: &Path, head: Head, text: &mut Text<'_>) -> Result<Head, Failure> {
    let failed = || format!("writing into {}", data.display());
    let mut offline = Offline::begin(offline::store(data, true)?, &FormatOptions::default()).context(failed)?;
    let seen = records(head, text, Some(&mut offline))
        .map_err(|failure| failure.remedy("the directory is empty again; dump once more"))?;
    super::places::settle(&mut offline, seen.entries)?;
    let next_ino = Event::NextIno(Ino(head.next_ino.max(Ino::FIRST.0)));
    offline.write(&[next_ino]).context(failed)?;
    offline.finish().context(failed)?;
    Ok(seen)
}

/// Reads all lines; at the end the counts and the checksum are right. Without a table the lines are checked, and written nowhere.
fn records(head: Head, text: &mut Text<'_>, mut offline: Option<&mut Offline>) -> Result<Head, Failure> {
    let total = head.inodes + head.entries + head.xattrs + head.inline;
    let mut bar = Bar::start(if offline.is_some() { "loading" } else { "checking" }, total, Unit::Count);
    let mut seen =
        Head { objects: head.objects, object_bytes: head.object_bytes, next_ino: head.next_ino, ..Head::default() };
    let mut sums = Sums::default();
    let mut next_inos = BTreeMap::from([(Rank::ZERO, Ino(head.next_ino.max(Ino::FIRST.0)))]);
    let mut batch = Vec::with_capacity(BATCH);
    let hash_key = offline.as_ref().map_or((0, 0), |offline| offline.hash_key());
    let mut write = |events: &[Event]| match &mut offline {
        Some(offline) => offline.write(events).context(|| "writing into the table".to_string()),
        None => Ok(()),
    };
    while let Some(mut event) = text.record()? {
        bar.add(1);
        match &mut event {
            Event::Inode(inode) => {
                let next = next_inos.get(&inode.ino.birth_rank()).copied().unwrap_or(Ino(0));
                if inode.ino.plain() >= next {
                    return Err(text.wrong(&format!("inode {} is not below next-ino={next}", inode.ino)));
                }
                seen.inodes += 1;
                batch.extend(settle_scattered(inode));
            }
            Event::NextIno(ino) => drop(next_inos.insert(ino.birth_rank(), *ino)),
            Event::Entry { .. } => seen.entries += 1,
            Event::Xattr { .. } => seen.xattrs += 1,
            _ => seen.inline += 1,
        }
        if let Event::Entry { name, ino, kind: Kind::Dir, .. } = &event {
            sums.places.insert(*ino, Place::embedded(hash63(hash_key, name.as_bytes())));
        }
        batch.extend(sums.take(event));
        if batch.len() >= BATCH {
            write(&batch)?;
            batch.clear();
        }
    }
    if seen != head {
        return Err(Failure::new(format!("{}: its first line promises {head:?}, there were {seen:?}", text.name)));
    }
    batch.extend(sums.directories());
    for part in batch.chunks(BATCH) {
        write(part)?;
    }
    Ok(seen)
}

/// The rank that a directory's number names may not be there any more, or later be another one: all is rank 0's.
fn settle_scattered(inode: &mut Inode) -> Option<Event> {
    inode.ino.zeroth_rank().filter(|rank| inode.kind == Kind::Dir && *rank != Rank::ZERO)?;
    inode.moves_away();
    Some(Event::Route(Route { dir: inode.ino, frag: Frag::WHOLE, rank: Rank::ZERO, version: 1 }))
}

/// The text, line by line, with what it has to end with.
struct Text<'a> {
    reader: &'a mut dyn BufRead,
    name: String,
    line: u64,
    crc: u32,
}

impl Text<'_> {
    fn wrong(&self, why: &str) -> Failure {
        Failure::new(format!("{}, line {}: {why}", self.name, self.line))
    }

    /// The next line with its end; empty at the end of the file.
    fn next(&mut self) -> Result<String, Failure> {
        let mut bytes = Vec::new();
        let read = (&mut *self.reader).take(LINE_MAX).read_until(b'\n', &mut bytes);
        read.context(|| self.name.clone())?;
        self.line += 1;
        if bytes.len() as u64 == LINE_MAX {
            return Err(self.wrong("the line is too long for a dump"));
        }
        String::from_utf8(bytes).map_err(|_| self.wrong("it is not UTF-8: this is no dump, or a damaged one"))
    }

    fn count(&mut self, line: &str) {
        self.crc = crc32c::crc32c_append(self.crc, line.as_bytes());
    }

    fn head(&mut self) -> Result<Head, Failure> {
        let line = self.next()?;
        self.count(&line);
        Head::parse(line.trim_end_matches('\n')).map_err(|why| self.wrong(&why))
    }

    /// The next record; `None` at the last line, if everything before it was right.
    fn record(&mut self) -> Result<Option<Event>, Failure> {
        loop {
            let line = self.next()?;
            let Some(content) = line.strip_suffix('\n') else {
                return Err(self.wrong("the dump ends here without its last line: it was cut off"));
            };
            if let Some(tail) = Tail::parse(content) {
                return self.end(tail).map(|()| None);
            }
            self.count(&line);
            if !content.starts_with('#') {
                return parse(content).map(Some).map_err(|why| self.wrong(&why));
            }
        }
    }

    fn end(&mut self, tail: Tail) -> Result<(), Failure> {
        if tail != (Tail { lines: self.line - 1, crc: self.crc }) {
            let found = Tail { lines: self.line - 1, crc: self.crc }.render();
            return Err(self.wrong(&format!(
                "the last line does not fit what is before it (`{found}`): the dump was changed or damaged"
            )));
        }
        match self.next()?.is_empty() {
            true => Ok(()),
            false => Err(self.wrong("something follows after the last line")),
        }
    }
}

/// Recursive sums, made anew: files as they come, directories when all is known.
#[derive(Default)]
struct Sums {
    dirs: BTreeMap<Ino, Box<Inode>>,
    below: BTreeMap<Ino, RStat>,
    /// Where directories are.
    places: BTreeMap<Ino, Place>,
}

impl Sums {
    fn add(&mut self, dir: Ino, sum: RStat) {
        let below = self.below.entry(dir).or_default();
        below.entries = below.entries.wrapping_add(sum.entries);
        below.bytes = below.bytes.wrapping_add(sum.bytes);
    }

    /// Gives the event back, unless it is a directory.
    fn take(&mut self, event: Event) -> Option<Event> {
        let Event::Inode(mut inode) = event else { return Some(event) };
        if inode.kind == Kind::Dir {
            self.dirs.insert(inode.ino, inode);
            return None;
        }
        // Until its names are known.
        inode.place = Place::floating(Rank::ZERO);
        if inode.parent.0 != 0 {
            inode.accounted = inode.own();
            self.add(inode.parent, inode.accounted);
        }
        Some(Event::Inode(inode))
    }

    /// The directories, each with all that is below it.
    fn directories(mut self) -> Vec<Event> {
        let mut waits: BTreeMap<Ino, usize> = self.dirs.keys().map(|ino| (*ino, 0)).collect();
        for dir in self.dirs.values().filter(|dir| dir.ino != Ino::ROOT) {
            if let Some(n) = waits.get_mut(&dir.parent) {
                *n += 1;
            }
        }
        // From the leaves up. Directories in a ring, which no sound dump has, stay without sums.
        let mut ready: Vec<Ino> = waits.iter().filter(|(_, n)| **n == 0).map(|(ino, _)| *ino).collect();
        while let Some(ino) = ready.pop() {
            let sum = self.below.get(&ino).copied().unwrap_or_default();
            let Some(dir) = self.dirs.get_mut(&ino) else { continue };
            if sum != RStat::default() {
                dir.extra_mut().rstat = sum;
            }
            if ino == Ino::ROOT {
                continue;
            }
            dir.accounted = dir.own();
            let (parent, own) = (dir.parent, dir.accounted);
            self.add(parent, own);
            if let Some(n) = waits.get_mut(&parent) {
                *n -= 1;
                if *n == 0 {
                    ready.push(parent);
                }
            }
        }
        let place = |mut dir: Box<Inode>| {
            dir.place = self.places.get(&dir.ino).copied().unwrap_or_default();
            Event::Inode(dir)
        };
        self.dirs.into_values().map(place).collect()
    }
}

#[cfg(test)]
mod tests {
    use loligo_types::Time;

    use super::*;

    #[test]
    fn sums_are_made_from_the_leaves_up() {
        let mut sums = Sums::default();
        let mut give = |ino, kind, parent, size| {
            let mut inode = Inode::new(Ino(ino), kind, 0o755, 0, 0, Ino(parent), Time(0));
            inode.size = size;
            sums.take(Event::Inode(Box::new(inode)))
        };
        assert_eq!(give(1, Kind::Dir, 1, 2), None);
        assert_eq!(give(3, Kind::Dir, 2, 1), None);
        assert_eq!(give(2, Kind::Dir, 1, 2), None);
        let file = give(4, Kind::File, 3, 10);
        assert!(matches!(file, Some(Event::Inode(f)) if f.accounted == RStat { entries: 1, bytes: 10 }));
        give(5, Kind::Fifo, 2, 0);
        let below: Vec<_> = sums
            .directories()
            .into_iter()
            .filter_map(|event| match event {
                Event::Inode(inode) => {
                    Some((inode.ino.0, inode.rstat().entries, inode.rstat().bytes, inode.accounted.entries))
                }
                _ => None,
            })
            .collect();
        assert_eq!(below, [(1, 4, 10, 0), (2, 3, 10, 4), (3, 1, 10, 2)]);
    }

    #[test]
    fn a_cut_or_changed_text_is_found() {
        let head = Head { next_ino: 256, ..Head::default() }.render() + "\n";
        let tail = Tail { lines: 1, crc: crc32c::crc32c(head.as_bytes()) }.render() + "\n";
        let read = |text: String| {
            let mut bytes = text.as_bytes();
            let mut text = Text { reader: &mut bytes, name: "t".into(), line: 0, crc: 0 };
            text.head()?;
            text.record()
        };
        assert_eq!(read(format!("{head}{tail}")).expect("a whole dump"), None);
        for (bad, why) in [
            (head.clone(), "cut off"),
            (format!("{head}{}", &tail[..tail.len() - 1]), "cut off"),
            (format!("{head}# x\n{tail}"), "does not fit"),
            (format!("{head}{tail}x"), "follows"),
            (format!("{head}\u{7f}\n"), "no line of a dump"),
        ] {
            let error = read(bad.clone()).expect_err(&bad).to_string();
            assert!(error.contains(why), "{bad:?}: {error}");
        }
    }
}
