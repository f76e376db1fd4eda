//! A check of objects, without owning them: each block is compared with its checksum, where the file's own are the truth. That is so of
//! all blocks but those that are being changed, unless the machine failed while a server had the object open: then there is nothing to
//! compare with (`docs/formats/objects.md`, "What is believed when"), and such objects are counted.

use std::fs::{self, File};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;

use loligo_store::{BLOCK_SIZE, CheckProgress, Checked, Finding, MAX_OBJECT_LEN, ObjectId, Result, StoreError, look};

use super::block::{self, BLOCK, DOUBT, INSTEAD_OF_DOUBT};
use super::buckets;
use super::epochs::{Ended, Epochs, Place};
use super::header::{DATA_AT, HEADER_LEN, Header};
use super::paths::{Paths, is_empty};
use super::witness::{self, LOST_OBJECT, Lost, emptied_bucket, lost_bucket};
use crate::check::cause;
use crate::files::named;
use crate::layout::Layout;

/// Blocks read at a time.
const AT_ONCE: usize = 256;
/// Where no program helps.
const RESTORE: &str = "overwrite or remove it, and restore it from a copy: loligo fsck --data-checksums, when it is not served, says more";

/// Result of a look at an object.
enum Seen {
    /// All of it is as it was written.
    Sound,
    /// There is nothing to compare it with.
    Open,
    /// It was removed meanwhile.
    Gone,
    Wrong(String),
}

/// Checks all objects.
pub(crate) fn check(layout: &Layout, checked: &mut Checked, tell: &mut dyn FnMut(CheckProgress)) -> Result<()> {
    let epochs = || match fs::read(layout.epochs()) {
        Ok(bytes) => {
            let epochs = Epochs::decode(&layout.epochs().display().to_string(), &bytes)?;
            Ok(epochs.seen_from_outside(Place::of(&layout.objects()).unwrap_or_default()))
        }
        Err(error) => Err(named(&layout.epochs(), &error)),
    };
    let is_clean = match epochs() {
        Ok(epochs) => !epochs.open,
        Err(error) => {
            let remedy = "no server can tell which checksums of file data count: go back to a copy (loligo copy)";
            checked.findings.push(Finding::wrong(cause(&error), remedy));
            return Ok(());
        }
    };
    let paths = Paths::new(layout.objects());
    match buckets::look(paths.buckets()) {
        Err(error) => {
            let remedy =
                "whether directories of objects are missing cannot be told in full; the next start makes the file anew";
            checked.findings.push(Finding::wrong(cause(&error), remedy));
        }
        Ok(_) => checked.findings.extend(layout.missing(paths.buckets(), buckets::MISSING)),
    }
    let mut all: Vec<(ObjectId, u64)> = Vec::new();
    paths.visit_all(&mut |id, entry| {
        all.extend(entry.metadata().map(|meta| (id, meta.len().saturating_sub(DATA_AT))));
        Ok(ControlFlow::Continue(()))
    })?;
    paths.visit_lost(is_clean, &mut |lost| {
        let is_clean = || epochs().is_ok_and(|epochs| !epochs.open);
        checked.findings.extend(look(|| Ok(loss(&paths, &lost, is_clean()).into_iter().collect()))?);
        Ok(())
    })?;
    let total = all.iter().map(|(_, len)| len).sum();
    let mut done = 0;
    for (id, len) in all {
        let mut seen = Seen::Gone;
        let found = look(|| {
            seen = match object(&paths, id, &epochs()?) {
                // Of a disk that does not read some of it.
                Err(error @ StoreError::Io { .. }) => Seen::Wrong(format!("{id}: {}", cause(&error))),
                seen => seen?,
            };
            Ok(match &seen {
                Seen::Wrong(text) => {
                    let name = format!("loligo path {} --data {} names the file", id.ino, layout.dir.display());
                    vec![Finding::wrong(text.clone(), format!("{name}; {RESTORE}"))]
                }
                _ => Vec::new(),
            })
        })?;
        checked.findings.extend(found);
        if !matches!(seen, Seen::Gone) {
            checked.count("objects", 1);
            checked.count("object_bytes", len);
            checked.count("objects_not_comparable", u64::from(matches!(seen, Seen::Open)));
        }
        done += len;
        tell(CheckProgress { stage: "checking objects", bytes: true, done, total });
    }
    Ok(())
}

