//! Changes of decoupled directories that are in a file on this machine's disk alone, of a mount that has ended: said when a file system is
//! stopped and when it is started, as its owner has to merge them in time. Not here: merging (`policy/kept.rs`).

use std::path::{Path, PathBuf};

use loligo_driver::client::subtree::Kept;

use super::node;
use crate::at::Store;
use crate::output::{note, quoted};
use crate::settings::Settings;

/// Names each such file of a file system with the command that merges it.
pub fn tell(data: &Path, settings: &Settings) {
    for file in files(data, settings) {
        note(format_args!(
            "loligo: {} holds changes of a decoupled directory that are not merged, and nobody else has them\n  merge them  loligo merge {} --data {}   \
             (within the lease of the directory, a minute by default, once the server runs)",
            file.display(),
            quoted(&file),
            quoted(data)
        ));
    }
}

fn files(data: &Path, settings: &Settings) -> Vec<PathBuf> {
    let identity = match Store::of(data) {
        Ok(at @ Store::Local(_)) => at.identify(),
        _ => return Vec::new(),
    };
    let (Ok(identity), Some(keep)) = (identity, node::keep_dir(settings)) else { return Vec::new() };
    let all = std::fs::read_dir(keep).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = all.filter(|path| Kept::waiting(path) == Some(identity.fs_id)).collect();
    files.sort();
    files
}
