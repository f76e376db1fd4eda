//! `loligo dump`: the whole namespace as text. What is in it, and what is not, stands in docs/formats/dump.md.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::ControlFlow;
use std::path::Path;

use loligo_driver::Offline;
use loligo_journal::table::{Row, dir_range, key_inline, key_inode, key_part, prefix_range, xattr_range};
use loligo_types::{Event, Ino, Inode, Kind, Name, Rank, Target};
use serde_json::json;

use super::moment::{self, Moment};
use super::text::{Head, Tail, render};
use super::{offline, paths};
use crate::at::Store;
use crate::output::{Context, Failure, Outcome, create_private, human_files, note, put, written};
use crate::progress::{self, Bar, Unit};

/// Writes it.
pub fn run(data: &Path, output: Option<&Path>, without_data: bool, as_json: bool) -> Outcome {
    if as_json {
        progress::none();
    }
    let moment = Moment::of(&Store::of(data)?)?;
    // Dropped before the moment is.
    let offline = offline::records(moment.store()?, data)?;
    let (head, dead) = count(&offline, without_data)?;
    match output {
        None => write(&offline, head, &dead, std::io::stdout().lock(), "standard output"),
        Some(path) => write_file(&offline, head, &dead, path),
    }?;
    if as_json {
        return put(json!({
            "output": output.map(|path| path.display().to_string()),
            "inodes": head.inodes,
            "entries": head.entries,
            "xattrs": head.xattrs,
            "files_without_data": head.objects,
            "bytes_without_data": head.object_bytes,
        }));
    }
    if head.objects > 0 {
        note(format_args!(
            "loligo: the data of {} is in objects, and so not in the dump; `load` will give it the size, but no data",
            human_files(head.objects)
        ));
    }
    Ok(())
}

/// Into a file: under another name until it is whole, so that no half of a dump is taken for one. What is no plain
/// file, such as a pipe, is written as it is.
fn write_file(offline: &Offline, head: Head, dead: &BTreeSet<Ino>, path: &Path) -> Outcome {
    let unusable = |e: std::io::Error| {
        Failure::new(format!("output file {}: {e}", path.display())).remedy("name a file in a directory that takes it")
    };
    match std::fs::metadata(path) {
        Ok(there) if there.is_dir() => return Err(unusable(std::io::ErrorKind::IsADirectory.into())),
        Ok(there) if !there.is_file() => {
            let pipe = File::options().write(true).open(path).map_err(unusable)?;
            return write(offline, head, dead, &pipe, &path.display().to_string());
        }
        _ => {}
    }
    // Through a symlink, so that the file is replaced and not the link.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let mut part = path.clone().into_os_string();
    part.push(".part");
    let part = Path::new(&part);
    let file = create_private(part).map_err(unusable)?;
    let place = part.display().to_string();
    let done = write(offline, head, dead, &file, &place)
        .and_then(|()| file.sync_all().map_err(|e| written(&place, &e)))
        .and_then(|()| std::fs::rename(part, &path).map_err(unusable));
    done.inspect_err(|_| _ = std::fs::remove_file(part))
}

/// Visits rows until one fails.
fn each(offline: &Offline, range: &loligo_journal::table::KeyRange, mut see: impl FnMut(Row) -> Outcome) -> Outcome {
    let mut result = Ok(());
    offline
        .rows_in(range, &mut |(key, row)| {
            let row = row.map_err(|e| {
                let key: String = key.iter().map(|b| format!("{b:02x}")).collect();
                Failure::new(format!("the table's row {key} cannot be understood: {e}"))
                    .remedy("loligo fsck, and with --repair")
            });
            match row.and_then(&mut see) {
                Ok(()) => ControlFlow::Continue(()),
                Err(failure) => {
                    result = Err(failure);
                    ControlFlow::Break(())
                }
            }
        })
        .context(|| "reading the table".into())?;
    result
}

/// The refusal of a file whose data the dump would not hold.
fn refused(offline: &Offline, ino: Ino) -> Failure {
    let file = paths::shown(offline, ino);
    Failure::new(format!("the data of {file} is in objects, which a dump does not hold: the file would come back without its data"))
        .remedy("loligo copy --from STORE --to STORE makes a backup with all data; --without-data dumps the names and attributes alone")
}

/// True for a file with at least one object, whose data no dump holds. A file of holes has no object.
fn has_objects(offline: &Offline, inode: &Inode) -> Result<bool, Failure> {
    let objects = offline.backend().blobs().objects_of(inode.ino.0);
    objects.map(|all| !all.is_empty()).context(|| format!("objects of inode {}", inode.ino))
}

/// Counts what will be written, and finds the inodes that will not: those without a name. The first file with objects is an error, unless
/// the dump is to be `without_data`.
fn count(offline: &Offline, without_data: bool) -> Result<(Head, BTreeSet<Ino>), Failure> {
    let next_ino = offline.next_inos().get(&Rank::ZERO).map_or(0, |ino| ino.0);
    let mut head = Head { next_ino, ..Head::default() };
    let mut dead = BTreeSet::new();
    let mut bar = Bar::start("counting", 0, Unit::Count);
    let range_of = |key: Vec<u8>| prefix_range(&key[..1]);
    each(offline, &range_of(key_inode(Ino(0))), |row| {
        bar.add(1);
        if let Row::Inode(inode) = row {
            if inode.nlink == 0 {
                dead.insert(inode.ino);
                return Ok(());
            }
            head.inodes += 1;
            if inode.kind == Kind::File && !inode.inline && inode.size > 0 {
                if !without_data && has_objects(offline, &inode)? {
                    return Err(refused(offline, inode.ino));
                }
                head.objects += 1;
                head.object_bytes = head.object_bytes.saturating_add(inode.size);
            }
            head.inline += u64::from(inline(offline, &inode)?.is_some());
        }
        Ok(())
    })?;
    for first in [dir_range(Ino(0)).start, xattr_range(Ino(0)).start] {
        each(offline, &range_of(first), |row| {
            bar.add(1);
            match row {
                Row::Entry { .. } => head.entries += 1,
                Row::Xattr { ino, .. } if !dead.contains(&ino) => head.xattrs += 1,
                _ => {}
            }
            Ok(())
        })?;
    }
    Ok((head, dead))
}

