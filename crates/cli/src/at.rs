//! Where the store of a file system is: in the data directory itself, or in a Ceph cluster that a file in there names. In the second case
//! the directory holds only what belongs to a server on this machine: sockets, settings, the log.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use loligo_store::{Backend, Identity, MAX_OBJECT_LEN, StoreError};
use loligo_store_local::{FormatOptions as LocalFormat, LocalStore, OpenOptions as LocalOptions};
use loligo_store_rados::{FormatOptions as RadosFormat, OpenOptions as RadosOptions, Place, RadosStore};
use serde::{Deserialize, Serialize};

use crate::args::StoreArgs;
use crate::output::{Context, Failure};
use crate::service::descriptors::Descriptors;

/// Newest form of the file that is read, and the one that is written.
const VERSION: u32 = 1;
/// Its name in the data directory.
const FILE: &str = "loligo.store";
/// Name space in a pool, if none is said.
const NAMESPACE: &str = "loligo";

/// A store, open or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Store {
    /// In a directory of this machine.
    Local(PathBuf),
    /// In a pool of a Ceph cluster.
    Rados {
        /// Directory of this machine for its own files.
        data: PathBuf,
        /// Where it is.
        place: Place,
    },
}

/// Options to open a store with; those of the other kind of store have no effect.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// Memory for the table's cache, bytes.
    pub table_cache: usize,
    /// Bytes kept in reserve on this machine's disk for the time when it is full; `None`: as its size wants it.
    pub reserve: Option<u64>,
    /// Lease: so long a server may be silent before another one may take over what it owns.
    pub lease: Duration,
    /// A store in a cluster that is full refuses everything that needs room; otherwise only file data.
    pub refuse_full: bool,
    /// It is a snapshot of a data directory, of which nothing is written.
    pub snapshot: bool,
    /// Nothing is written: a data directory is as it was, and a snapshot in it stays.
    pub looks: bool,
}

impl Default for Opening {
    fn default() -> Self {
        let (table_cache, lease) = (LocalOptions::default().block_cache_bytes, RadosOptions::default().lease);
        Opening { table_cache, reserve: None, lease, refuse_full: false, snapshot: false, looks: false }
    }
}

impl Opening {
    /// For a command that serves nobody: it ends where the store is full.
    pub fn offline() -> Opening {
        Opening { refuse_full: true, ..Opening::default() }
    }

    /// The same for one that changes nothing, or does if told to.
    pub fn offline_to(change: bool) -> Opening {
        Opening { looks: !change, ..Opening::offline() }
    }
}

/// Content of the file `loligo.store`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Told {
    version: u32,
    store: String,
    conf: String,
    user: String,
}

