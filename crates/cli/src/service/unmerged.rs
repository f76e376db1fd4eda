//! Changes of decoupled directories that a mount could not merge when it ended: the process of the mount says so to `umount` (`presence.rs`), which
//! says it to the user with the command that merges them. Not here: journals that are found in `keep_dir` (`waiting.rs`), and merging.

use loligo_driver::client::Unmerged;
use serde::{Deserialize, Serialize};

use crate::output::{Failure, counted, human_time, note, quoted};
use crate::service::admin::decoupled::DecoupledDoc;
use crate::target::option_of;

/// Changes of one directory.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct UnmergedDoc {
    /// Inode number of the directory.
    dir: u64,
    /// Which decoupling of all times it is.
    epoch: u64,
    changes: u64,
    /// The journal on this machine's disk, and the number of changes in it.
    file: Option<String>,
    in_file: u64,
    /// Number of changes in the journal in the store.
    stored: u64,
    lease_ms: u32,
    /// The stage of its pipeline that failed, and why.
    failed: Option<(String, String)>,
}

/// As the process of a mount says it.
pub fn to_text(all: &[Unmerged]) -> String {
    let docs: Vec<UnmergedDoc> = all.iter().map(UnmergedDoc::new).collect();
    // Numbers and strings have a form as JSON.
    if docs.is_empty() { String::new() } else { serde_json::to_string(&docs).unwrap_or_default() }
}

/// The same, read; nothing, if it is nothing of the kind.
pub fn of_text(text: &str) -> Vec<UnmergedDoc> {
    serde_json::from_str(text).unwrap_or_default()
}

/// Says it where the process of the mount says what it does.
pub fn tell(all: &[Unmerged], server: &str) {
    for one in all.iter().map(UnmergedDoc::new) {
        let remedy = one.remedy(None, server).map_or(String::new(), |remedy| format!("\n  {remedy}"));
        note(format_args!("loligo: {}{remedy}", one.line(None)));
    }
}

/// The failure of an unmount that left changes behind. `decoupled`: the directories that the server knew before, for their paths.
pub fn failure(at: &str, all: &[UnmergedDoc], decoupled: &[DecoupledDoc], server: &str) -> Failure {
    let path_of = |one: &UnmergedDoc| {
        let of_it = decoupled.iter().find(|doc| (doc.dir, doc.epoch) == (one.dir, one.epoch));
        of_it.and_then(|doc| doc.path.as_deref())
    };
    let directories = if all.len() == 1 { "a decoupled directory" } else { "decoupled directories" };
    let lines: String = all.iter().map(|one| format!("\n  {}", one.line(path_of(one)))).collect();
    let failure = Failure::new(format!("{at} is unmounted, and changes of {directories} are not merged:{lines}"));
    let remedies: Vec<String> = all.iter().filter_map(|one| one.remedy(path_of(one), server)).collect();
    if remedies.is_empty() { failure } else { failure.remedy(remedies.join("\n       ")) }
}

impl UnmergedDoc {
    fn new(one: &Unmerged) -> UnmergedDoc {
        let (file, in_file) = one.kept.clone().map_or((None, 0), |(file, count)| (Some(file.to_string()), count));
        UnmergedDoc {
            dir: one.dir.0,
            epoch: one.epoch,
            changes: one.changes,
            file,
            in_file,
            stored: one.stored,
            lease_ms: one.lease_ms,
            failed: one.failed.map(|(stage, error)| (stage.to_string(), error.to_string())),
        }
    }

    /// The journal in the store goes further than the file.
    fn is_stored(&self) -> bool {
        self.stored > self.in_file || self.file.is_none() && self.stored > 0
    }

    fn line(&self, path: Option<&str>) -> String {
        let name = path.map_or_else(|| format!("directory number {}", self.dir), plain);
        let all = counted(self.changes, "change");
        let kept = self.stored.max(self.in_file);
        let place = match &self.file {
            _ if self.is_stored() => "the store".to_string(),
            Some(file) => plain(file),
            None => String::new(),
        };
        let fate = match kept {
            0 => format!("{all} not merged and not kept: lost"),
            kept if kept >= self.changes => format!("{all} not merged, kept in {place}"),
            kept => format!(
                "{all} not merged: {} kept in {place}, {} lost",
                counted(kept, "change"),
                counted(self.changes - kept, "change")
            ),
        };
        let why = self.failed.as_ref().map_or(String::new(), |(stage, error)| {
            format!("; the stage {} of its pipeline failed: {}", plain(stage), plain(error))
        });
        format!("{name}: {fate}{why}")
    }

    /// The command that merges them.
    fn remedy(&self, path: Option<&str>, server: &str) -> Option<String> {
        let lease = human_time(f64::from(self.lease_ms) / 1000.0);
        let option = option_of(Some(server));
        match &self.file {
            _ if self.is_stored() => {
                let dir = path.map_or_else(|| "DIRECTORY".to_string(), |path| quoted(plain(path).as_ref()));
                Some(format!("loligo merge --stored {dir} {option}   (after the lease of the directory, {lease})"))
            }
            Some(file) => Some(format!(
                "loligo merge {} {option}   (within the lease of the directory, {lease}, while the server runs)",
                quoted(plain(file).as_ref())
            )),
            None => None,
        }
    }
}

/// Another user's process may have said it: one line, and nothing that a terminal obeys.
fn plain(text: &str) -> String {
    text.replace(char::is_control, "?")
}

#[cfg(test)]
mod tests {
    use loligo_types::{FsError, Ino};

    use super::*;

    fn one() -> Unmerged {
        Unmerged {
            dir: Ino(651),
            epoch: 7,
            changes: 6,
            kept: Some(("/keep/a.journal".into(), 6)),
            stored: 0,
            lease_ms: 60_000,
            failed: Some(("volatile_apply", FsError::Access)),
        }
    }

    fn said(one: Unmerged) -> String {
        let all = of_text(&to_text(&[one]));
        failure("/m", &all, &[], "unix:/d/loligo.sock").to_string()
    }

    #[test]
    fn a_kept_journal_is_named_with_the_command_that_merges_it() {
        assert_eq!(
            said(one()),
            "/m is unmounted, and changes of a decoupled directory are not merged:\n  directory number 651: 6 changes not merged, kept in \
             /keep/a.journal; the stage volatile_apply of its pipeline failed: permission denied\n  try: loligo merge /keep/a.journal --data /d   (within the \
             lease of the directory, 1 min 0 s, while the server runs)"
        );
    }

    #[test]
    fn changes_that_were_not_kept_are_said_to_be_lost_and_those_in_the_store_are_merged_from_there() {
        let none = said(Unmerged { kept: None, failed: None, ..one() });
        assert!(none.ends_with("651: 6 changes not merged and not kept: lost"), "{none}");
        let part = said(Unmerged { kept: Some(("/k".into(), 5)), failed: None, ..one() });
        assert!(part.contains("6 changes not merged: 5 changes kept in /k, 1 change lost"), "{part}");
        let stored = said(Unmerged { kept: None, stored: 6, failed: None, ..one() });
        assert!(
            stored.contains("kept in the store") && stored.contains("loligo merge --stored DIRECTORY --data /d"),
            "{stored}"
        );
    }

    #[test]
    fn a_mount_that_says_nothing_or_anything_else_has_left_nothing() {
        assert_eq!(to_text(&[]), "");
        assert!(of_text("").is_empty() && of_text("{\"x\": 1}").is_empty());
    }
}
