//! Witnesses: empty files that say that something beside them has to be there, so that a loss is told from a hole. An object has one from the
//! first time that it is made durable, by the sync of the directory that makes its name durable; the directories of buckets have one from
//! the start. They go before what they speak of goes. The file `buckets` (`buckets.rs`) speaks of all directories of buckets from outside.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use loligo_store::{ObjectId, Result};

use super::buckets;
use super::paths::{Paths, bucket, children, id_of, is_empty, read_dir};
use crate::files::{self, named};

/// Last byte of a witness's name; the rest is the name of what it speaks of.
const MARK: char = '+';

/// Something that has to be there and is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Lost {
    Object(ObjectId),
    /// All objects of a bucket, or of sixteen.
    Bucket(PathBuf),
    /// All objects of a bucket whose directory is there.
    Emptied(PathBuf),
}

/// Message about a lost object.
pub(super) const LOST_OBJECT: &str = "its file is missing, though it was written and synced";

fn witness_of(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(MARK.to_string());
    PathBuf::from(name)
}

/// Makes the witness of what is there; whether there was none. Durable with the next sync of the directory.
pub(super) fn speak(path: &Path) -> Result<bool> {
    let witness = witness_of(path);
    match File::create_new(&witness) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(named(&witness, &e)),
        made => Ok(made.is_ok()),
    }
}

/// To be called before what it speaks of goes, on purpose.
pub(super) fn fall_silent(path: &Path) -> Result<()> {
    let witness = witness_of(path);
    match fs::remove_file(&witness) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(named(&witness, &e)),
        _ => Ok(()),
    }
}

/// True if there is a witness of it.
pub(super) fn speaks(path: &Path) -> bool {
    fs::symlink_metadata(witness_of(path)).is_ok()
}

/// Message about a lost directory.
pub(super) fn lost_bucket(dir: &Path) -> String {
    format!("{} is missing, with all objects of file data in it", dir.display())
}

/// The message about a directory that is there and empty.
pub(super) fn emptied_bucket(dir: &Path) -> String {
    format!("{} is empty, and a server that stopped cleanly left objects of file data in it", dir.display())
}

fn lost_dir(dir: &Path) -> bool {
    !dir.is_dir() && speaks(dir)
}

impl Paths {
    /// Of an object whose file is not there: why that is damage, if it is.
    pub(super) fn loss(&self, id: ObjectId) -> Option<String> {
        if speaks(&self.of(id)) {
            return Some(LOST_OBJECT.to_string());
        }
        self.lost_bucket(id.ino)
    }

    /// Why the objects of an inode cannot be reached, if they cannot.
    pub(super) fn lost_bucket(&self, ino: u64) -> Option<String> {
        let bucket = bucket(ino);
        let inner = self.inner(bucket);
        if inner.is_dir() {
            return None;
        }
        let lost = [self.outer(bucket), inner].into_iter().find(|dir| self.is_lost(dir));
        lost.map(|dir| lost_bucket(&dir))
    }

    /// True if a directory of buckets is missing.
    pub(super) fn is_lost(&self, dir: &Path) -> bool {
        let noted = |bucket| buckets::look(self.buckets()).is_ok_and(|known| known.has(bucket));
        lost_dir(dir) || (!dir.is_dir() && self.bucket_at(dir).is_some_and(noted))
    }

    /// True if objects were made durable, and neither a directory nor a witness of a bucket is left.
    pub(crate) fn is_emptied(&self) -> Result<bool> {
        let is_bucket = |name: &str| name.len() == 2 && u8::from_str_radix(name, 16).is_ok();
        for entry in read_dir(self.root())?.into_iter().flatten() {
            let name = entry.map_err(|e| named(self.root(), &e))?.file_name();
            if name.to_str().is_some_and(|name| is_bucket(name.strip_suffix(MARK).unwrap_or(name))) {
                return Ok(false);
            }
        }
        // One that cannot be read is told of elsewhere, and made anew.
        Ok(buckets::look(self.buckets()).is_ok_and(|known| !known.is_empty()))
    }

    /// Indexes of the objects of an inode, lost ones included, ascending.
    pub(super) fn indexes_of(&self, ino: u64) -> Result<Vec<u64>> {
        let dir = self.inner(bucket(ino));
        let mut all = BTreeSet::new();
        for entry in read_dir(&dir)?.into_iter().flatten() {
            let name = entry.map_err(|e| named(&dir, &e))?.file_name();
            let id = name.to_str().and_then(|name| id_of(name.strip_suffix(MARK).unwrap_or(name)));
            all.extend(id.filter(|id| id.ino == ino).map(|id| id.index));
        }
        Ok(all.into_iter().collect())
    }

