//! The part of a check that concerns file data: objects that belong to no file, and checksums. Not the namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use loligo_store::{Blobs, ObjectId, StoreError};

use crate::output::{Context, Failure};
use crate::progress::{Bar, Unit};

/// Bytes read at a time.
const CHUNK: usize = 1 << 20;

/// Result of a pass over the objects.
#[derive(Default, Debug)]
pub struct Report {
    pub objects: u64,
    pub bytes: u64,
    /// Of no file.
    pub leaked: Vec<ObjectId>,
    pub leaked_bytes: u64,
    /// Of a file that is held in its inode, or beyond the end of one: a client or server died before it told of them.
    /// No fault, as a server drops them when it meets them; but they take room.
    pub leftover: Vec<ObjectId>,
    pub leftover_bytes: u64,
    /// With their checksums not right, or missing: the object, and why.
    pub damaged: Vec<(ObjectId, String)>,
    /// Many that are missing at once.
    pub missing: Vec<String>,
}

/// Looks at all objects. `owners`: inodes that may have some, and how many of the first ones. `read`: also reads them.
pub fn check(blobs: &dyn Blobs, owners: &BTreeMap<u64, u64>, read: bool) -> Result<Report, Failure> {
    let mut report = Report::default();
    let mut all = Vec::new();
    let mut bar = Bar::start("listing objects", 0, Unit::Count);
    let listed = blobs.list(&mut |id, len| {
        bar.add(1);
        report.objects += 1;
        report.bytes += len;
        let Some(count) = owners.get(&id.ino) else {
            report.leaked.push(id);
            report.leaked_bytes += len;
            return ControlFlow::Continue(());
        };
        if id.index >= *count {
            report.leftover.push(id);
            report.leftover_bytes += len;
        } else if read {
            all.push((id, len));
        }
        ControlFlow::Continue(())
    });
    listed.context(|| "listing the objects".into())?;
    let looked = blobs.lost(&mut |id, why| match id {
        Some(id) if owners.get(&id.ino).is_some_and(|count| id.index < *count) => {
            report.damaged.push((id, format!("{id}: {why}")));
        }
        // Nobody needs it.
        Some(id) => report.leftover.push(id),
        None => report.missing.push(why.to_owned()),
    });
    looked.context(|| "looking for lost objects".into())?;
    drop(bar);
    let mut bar = Bar::start("reading file data", all.iter().map(|(_, len)| len).sum(), Unit::Bytes);
    let mut buffer = vec![0; CHUNK];
    for (id, len) in all {
        let mut offset = 0;
        // One read at least: of an object that was cut off below its data the length says nothing.
        loop {
            match blobs.read_at(id, offset, &mut buffer) {
                Ok(_) => {}
                Err(error @ StoreError::Corrupt { .. }) => {
                    report.damaged.push((id, error.to_string()));
                    break;
                }
                Err(error) => return Err(Failure::new(error.to_string())),
            }
            offset += CHUNK as u64;
            if offset >= len {
                break;
            }
        }
        bar.add(len);
    }
    Ok(report)
}

/// Removes objects that nobody needs.
pub fn remove(blobs: &dyn Blobs, leaked: &[ObjectId]) -> Result<(), Failure> {
    let failed = || "removing objects that nobody needs".to_string();
    for id in leaked {
        blobs.delete(*id).context(failed)?;
    }
    let inos: BTreeSet<u64> = leaked.iter().map(|id| id.ino).collect();
    inos.into_iter().try_for_each(|ino| blobs.sync_removals(ino)).context(failed)
}
