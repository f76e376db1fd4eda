//! `loligo man`: man pages of all commands, made from the same description as `--help`. Hidden from users: `scripts/package.sh` calls it.
//! Not here: the page of mount.loligo, which is `packaging/mount.loligo.8`.

use std::io;
use std::path::Path;

use clap::Command;

use crate::args;
use crate::output::{Context, Outcome};

/// Writes `loligo.1`, `loligo-up.1`, `loligo-journal-export.1` and so on into a directory.
pub fn run(dir: &Path) -> Outcome {
    let mut command = args::command().disable_help_subcommand(true);
    command.build();
    std::fs::create_dir_all(dir)
        .and_then(|()| write(command, dir))
        .context(|| format!("cannot write man pages to {}", dir.display()))
}

fn write(command: Command, dir: &Path) -> io::Result<()> {
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        write(sub.clone(), dir)?;
    }
    let source = concat!("Loligo ", env!("CARGO_PKG_VERSION"));
    clap_mangen::Man::new(command).source(source).manual("Loligo").generate_to(dir)?;
    Ok(())
}