    /// Visits the ids of all objects, lost ones included, each once; not those of objects that are made or removed meanwhile, or those, too.
    pub(crate) fn visit_ids(&self, visit: &mut dyn FnMut(ObjectId) -> Result<()>) -> Result<()> {
        for outer in children(self.root())? {
            for inner in children(&outer)? {
                let mut ids = BTreeSet::new();
                for entry in read_dir(&inner)?.into_iter().flatten() {
                    let name = entry.map_err(|e| named(&inner, &e))?.file_name();
                    ids.extend(name.to_str().and_then(|name| id_of(name.strip_suffix(MARK).unwrap_or(name))));
                }
                ids.into_iter().try_for_each(&mut *visit)?;
            }
        }
        Ok(())
    }

    /// Makes the witness of an object here, if there is one elsewhere. The directories are here.
    pub(crate) fn witness_as(&self, elsewhere: &Paths, id: ObjectId) -> Result<()> {
        if speaks(&elsewhere.of(id)) { speak(&self.of(id)).map(drop) } else { Ok(()) }
    }

    /// Makes the witnesses of directories here that there are elsewhere, and the directories, unless they are lost there.
    pub(crate) fn witness_dirs_as(&self, elsewhere: &Paths) -> Result<()> {
        let of = |dir: PathBuf| -> Result<()> {
            let Ok(name) = dir.strip_prefix(elsewhere.root()) else { return Ok(()) };
            let here = self.root().join(name);
            if dir.is_dir() {
                files::make_dir(&here)?;
            }
            speak(&here).map(drop)
        };
        spoken_of(elsewhere.root())?.into_iter().try_for_each(of)?;
        for outer in children(elsewhere.root())? {
            let spoken = spoken_of(&outer)?;
            if let (false, Ok(name)) = (spoken.is_empty(), outer.strip_prefix(elsewhere.root())) {
                files::make_dir(&self.root().join(name))?;
            }
            spoken.into_iter().try_for_each(of)?;
        }
        let Ok(known) = buckets::look(elsewhere.buckets()) else { return Ok(()) };
        for bucket in known.all().filter(|bucket| elsewhere.inner(*bucket).is_dir()) {
            files::make_dir(&self.outer(bucket))?;
            files::make_dir(&self.inner(bucket))?;
        }
        fs::write(self.buckets(), known.encode()).map_err(|e| named(self.buckets(), &e))
    }

    /// Looks for all that is lost. `is_clean`: no directory of a bucket can be empty, as the server that ended has removed those.
    pub(super) fn visit_lost(&self, is_clean: bool, visit: &mut dyn FnMut(Lost) -> Result<()>) -> Result<()> {
        let buckets = |dir: &Path| -> Result<Vec<Lost>> {
            Ok(spoken_of(dir)?.into_iter().filter(|path| lost_dir(path)).map(Lost::Bucket).collect())
        };
        buckets(self.root())?.into_iter().try_for_each(&mut *visit)?;
        for outer in children(self.root())? {
            buckets(&outer)?.into_iter().try_for_each(&mut *visit)?;
            for inner in children(&outer)? {
                for path in spoken_of(&inner)? {
                    let id = path.file_name().and_then(|name| id_of(name.to_str()?));
                    // It may have been removed meanwhile, and its witness with it.
                    if let Some(id) = id.filter(|_| fs::symlink_metadata(&path).is_err() && speaks(&path)) {
                        visit(Lost::Object(id))?;
                    }
                }
            }
        }
        self.visit_noted(is_clean, visit)
    }

    /// The same of directories whose witnesses went with them. Of all of them at once [`Paths::is_emptied`] tells.
    fn visit_noted(&self, is_clean: bool, visit: &mut dyn FnMut(Lost) -> Result<()>) -> Result<()> {
        if self.is_emptied()? {
            return Ok(());
        }
        let Ok(known) = buckets::look(self.buckets()) else { return Ok(()) };
        for bucket in known.all() {
            let (outer, inner) = (self.outer(bucket), self.inner(bucket));
            if !inner.is_dir() && !lost_dir(&outer) && !lost_dir(&inner) {
                visit(Lost::Bucket(inner))?;
            } else if is_clean && is_empty(&inner)? {
                visit(Lost::Emptied(inner))?;
            }
        }
        Ok(())
    }
}