/// The finding about a lost object, if it still is lost.
fn loss(paths: &Paths, lost: &Lost, is_clean: bool) -> Option<Finding> {
    match lost {
        Lost::Object(id) => {
            let path = paths.of(*id);
            let is_lost = fs::symlink_metadata(&path).is_err() && paths.loss(*id).is_some();
            is_lost.then(|| Finding::wrong(format!("{id} ({}): {LOST_OBJECT}", path.display()), RESTORE))
        }
        Lost::Bucket(dir) => {
            let remedy = "bring it back from a copy; make it anew (mkdir) to go on without the files that it is of";
            paths.is_lost(dir).then(|| Finding::wrong(lost_bucket(dir), remedy))
        }
        Lost::Emptied(dir) => {
            let remedy =
                "bring back what was in it from a copy; a server that is started and stopped cleanly goes on without";
            let is_lost = is_clean && is_empty(dir).is_ok_and(|is_empty| is_empty);
            is_lost.then(|| Finding::wrong(emptied_bucket(dir), remedy))
        }
    }
}

fn object(paths: &Paths, id: ObjectId, epochs: &Epochs) -> Result<Seen> {
    let path = paths.of(id);
    let file = match File::open(&path).and_then(|file| Ok((file.metadata()?.len(), file))) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Seen::Gone),
        Err(error) => return Err(named(&path, &error)),
    };
    let (size, file) = file;
    let wrong = |detail: String| Ok(Seen::Wrong(format!("{id} ({}): {detail}", path.display())));
    if size == 0 {
        // Without a witness, one that was just being made: it was not synced yet.
        let is_new = !epochs.unclean.is_empty() && !witness::speaks(&path);
        return if is_new { Ok(Seen::Open) } else { wrong("its file is empty".into()) };
    }
    let len = size.saturating_sub(DATA_AT);
    if len > MAX_OBJECT_LEN {
        return wrong(format!("its file of {size} bytes is longer than any object"));
    }
    let mut head = vec![0; HEADER_LEN + 4 * block::count(len)];
    read(&file, &path, 0, &mut head)?;
    let (header, sums) = head.split_at(HEADER_LEN);
    let header = match Header::decode(id, header.try_into().expect("split there")) {
        Ok(Some(header)) => header,
        Ok(None) if epochs.any_crashed() => return Ok(Seen::Open),
        Ok(None) => return wrong("its header is missing".into()),
        Err(error) => return wrong(cause(&error)),
    };
    if header.epoch > epochs.current {
        return wrong(format!("opening {} changed it, but this is {}", header.epoch, epochs.current));
    }
    // Blocks of which there are checksums.
    let known = match epochs.unclean.get(&header.epoch) {
        None if header.len != len => {
            return wrong(format!("it is {len} bytes long, and was {} when it was last closed", header.len));
        }
        None => sums.len() / 4,
        Some(Ended::Killed | Ended::Settled) if header.doubts && header.len > len => {
            return wrong(format!("it is {len} bytes long, and {} were written and not cut off", header.len));
        }
        Some(Ended::Killed | Ended::Settled) if header.doubts => block::count(header.len),
        Some(_) => return Ok(Seen::Open),
    };
    let sums = numbers(&sums[..4 * known]);
    let may_change = epochs.unclean.contains_key(&header.epoch);
    let mut wrongs = Vec::new();
    let mut buffer = vec![0; AT_ONCE * BLOCK];
    for (at, sums) in sums.chunks(AT_ONCE).enumerate() {
        let here = (at * AT_ONCE) as u64 * BLOCK_SIZE;
        let content = &mut buffer[..sums.len() * BLOCK];
        content.fill(0);
        let there = content.len().min((len - here) as usize);
        read(&file, &path, DATA_AT + here, &mut content[..there])?;
        for (number, (content, stored)) in content.chunks_exact(BLOCK).zip(sums).enumerate() {
            let doubted = header.doubts && *stored == DOUBT && may_change;
            // As version 1 had it.
            let same = !header.doubts && *stored == DOUBT && block::sum(content) == INSTEAD_OF_DOUBT;
            if !doubted && !same && !block::matches(content, *stored) {
                wrongs.push((at * AT_ONCE + number, *stored));
            }
        }
    }
    if may_change && !wrongs.is_empty() {
        // A block that was changed meanwhile is marked, or has another checksum by now.
        let mut head = vec![0; 4 * known];
        read(&file, &path, HEADER_LEN as u64, &mut head)?;
        let now = numbers(&head);
        wrongs.retain(|(index, stored)| now[*index] == *stored);
    }
    let (bad, first) = (wrongs.len(), wrongs.first().map(|(index, _)| *index as u64 * BLOCK_SIZE));
    match first {
        None => Ok(Seen::Sound),
        Some(first) => {
            wrong(format!("{bad} of its {} blocks are not what was written, the first at byte {first}", sums.len()))
        }
    }
}

fn numbers(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().expect("chunks of 4"))).collect()
}

/// As much as there is: a file that became shorter is looked at again.
fn read(file: &File, path: &Path, at: u64, buf: &mut [u8]) -> Result<()> {
    match file.read_exact_at(buf, at) {
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(named(path, &error)),
        _ => Ok(()),
    }
}
