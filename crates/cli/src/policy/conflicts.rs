//! Conflicts of a merge with what others did meanwhile (`interfere = "allow"`), for people and as JSON; and how the status of a mount says them.
//! Not here: what becomes of what both did, which the rank decides.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use loligo_types::{Conflict, ConflictKind, Ino};
use serde_json::json;

use crate::output::{human_count, note, quoted};

/// Prints them.
pub(super) fn tell(count: u64, told: &[Conflict]) {
    for conflict in told {
        note(format_args!("{}", line_of(conflict)));
    }
    if count > told.len() as u64 {
        note(format_args!("and {} more", human_count(count - told.len() as u64)));
    }
}

/// The same as JSON.
pub(super) fn json_of(told: &[Conflict]) -> serde_json::Value {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let one = |one: &Conflict| json!({ "kind": one.kind.name(), "inode": one.ino.0, "name": text(&one.name), "kept": text(&one.kept) });
    told.iter().map(one).collect()
}

/// Line for one conflict.
fn line_of(conflict: &Conflict) -> String {
    let name = match &*conflict.name {
        [] => format!("inode {}", conflict.ino.0),
        name => quoted(Path::new(OsStr::from_bytes(name))).to_string(),
    };
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
}