/// Objects that the witnesses in a directory name.
fn spoken_of(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for entry in read_dir(dir)?.into_iter().flatten() {
        let name = entry.map_err(|e| named(dir, &e))?.file_name();
        all.extend(name.to_str().and_then(|name| name.strip_suffix(MARK)).map(|name| dir.join(name)));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use loligo_store::{Backend, Blobs, StoreError};
    use tempfile::TempDir;

    use super::*;
    use crate::{FormatOptions, LocalCheck, LocalStore, OpenOptions};

    const A: ObjectId = ObjectId { ino: 0x10, index: 0 };
    const B: ObjectId = ObjectId { ino: 0x10, index: 7 };

    fn open(dir: &TempDir) -> LocalStore {
        LocalStore::open(dir.path(), &OpenOptions::default()).expect("open")
    }

    /// A store in which both objects are, synced, and closed.
    fn filled() -> (TempDir, Paths) {
        let dir = tempfile::tempdir().expect("a scratch directory");
        LocalStore::format(dir.path(), &FormatOptions::default()).expect("format");
        let store = open(&dir);
        for id in [A, B] {
            store.blobs().write_at(id, 0, &[1; 5_000]).expect("write");
            store.blobs().sync(id).expect("sync");
        }
        store.close().expect("close");
        let paths = Paths::new(dir.path().join("objects"));
        (dir, paths)
    }

    fn is_damage<T: std::fmt::Debug>(result: Result<T>) -> bool {
        matches!(result, Err(StoreError::Corrupt { .. }))
    }

    fn lost(blobs: &dyn Blobs) -> Vec<Option<ObjectId>> {
        let mut all = Vec::new();
        blobs.lost(&mut |id, _| all.push(id)).expect("it can be looked for");
        all
    }

    fn check(dir: &TempDir) -> Vec<String> {
        let checked = LocalCheck::of(dir.path()).and_then(|check| check.run(&mut |_| ()));
        checked.expect("it can be looked at").findings.into_iter().map(|finding| finding.text).collect()
    }

    #[test]
    fn a_missing_object_is_no_hole_until_it_is_removed() {
        let (dir, paths) = filled();
        assert_eq!(check(&dir), [""; 0]);
        fs::remove_file(paths.of(B)).expect("it is there");
        assert!(check(&dir).iter().all(|text| text.contains("object 10.7") && text.contains(LOST_OBJECT)));
        assert_eq!(check(&dir).len(), 1);
        let store = open(&dir);
        let blobs = store.blobs();
        let mut byte = [0];
        assert!(is_damage(blobs.read_at(B, 0, &mut byte)));
        assert!(is_damage(blobs.write_at(B, 0, b"part")), "it is not covered up");
        assert!(is_damage(blobs.extents(B, 0, 10)));
        assert_eq!(blobs.read_at(A, 0, &mut byte), Ok(1));
        assert_eq!(blobs.read_at(ObjectId::new(0x10, 3), 0, &mut byte), Ok(0), "a hole is one");
        assert_eq!((lost(&*blobs), blobs.objects_of(0x10)), (vec![Some(B)], Ok(vec![0, 7])));
        assert_eq!(blobs.delete_all(0x10), Ok(true));
        assert_eq!((blobs.read_at(B, 0, &mut byte), lost(&*blobs)), (Ok(0), vec![]));
        blobs.write_at(B, 0, b"new").expect("write");
        drop(blobs);
        store.close().expect("close");
        assert_eq!(check(&dir), [""; 0]);
    }

    #[test]
    fn a_missing_bucket_is_no_hole_until_it_is_made_anew() {
        let (dir, paths) = filled();
        let inner = paths.inner(bucket(A.ino));
        for gone in [inner.parent().expect("a directory"), inner.as_path()] {
            let away = dir.path().join("away");
            fs::rename(gone, &away).expect("it is there");
            assert_eq!(check(&dir), [lost_bucket(gone)]);
            let store = open(&dir);
            let mut byte = [0];
            assert!(is_damage(store.blobs().read_at(A, 0, &mut byte)));
            assert!(is_damage(store.blobs().write_at(A, 0, b"x")), "it is not covered up");
            assert_eq!(lost(&*store.blobs()), [None]);
            drop(store);
            fs::rename(&away, gone).expect("it goes back");
            assert_eq!(check(&dir), [""; 0]);
        }
        fs::remove_dir_all(&inner).expect("it is there");
        fs::create_dir(&inner).expect("made");
        let store = open(&dir);
        assert_eq!(store.blobs().read_at(A, 0, &mut [0]), Ok(0));
        store.blobs().write_at(A, 0, b"x").expect("write");
    }

    /// Removes all that is in a directory, witnesses included.
    fn empty(dir: &Path) {
        for entry in fs::read_dir(dir).expect("a directory") {
            let path = entry.expect("it can be read").path();
            if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.expect("it is there");
        }
    }

    #[test]
    fn a_directory_of_objects_that_is_emptied_with_its_witnesses_is_no_hole() {
        let (dir, paths) = filled();
        let inner = paths.inner(bucket(A.ino));
        // A bucket: after a clean stop none is empty.
        empty(&inner);
        assert_eq!(check(&dir), [emptied_bucket(&inner)]);
        let looks = OpenOptions { looks: true, ..OpenOptions::default() };
        let store = LocalStore::open(dir.path(), &looks).expect("open");
        assert_eq!(lost(&*store.blobs()), [None]);
        drop(store);
        // Sixteen of them.
        empty(inner.parent().expect("a directory"));
        assert_eq!(check(&dir), [lost_bucket(&inner)]);
        let store = open(&dir);
        assert!(is_damage(store.blobs().read_at(A, 0, &mut [0])));
        assert!(is_damage(store.blobs().write_at(A, 0, b"x")), "it is not covered up");
        assert_eq!(lost(&*store.blobs()), [None]);
        drop(store);
        // All of them: as where the disk of `objects` is not mounted.
        empty(paths.root());
        let found = check(&dir);
        assert!(found.len() == 1 && found[0].contains("the directory is empty, and objects"), "{found:?}");
        for options in [&looks, &OpenOptions::default()] {
            assert!(LocalStore::open(dir.path(), options).is_err_and(|error| error.to_string().contains("is empty")));
        }
        fs::remove_file(paths.buckets()).expect("it is there");
        let found = check(&dir);
        assert!(found.len() == 1 && found[0].contains("buckets: the file is missing"), "{found:?}");
        let store = open(&dir);
        assert_eq!(store.blobs().read_at(A, 0, &mut [0]), Ok(0));
        store.blobs().write_at(A, 0, b"x").expect("write");
        store.close().expect("close");
        empty(paths.root());
        assert_eq!(check(&dir).len(), 1, "a sync of everything notes the directories, too");
    }

    #[test]
    fn buckets_whose_objects_were_removed_are_not_missed_nor_is_a_note_that_cannot_be_read_believed() {
        let (dir, paths) = filled();
        let store = open(&dir);
        let other = ObjectId::new(0x99, 0);
        store.blobs().write_at(other, 0, b"x").expect("write");
        store.blobs().sync(other).expect("sync");
        assert_eq!(store.blobs().delete_all(A.ino), Ok(true));
        assert_eq!((check(&dir), lost(&*store.blobs())), (vec![], vec![]), "it may be empty while a server runs");
        store.close().expect("close");
        assert!(!paths.inner(bucket(A.ino)).exists());
        assert_eq!(check(&dir), [""; 0]);
        drop(store);
        let mut bytes = fs::read(paths.buckets()).expect("it is there");
        bytes[9] ^= 1;
        fs::write(paths.buckets(), bytes).expect("it can be written");
        assert!(check(&dir).iter().any(|text| text.contains("the checksum of its head")), "{:?}", check(&dir));
        drop(open(&dir));
        assert_eq!(check(&dir), [""; 0]);
        empty(paths.root());
        assert_eq!(check(&dir).len(), 1, "it was made anew of what was there");
    }

    #[test]
    fn an_object_that_was_synced_and_has_no_byte_left_is_damage_also_after_a_kill() {
        let (dir, paths) = filled();
        drop(open(&dir));
        fs::write(paths.of(B), b"").expect("it can be written");
        let found = check(&dir);
        assert!(found.len() == 1 && found[0].contains("its file is empty"), "{found:?}");
        fs::remove_file(witness_of(&paths.of(B))).expect("it is there");
        assert_eq!(check(&dir), [""; 0], "one that was just being made");
    }

    #[test]
    fn what_was_not_made_durable_has_no_witness_and_a_clean_end_gives_it_one() {
        let (dir, paths) = filled();
        // So few stay open that most are closed again at once.
        let options = OpenOptions { open_objects: 1, ..OpenOptions::default() };
        let store = LocalStore::open(dir.path(), &options).expect("open");
        let ids: Vec<ObjectId> = (0..30).map(|index| ObjectId::new(0x20, index)).collect();
        ids.iter().for_each(|id| store.blobs().write_at(*id, 0, b"x").expect("write"));
        assert!(ids.iter().all(|id| !speaks(&paths.of(*id))));
        store.blobs().delete(ids[3]).expect("delete");
        store.close().expect("close");
        let spoken: Vec<ObjectId> = ids.iter().copied().filter(|id| speaks(&paths.of(*id))).collect();
        assert!(spoken.len() == 29 && !spoken.contains(&ids[3]), "{spoken:?}");
        assert_eq!(check(&dir), [""; 0]);
    }
}
