//! Making and opening a file system in a pool.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use loligo_rados::{Cluster, Error, Pool, ReadOp, WriteOp};
use loligo_store::{Backend, Blobs, Clients, Identity, Lease, LogDir, Result, Servers, StatFs, StoreError, Table};

use crate::blobs::{PIECE_MAX, RadosBlobs};
use crate::clients::RadosClients;
use crate::error::store;
use crate::log::RadosLog;
use crate::names;
use crate::rights;
use crate::room::Room;
use crate::servers::{Member, new_number, refuse_alone, refuse_others};
use crate::slots::{FILE_SYSTEM, Slots, of_server};
use crate::space::Space;
use crate::table::{RadosTable, Shared};

/// Where a file system lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Ceph's settings (`ceph.conf`).
    pub conf: String,
    /// Name of the cluster's user, as "client.admin".
    pub user: String,
    /// The pool.
    pub pool: String,
    /// The name space in it: several file systems may share a pool.
    pub namespace: String,
}

/// Options of making a file system.
#[derive(Debug, Clone, Default)]
pub struct FormatOptions {
    /// The identity to give; by default a random one.
    pub identity: Option<Identity>,
}

/// Options of opening a file system.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// A server that is silent for so long may be replaced by another one.
    pub lease: Duration,
    /// Keys after which a range of the table is cut in two.
    pub range_keys: u64,
    /// All that needs more room than there is in the pool is an error. Otherwise only file data is, and [`Backend::full`] tells it: a server
    /// has to be able to go on, to be replaced, and to remove files then.
    pub refuse_full: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { lease: Duration::from_millis(1500), range_keys: 100_000, refuse_full: false }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rados:{}/{}", self.pool, self.namespace)
    }
}

/// The store in a pool of a cluster.
pub struct RadosStore {
    pool: Arc<Pool>,
    identity: Identity,
    slots: Arc<Slots>,
    shared: Arc<Shared>,
    table: Arc<RadosTable>,
    blobs: Arc<RadosBlobs>,
    clients: Arc<RadosClients>,
    ranks: Arc<Ranks>,
    room: Option<Arc<Room>>,
    space: Arc<Space>,
    /// This server among others; `None`: it is alone.
    member: Option<Arc<Member>>,
}

/// The journals of ranks, and their tables if they are owned.
pub(crate) struct Ranks(Mutex<BTreeMap<u32, Rank>>);

struct Rank {
    log: Arc<RadosLog>,
    table: Option<Arc<RadosTable>>,
}

impl Ranks {
    /// It is owned no longer: whoever asks for it again begins anew.
    pub(crate) fn forget(&self, rank: u32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&rank);
    }
}

/// Time limit of a formatting.
const FORMAT_TIME: Duration = Duration::from_secs(30);

pub(crate) fn connect(place: &Place, refuse_full: bool) -> Result<(Arc<Cluster>, Arc<Pool>)> {
    let cluster = Cluster::connect(&place.conf, &place.user, &[]).map_err(store)?;
    let pool = pool(&cluster, place, &place.namespace)?;
    Ok((cluster, Arc::new(if refuse_full { pool.refusing_when_full() } else { pool.writing_when_full() })))
}

pub(crate) fn pool(cluster: &Arc<Cluster>, place: &Place, namespace: &str) -> Result<Pool> {
    let pool = cluster.pool(&place.pool, namespace).map_err(|error| match error {
        Error::NotFound { .. } => {
            StoreError::NotFound { what: format!("pool {} of the cluster of {}", place.pool, place.conf) }
        }
        error => store(error),
    })?;
    Ok(pool)
}

pub(crate) fn identity(place: &Place, pool: &Pool) -> Result<Option<Identity>> {
    let mut op = ReadOp::new().map_err(store)?;
    let step = op.read(0, 4096);
    match op.run(pool, names::IDENTITY) {
        Ok(brought) => Identity::decode(&place.to_string(), brought.data(step).map_err(store)?).map(Some),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(store(error)),
    }
}

impl RadosStore {
    /// The most bytes that an object with file data holds.
    pub const OBJECT_MAX: u64 = PIECE_MAX;

