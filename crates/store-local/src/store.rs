//! Opening and closing a data directory. Not the parts: table, journals and objects have their own
//! modules.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use loligo_store::{Backend, Blobs, Identity, Lease, LogDir, Result, Snapshots, StatFs, StoreError, Table};

use crate::files::{self, named};
use crate::journal::LocalLogDir;
use crate::layout::{DirLock, FormatOptions, Layout};
use crate::marks::{self, Marks};
use crate::objects::LocalBlobs;
use crate::room::{For, Room};
use crate::snapshot::{self, Gate, LocalSnapshots, Reader};
use crate::table::LocalTable;

/// An object of which all was on the disk for so long is verified after a failure of the machine, though it is still open.
const IDLE: Duration = Duration::from_secs(10);

/// Options of opening a data directory.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// Bytes of the table's cache for data, index and filter blocks.
    pub block_cache_bytes: usize,
    /// Bytes of one of the table's (at most three) write buffers.
    pub write_buffer_bytes: usize,
    /// Bytes of one of the table's files; a compaction writes about a dozen at a time.
    pub table_file_bytes: usize,
    /// Files of the table kept open.
    pub open_tables: usize,
    /// Object files kept open.
    pub open_objects: usize,
    /// Bytes of journal space reserved at a time ahead of the tail.
    pub journal_reserve_bytes: u64,
    /// Bytes kept in reserve for the time when the disk is full; `None`: as the size of the disk wants it.
    pub reserve_bytes: Option<u64>,
    /// Writes nothing, not even that it is open: for a snapshot, which shares files with the store that it was made of.
    pub read_only: bool,
    /// Owns the directory, and changes nothing in it: for a command that only looks. A snapshot that is there stays. It opens a directory that
    /// cannot be written, too.
    pub looks: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            block_cache_bytes: 64 << 20,
            write_buffer_bytes: 32 << 20,
            table_file_bytes: 64 << 20,
            open_tables: 256,
            open_objects: 256,
            journal_reserve_bytes: 4 << 20,
            reserve_bytes: None,
            read_only: false,
            looks: false,
        }
    }
}

impl OpenOptions {
    /// The same on a disk of so many bytes: on a small one as much is written at a time as leaves room for the rest.
    fn within(&self, disk: u64) -> OpenOptions {
        let least =
            |whole: usize, part: u64| whole.min(usize::try_from((disk / part).max(1 << 20)).unwrap_or(usize::MAX));
        OpenOptions {
            write_buffer_bytes: least(self.write_buffer_bytes, 512),
            table_file_bytes: least(self.table_file_bytes, 1024),
            journal_reserve_bytes: self.journal_reserve_bytes.min((disk / 128).max(1 << 20)),
            ..self.clone()
        }
    }
}

