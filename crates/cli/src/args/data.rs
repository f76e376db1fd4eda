//! The data directory that a command works on, by itself or by a path inside a mount of its server. Not here: `up`, `serve`, `format` and `load`, which may make
//! it, so that a mount is a mistake there (`target::refuse_mount`).

use std::path::PathBuf;

use clap::Args;

use crate::output::Failure;
use crate::target;

/// Data directory of a command.
#[derive(Args, Clone)]
#[group(required = true, multiple = false)]
pub struct DataDir {
    /// Data directory, or a path inside a mount of its server.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// The same without --data.
    #[arg(value_name = "PATH")]
    pub path: Option<PathBuf>,
}

impl DataDir {
    /// The directory.
    pub fn find(&self) -> Result<PathBuf, Failure> {
        let named = self.data.as_ref().or(self.path.as_ref());
        target::data_of(named.ok_or_else(|| Failure::usage("no data directory is named").remedy("give --data DIR"))?)
    }
}
