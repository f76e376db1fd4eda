//! A snapshot of a data directory that is in use: `DATA/snapshot`, a data directory itself, as if the server had been killed at the moment
//! of the cut. Drawn in `docs/formats/objects.md`.
//!
//! Here: the three steps and the end of it. The gate that writers pass is in `gate.rs`, objects and segments that are kept as they were in
//! `keep.rs`, the lock and the mark of a whole snapshot in `place.rs`. Not here: reading one, which is an opening with
//! [`crate::OpenOptions::read_only`].

mod gate;
mod keep;
mod place;

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use loligo_store::{Result, SnapshotState, Snapshots, StoreError};

use crate::files::{self, named};
use crate::layout::Layout;
use crate::objects;
use crate::room::Room;
use crate::table::LocalTable;
pub(crate) use gate::Gate;
pub(crate) use keep::Keep;
use place::Place;
pub(crate) use place::Reader;

/// The snapshots of an open data directory.
pub(crate) struct LocalSnapshots {
    layout: Layout,
    gate: Arc<Gate>,
    room: Arc<Room>,
    table: Arc<LocalTable>,
    stage: Mutex<Stage>,
    /// The store is closed: no snapshot is made any more.
    is_closed: AtomicBool,
}

/// Why a snapshot that was being made is none.
const CLOSED: &str = "the server was stopped while the snapshot was made; do it again: without a server none is needed";
/// The same, where the server goes on.
const REMOVED: &str = "the snapshot was removed while it was made; make it again";

enum Stage {
    None,
    Prepared(Place),
    Cut(Place, Arc<Keep>),
    Whole(Place, Arc<Keep>),
}

impl LocalSnapshots {
    pub(crate) fn of(layout: &Layout, gate: Arc<Gate>, room: Arc<Room>, table: Arc<LocalTable>) -> Self {
        Self {
            layout: layout.clone(),
            gate,
            room,
            table,
            stage: Mutex::new(Stage::None),
            is_closed: AtomicBool::new(false),
        }
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that has to be of one moment. Writers of the table and of journals wait, and objects are kept from the first line on.
    fn cut_at_once(&self, place: &Place) -> Result<Arc<Keep>> {
        let _all = self.gate.close();
        let keep = Arc::new(Keep::begin(&self.layout, place.clone(), self.room.clone()));
        self.gate.keep(Some(keep.clone()));
        keep.take_segments(&self.gate)?;
        self.table.checkpoint(&place.layout().table())?;
        objects::snapshot_of_epochs(&self.layout, place.layout())?;
        for (from, to) in
            [(self.layout.marks(), place.layout().marks()), (self.layout.identity(), place.layout().identity())]
        {
            match fs::copy(&from, &to) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(named(&from, &error)),
                _ => {}
            }
        }
        Ok(keep)
    }

    fn not_now(&self, detail: &str) -> StoreError {
        StoreError::NotNow { what: self.layout.snapshot().display().to_string(), cause: detail.to_string() }
    }

    /// The end of a snapshot that was not finished: nothing is kept for it any more.
    fn give_up(&self, place: Place) {
        self.gate.keep(None);
        if let Err(error) = place.remove() {
            tracing::warn!(%error, "a snapshot that could not be made stays until the next start");
        }
    }

    /// The disk is full: a snapshot ends, also if somebody reads it, and gives back the room that it takes. Its readers see that it has ended.
    pub(crate) fn end_for_room(&self) {
        let mut stage = self.stage();
        if matches!(*stage, Stage::None | Stage::Prepared(_)) {
            return;
        }
        if let Stage::Cut(place, _) | Stage::Whole(place, _) = std::mem::replace(&mut *stage, Stage::None) {
            tracing::warn!(snapshot = %place.layout().dir.display(), "the disk is full: the snapshot is removed; free space, then copy again");
            self.give_up(place);
        }
    }

    /// The server ends: a snapshot that somebody reads is left to them, as it needs the server no longer. One that is being made ends.
    pub(crate) fn close(&self) {
        let mut stage = self.stage();
        self.is_closed.store(true, Ordering::Release);
        if matches!(*stage, Stage::Cut(..))
            && let Stage::Cut(place, keep) = std::mem::replace(&mut *stage, Stage::None)
        {
            keep.ends();
            return self.give_up(place);
        }
        drop(stage);
        match self.remove() {
            Ok(()) | Err(StoreError::InUse { .. }) => {}
            Err(error) => tracing::warn!(%error, "a snapshot stays until the next start"),
        }
    }
}

