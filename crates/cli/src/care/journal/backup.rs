//! What was in a rank's journal, kept in a file before it is changed. `loligo journal import` brings it back.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use loligo_journal::Filter;

use super::export::{self, Made};
use super::source::Journal;
use crate::output::{Failure, note};

/// A backup.
pub struct Backup {
    /// The file.
    pub path: PathBuf,
    /// What is in it.
    pub made: Made,
}

/// Makes one: where it was said, or beside the data directory. `None`: there is nothing to keep. What cannot be understood of a broken journal
/// is kept, too: its segments as they are, in a directory beside the file.
pub fn make(journal: &Journal, to: Option<&Path>, data: &Path) -> Result<Option<Backup>, Failure> {
    if journal.segments()?.is_empty() {
        return Ok(None);
    }
    let path = to.map_or_else(|| free(journal, data), Path::to_path_buf);
    let made = export::write(journal, &Filter::default(), &path)?;
    if made.end.broken.is_some() {
        let dir = with_suffix(&path, ".segments");
        journal.copy_segments(&dir)?;
        note(format_args!("the segments as they were: {}", dir.display()));
    }
    note(format_args!("backup of {}: {}", journal.owner, path.display()));
    Ok(Some(Backup { path, made }))
}

/// The first name beside the data directory that is free.
fn free(journal: &Journal, data: &Path) -> PathBuf {
    let data = data.canonicalize().unwrap_or_else(|_| data.to_path_buf());
    let name = |n: u64| with_suffix(&data, &format!(".journal-{}.{n}", journal.owner.rank()));
    let free = (1..).map(name).find(|path| !path.exists());
    free.expect("there are more numbers than files")
}

/// A path with something more at its end.
pub fn with_suffix(path: &Path, more: &str) -> PathBuf {
    let mut all = OsString::from(path);
    all.push(more);
    all.into()
}
