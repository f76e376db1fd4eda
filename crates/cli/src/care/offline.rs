//! Opening a file system without a server. Not here: what is done with it.

use std::path::Path;
use std::sync::Arc;

use loligo_driver::offline::Elsewhere;
use loligo_driver::server::Progress;
use loligo_driver::{Offline, RowsError, ServerError};
use loligo_store::{Backend, StoreError};

use crate::at::{Opening, Store};
use crate::output::{Failure, quoted};
use crate::progress::{Bar, Unit};
use crate::service::format;

/// The store of a data directory, owned from now on. Without `change` nothing is written.
pub fn store(data: &Path, change: bool) -> Result<Arc<dyn Backend>, Failure> {
    open(&Store::of(data)?, change)
}

/// A store, owned from now on. Without `change` nothing is written.
pub fn open(at: &Store, change: bool) -> Result<Arc<dyn Backend>, Failure> {
    format::require(at)?;
    match at.open(Opening::offline_to(change)) {
        Ok(store) => {
            format::refuse_half_copy(at, |key| store.table().get(key))?;
            Ok(store)
        }
        Err(error @ StoreError::InUse { .. }) => Err(in_use(at, &error)),
        Err(error) => Err(Failure::new(error.to_string())),
    }
}

/// The refusal of a store that somebody has.
pub fn in_use(at: &Store, error: &StoreError) -> Failure {
    let text = error.to_string();
    let how = match at {
        Store::Local(data) => format!("stop it first: loligo down --data {}", quoted(data)),
        Store::Rados { data, .. } if data.as_os_str().is_empty() => {
            "a store on RADOS makes no snapshots: stop all servers that share it first, each on its machine: loligo down --data DIR".to_string()
        }
        Store::Rados { data, .. } => format!(
            "a store on RADOS makes no snapshots: stop all servers that share it first, each on its machine: loligo down --data DIR; loligo \
             status --data {} names those that run, and loligo store check --data {0} who has it",
            quoted(data)
        ),
    };
    Failure::new(text.split(';').next().unwrap_or(&text).to_string()).remedy(how)
}

/// All its records, those that are in the journal only included.
pub fn records(store: Arc<dyn Backend>, data: &Path) -> Result<Offline, Failure> {
    read(data, |progress| Offline::open(store, progress))
}

/// The same with a journal in place of that which a rank has.
pub fn records_with(store: Arc<dyn Backend>, journal: Elsewhere<'_>, data: &Path) -> Result<Offline, Failure> {
    read(data, |progress| Offline::open_with(store, journal, progress))
}

fn read(
    data: &Path,
    open: impl FnOnce(&mut dyn FnMut(Progress)) -> Result<Offline, ServerError>,
) -> Result<Offline, Failure> {
    let mut bar = None;
    let opened = open(&mut |progress| {
        let bar = bar.get_or_insert_with(|| Bar::start("reading the journal", progress.total_bytes, Unit::Bytes));
        bar.set(progress.bytes);
    });
    opened.map_err(|error| match error {
        ServerError::Rows(RowsError::NotFormatted) => Failure::new(format!(
            "{} holds no finished file system",
            data.display()
        ))
        .remedy(
            "`loligo format` finishes one whose making was cut off; an unfinished load is to be removed and done again",
        ),
        error @ ServerError::Rows(RowsError::UnfinishedCopy) => Failure::new(format!("{}: {error}", data.display())),
        error => Failure::new(error.to_string()),
    })
}