/// Held by every handle of an opening: the directory is free when the last one is dropped.
pub(crate) enum Owner {
    /// Of a data directory.
    Alone(#[expect(dead_code, reason = "the lock goes with it")] DirLock),
    /// The same, and writes nothing.
    Looking(#[expect(dead_code, reason = "the lock goes with it")] DirLock),
    /// Of nothing: of a snapshot there may be several readers.
    Reader(Arc<Reader>),
}

impl Owner {
    /// Refuses to read a snapshot that has ended.
    pub(crate) fn may_read(&self, dir: &Path) -> Result<()> {
        match self {
            Owner::Alone(_) | Owner::Looking(_) => Ok(()),
            Owner::Reader(reader) => {
                let failed = |cause| StoreError::Io { what: dir.display().to_string(), cause };
                reader.lost().map_or(Ok(()), |cause| Err(failed(cause)))
            }
        }
    }

    /// True if nothing may be written.
    pub(crate) fn only_reads(&self) -> bool {
        matches!(self, Owner::Reader(_) | Owner::Looking(_))
    }
}

/// Refuses a change of what is only read.
pub(crate) fn read_only(path: &Path) -> StoreError {
    StoreError::ReadOnly { what: path.display().to_string(), cause: "it was opened to be read only".to_string() }
}

/// The store in one data directory of this machine.
pub struct LocalStore {
    layout: Layout,
    identity: Identity,
    options: OpenOptions,
    owner: Arc<Owner>,
    room: Arc<Room>,
    marks: Arc<Marks>,
    gate: Arc<Gate>,
    table: Arc<LocalTable>,
    blobs: Arc<LocalBlobs>,
    /// `None`: it is one itself.
    snapshots: Option<Arc<LocalSnapshots>>,
}

impl LocalStore {
    /// Makes `dir` (which may be absent or empty; its parent exists) into an empty file system.
    pub fn format(dir: impl AsRef<Path>, options: &FormatOptions) -> Result<Identity> {
        Layout::new(dir.as_ref()).format(options)
    }

    /// [`StoreError::Foreign`] if `dir` is inside of a data directory, and so can be none itself. It need not be there.
    pub fn check_place(dir: impl AsRef<Path>) -> Result<()> {
        Layout::new(dir.as_ref()).refuse_inside()
    }

    /// Reads who the file system in `dir` is, without owning it.
    pub fn identify(dir: impl AsRef<Path>) -> Result<Identity> {
        Layout::new(dir.as_ref()).identify()
    }

    /// Opens the file system in `dir` and owns it until the last handle is dropped.
    pub fn open(dir: impl AsRef<Path>, options: &OpenOptions) -> Result<Self> {
        let layout = Layout::new(dir.as_ref());
        let identity = layout.identify()?;
        if options.read_only {
            layout.refuse_lost_table()?;
            return LocalStore::open_to_read(layout, identity, options);
        }
        layout.refuse_lost_parts()?;
        layout.refuse_inside()?;
        // Without a table there is nothing to look at: its parts are made.
        if options.looks && LocalTable::is_at(&layout.table()) {
            if layout.lacks(&layout.marks()) {
                tracing::warn!("{}: {}", layout.marks().display(), marks::MISSING);
            }
            let owner = Arc::new(Owner::Looking(layout.take_lock_to_look()?));
            return LocalStore::only_to_read(layout, identity, options, owner);
        }
        let owner = Arc::new(Owner::Alone(layout.take_lock()?));
        // From here on objects change that it shares.
        if let Err(error) = snapshot::sweep(&layout) {
            tracing::warn!(%error, "a snapshot of an earlier server stays");
        }
        let options = &options.within(files::statfs(&layout.dir)?.total_bytes);
        let room = Arc::new(Room::of(&layout, options.reserve_bytes)?);
        room.before_opening(LocalTable::to_write(&layout.table()));
        let mut made = false;
        for part in [layout.table(), layout.journal(), layout.objects()] {
            made |= room.find(For::Journal, || files::make_dir(&part))?;
        }
        if made {
            files::sync_dir(&layout.dir)?;
        }
        if layout.lacks(&layout.marks()) {
            tracing::warn!("{}: {}; it is made anew", layout.marks().display(), marks::MISSING);
        }
        let marks = Arc::new(Marks::open(&layout.marks(), &identity.fs_id));
        LocalTable::refuse_lost_end(&layout.table(), options, &marks)?;
        let gate = Arc::new(Gate::default());
        let store = LocalStore::with(layout, identity, options, (owner, room, marks, gate))?;
        // Whether it is full is known from the beginning.
        let (table, need) = store.table.room();
        store.room.look(table, need)?;
        Ok(store)
    }

    /// Opens a snapshot.
    fn open_to_read(layout: Layout, identity: Identity, options: &OpenOptions) -> Result<Self> {
        let owner = Arc::new(Owner::Reader(Arc::new(Reader::of(&layout)?)));
        LocalStore::only_to_read(layout, identity, options, owner)
    }

    fn only_to_read(layout: Layout, identity: Identity, options: &OpenOptions, owner: Arc<Owner>) -> Result<Self> {
        let room = Arc::new(Room::of(&layout, Some(0))?);
        let marks = Arc::new(Marks::open_read_only(&layout.marks(), &identity.fs_id));
        LocalStore::with(layout, identity, options, (owner, room, marks, Arc::default()))
    }

    /// Opens its parts.
    fn with(
        layout: Layout,
        identity: Identity,
        options: &OpenOptions,
        (owner, room, marks, gate): (Arc<Owner>, Arc<Room>, Arc<Marks>, Arc<Gate>),
    ) -> Result<Self> {
        let blobs = LocalBlobs::open(&layout, options.open_objects, room.clone(), gate.clone(), owner.clone())?;
        let table =
            LocalTable::open(&layout.table(), options, room.clone(), (gate.clone(), marks.clone()), owner.clone())?;
        let (table, blobs) = (Arc::new(table), Arc::new(blobs));
        let snapshots = (!owner.only_reads())
            .then(|| Arc::new(LocalSnapshots::of(&layout, gate.clone(), room.clone(), table.clone())));
        let options = options.clone();
        Ok(Self { layout, identity, options, owner, room, marks, gate, table, blobs, snapshots })
    }
}

impl Backend for LocalStore {
    fn identity(&self) -> Identity {
        self.identity
    }

    fn table(&self) -> Arc<dyn Table> {
        self.table.clone()
    }

    fn blobs(&self) -> Arc<dyn Blobs> {
        self.blobs.clone()
    }

    fn log_dir(&self, rank: u32) -> Result<Arc<dyn LogDir>> {
        let path = self.layout.journal().join(rank.to_string());
        let reserve = self.options.journal_reserve_bytes;
        let marks = (self.marks.clone(), rank);
        Ok(Arc::new(LocalLogDir::open(path, reserve, marks, self.room.clone(), self.gate.clone(), self.owner.clone())?))
    }

    fn ranks(&self) -> Result<Vec<u32>> {
        let path = self.layout.journal();
        let mut ranks = Vec::new();
        for entry in fs::read_dir(&path).map_err(|e| named(&path, &e))? {
            let name = entry.map_err(|e| named(&path, &e))?.file_name();
            ranks.extend(name.to_str().and_then(|name| name.parse::<u32>().ok()));
        }
        ranks.sort_unstable();
        Ok(ranks)
    }

    /// Also looks whether there is room, and makes the reserve whole if there is.
    fn statfs(&self) -> Result<StatFs> {
        if self.owner.only_reads() {
            return files::statfs(&self.layout.dir);
        }
        let (table, need) = self.table.room();
        let space = self.room.look(table, need)?;
        if self.room.is_full()
            && let Some(snapshots) = &self.snapshots
        {
            snapshots.end_for_room();
        }
        self.table.tend();
        self.blobs.tend(IDLE);
        Ok(space)
    }

    fn full(&self) -> Option<Arc<AtomicBool>> {
        Some(self.room.full())
    }

    /// Of a snapshot: whether it is still one.
    fn lease(&self) -> Option<Arc<dyn Lease>> {
        match &*self.owner {
            Owner::Alone(_) | Owner::Looking(_) => None,
            Owner::Reader(reader) => Some(reader.clone()),
        }
    }

    fn snapshots(&self) -> Option<Arc<dyn Snapshots>> {
        self.snapshots.clone().map(|snapshots| -> Arc<dyn Snapshots> { snapshots })
    }

    fn close(&self) -> Result<()> {
        if let Some(snapshots) = &self.snapshots {
            snapshots.close();
        }
        self.table.close()?;
        self.blobs.close()
    }
}
