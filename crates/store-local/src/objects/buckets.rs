//! The file `buckets`: which buckets have a directory that is on the disk. It lies beside `objects/`, so it is still there when that is emptied as
//! a whole, witnesses included. Like a mark of a journal it has no sync of its own: a record is written after the sync of the directory that it
//! speaks of, so it is never ahead of that. It goes, durably, before the directory is removed.
//!
//! Not which objects there are: those have witnesses in their bucket (`witness.rs`).

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use loligo_store::{Result, StoreError};

use super::paths::{Paths, children};
use crate::files::{self, named};

const MAGIC: [u8; 4] = *b"LOBU";
const VERSION: u32 = 1;
/// The meaning of a file that is not there, though each opening to write makes it.
pub(super) const MISSING: &str =
    "the file is missing: whether directories of objects were lost together with their witnesses cannot be told";
/// Bytes before the first record.
const HEAD: usize = 512;
/// Bytes of a record: that of sixteen buckets.
const RECORD: usize = 8;
const RECORDS: usize = 256;
const LEN: usize = HEAD + RECORD * RECORDS;

/// Of each directory `XX` a bit for each `Y` in it.
pub(super) struct Known([u16; RECORDS]);

impl Known {
    pub(super) fn none() -> Known {
        Known([0; RECORDS])
    }

    pub(super) fn has(&self, bucket: u16) -> bool {
        self.0[usize::from(bucket >> 4)] & (1 << (bucket & 0xf)) != 0
    }

    pub(super) fn add(&mut self, bucket: u16) {
        self.0[usize::from(bucket >> 4)] |= 1 << (bucket & 0xf);
    }

    pub(super) fn remove(&mut self, bucket: u16) {
        self.0[usize::from(bucket >> 4)] &= !(1 << (bucket & 0xf));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|bits| *bits == 0)
    }

    /// Ascending.
    pub(super) fn all(&self) -> impl Iterator<Item = u16> {
        (0..(RECORDS * 16) as u16).filter(|bucket| self.has(*bucket))
    }

    fn record(&self, outer: usize) -> [u8; RECORD] {
        let mut out = [0; RECORD];
        if self.0[outer] != 0 {
            out[0] = outer as u8;
            out[2..4].copy_from_slice(&self.0[outer].to_le_bytes());
            let crc = crc32c::crc32c(&out[..4]);
            out[4..].copy_from_slice(&crc.to_le_bytes());
        }
        out
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; HEAD];
        out[..4].copy_from_slice(&MAGIC);
        out[4..8].copy_from_slice(&VERSION.to_le_bytes());
        let crc = crc32c::crc32c(&out[..8]);
        out[8..12].copy_from_slice(&crc.to_le_bytes());
        (0..RECORDS).for_each(|outer| out.extend(self.record(outer)));
        out
    }

    pub(super) fn decode(place: &str, bytes: &[u8]) -> Result<Known> {
        let damaged = |detail: String| StoreError::Corrupt { place: place.to_string(), detail };
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        if bytes.len() < LEN || bytes[..4] != MAGIC {
            return Err(damaged("it does not begin with LOBU or is too short".into()));
        }
        if word(4) > VERSION {
            return Err(StoreError::NewerVersion { what: place.to_string(), found: word(4), known: VERSION });
        }
        if word(8) != crc32c::crc32c(&bytes[..8]) {
            return Err(damaged("the checksum of its head does not match".into()));
        }
        let mut known = Known::none();
        for (outer, record) in bytes[HEAD..LEN].chunks_exact(RECORD).enumerate() {
            known.0[outer] = u16::from_le_bytes([record[2], record[3]]);
            if known.record(outer) != record {
                return Err(damaged(format!("its record of the directory {outer:02x} is not one")));
            }
        }
        Ok(known)
    }
}

/// The content of the file. A data directory without it (of an earlier release) has an empty one.
pub(super) fn look(path: &Path) -> Result<Known> {
    match fs::read(path) {
        Ok(bytes) => Known::decode(&path.display().to_string(), &bytes),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Known::none()),
        Err(e) => Err(named(path, &e)),
    }
}

