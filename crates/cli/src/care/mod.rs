//! Commands that look after a file system that is not served: check and repair it, look into its journals, and mend them. Served or not:
//! carrying it as text or to another store, and a look at the store below it.

pub mod copy;
pub mod dump;
pub mod fsck;
pub mod journal;
pub mod load;
pub mod store;

mod looked;
mod moment;
mod objects;
mod offline;
mod paths;
mod places;
mod table;
mod text;

/// The paths of these inodes of a data directory that nobody serves.
pub fn paths_of(
    data: &std::path::Path,
    inos: &[u64],
) -> Result<Vec<Option<std::path::PathBuf>>, crate::output::Failure> {
    let offline = offline::records(offline::store(data, false)?, data)?;
    Ok(inos.iter().map(|ino| paths::of(&offline, loligo_types::Ino(*ino))).collect())
}
