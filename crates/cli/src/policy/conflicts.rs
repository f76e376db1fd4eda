//! Conflicts of a merge with what others did meanwhile (`interfere = "allow"`), for people and as JSON; and how the status of a mount says them.
//! Not here: what becomes of what both did, which the rank decides.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use loligo_types::{Conflict, ConflictKind, Ino};
use serde_json::json;

use super::below::{CONFLICTS, Paths};
use crate::output::{human_count, note, quoted};

/// Prints them. `paths`: those of the inodes that are known, in the directory that was merged; `dir`: that directory, for people.
pub(super) fn tell(count: u64, told: &[Conflict], paths: &Paths, dir: &Path) {
    for conflict in told {
        note(format_args!("{}", line_of(conflict, paths)));
    }
    if count > told.len() as u64 {
        let kept = quoted(&dir.join(CONFLICTS));
        note(format_args!(
            "and {} more; what others did and does not count is kept: ls {kept}",
            human_count(count - told.len() as u64)
        ));
    }
}

/// The inodes that they are about.
pub(super) fn inodes(told: &[Conflict]) -> BTreeSet<u64> {
    told.iter().map(|conflict| conflict.ino.0).collect()
}

/// Their names.
pub(super) fn names(told: &[Conflict]) -> BTreeSet<OsString> {
    told.iter().filter(|one| !one.name.is_empty()).map(|one| OsStr::from_bytes(&one.name).to_os_string()).collect()
}

/// The name that is printed of the thing that one is about: its path, unless it has another name by now. Of a version of others the number is that of the copy.
fn name_of(conflict: &Conflict, paths: &Paths) -> String {
    let name = OsStr::from_bytes(&conflict.name);
    let is_its = |path: &&PathBuf| conflict.name.is_empty() || path.file_name() == Some(name);
    let path = paths.by_number.get(&conflict.ino.0).filter(is_its).or_else(|| paths.by_name.get(name));
    match (path, &*conflict.name) {
        (Some(path), _) => quoted(path),
        (None, []) => format!("inode {}", conflict.ino.0),
        (None, _) => quoted(Path::new(name)),
    }
}

/// The same as JSON.
pub(super) fn json_of(told: &[Conflict]) -> serde_json::Value {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let one = |one: &Conflict| json!({ "kind": one.kind.name(), "inode": one.ino.0, "name": text(&one.name), "kept": text(&one.kept) });
    told.iter().map(one).collect()
}

/// Line for one conflict.
fn line_of(conflict: &Conflict, paths: &Paths) -> String {
    let name = name_of(conflict, paths);
    let what = match conflict.kind {
        ConflictKind::Name => "others had given its name to something else",
        ConflictKind::Data => "others had written it, too",
        ConflictKind::Removed => "others had changed what was removed",
        ConflictKind::Returned => "others had removed it, and it is back",
        ConflictKind::Moved => "others had given it another name",
        ConflictKind::Loop => "others had moved it into what was moved into it",
        ConflictKind::Attributes => "others had set the same attributes",
        ConflictKind::Homeless => "its directory is gone",
        ConflictKind::Denied => "its owner or mode is another one by now, and does not permit the change",
    };
    match &*conflict.kept {
        [] => format!("{name}: {what}"),
        kept => format!("{name}: {what}: .conflicts has {}", quoted(Path::new(OsStr::from_bytes(kept)))),
    }
}

/// The conflicts of a command in the status of a decoupled directory: `conflict NUMBER KIND INODE NAME KEPT`.
pub(super) fn of(status: &str, command: u64) -> Vec<Conflict> {
    let one = |line: &str| {
        let words: Vec<&str> = line.strip_prefix("conflict ")?.split(' ').collect();
        let [number, kind, ino, name, kept] = words[..] else { return None };
        let kind = ConflictKind::ALL.into_iter().find(|known| known.name() == kind)?;
        let is_of_it = number.parse() == Ok(command);
        is_of_it.then(|| {
            Some(Conflict { kind, ino: Ino(ino.parse().ok()?), name: bytes_of(name)?, kept: bytes_of(kept)? })
        })?
    };
    status.lines().filter_map(one).collect()
}

/// The bytes that hexadecimal digits stand for; `-`: none.
fn bytes_of(hex: &str) -> Option<Box<[u8]>> {
    if hex == "-" {
        return Some(Box::default());
    }
    let digits = hex.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_of_a_mount_says_conflicts_with_any_name() {
        let status = "root 5\nconflict 7 data 12 61c3a4ff 612f\nconflict 8 name 13 62 -\nconflict 7 odd 1 - -\ncommand 7 done 1 2 3\n";
        let told = of(status, 7);
        let [one] = &told[..] else { panic!("{told:?}") };
        assert_eq!((one.kind, one.ino, &*one.name), (ConflictKind::Data, Ino(12), &b"a\xc3\xa4\xff"[..]));
        assert_eq!(&*of(status, 8)[0].kept, b"");
    }
    #[test]
    fn a_conflict_is_named_by_its_path_and_by_its_name_where_that_is_another_one_by_now() {
        let paths = Paths {
            by_number: [(12, PathBuf::from("sub/two")), (13, "sub/new".into())].into(),
            by_name: [("only".into(), "sub/only".into())].into(),
        };
        let one = |ino: u64, name: &str| {
            let name = name.as_bytes().into();
            line_of(&Conflict { kind: ConflictKind::Returned, ino: Ino(ino), name, kept: Box::default() }, &paths)
        };
        let back = "others had removed it, and it is back";
        assert_eq!(one(12, "two"), format!("sub/two: {back}"));
        assert_eq!(one(12, ""), format!("sub/two: {back}"));
        assert_eq!((one(13, "old"), one(14, "")), (format!("old: {back}"), format!("inode 14: {back}")));
        assert_eq!(one(15, "only"), format!("sub/only: {back}"));
    }
}