impl Snapshots for LocalSnapshots {
    fn prepare(&self) -> Result<()> {
        self.remove()?;
        let mut stage = self.stage();
        if self.is_closed.load(Ordering::Acquire) {
            return Err(self.not_now(CLOSED));
        }
        if !matches!(*stage, Stage::None) {
            return Err(self.not_now("a snapshot is being made already; wait for it"));
        }
        if self.room.is_full() {
            return Err(StoreError::Full { what: self.layout.snapshot().display().to_string() });
        }
        *stage = Stage::Prepared(Place::make(&self.layout)?);
        Ok(())
    }

    fn cut(&self) -> Result<()> {
        let mut stage = self.stage();
        let place = match std::mem::replace(&mut *stage, Stage::None) {
            Stage::Prepared(place) => place,
            other => {
                *stage = other;
                return Err(self.not_now("no snapshot was prepared; prepare one before it is cut"));
            }
        };
        match self.cut_at_once(&place) {
            Ok(keep) => *stage = Stage::Cut(place, keep),
            Err(error) => {
                self.give_up(place);
                return Err(error);
            }
        }
        Ok(())
    }

    fn complete(&self) -> Result<PathBuf> {
        let keep = match &*self.stage() {
            Stage::Cut(_, keep) => keep.clone(),
            _ if self.is_closed.load(Ordering::Acquire) => return Err(self.not_now(CLOSED)),
            _ => return Err(self.not_now("no snapshot was cut; cut one before it is completed")),
        };
        // Without the lock of the stage: how far it is can be asked meanwhile.
        let filled = keep.copy_segments().and_then(|()| keep.link_objects());
        let mut stage = self.stage();
        let Stage::Cut(place, keep) = std::mem::replace(&mut *stage, Stage::None) else {
            let is_closed = self.is_closed.load(Ordering::Acquire);
            return Err(self.not_now(if is_closed { CLOSED } else { REMOVED }));
        };
        let whole = filled.and_then(|()| place.is_whole_now()).and_then(|()| match keep.broken() {
            Some(cause) => {
                place.is_broken_now();
                Err(StoreError::Io { what: place.layout().dir.display().to_string(), cause })
            }
            None => Ok(()),
        });
        match whole {
            Ok(()) => {
                let path = place.layout().dir.clone();
                *stage = Stage::Whole(place, keep);
                Ok(path)
            }
            Err(error) => {
                self.give_up(place);
                Err(error)
            }
        }
    }

    fn state(&self) -> SnapshotState {
        match &*self.stage() {
            Stage::None => SnapshotState::None,
            Stage::Prepared(_) => SnapshotState::Making { objects: 0 },
            Stage::Cut(_, keep) => SnapshotState::Making { objects: keep.objects() },
            Stage::Whole(place, keep) => match keep.broken() {
                Some(cause) => SnapshotState::Broken { cause },
                None => SnapshotState::Whole { path: place.layout().dir.clone() },
            },
        }
    }

    fn is_used(&self) -> bool {
        matches!(&*self.stage(), Stage::Whole(place, _) if place.is_used())
    }

    fn remove(&self) -> Result<()> {
        let mut stage = self.stage();
        match &*stage {
            Stage::None => return Ok(()),
            Stage::Cut(..) => {
                return Err(self.not_now("it is being made, and is removed when that is done: wait for it"));
            }
            Stage::Prepared(place) | Stage::Whole(place, _) if place.is_used() => return Err(place.in_use()),
            Stage::Prepared(_) | Stage::Whole(..) => {}
        }
        if let Stage::Prepared(place) | Stage::Whole(place, _) = std::mem::replace(&mut *stage, Stage::None) {
            // Nobody opens it from here on; then objects may change that it shares.
            let locked = place.lock_alone()?;
            place.is_broken_now();
            self.gate.keep(None);
            place.remove()?;
            drop(locked);
        }
        Ok(())
    }
}

/// Removes what a server that was killed left. Those who read it see that it is gone.
pub(crate) fn sweep(layout: &Layout) -> Result<()> {
    let dir = layout.snapshot();
    if !dir.exists() {
        return Ok(());
    }
    tracing::info!(snapshot = %dir.display(), "a snapshot of an earlier server is removed");
    Place::of(layout).remove()?;
    files::sync_dir(&layout.dir)
}
