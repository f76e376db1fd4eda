//! `loligo format`: an empty file system in a new data directory.

use std::path::Path;

use loligo_driver::{FormatOptions, ServerError};
use loligo_journal::table::{Meta, key_meta};
use loligo_store::{Backend, StoreError};
use loligo_store_local::{FormatOptions as StoreFormat, LocalStore};

use super::node::{data_dir, open_store};
use crate::args::Format;
use crate::output::{Failure, Outcome};

/// Memory for the table's cache while it is made.
const SMALL_CACHE: usize = 8 << 20;

/// Makes it and says so.
pub fn run(args: &Format) -> Outcome {
    let data = data_dir(&args.data)?;
    if !make(&data)? {
        let error =
            LocalStore::format(&data, &StoreFormat::default()).err().map_or_else(String::new, |e| e.to_string());
        return Err(Failure::new(error));
    }
    println!("formatted {}\n  use it  loligo up --data {} --mount DIR", data.display(), data.display());
    Ok(())
}

/// Makes a file system. `false`: there is a whole one already, and nothing was changed. One that was cut off while it
/// was made is finished.
pub fn make(data: &Path) -> Result<bool, Failure> {
    if let Some(parent) = data.parent() {
        std::fs::create_dir_all(parent).map_err(|e| Failure::new(format!("{}: {e}", parent.display())))?;
    }
    match LocalStore::format(data, &StoreFormat::default()) {
        Ok(_) | Err(StoreError::AlreadyFormatted { .. }) => {}
        Err(error) => return Err(Failure::new(error.to_string())),
    }
    let store = open_store(data, SMALL_CACHE)?;
    let failed = |e: StoreError| Failure::new(e.to_string());
    refuse_leftovers(data, &store)?;
    match loligo_driver::format(&store, &root()) {
        Ok(()) => {
            store.close().map_err(failed)?;
            Ok(true)
        }
        Err(ServerError::AlreadyFormatted) => Ok(false),
        Err(error) => Err(Failure::new(error.to_string())),
    }
}

/// A load that was cut off leaves rows in a table that is not formatted: nothing to build on.
fn refuse_leftovers(data: &Path, store: &LocalStore) -> Result<(), Failure> {
    let failed = |e: StoreError| Failure::new(e.to_string());
    let table = store.table();
    let formatted = table.get(&key_meta(Meta::Format)).map_err(failed)?.is_some();
    if formatted || table.scan(&[], &[], 1).map_err(failed)?.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("{} holds a load that did not come to its end", data.display()))
        .remedy("remove the directory and load again"))
}

/// The root directory belongs to who makes it.
fn root() -> FormatOptions {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    FormatOptions { uid, gid, ..FormatOptions::default() }
}

/// Refuses a directory that holds no file system of ours.
pub fn require(data: &Path) -> Result<(), Failure> {
    match LocalStore::identify(data) {
        Ok(_) => Ok(()),
        Err(error @ (StoreError::NotFound { .. } | StoreError::Foreign { .. })) => {
            let first = error.to_string();
            let first = first.split(';').next().unwrap_or(&first).to_string();
            Err(Failure::new(first).remedy(format!("make one: loligo format --data {}", data.display())))
        }
        Err(error) => Err(Failure::new(error.to_string())),
    }
}

/// Whether there is nothing yet, so that a file system may be made there.
pub fn is_new(data: &Path) -> bool {
    match std::fs::read_dir(data) {
        Ok(entries) => {
            entries.flatten().all(|entry| entry.file_name() == "lost+found" || entry.file_name() == "loligo.toml")
        }
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}
