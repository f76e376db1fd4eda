//! `loligo copy`: a whole file system from one store to another. Not here: the copying, which is the driver's.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use loligo_driver::ServerError;
use loligo_driver::offline::copy::{self, Copied, Copier, CopyError, CopyProgress, CopyStage};
use loligo_store::{Backend, Identity, StoreError};
use serde_json::json;

use super::moment::Moment;
use super::offline;
use crate::at::{Opening, Store};
use crate::output::{Failure, Outcome, counted, human_bytes, human_count, human_time, note, put, quoted};
use crate::progress::{self, Bar, Unit};
use crate::service::{data_dir, format};
use crate::target;

/// The remedy for a target that is not an empty store.
const EMPTY: &str = "name a store in which there is nothing yet";

/// `loligo copy`.
#[derive(Args)]
pub struct CopyArgs {
    /// Store to copy: a data directory, or rados:POOL, or rados:POOL/NAMESPACE. A data directory may be served: its
    /// server makes a snapshot. A store on RADOS must not be.
    #[arg(long, value_name = "STORE")]
    pub from: String,
    /// Store to make: a data directory or a name space of a pool in which there is nothing, or a copy that was cut off.
    #[arg(long, value_name = "STORE")]
    pub to: String,
    /// Ceph's settings, for rados:. A data directory of a store in a cluster has its own.
    #[arg(long, value_name = "FILE", default_value = "/etc/ceph/ceph.conf")]
    pub conf: PathBuf,
    /// Ceph user, for rados:.
    #[arg(long, value_name = "NAME", default_value = "client.admin")]
    pub ceph_user: String,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// Copies it, and says what was copied.
pub fn run(args: &CopyArgs) -> Outcome {
    let begun = Instant::now();
    if args.json {
        progress::none();
    }
    let from = match args.from.starts_with("rados:") {
        true => Store::at(&args.from, &args.conf, &args.ceph_user)?,
        false => Store::of(&data_dir(&target::data_of(Path::new(&args.from))?)?)?,
    };
    if !args.to.starts_with("rados:") {
        target::refuse_mount(Path::new(&args.to))?;
    }
    let to = Store::at(&args.to, &args.conf, &args.ceph_user)?;
    if is_same(&from, &to) {
        return Err(Failure::usage(format!("{} is both the source and the target", from.name()))
            .remedy("name another store with --to"));
    }
    check_target(&to)?;
    // Dropped behind all that reads it.
    let moment = Moment::of(&from)?;
    let failed = |error| moment.lost().unwrap_or_else(|| failed(&from, &to, error));
    let source = moment.store()?;
    let identity = source.identity();
    // Refused before everything is counted, if it is refused.
    let there = open_there(&from, &to, &identity)?;
    let mut bars = Bars(None);
    let copier = Copier::of(source, &mut |now| bars.show(now)).map_err(failed)?;
    copier.fits(to.object_max()).map_err(failed)?;
    let target = match there {
        Some(target) => target,
        None => make(&to, identity).map_err(failed)?,
    };
    let copied = copier.copy(&*target, &mut |now| bars.show(now));
    drop(bars);
    let copied = copied.map_err(failed)?;
    // As a server would begin: a journal that is damaged is copied as it is, and must not be taken for a backup.
    let fault = offline::records(target, to.data()).err();
    let seconds = begun.elapsed().as_secs_f64();
    let fs_id = identity.fs_id_hex();
    if args.json {
        let mut document = document(&from, &to, &fs_id, &copied, seconds);
        document["fault"] = fault.as_ref().map(|fault| fault.parts().0).into();
        put(format_args!("{document:#}"))?;
        return fault.map_or(Ok(()), |fault| Err(unusable(&from, &fault)));
    }
    put(line(&from, &to, &copied, seconds))?;
    if let Some(fault) = fault {
        return Err(unusable(&from, &fault));
    }
    note(format_args!(
        "both are the file system {fs_id}: serve only one of them\n  use it    loligo up {} --mount DIR",
        named(&to)
    ));
    Ok(())
}

/// The failure of a copy that is like its source, which no server would take.
fn unusable(from: &Store, fault: &Failure) -> Failure {
    let check = match from {
        Store::Local(data) => format!("loligo store check --data {}", quoted(data)),
        Store::Rados { .. } => "loligo store check".to_string(),
    };
    Failure::found(format!("the copy is equal to its source, and no server can start on either: {}", fault.parts().0))
        .remedy(format!("{check} says what is damaged; mend the source and copy again"))
}

fn is_same(from: &Store, to: &Store) -> bool {
    match (from, to) {
        (Store::Local(from), Store::Local(to)) => {
            let real = |dir: &PathBuf| dir.canonicalize().unwrap_or_else(|_| dir.clone());
            real(from) == real(to)
        }
        (Store::Rados { place: from, .. }, Store::Rados { place: to, .. }) => from == to,
        _ => false,
    }
}

/// Options that name a store.
fn named(store: &Store) -> String {
    match store {
        Store::Local(data) => format!("--data {}", quoted(data)),
        Store::Rados { place, .. } => format!("--store {place} --conf {}", quoted(place.conf.as_ref())),
    }
}

/// Refuses a target that could not be written anyway, before the source is read: a snapshot of that may take minutes.
fn check_target(to: &Store) -> Outcome {
    let Store::Local(_) = to else { return Ok(()) };
    match to.identify() {
        Ok(_) => match to.open(Opening::offline_to(false)) {
            Err(error @ StoreError::InUse { .. }) => Err(in_use(to, &error)),
            // Other faults are found, and named, where it is opened to be written.
            _ => Ok(()),
        },
        Err(StoreError::Foreign { .. }) if !format::is_new(to) => Err(not_empty(to)),
        Err(_) => Ok(()),
    }
}

fn in_use(to: &Store, error: &StoreError) -> Failure {
    let text = error.to_string();
    let text = text.split(';').next().unwrap_or(&text);
    let how = "name a directory in which there is nothing yet";
    let failure = Failure::new(format!("the target is in use: {text}"));
    match to {
        Store::Local(data) => failure.remedy(format!(
            "{how}; or stop that server first, if it serves a copy that was cut off: loligo down --data {}",
            quoted(data)
        )),
        Store::Rados { .. } => failure.remedy(EMPTY),
    }
}

fn not_empty(to: &Store) -> Failure {
    Failure::new(format!("{} is not empty, and no data directory of Loligo", to.name())).remedy(EMPTY)
}

/// The target, if it was made before: by a copy that was cut off. Anything else that is there is refused.
fn open_there(from: &Store, to: &Store, identity: &Identity) -> Result<Option<Arc<dyn Backend>>, Failure> {
    match to.identify() {
        Ok(_) => {}
        Err(StoreError::NotFound { .. } | StoreError::Foreign { .. }) if format::is_new(to) => return Ok(None),
        Err(StoreError::Foreign { .. }) => return Err(not_empty(to)),
        Err(error) => {
            let failure = Failure::new(error.to_string());
            return Err(match (error, to) {
                (StoreError::NotFound { .. }, Store::Rados { place, .. }) => {
                    failure.remedy(format!("make it first: ceph osd pool create {}", place.pool))
                }
                _ => failure,
            });
        }
    }
    let target = to.open(Opening::offline()).map_err(|error| match error {
        StoreError::InUse { .. } => in_use(to, &error),
        error => Failure::new(error.to_string()),
    })?;
    if copy::is_begun(&*target, identity).map_err(|error| failed(from, to, error))? {
        note(format_args!(
            "loligo: {} holds a copy of this file system that was cut off: it goes on with what is right of that",
            to.name()
        ));
    }
    Ok(Some(target))
}

/// Makes an empty store that is to be this file system.
fn make(to: &Store, identity: Identity) -> Result<Arc<dyn Backend>, CopyError> {
    let above = if let Store::Local(data) = to { data.parent() } else { None };
    let dirs = to.check_place().and_then(|()| match above {
        Some(above) => {
            std::fs::create_dir_all(above).map_err(|error| StoreError::from_io(above.display().to_string(), &error))
        }
        None => Ok(()),
    });
    let made = dirs.and_then(|()| to.format_as(Some(identity))).and_then(|_| to.open(Opening::offline()));
    made.map_err(CopyError::in_target)
}

fn failed(from: &Store, to: &Store, error: CopyError) -> Failure {
    match &error {
        CopyError::Source(cause @ ServerError::Store(StoreError::Corrupt { .. })) => {
            let check = match from {
                Store::Local(data) => format!("loligo fsck --data {} --data-checksums", quoted(data)),
                Store::Rados { .. } => "loligo fsck --data DIR --data-checksums".to_string(),
            };
            Failure::new(format!("{} cannot be read: {cause}", from.name()))
                .remedy(format!("{check} says all that is damaged: overwrite or remove those files, then copy again"))
        }
        CopyError::Source(cause) => Failure::new(format!("{}: {cause}", from.name())),
        CopyError::Target(cause @ ServerError::AlreadyFormatted) => {
            Failure::new(format!("{}: {cause}", to.name())).remedy(EMPTY)
        }
        CopyError::Target(cause) => Failure::new(format!("{}: {cause}", to.name())),
        _ => Failure::new(format!("copying {} to {}: {error}", from.name(), to.name())),
    }
}

/// A bar for each thing that is done.
struct Bars(Option<(CopyStage, Bar)>);

impl Bars {
    fn show(&mut self, now: CopyProgress) {
        if self.0.as_ref().is_none_or(|(stage, _)| *stage != now.stage) {
            let (what, unit) = match now.stage {
                CopyStage::Looking => ("counting objects", Unit::Count),
                CopyStage::Clearing => ("removing what was cut off", Unit::Count),
                CopyStage::Rows => ("copying rows", Unit::Count),
                CopyStage::Journals => ("copying journals", Unit::Bytes),
                CopyStage::Objects => ("copying file data", Unit::Bytes),
                CopyStage::RowsBack => ("comparing rows", Unit::Count),
                CopyStage::JournalsBack => ("comparing journals", Unit::Bytes),
                CopyStage::ObjectsBack => ("comparing file data", Unit::Bytes),
            };
            // The one before goes first.
            self.0 = None;
            self.0 = Some((now.stage, Bar::start(what, now.total, unit)));
        }
        if let Some((_, bar)) = &mut self.0 {
            bar.set(now.done);
        }
    }
}

fn line(from: &Store, to: &Store, copied: &Copied, seconds: f64) -> String {
    let kept = match copied.kept {
        0 => String::new(),
        kept => format!(" ({} were there already)", human_count(kept)),
    };
    format!(
        "copied {} to {}: {}, {} ({}), {} ({}){kept}, all read back and compared, in {}",
        from.name(),
        to.name(),
        counted(copied.rows, "row"),
        // The plural is at the end: "journal segments".
        match copied.segments {
            1 => "1 journal segment".to_string(),
            n => format!("{} journal segments", human_count(n)),
        },
        human_bytes(copied.segment_bytes),
        counted(copied.objects, "object"),
        human_bytes(copied.object_bytes),
        human_time(seconds)
    )
}

fn document(from: &Store, to: &Store, fs_id: &str, copied: &Copied, seconds: f64) -> serde_json::Value {
    json!({
        "from": from.name(),
        "to": to.name(),
        "fs_id": fs_id,
        "rows": copied.rows,
        "row_bytes": copied.row_bytes,
        "rows_crc32c": format!("{:08x}", copied.rows_crc),
        "segments": copied.segments,
        "segment_bytes": copied.segment_bytes,
        "objects": copied.objects,
        "object_bytes": copied.object_bytes,
        "objects_kept": copied.kept,
        "seconds": seconds,
    })
}
