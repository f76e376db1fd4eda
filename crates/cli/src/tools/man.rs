//! `loligo man`: man pages of all commands, made from the same description as `--help`. Hidden from users: `scripts/package.sh` calls it.
//! Not here: the page of mount.loligo, which is `packaging/mount.loligo.8`.

use std::path::Path;

use clap::CommandFactory;

use crate::args::Cli;
use crate::output::{Context, Outcome};

/// Writes `loligo.1`, `loligo-up.1`, `loligo-journal-export.1` and so on into a directory.
pub fn run(dir: &Path) -> Outcome {
    std::fs::create_dir_all(dir)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), dir))
        .context(|| format!("cannot write man pages to {}", dir.display()))
}
