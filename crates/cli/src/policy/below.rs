//! Paths of inodes below a directory of a mount, found by their numbers or names, for people. Not here: paths in the file system, which the server knows
//! (`ranks/place.rs`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The most entries that are read.
const LOOK_MAX: usize = 10_000;
/// The directory of conflicts in a decoupled directory, and how those begin that were made when there was one.
pub const CONFLICTS: &str = ".conflicts";

/// Paths, relative to a directory.
#[derive(Default, PartialEq, Eq, Debug)]
pub struct Paths {
    /// By inode number, as far as they were found.
    pub by_number: BTreeMap<u64, PathBuf>,
    /// By name, those whose name nothing else below the directory has.
    pub by_name: BTreeMap<OsString, PathBuf>,
}

/// Looks among the first entries below a directory, without the directories of conflicts, for these numbers and names. The directories above come first:
/// those with policies are few, and found at once as a rule.
pub fn look(dir: &Path, numbers: &BTreeSet<u64>, names: &BTreeSet<OsString>) -> Paths {
    let (mut found, mut seen) = (Paths::default(), BTreeSet::new());
    if numbers.is_empty() && names.is_empty() {
        return found;
    }
    // Numbers count within the file system: not where another one is mounted.
    let Ok(dev) = dir.metadata().map(|meta| meta.dev()) else { return found };
    let is_inside = |entry: &std::fs::DirEntry| {
        entry.file_type().is_ok_and(|kind| kind.is_dir()) && entry.metadata().is_ok_and(|meta| meta.dev() == dev)
    };
    let mut todo = VecDeque::from([PathBuf::new()]);
    let mut looked = 0;
    while let Some(at) = todo.pop_front() {
        let is_top = at.as_os_str().is_empty();
        for entry in std::fs::read_dir(dir.join(&at)).into_iter().flatten().flatten() {
            looked += 1;
            let name = entry.file_name();
            if is_top && name.as_encoded_bytes().starts_with(CONFLICTS.as_bytes()) {
                continue;
            }
            let path = at.join(&name);
            if numbers.contains(&entry.ino()) {
                found.by_number.insert(entry.ino(), path.clone());
                if names.is_empty() && found.by_number.len() == numbers.len() {
                    return found;
                }
            }
            if names.contains(&name) {
                match seen.insert(name.clone()) {
                    true => found.by_name.insert(name, path.clone()),
                    false => found.by_name.remove(&name),
                };
            }
            if is_inside(&entry) {
                todo.push_back(path);
            }
        }
        if looked > LOOK_MAX {
            // There may be others of each name.
            found.by_name.clear();
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_below_is_found_by_its_number_or_its_only_name_and_not_in_the_directory_of_conflicts() {
        let top = tempfile::tempdir().expect("a directory");
        std::fs::create_dir_all(top.path().join("sub/deep")).expect("made");
        std::fs::create_dir(top.path().join(CONFLICTS)).expect("made");
        let make = |name: &str| {
            let path = top.path().join(name);
            std::fs::write(&path, "").expect("written");
            path.metadata().expect("there").ino()
        };
        let (file, kept) = (make("sub/deep/file"), make(".conflicts/kept"));
        make("sub/twice");
        make("sub/deep/twice");
        let sub = top.path().join("sub").metadata().expect("there").ino();
        let found = look(top.path(), &[file, kept, sub].into(), &["file".into(), "twice".into(), "kept".into()].into());
        assert_eq!(found.by_number, [(file, "sub/deep/file".into()), (sub, "sub".into())].into());
        assert_eq!(found.by_name, [("file".into(), "sub/deep/file".into())].into());
        assert_eq!(look(&top.path().join("none"), &[file].into(), &BTreeSet::new()), Paths::default());
    }
}