/// The data held in an inode.
fn inline(offline: &Offline, inode: &Inode) -> Result<Option<Event>, Failure> {
    if inode.kind != Kind::File || !inode.inline || inode.size == 0 {
        return Ok(None);
    }
    let row = offline.get(&key_inline(inode.ino)).context(|| format!("inline data of inode {}", inode.ino))?;
    Ok(match row {
        Some(Row::Inline { ino, data }) => Some(Event::Inline { ino, data }),
        _ => None,
    })
}

/// Writer of a dump's lines, with the checksum of them.
struct Lines<'a, W: Write> {
    out: BufWriter<W>,
    /// Where it goes, for people.
    place: &'a str,
    crc: u32,
    lines: u64,
}

impl<W: Write> Lines<'_, W> {
    fn put(&mut self, mut line: String) -> Outcome {
        line.push('\n');
        self.crc = crc32c::crc32c_append(self.crc, line.as_bytes());
        self.lines += 1;
        self.out.write_all(line.as_bytes()).map_err(|e| written(self.place, &e))
    }

    fn record(&mut self, event: &Event, xattrs: usize) -> Outcome {
        match render(event, xattrs) {
            Some(line) => self.put(line),
            None => Ok(()),
        }
    }

    fn end(mut self) -> Outcome {
        let tail = Tail { lines: self.lines, crc: self.crc }.render();
        writeln!(self.out, "{tail}").and_then(|()| self.out.flush()).map_err(|e| written(self.place, &e))
    }
}

fn write(offline: &Offline, head: Head, dead: &BTreeSet<Ino>, out: impl Write, place: &str) -> Outcome {
    let mut lines = Lines { out: BufWriter::with_capacity(1 << 20, out), place, crc: 0, lines: 0 };
    lines.put(head.render())?;
    if head.objects > 0 {
        let (files, bytes) = (head.objects, head.object_bytes);
        lines.put(format!("# not in this dump: data in objects, files={files} bytes={bytes}"))?;
    }
    let used = |(rank, next): &(&Rank, &Ino)| **rank != Rank::ZERO && **next > Ino::first_of(**rank);
    for (_, next) in offline.next_inos().iter().filter(used) {
        lines.record(&Event::NextIno(*next), 0)?;
    }
    let mut bar = Bar::start("dumping", head.inodes, Unit::Count);
    each(offline, &prefix_range(&key_inode(Ino(0))[..1]), |row| {
        bar.add(1);
        match row {
            Row::Inode(inode) if !dead.contains(&inode.ino) => write_inode(offline, *inode, &mut lines),
            _ => Ok(()),
        }
    })?;
    // Without its end it is no dump.
    if let Some(failure) = offline.backend().lease().and_then(|lease| moment::lost(&*lease)) {
        return Err(failure);
    }
    lines.end()
}

/// Adds the counters of all ranks to a directory whose fragments belong to several: only their sum is meaningful.
fn gather(offline: &Offline, inode: &mut Inode) -> Outcome {
    if !inode.is_spread() {
        return Ok(());
    }
    for (rank, _) in offline.tails() {
        let row =
            offline.get(&key_part(*rank, inode.ino)).context(|| format!("rank {rank}'s part of {}", inode.ino))?;
        if let Some(Row::Inode(part)) = row {
            inode.add_part(&part);
        }
    }
    inode.end_spread();
    Ok(())
}

/// An inode, its xattrs, its data, its entries by name.
fn write_inode<W: Write>(offline: &Offline, mut inode: Inode, lines: &mut Lines<'_, W>) -> Outcome {
    gather(offline, &mut inode)?;
    let mut xattrs = Vec::new();
    if inode.has_xattrs {
        each(offline, &xattr_range(inode.ino), |row| {
            if let Row::Xattr { ino, name, value } = row {
                xattrs.push(Event::Xattr { ino, name, value });
            }
            Ok(())
        })?;
    }
    let data = inline(offline, &inode)?;
    let (ino, kind) = (inode.ino, inode.kind);
    lines.record(&Event::Inode(Box::new(inode)), xattrs.len())?;
    for event in xattrs.iter().chain(&data) {
        lines.record(event, 0)?;
    }
    if kind != Kind::Dir {
        return Ok(());
    }
    // The table has them in the order of a secret hash; by name the same tree always gives the same text.
    let mut entries: BTreeMap<Name, Target> = BTreeMap::new();
    each(offline, &dir_range(ino), |row| {
        if let Row::Entry { name, target, .. } = row {
            entries.insert(name, target);
        }
        Ok(())
    })?;
    for (name, Target { ino: target, kind, remote }) in entries {
        lines.record(&Event::Entry { dir: ino, name, ino: target, kind, remote }, 0)?;
    }
    Ok(())
}