    /// Makes an empty file system in a name space of a pool that has none.
    pub fn format(place: &Place, options: &FormatOptions) -> Result<Identity> {
        let (_cluster, pool) = connect(place, true)?;
        if let Some(there) = identity(place, &pool)? {
            return Err(StoreError::AlreadyFormatted { dir: place.to_string(), fs_id: there.fs_id_hex() });
        }
        let given = match options.identity {
            Some(identity) => identity,
            None => random_identity()?,
        };
        // Not two at once; whoever is killed has the lock no more soon.
        pool.lock(names::SLOTS, "format", &this_process(), FORMAT_TIME).map_err(store)?;
        // The identity comes last: a formatting that was cut off can be made again.
        Shared::format(&pool)?;
        let mut op = WriteOp::new().map_err(store)?;
        op.create_exclusive().write_full(&given.encode());
        match op.run(&pool, names::IDENTITY) {
            Ok(_) => {
                pool.unlock(names::SLOTS, "format", &this_process()).map_err(store)?;
                Ok(given)
            }
            Err(Error::Exists { .. }) => {
                let fs_id = identity(place, &pool)?.map_or_else(String::new, |there| there.fs_id_hex());
                Err(StoreError::AlreadyFormatted { dir: place.to_string(), fs_id })
            }
            Err(error) => Err(store(error)),
        }
    }

    /// Reads who the file system there is, without owning anything of it.
    pub fn identify(place: &Place) -> Result<Identity> {
        let (_cluster, pool) = connect(place, false)?;
        Self::identity_there(place, &pool)
    }

    fn identity_there(place: &Place, pool: &Pool) -> Result<Identity> {
        identity(place, pool)?.ok_or_else(|| StoreError::Foreign {
            dir: place.to_string(),
            found: format!("there is no object {} in it", names::IDENTITY),
        })
    }

    /// Opens the file system and owns it as a whole, alone. If its owner is gone and has not said so, it takes as long as its lease to know.
    pub fn open(place: &Place, options: &OpenOptions) -> Result<RadosStore> {
        let made = Self::connected(place, options, this_process(), 0)?;
        let slot = made.slots.take(FILE_SYSTEM).map_err(|error| in_use(place, error))?;
        // Servers look whether somebody is alone when they have said that they are there; this one the other way round.
        refuse_others(&made.slots).map_err(|error| in_use(place, error))?;
        made.table.own(slot)?;
        Ok(made)
    }

    /// Opens it as one of several servers, which find each other by [`Backend::servers`]. As long as a process has it that wants to be alone,
    /// it waits, if `wait` says so. `name`: for people.
    pub fn join(
        place: &Place,
        options: &OpenOptions,
        name: &str,
        wait: &mut dyn FnMut(&StoreError) -> bool,
    ) -> Result<RadosStore> {
        let server = new_number()?;
        let made = Self::connected(place, options, name.to_owned(), server)?;
        made.slots.take(&of_server(server))?;
        while let Err(error) = refuse_alone(&made.slots) {
            match in_use(place, error) {
                error @ StoreError::InUse { .. } if wait(&error) => std::thread::sleep(options.lease / 8),
                error => return Err(error),
            }
        }
        let member = Arc::new(Member {
            pool: made.pool.clone(),
            slots: made.slots.clone(),
            ranks: made.ranks.clone(),
            table: made.table.clone(),
            server,
            slot: OnceLock::new(),
        });
        Ok(RadosStore { member: Some(member), ..made })
    }

