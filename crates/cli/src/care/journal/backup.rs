//! Backup of a journal: a file made before the journal is changed. `loligo journal import` brings a rank's journal back from it.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use loligo_journal::Filter;

use super::export::{self, Made, Pick};
use super::source::Journal;
use crate::output::{Context, Failure, note};

/// A backup.
pub struct Backup {
    /// The file.
    pub path: PathBuf,
    /// Content of the file.
    pub made: Made,
}

/// Makes one: where it was said, or beside the data directory. `None`: there is nothing to keep. What cannot be understood of a broken journal
/// is kept, too: its segments as they are, in a directory beside the file.
pub fn make(journal: &Journal, to: Option<&Path>, data: &Path) -> Result<Option<Backup>, Failure> {
    if journal.segments()?.is_empty() {
        return Ok(None);
    }
    let data = data.canonicalize().unwrap_or_else(|_| data.to_path_buf());
    let path = to.map_or_else(|| free(&data, &format!(".journal-{}", journal.owner.rank())), Path::to_path_buf);
    let made = export::write(journal, Pick::Taken(&Filter::default()), &path)?;
    if made.end.broken.is_some() {
        let dir = with_suffix(&path, ".segments");
        journal.copy_segments(&dir)?;
        note(format_args!("the segments as they were: {}", dir.display()));
    }
    note(format_args!("backup of {}: {}", journal.owner, path.display()));
    Ok(Some(Backup { path, made }))
}

/// Copies a journal file as it is, with what is broken of it: where it was said, or beside it.
pub fn copy(file: &Path, to: Option<&Path>) -> Result<PathBuf, Failure> {
    let path = to.map_or_else(|| free(file, ""), Path::to_path_buf);
    let place = || format!("backup {}", path.display());
    let mut from = File::open(file).context(|| file.display().to_string())?;
    let mut copied = File::options().write(true).create_new(true).mode(0o600).open(&path).context(place)?;
    std::io::copy(&mut from, &mut copied).and_then(|_| copied.sync_all()).context(place)?;
    export::sync_dir_of(&path).context(place)?;
    note(format_args!("backup of {}: {}", file.display(), path.display()));
    Ok(path)
}

/// The first name that is free of those that begin like this and end with a number.
fn free(path: &Path, more: &str) -> PathBuf {
    let name = |n: u64| with_suffix(path, &format!("{more}.{n}"));
    let free = (1..).map(name).find(|path| !path.exists());
    free.expect("there are more numbers than files")
}

/// A path with something more at its end.
pub fn with_suffix(path: &Path, more: &str) -> PathBuf {
    let mut all = OsString::from(path);
    all.push(more);
    all.into()
}
