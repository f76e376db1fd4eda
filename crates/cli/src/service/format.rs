//! `loligo format`: an empty file system in a new data directory.

use std::io::ErrorKind;
use std::path::Path;

use loligo_driver::{FormatOptions, ServerError};
use loligo_journal::table::{Meta, key_meta};
use loligo_store::{Backend, StoreError};
use loligo_types::Rank;
use serde_json::json;

use super::node::open_store;
use super::preflight;
use crate::args::Format;
use crate::at::{Opening, Store};
use crate::output::{Failure, Outcome, put, quoted};
use crate::settings::{Given, Settings};

/// Memory for the table's cache while it is made.
const SMALL_CACHE: usize = 8 << 20;

/// Makes it and says so.
pub fn run(args: &Format, given: &Given) -> Outcome {
    let store = Store::named(&args.store)?;
    // Read by those that use the file system: a mistake shows before there is one.
    let settings = Settings::load(given, Some(store.data()), &[])?;
    settings.check()?;
    preflight::addresses(&settings)?;
    if !make(&store)? {
        let error = store.format().err().map_or_else(String::new, |e| e.to_string());
        return Err(Failure::new(error));
    }
    if args.json {
        let fs_id = store.identify().map(|identity| identity.fs_id_hex()).ok();
        return put(json!({ "data": store.data().display().to_string(), "store": store.name(), "fs_id": fs_id }));
    }
    put(format_args!("formatted {}\n  use it  loligo up --data {} --mount DIR", store.name(), quoted(store.data())))
}

/// Makes a file system. `false`: there is a whole one already, and nothing was changed. One that was cut off while it
/// was made is finished.
pub fn make(at: &Store) -> Result<bool, Failure> {
    let data = at.data();
    at.check_place().map_err(|error| Failure::new(error.to_string()))?;
    if let Some(parent) = data.parent() {
        std::fs::create_dir_all(parent).map_err(|e| unmade(data, &e))?;
    }
    if let Err(error) = std::fs::create_dir(data)
        && error.kind() != ErrorKind::AlreadyExists
    {
        return Err(unmade(data, &error));
    }
    match at.format() {
        Ok(_) | Err(StoreError::AlreadyFormatted { .. }) => {}
        Err(error) => return Err(Failure::new(error.to_string())),
    }
    at.put_down()?;
    let store = open_store(at, Opening { table_cache: SMALL_CACHE, ..Opening::default() })?;
    let failed = |e: StoreError| Failure::new(e.to_string());
    has_file_system(at, &*store)?;
    match loligo_driver::format(&*store, &root()) {
        Ok(()) => {
            store.close().map_err(failed)?;
            Ok(true)
        }
        Err(ServerError::AlreadyFormatted) => Ok(false),
        Err(error) => Err(Failure::new(error.to_string())),
    }
}

fn unmade(data: &Path, error: &std::io::Error) -> Failure {
    let how = match error.kind() {
        ErrorKind::ReadOnlyFilesystem => "name one on a disk that is mounted read-write, or mount this disk so",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "free space on that disk, or name a directory on another one"
        }
        _ => "name one below a directory that this user may write to",
    };
    Failure::new(format!("data directory {} cannot be made: {error}", data.display())).remedy(how)
}

/// True if there is a finished file system. A copy or a load that was cut off leaves rows in a table that is not formatted: that is
/// refused.
pub fn has_file_system(at: &Store, store: &dyn Backend) -> Result<bool, Failure> {
    let failed = |e: StoreError| Failure::new(e.to_string());
    let table = store.table();
    // The key of the first layout named no rank; its file systems are refused by name elsewhere.
    let key = key_meta(Meta::Format, Rank::ZERO);
    let has = |key: &[u8]| Ok::<bool, Failure>(table.get(key).map_err(failed)?.is_some());
    let formatted = has(&key)? || has(&key[..2])?;
    if formatted || table.scan(&[], &[], 1).map_err(failed)?.is_empty() {
        return Ok(formatted);
    }
    refuse_half_copy(at, |key| table.get(key))?;
    let how = match at {
        Store::Local(_) => "remove the directory and load again",
        Store::Rados { .. } => {
            "use another name space, or remove its objects (rados purge is for a pool of its own) and begin again"
        }
    };
    Err(Failure::new(format!("{} holds a load that did not come to its end", at.name())).remedy(how))
}

