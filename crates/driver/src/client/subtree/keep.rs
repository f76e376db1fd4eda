//! The file with a decoupled subtree's changes on this machine's disk ("local persist", Cudele §6.2). Not in it: the form of the file
//! (`form.rs`), nor the merge of what it holds.
//!
//! The file holds the owner's number, with which anybody may go on in its name: it is its user's alone to read. As long as its owner is at
//! work it holds a lock on the file (`flock`), so that nobody else merges it meanwhile ([`super::Kept::claim`]).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use loligo_journal::FsId;
use loligo_subtree::Group;
use loligo_types::DecoupledRecord;
use rustix::fs::FlockOperation;

use super::Subtree;
use super::form::{Growing, Sink};

/// The file, as it grows.
pub(in crate::client) struct Keeper {
    path: PathBuf,
    end: End,
    form: Growing,
}

/// Where it grows.
struct End {
    file: File,
    offset: u64,
    /// The seal, which proves that all before the offset is durable. It may stand there already; if it could not be written, it is with
    /// what follows.
    seal: Vec<u8>,
}

impl Sink for End {
    type Error = io::Error;

    fn take(&mut self, bytes: Vec<u8>) -> io::Result<()> {
        let mut all = std::mem::take(&mut self.seal);
        let bytes = if all.is_empty() {
            bytes
        } else {
            all.extend(bytes);
            all
        };
        self.file.write_all_at(&bytes, self.offset)?;
        self.offset += bytes.len() as u64;
        Ok(())
    }
}

impl Keeper {
    pub(in crate::client) fn begin(path: &Path, fs: FsId, record: &DecoupledRecord) -> io::Result<Keeper> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        // A file system without locks keeps it all the same.
        let _ = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
        let (form, bytes) = Growing::begin(fs, record)?;
        let mut keeper = Keeper { path: path.into(), end: End { file, offset: 0, seal: Vec::new() }, form };
        keeper.end.take(bytes)?;
        keeper.sync()?;
        sync_name(path)?;
        Ok(keeper)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.end.file.sync_data()?;
        self.end.seal = self.form.seal();
        // It need not be durable, nor be there: then damage of the last records looks like a write that was cut off.
        let _ = self.end.file.write_all_at(&self.end.seal, self.end.offset);
        Ok(())
    }

    /// Adds what is not in it yet, and makes it durable.
    pub(in crate::client) fn keep(&mut self, record: &DecoupledRecord, groups: &[Group]) -> io::Result<()> {
        let before = self.end.offset;
        self.form.add_new(record, groups, &mut self.end)?;
        if self.end.offset > before { self.sync() } else { Ok(()) }
    }

    /// The oldest group is merged, and not counted any more.
    pub(in crate::client) fn one_is_merged(&mut self) {
        self.form.one_is_merged();
    }

    /// The same in the place of one that could not be written to: all that is outstanding goes into a new file, which then takes its place.
    pub(in crate::client) fn anew(
        path: &Path,
        fs: FsId,
        record: &DecoupledRecord,
        groups: &[Group],
    ) -> io::Result<Keeper> {
        let mut name = path.as_os_str().to_owned();
        name.push(".new");
        let new = PathBuf::from(name);
        match std::fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut keeper = Keeper::begin(&new, fs, record)?;
        keeper.keep(record, groups)?;
        std::fs::rename(&new, path)?;
        sync_name(path)?;
        keeper.path = path.into();
        Ok(keeper)
    }

    /// Keeps what is outstanding: in the file that there is, in a new one in the place of one that could not be written to, or in the first one, which must
    /// not be there. What there is then, and the file that could not be written to.
    pub(in crate::client) fn go_on(
        kept: Option<Keeper>,
        broken: Option<PathBuf>,
        path: &Path,
        fs: FsId,
        record: &DecoupledRecord,
        groups: &[Group],
    ) -> (Option<Keeper>, Option<PathBuf>, io::Result<()>) {
        let (begun, file) = match (kept, broken) {
            (Some(keeper), _) => {
                let file = keeper.path.clone();
                (Ok(keeper), file)
            }
            (None, Some(file)) if file == *path => (Keeper::anew(&file, fs, record, groups), file),
            (None, broken) => match Keeper::begin(path, fs, record) {
                // It is somebody else's.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return (None, broken, Err(error)),
                begun => (begun, path.to_path_buf()),
            },
        };
        match begun.and_then(|mut keeper| keeper.keep(record, groups).map(|()| keeper)) {
            Ok(keeper) => (Some(keeper), None, Ok(())),
            // After a failed write the file is not written to again.
            Err(error) => (None, Some(file), Err(error)),
        }
    }

    /// All of it is merged.
    pub(in crate::client) fn remove(self) {
        // The record says that the rest of the file is merged: it does no harm.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The name of a file is there after a crash of the machine, too.
fn sync_name(path: &Path) -> io::Result<()> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(dir)?.sync_all()
}

impl Subtree {
    /// Keeps all that is outstanding in a file of this machine, durably: the first time it makes it, and refuses one that is there; later
    /// it adds what is new, whatever path is given. After a crash of this process: [`super::Kept::read`], [`Subtree::resume`],
    /// [`Subtree::merge_kept`].
    ///
    /// After an error it is not known what the file holds; nothing is lost here, and it can be merged, or kept again: then all of it goes into a new file,
    /// which takes the place of that one. An error of [`loligo_types::FsError::Stale`] says that
    /// the subtree was taken from this client. All is in the file then, to be looked into (`loligo journal inspect`).
    pub fn persist(&mut self, path: impl AsRef<Path>) -> io::Result<()> {
        self.nothing_left_behind().map_err(io::Error::other)?;
        let (record, groups) = (self.machine.record().clone(), self.machine.groups());
        let (kept, broken, fs) = (self.kept.take(), self.broken.take(), self.client.welcome().fs_id);
        let (kept, broken, result) = Keeper::go_on(kept, broken, path.as_ref(), fs, &record, &groups);
        (self.kept, self.broken) = (kept, broken);
        result?;
        self.is_mine().map_err(io::Error::other)
    }
}
