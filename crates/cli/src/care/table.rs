//! A table that cannot be read as a whole, as `loligo fsck` deals with it. Not here: how its rows are saved, which is the store's.

use std::path::Path;

use loligo_store::StoreError;
use loligo_store_local::{LocalStore, OpenOptions, Salvaged};

use crate::at::Store;
use crate::output::{Failure, human_count, quoted};

/// After a file system could not be opened or read: if that is because of its table, replaces the table by one of the rows that can be read.
/// `Ok`: the loss, in words. `Err`: the given failure, if the table is sound or is not to be mended.
pub fn salvage(data: &Path, repair: bool, failure: Failure) -> Result<String, Failure> {
    let Ok(Store::Local(dir)) = Store::of(data) else { return Err(failure) };
    let options = OpenOptions::default();
    if !repair {
        return Err(match LocalStore::is_readable(&dir, &options) {
            Ok(false) => failure.remedy(format!(
                "go back to a backup, or copy the directory as it is and save what can be read: loligo fsck --data {} --repair",
                quoted(data)
            )),
            Ok(true) | Err(_) => failure,
        });
    }
    match LocalStore::salvage(&dir, &options) {
        Ok(Some(Salvaged::Replaced { rows, gaps, files, kept })) => {
            let files = match files {
                0 => String::new(),
                count => format!("{count} of its files could not be opened, "),
            };
            Ok(format!(
                "the table was damaged: {files}{gaps} stretches of it could not be read; {} rows could, and are in a new one; the damaged one \
                 is kept in {}",
                human_count(rows),
                kept.display()
            ))
        }
        Ok(Some(Salvaged::Shortened { last, mark })) => Ok(format!(
            "the end of the table was lost: it was durable up to change {mark}, and ends with change {last}; what was removed or revoked by \
             the changes between is there again: look who is authorized (loligo auth list)"
        )),
        Ok(None) => Err(failure),
        // A server has it: nothing is known to be damaged.
        Err(StoreError::InUse { .. }) => Err(failure),
        Err(error @ StoreError::Corrupt { .. }) => Err(Failure::new(error.to_string()).remedy("go back to a backup")),
        Err(error) => Err(Failure::new(error.to_string())
            .remedy("copy the directory to a disk that has room and can be written, and repair the copy")),
    }
}