impl Store {
    /// The one that a data directory belongs to.
    pub fn of(data: &Path) -> Result<Store, Failure> {
        let path = data.join(FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
                return Ok(Store::Local(data.to_path_buf()));
            }
            Err(error) => return Err(Failure::new(format!("{}: {error}", path.display()))),
        };
        let unreadable = |why: String| {
            Failure::new(format!("{}: {why}", path.display())).remedy(
                "it says where the store of this data directory is: remove it, and name the store again with --store",
            )
        };
        let told: Told = toml::from_str(&text).map_err(|error| unreadable(error.message().to_string()))?;
        if told.version > VERSION {
            return Err(unreadable(format!("it has version {}, this program knows {VERSION}", told.version)));
        }
        let (pool, namespace) =
            parse(&told.store).ok_or_else(|| unreadable(format!("{:?} names no store", told.store)))?;
        let place = Place { conf: told.conf, user: told.user, pool, namespace };
        Ok(Store::Rados { data: data.to_path_buf(), place })
    }

    /// The one of a data directory, or of the server whose mount holds the path.
    pub fn of_path(path: &Path) -> Result<Store, Failure> {
        Store::of(&crate::target::data_of(path)?)
    }

    /// The one that a command names, with the directory of this machine for it. Where the directory says another one, that is an error.
    pub fn named(args: &StoreArgs) -> Result<Store, Failure> {
        let Some(text) = &args.store else {
            let data =
                args.data.as_deref().ok_or_else(|| Failure::usage("no store is named").remedy("give --data DIR"))?;
            crate::target::refuse_mount(data)?;
            return Store::of(&crate::service::data_dir(data)?);
        };
        let place = place_of(text, &args.conf, &args.ceph_user)?;
        let data = match &args.data {
            Some(data) => data.clone(),
            None => default_dir(&place.pool, &place.namespace)?,
        };
        let data = crate::service::data_dir(&data)?;
        match Store::of(&data)? {
            Store::Rados { place: there, .. } if there != place => Err(Failure::usage(format!(
                "{} belongs to {there} of {}, as {}",
                data.display(),
                there.conf,
                there.user
            ))
            .remedy(format!("name another directory with --data, or remove {}", data.join(FILE).display()))),
            Store::Local(_) if LocalStore::identify(&data).is_ok() => {
                Err(Failure::usage(format!("{} holds a file system of its own", data.display()))
                    .remedy("name another directory with --data; loligo copy moves a file system"))
            }
            _ => Ok(Store::Rados { data, place }),
        }
    }

    /// The one that a text names alone: `rados:POOL` and so on, without a directory of this machine, or else a data directory.
    pub fn at(text: &str, conf: &Path, user: &str) -> Result<Store, Failure> {
        if text.starts_with("rados:") {
            return Ok(Store::Rados { data: PathBuf::new(), place: place_of(text, conf, user)? });
        }
        Store::of(&crate::service::data_dir(Path::new(text))?)
    }

    /// The directory of this machine.
    pub fn data(&self) -> &Path {
        match self {
            Store::Local(data) | Store::Rados { data, .. } => data,
        }
    }

    /// For people.
    pub fn name(&self) -> String {
        match self {
            Store::Local(data) => data.display().to_string(),
            Store::Rados { place, .. } => place.to_string(),
        }
    }

    /// Makes the directory of this machine say where the store is.
    pub fn put_down(&self) -> Result<(), Failure> {
        let Store::Rados { data, place } = self else { return Ok(()) };
        let path = data.join(FILE);
        let told = Told {
            version: VERSION,
            store: format!("rados:{}/{}", place.pool, place.namespace),
            conf: place.conf.clone(),
            user: place.user.clone(),
        };
        let text = toml::to_string(&told).map_err(|error| Failure::new(error.to_string()))?;
        std::fs::create_dir_all(data).context(|| format!("data directory {}", data.display()))?;
        let new = data.join("loligo.store.new");
        std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &path)).context(|| path.display().to_string())
    }

    /// Identity of the file system there.
    pub fn identify(&self) -> Result<Identity, StoreError> {
        match self {
            Store::Local(data) => LocalStore::identify(data),
            Store::Rados { place, .. } => RadosStore::identify(place),
        }
    }

    /// Refuses a place at which no store can be made, such as one inside of a data directory. Called before directories are made for it.
    pub fn check_place(&self) -> Result<(), StoreError> {
        match self {
            Store::Local(data) => LocalStore::check_place(data),
            Store::Rados { .. } => Ok(()),
        }
    }

    /// Makes an empty one.
    pub fn format(&self) -> Result<Identity, StoreError> {
        self.format_as(None)
    }

    /// Makes an empty one that is this file system, for a copy of it.
    pub fn format_as(&self, identity: Option<Identity>) -> Result<Identity, StoreError> {
        match self {
            Store::Local(data) => LocalStore::format(data, &LocalFormat { identity }),
            Store::Rados { place, .. } => RadosStore::format(place, &RadosFormat { identity }),
        }
    }

    /// The most bytes that one of its objects holds.
    pub fn object_max(&self) -> u64 {
        match self {
            Store::Local(_) => MAX_OBJECT_LEN,
            Store::Rados { .. } => RadosStore::OBJECT_MAX,
        }
    }

    /// Opens it, to own it alone.
    pub fn open(&self, how: Opening) -> Result<Arc<dyn Backend>, StoreError> {
        Ok(match self {
            Store::Local(data) => {
                let Descriptors { tables: open_tables, objects: open_objects, .. } = Descriptors::of_process();
                let options = LocalOptions {
                    block_cache_bytes: how.table_cache,
                    reserve_bytes: how.reserve,
                    open_tables,
                    open_objects,
                    read_only: how.snapshot,
                    looks: how.looks,
                    ..LocalOptions::default()
                };
                Arc::new(LocalStore::open(data, &options)?)
            }
            Store::Rados { place, .. } => {
                let options =
                    RadosOptions { lease: how.lease, refuse_full: how.refuse_full, ..RadosOptions::default() };
                Arc::new(RadosStore::open(place, &options)?)
            }
        })
    }

    /// Opens it to serve it: a store in a cluster together with other servers, which know this one by `name`. As long as a command has it alone,
    /// it waits, if `wait` says so.
    pub fn join(
        &self,
        how: Opening,
        name: &str,
        wait: &mut dyn FnMut(&StoreError) -> bool,
    ) -> Result<Arc<dyn Backend>, StoreError> {
        match self {
            Store::Local(_) => self.open(how),
            Store::Rados { place, .. } => {
                let options =
                    RadosOptions { lease: how.lease, refuse_full: how.refuse_full, ..RadosOptions::default() };
                Ok(Arc::new(RadosStore::join(place, &options, name, wait)?))
            }
        }
    }

    /// Keeps other servers of this machine out of the directory, where the store does not do that itself.
    pub fn lock(&self) -> Result<Option<File>, Failure> {
        let Store::Rados { data, .. } = self else { return Ok(None) };
        let path = data.join("lock");
        let place = || path.display().to_string();
        let file = File::options().create(true).truncate(false).write(true).open(&path).context(place)?;
        match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => {
                Err(Failure::new(format!("another server on this machine has {}", data.display()))
                    .remedy("give this one a directory of its own with --data DIR"))
            }
            Err(error) => Err(Failure::new(format!("{}: {error}", place()))),
        }
    }
}

