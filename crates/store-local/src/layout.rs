//! The data directory: its names, its identity file, its lock. Not what lies in its parts.

use std::fs::{self, File, Permissions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use loligo_store::{Finding, Identity, Result, StoreError};
use rustix::fs::FlockOperation;

use crate::files::{self, named};
use crate::objects;

const IDENTITY: &str = "loligo.id";
const LOCK: &str = "lock";

/// Options of making a data directory.
#[derive(Debug, Clone, Default)]
pub struct FormatOptions {
    /// The identity to give; by default a random one.
    pub identity: Option<Identity>,
}

/// Paths under a data directory.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) dir: PathBuf,
}

impl Layout {
    pub(crate) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_path_buf() }
    }

    pub(crate) fn identity(&self) -> PathBuf {
        self.dir.join(IDENTITY)
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.dir.join(LOCK)
    }

    pub(crate) fn epochs(&self) -> PathBuf {
        self.dir.join("epochs")
    }

    pub(crate) fn reserve(&self) -> PathBuf {
        self.dir.join("reserve")
    }

    pub(crate) fn strays(&self) -> PathBuf {
        self.dir.join("strays")
    }

    pub(crate) fn marks(&self) -> PathBuf {
        self.dir.join("marks")
    }

    pub(crate) fn snapshot(&self) -> PathBuf {
        self.dir.join("snapshot")
    }

    pub(crate) fn table(&self) -> PathBuf {
        self.dir.join("table")
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.dir.join("journal")
    }

    pub(crate) fn objects(&self) -> PathBuf {
        self.dir.join("objects")
    }

    /// Makes the directory (parents excepted) into an empty file system. A formatting that was cut
    /// off can be made again: the identity comes last.
    pub(crate) fn format(&self, options: &FormatOptions) -> Result<Identity> {
        self.refuse_inside()?;
        files::make_dir(&self.dir)?;
        if let Some(there) = self.read_identity()? {
            return Err(StoreError::AlreadyFormatted { dir: self.name(), fs_id: there.fs_id_hex() });
        }
        self.refuse_foreign_content()?;
        fs::set_permissions(&self.dir, Permissions::from_mode(0o700)).map_err(|e| named(&self.dir, &e))?;
        let _lock = self.take_lock()?;
        let identity = match options.identity {
            Some(identity) => identity,
            None => random_identity()?,
        };
        objects::Epochs::format(&self.epochs())?;
        files::replace(&self.identity(), &identity.encode())?;
        Ok(identity)
    }

    /// Refuses a directory inside of a data directory: it is that one's. A snapshot is, and shares files with it.
    pub(crate) fn refuse_inside(&self) -> Result<()> {
        // Of a directory that is not there yet, the nearest one above it that is.
        let path = std::path::absolute(&self.dir).map_err(|e| named(&self.dir, &e))?;
        let Some(full) = path.ancestors().find_map(|above| fs::canonicalize(above).ok()) else { return Ok(()) };
        let is_there = path.exists();
        match full.ancestors().skip(usize::from(is_there)).find(|above| above.join(IDENTITY).is_file()) {
            Some(above) => {
                let found = format!("it is inside of the data directory {}", above.display());
                Err(StoreError::Foreign { dir: self.name(), found })
            }
            None => Ok(()),
        }
    }

    /// The identity of a formatted directory.
    pub(crate) fn identify(&self) -> Result<Identity> {
        if !self.dir.is_dir() {
            return Err(StoreError::NotFound { what: format!("the data directory {}", self.name()) });
        }
        match self.read_identity()? {
            Some(identity) => Ok(identity),
            None => Err(StoreError::Foreign { dir: self.name(), found: format!("there is no file {IDENTITY} in it") }),
        }
    }

    /// True if the directory was opened to be written before: each such opening makes the files that it lacks.
    pub(crate) fn was_opened(&self) -> bool {
        objects::Epochs::openings(&self.epochs()) > 0
    }

    /// True if a file is missing that each opening to write makes.
    pub(crate) fn lacks(&self, path: &Path) -> bool {
        !path.exists() && self.was_opened()
    }

    /// The finding that a file is missing which each opening to write makes. A snapshot was never opened so.
    pub(crate) fn missing(&self, path: &Path, meaning: &str) -> Option<Finding> {
        let is_missing = self.lacks(path) && self.refuse_inside().is_ok();
        let remedy = "if nobody knows who removed it, go back to a copy (loligo copy); the next start makes it anew of what is there, and says so in its log";
        is_missing.then(|| Finding::wrong(format!("{}: {meaning}", path.display()), remedy))
    }

    /// Becomes the owner of the directory until what is returned is dropped.
    pub(crate) fn take_lock(&self) -> Result<DirLock> {
        let path = self.lock();
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|e| named(&path, &e))?;
        if let Err(e) = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            if e == rustix::io::Errno::WOULDBLOCK {
                return Err(StoreError::InUse { dir: self.name(), owner: owner_of(&mut file) });
            }
            return Err(named(&path, &e.into()));
        }
        // Who owns it is only told to a person, so a disk too full for it is no reason to fail.
        let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(DirLock(file))
    }

    /// Refuses a data directory of which a part is missing: the first opening makes all parts before the first file of the table.
    pub(crate) fn refuse_lost_parts(&self) -> Result<()> {
        self.refuse_lost_table()?;
        if !self.table().join("CURRENT").exists() {
            return Ok(());
        }
        let lost = |part: &Path, detail: String| Err(StoreError::Corrupt { place: part.display().to_string(), detail });
        if let Some(part) = [self.journal(), self.objects()].iter().find(|part| !part.is_dir()) {
            let detail = "the directory is missing: mount its disk, or go back to a copy of the data directory";
            return lost(part, detail.to_string());
        }
        let paths = objects::Paths::new(self.objects());
        if paths.is_emptied()? {
            let detail = format!(
                "the directory is empty, and objects of file data were in it: mount its disk, or go back to a copy of the data directory; to go on without them remove {}",
                paths.buckets().display()
            );
            return lost(&self.objects(), detail);
        }
        Ok(())
    }

    /// A table without its first file is damaged, and so is a directory that has journals and no table: neither is new. RocksDB would begin an empty
    /// table, and remove the files of the old one with the next opening. Called before anything is opened, and so before anything is written.
    pub(crate) fn refuse_lost_table(&self) -> Result<()> {
        let (table, journal) = (self.table(), self.journal());
        if table.join("CURRENT").exists() {
            return Ok(());
        }
        let lost = |detail: &str| {
            Err(StoreError::Corrupt { place: format!("the table {}", table.display()), detail: detail.to_string() })
        };
        let of_rows = |name: &str| name.starts_with("MANIFEST-") || name.ends_with(".sst") || name.ends_with(".log");
        let files = |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten().collect::<Vec<_>>();
        if files(&table).iter().any(|file| file.file_name().to_str().is_some_and(of_rows)) {
            return lost("its file CURRENT is missing, and others are there");
        }
        if files(&journal).iter().any(|rank| !files(&rank.path()).is_empty()) {
            return lost("it is missing, and journals are there; without it only a copy of the data directory helps");
        }
        Ok(())
    }

    /// The same for one who writes nothing: also of a directory that cannot be written.
    pub(crate) fn take_lock_to_look(&self) -> Result<DirLock> {
        match self.take_lock() {
            Err(StoreError::ReadOnly { .. }) => {}
            taken => return taken,
        }
        let path = self.lock();
        let mut file = File::open(&path).map_err(|e| named(&path, &e))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(DirLock(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => {
                Err(StoreError::InUse { dir: self.name(), owner: owner_of(&mut file) })
            }
            Err(e) => Err(named(&path, &e.into())),
        }
    }

    fn name(&self) -> String {
        self.dir.display().to_string()
    }

    fn read_identity(&self) -> Result<Option<Identity>> {
        let path = self.identity();
        let mut bytes = Vec::new();
        match File::open(&path).and_then(|file| file.take(4096).read_to_end(&mut bytes)) {
            Ok(_) => Identity::decode(&self.name(), &bytes).map(Some),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(named(&path, &e)),
        }
    }

    fn refuse_foreign_content(&self) -> Result<()> {
        // The configuration may be there before the file system is.
        const CUT_OFF: [&str; 7] = [LOCK, "loligo.tmp", "epochs", "epochs.tmp", "lost+found", "loligo.toml", "."];
        for entry in fs::read_dir(&self.dir).map_err(|e| named(&self.dir, &e))? {
            let name = entry.map_err(|e| named(&self.dir, &e))?.file_name();
            if !CUT_OFF.iter().any(|known| name == *known) {
                let found = format!("it is not empty and holds {}", name.to_string_lossy());
                return Err(StoreError::Foreign { dir: self.name(), found });
            }
        }
        Ok(())
    }
}

fn owner_of(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.rewind().and_then(|()| file.take(32).read_to_string(&mut text));
    match (read, text.trim().parse::<u32>()) {
        (Ok(_), Ok(pid)) => format!("process {pid}"),
        _ => "of unknown process id".to_string(),
    }
}

fn random_identity() -> Result<Identity> {
    let path = Path::new("/dev/urandom");
    let mut bytes = [0; 32];
    File::open(path).and_then(|mut file| file.read_exact(&mut bytes)).map_err(|e| named(path, &e))?;
    let (fs_id, hash_key) = bytes.split_at(16);
    Ok(Identity::new(fs_id.try_into().expect("16 bytes"), hash_key.try_into().expect("16 bytes")))
}

/// The right to a directory.
#[derive(Debug)]
pub(crate) struct DirLock(File);

impl Drop for DirLock {
    fn drop(&mut self) {
        // Closing alone would not do: a process that this one forked in this moment, and that has not yet executed its
        // program, holds the same open file, and the lock with it.
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}