/// Makes the file of the directories that are there, if there is none or it is damaged. Called by the owner, before objects are made.
pub(super) fn begin(paths: &Paths, was_opened: bool) -> Result<()> {
    let path = paths.buckets();
    match look(path) {
        Ok(_) if path.exists() => return Ok(()),
        Err(StoreError::Corrupt { detail, .. }) => {
            tracing::warn!("{}: {detail}; it is made anew of the directories that are there", path.display());
        }
        Err(error) => return Err(error),
        Ok(_) if was_opened => {
            tracing::warn!("{}: {MISSING}; it is made anew of the directories that are there", path.display());
        }
        Ok(_) => {}
    }
    let mut known = Known::none();
    files::sync_dir(paths.root())?;
    for outer in children(paths.root())? {
        files::sync_dir(&outer)?;
        for inner in children(&outer)? {
            if let Some(bucket) = paths.bucket_at(&inner) {
                known.add(bucket);
            }
        }
    }
    files::replace(path, &known.encode())
}

/// Notes directories that are on the disk by now. Not synced.
pub(super) fn add(path: &Path, buckets: &[u16]) -> Result<()> {
    let file = change(path, |known| buckets.iter().for_each(|bucket| known.add(*bucket)))?;
    if let Some(file) = file {
        files::start_writing(&file);
    }
    Ok(())
}

/// Notes, durably, that these directories are about to go.
pub(super) fn remove(path: &Path, buckets: &[u16]) -> Result<()> {
    let file = change(path, |known| buckets.iter().for_each(|bucket| known.remove(*bucket)))?;
    file.map_or(Ok(()), |file| file.sync_data().map_err(|e| named(path, &e)))
}

/// Writes the records that `f` changes; nobody else changes any. Without the file nothing is noted.
fn change(path: &Path, f: impl FnOnce(&mut Known)) -> Result<Option<File>> {
    let file = match File::options().read(true).write(true).open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(named(path, &e)),
    };
    let before = look(path)?;
    let mut after = Known(before.0);
    f(&mut after);
    for outer in (0..RECORDS).filter(|outer| before.0[*outer] != after.0[*outer]) {
        file.write_all_at(&after.record(outer), (HEAD + RECORD * outer) as u64).map_err(|e| named(path, &e))?;
    }
    Ok(Some(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_the_file_are_fixed_and_a_changed_one_is_told() {
        let mut known = Known::none();
        [0x000, 0x123, 0x12f, 0xfff].into_iter().for_each(|bucket| known.add(bucket));
        let bytes = known.encode();
        assert_eq!((bytes.len(), &bytes[..8]), (2560, &b"LOBU\x01\0\0\0"[..]));
        assert_eq!(&bytes[HEAD + 8 * 0x12..][..4], &[0x12, 0, 0x08, 0x80]);
        assert_eq!(bytes[HEAD + 8 * 0x13..][..8], [0; 8]);
        let back = Known::decode("it", &bytes).expect("it is one");
        assert_eq!(back.all().collect::<Vec<_>>(), [0x000, 0x123, 0x12f, 0xfff]);
        for at in (0..12).chain(HEAD..LEN) {
            let mut bad = bytes.clone();
            bad[at] ^= 0x10;
            assert!(Known::decode("it", &bad).is_err(), "byte {at}");
        }
        assert!(Known::decode("it", &bytes[..LEN - 1]).is_err());
    }

    #[test]
    fn a_directory_is_noted_and_forgotten_and_without_the_file_nothing_is() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("buckets");
        add(&path, &[7]).expect("nothing is done");
        assert!(!path.exists() && look(&path).expect("nothing").is_empty());
        files::replace(&path, &Known::none().encode()).expect("it can be written");
        add(&path, &[7, 0x7ff]).expect("it can be written");
        remove(&path, &[7]).expect("it can be written");
        assert_eq!(look(&path).expect("it is one").all().collect::<Vec<_>>(), [0x7ff]);
    }
}