/// Where a store in a cluster is, in its words.
fn place_of(text: &str, conf: &Path, user: &str) -> Result<Place, Failure> {
    let Some((pool, namespace)) = parse(text) else {
        return Err(Failure::usage(format!("{text:?} names no store")).remedy(
            "as in rados:POOL or rados:POOL/NAMESPACE; a store on this machine's disk is a data directory, as in --data DIR",
        ));
    };
    let conf = std::path::absolute(conf).context(|| format!("Ceph's settings {}", conf.display()))?;
    // Or else the cluster would seem to be out of reach.
    std::fs::File::open(&conf).map_err(|error| {
        Failure::usage(format!("Ceph's settings {}: {error}", conf.display())).remedy(
            "name the cluster's file: --conf FILE; it lists the monitors, and the key of --ceph-user is found by it",
        )
    })?;
    let conf = conf.to_str().ok_or_else(|| Failure::usage("the path of Ceph's settings is not UTF-8"))?.to_string();
    Ok(Place { conf, user: user.to_string(), pool, namespace })
}

/// `rados:POOL` or `rados:POOL/NAMESPACE`.
fn parse(text: &str) -> Option<(String, String)> {
    let rest = text.strip_prefix("rados:")?;
    let (pool, namespace) = rest.split_once('/').unwrap_or((rest, NAMESPACE));
    let is_name = |name: &str| !name.is_empty() && !name.contains(['/', '\0']);
    (is_name(pool) && is_name(namespace)).then(|| (pool.to_string(), namespace.to_string()))
}

/// Where a server keeps what belongs to this machine, if nothing else is said.
fn default_dir(pool: &str, namespace: &str) -> Result<PathBuf, Failure> {
    let name = if namespace == NAMESPACE { pool.to_string() } else { format!("{pool}.{namespace}") };
    if rustix::process::geteuid().is_root() {
        return Ok(Path::new("/var/lib/loligo").join(name));
    }
    let of = |variable: &str| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = of("XDG_STATE_HOME").or_else(|| Some(of("HOME")?.join(".local/state")));
    let base = base.ok_or_else(|| Failure::usage("there is no HOME").remedy("give --data DIR"))?;
    Ok(base.join("loligo").join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(data: &Path, store: Option<&str>) -> StoreArgs {
        StoreArgs {
            data: Some(data.to_path_buf()),
            store: store.map(str::to_string),
            conf: "/dev/null".into(),
            ceph_user: "client.admin".into(),
        }
    }

    #[test]
    fn a_store_is_named_by_pool_and_name_space() {
        assert_eq!(parse("rados:a"), Some(("a".into(), "loligo".into())));
        assert_eq!(parse("rados:a/b"), Some(("a".into(), "b".into())));
        for bad in ["", "a", "rados:", "rados:/b", "rados:a/", "rados:a/b/c", "ceph:a"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_directory_remembers_its_store_and_is_given_to_no_other() {
        let dir = tempfile::tempdir().expect("a directory for the test");
        let data = dir.path().join("state");
        assert_eq!(Store::of(&data).expect("nothing is there"), Store::Local(data.clone()));
        let store = Store::named(&args(&data, Some("rados:pool/fs"))).expect("a store");
        store.put_down().expect("a directory");
        assert_eq!(Store::of(&data).expect("it says so"), store);
        assert_eq!(Store::named(&args(&data, None)).expect("it says so"), store);
        let other = Store::named(&args(&data, Some("rados:other"))).expect_err("another one").to_string();
        assert!(other.contains("rados:pool/fs"), "{other}");
        std::fs::write(data.join(FILE), "version = 9\nstore = \"x\"\nconf = \"\"\nuser = \"\"\n").expect("a file");
        assert!(Store::of(&data).expect_err("newer").to_string().contains("version 9"));
    }

    #[test]
    fn a_data_directory_with_a_file_system_is_no_place_for_another_store() {
        let dir = tempfile::tempdir().expect("a directory for the test");
        let data = dir.path().join("data");
        Store::Local(data.clone()).format().expect("it is empty");
        assert!(Store::named(&args(&data, Some("rados:pool"))).is_err());
    }
}