    /// Owns nothing yet.
    fn connected(place: &Place, options: &OpenOptions, name: String, server: u64) -> Result<RadosStore> {
        let (cluster, pool) = connect(place, options.refuse_full)?;
        rights::check(&cluster)?;
        let identity = Self::identity_there(place, &pool)?;
        let files = self::pool(&cluster, place, &format!("{}.data", place.namespace))?;
        let files = Arc::new(files.refusing_when_full());
        let room = if options.refuse_full {
            None
        } else {
            let pool = self::pool(&cluster, place, &place.namespace)?;
            Some(Arc::new(Room::new(pool.refusing_when_full())))
        };
        let slots = Arc::new(Slots::new(&cluster, &pool, room.clone(), options.lease, name, server)?);
        let shared = Arc::new(Shared::open(&pool, options.range_keys, &slots)?);
        let table = Arc::new(RadosTable::new(shared.clone()));
        let blobs = Arc::new(RadosBlobs::new(files.clone(), Some(slots.clone())));
        let clients = Arc::new(RadosClients::new(place, files));
        let ranks = Arc::new(Ranks(Mutex::default()));
        let space = Arc::new(Space::new(cluster, &place.pool));
        Ok(RadosStore { clients, pool, identity, slots, shared, table, blobs, ranks, room, space, member: None })
    }

    fn rank<T>(&self, rank: u32, what: impl FnOnce(&mut Rank) -> Result<T>) -> Result<T> {
        let mut ranks = self.ranks.0.lock().unwrap_or_else(PoisonError::into_inner);
        let rank = match ranks.entry(rank) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(Rank { log: Arc::new(RadosLog::open(&self.pool, &self.slots, rank)?), table: None })
            }
        };
        what(rank)
    }

    fn owned(&self, rank: u32) -> Result<Arc<RadosTable>> {
        self.rank(rank, |rank| {
            if let Some(table) = &rank.table {
                return Ok(table.clone());
            }
            let slot = rank.log.own()?.clone();
            let table = Arc::new(RadosTable::new(self.shared.clone()));
            table.own(slot)?;
            rank.table = Some(table.clone());
            Ok(table)
        })
    }
}

/// The same error, of the file system and not of what is put down in it.
fn in_use(place: &Place, error: StoreError) -> StoreError {
    match error {
        StoreError::InUse { owner, .. } => StoreError::InUse { dir: place.to_string(), owner },
        error => error,
    }
}

/// This process, for people.
pub fn this_process() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_else(|_| "an unknown host".into());
    format!("process {} on {}", std::process::id(), host.trim())
}

fn random_identity() -> Result<Identity> {
    let mut bytes = [0; 32];
    let read =
        std::fs::File::open("/dev/urandom").and_then(|mut file| std::io::Read::read_exact(&mut file, &mut bytes));
    read.map_err(|error| StoreError::from_io("/dev/urandom", &error))?;
    let (fs_id, hash_key) = bytes.split_at(16);
    Ok(Identity::new(fs_id.try_into().expect("16 bytes"), hash_key.try_into().expect("16 bytes")))
}

impl Backend for RadosStore {
    fn identity(&self) -> Identity {
        self.identity
    }

    fn table(&self) -> Arc<dyn Table> {
        self.table.clone()
    }

    fn table_of(&self, rank: u32) -> Result<Arc<dyn Table>> {
        Ok(self.owned(rank)?)
    }

    fn own(&self, rank: u32) -> Result<()> {
        self.owned(rank).map(drop)
    }

    fn lease(&self) -> Option<Arc<dyn Lease>> {
        Some(self.slots.lease())
    }

    fn full(&self) -> Option<Arc<AtomicBool>> {
        self.room.as_ref().map(|room| room.is_full())
    }

    fn servers(&self) -> Option<Arc<dyn Servers>> {
        self.member.clone().map(|member| member as Arc<dyn Servers>)
    }

    fn clients(&self) -> Option<Arc<dyn Clients>> {
        Some(self.clients.clone())
    }

    fn blobs(&self) -> Arc<dyn Blobs> {
        self.blobs.clone()
    }

    fn log_dir(&self, rank: u32) -> Result<Arc<dyn LogDir>> {
        self.rank(rank, |rank| Ok(rank.log.clone() as Arc<dyn LogDir>))
    }

    fn ranks(&self) -> Result<Vec<u32>> {
        RadosLog::ranks(&self.pool)
    }

    fn statfs(&self) -> Result<StatFs> {
        self.space.statfs()
    }

    fn close(&self) -> Result<()> {
        self.shared.note_sizes()
    }
}