/// Refuses a copy that did not come to its end, by the mark that it has in its table. Each command that opens a store, or looks into one, asks
/// here; `row` reads a row. A table that cannot be read is left to be named by what reads it.
pub fn refuse_half_copy(
    at: &Store,
    row: impl FnOnce(&[u8]) -> Result<Option<Vec<u8>>, StoreError>,
) -> Result<(), Failure> {
    if !matches!(row(&key_meta(Meta::Copying, Rank::ZERO)), Ok(Some(_))) {
        return Ok(());
    }
    let name = match at {
        Store::Local(data) => quoted(data),
        Store::Rados { place, .. } => place.to_string(),
    };
    Err(Failure::new(format!("{} holds a copy that did not come to its end", at.name()))
        .remedy(format!("make it again, which keeps what is right of it: loligo copy --from STORE --to {name}")))
}

/// The root directory belongs to who makes it.
fn root() -> FormatOptions {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    FormatOptions { uid, gid, ..FormatOptions::default() }
}

/// Refuses a place that holds no file system of ours.
pub fn require(at: &Store) -> Result<(), Failure> {
    match at.identify() {
        Ok(_) => Ok(()),
        Err(error @ (StoreError::NotFound { .. } | StoreError::Foreign { .. })) => {
            if let (Store::Local(data), StoreError::NotFound { .. }) = (at, &error)
                && data.exists()
            {
                return Err(Failure::new(format!("{} is a file, and no data directory", data.display()))
                    .remedy("name the directory that was given to loligo up or loligo serve"));
            }
            let first = error.to_string();
            let first = first.split(';').next().unwrap_or(&first).to_string();
            let how = match (at, &error) {
                (Store::Local(data), StoreError::NotFound { .. }) => format!(
                    "name the directory that was given to loligo up or loligo serve; a new file system is made by loligo format --data {}",
                    quoted(data)
                ),
                (Store::Local(data), _) if is_new(at) => format!("make one: loligo format --data {}", quoted(data)),
                (Store::Local(_), _) => {
                    "name the directory that was given to loligo up or loligo serve; for a new file system one that is empty or not there yet"
                        .to_string()
                }
                (Store::Rados { place, .. }, _) => format!(
                    "make one: loligo format --store {place} --conf {}; a pool is made by: ceph osd pool create {}",
                    place.conf, place.pool
                ),
            };
            Err(Failure::new(first).remedy(how))
        }
        Err(error) => Err(unreached(at, &error)),
    }
}

/// The failure of a store that could not be looked at. That of a cluster is not to be sought at the data directory.
pub fn unreached(at: &Store, error: &StoreError) -> Failure {
    match (at, error) {
        (Store::Rados { place, .. }, StoreError::Lost { cause, .. }) => Failure::new(format!("{place}: {cause}")).remedy(
            "ceph --conf FILE status shows whether the cluster can be reached with these settings (--conf, --ceph-user)",
        ),
        _ => Failure::new(error.to_string()),
    }
}

/// True if a file system may be made there: there is nothing yet, or the rest of a formatting that was cut off. The store looks once more
/// before it does.
pub fn is_new(at: &Store) -> bool {
    const MAY_BE: [&str; 6] = ["lost+found", "loligo.toml", "lock", "epochs", "epochs.tmp", "loligo.tmp"];
    let data = match at {
        Store::Local(data) => data,
        // A pool that is there is; one that is not is nothing that `up` makes.
        Store::Rados { .. } => return matches!(at.identify(), Err(StoreError::Foreign { .. })),
    };
    match std::fs::read_dir(data) {
        Ok(entries) => entries.flatten().all(|entry| MAY_BE.iter().any(|name| entry.file_name() == *name)),
        Err(error) => error.kind() == ErrorKind::NotFound,
    }
}
