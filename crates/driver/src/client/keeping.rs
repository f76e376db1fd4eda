//! The thread that keeps what is outstanding of subtrees which are decoupled for this client's programs on this machine's disk
//! ("local persist", Cudele §6.2): a journal file for each, in one directory. What a file holds is `subtree/keep.rs`'s.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use loligo_subtree::Group;
use loligo_types::{DecoupledRecord, FsError, FsResult};

use super::subtree::Keeper;

/// A job for the thread.
enum Job {
    Keep { token: u64, fs: [u8; 16], record: Box<DecoupledRecord>, groups: Vec<Group> },
    Merged { epoch: u64, all: bool },
    Lost { epoch: u64 },
}

/// The thread's file for a subtree.
struct Made {
    path: PathBuf,
    /// `None`: a write has failed. It is not written to again, and what it holds still counts.
    keeper: Option<Keeper>,
}

/// Sends jobs to the thread, which ends when this is dropped; [`Keeping::finish`] waits for that.
pub(crate) struct Keeping {
    jobs: Sender<Job>,
    thread: JoinHandle<()>,
}

/// The file of a subtree.
pub fn path_of(dir: &Path, fs: [u8; 16], epoch: u64) -> PathBuf {
    let fs: String = fs[..4].iter().map(|byte| format!("{byte:02x}")).collect();
    dir.join(format!("subtree-{fs}-{epoch}.journal"))
}

impl Keeping {
    /// Starts it. `kept` hears what became of each; `false`: nobody listens any more.
    pub(crate) fn start<F>(dir: PathBuf, kept: F) -> io::Result<Keeping>
    where
        F: Fn(u64, FsResult<Box<str>>) -> bool + Send + 'static,
    {
        let (jobs, todo) = mpsc::channel();
        let thread = thread::Builder::new().name("lol-keep".into()).spawn(move || work(&dir, &todo, &kept))?;
        Ok(Keeping { jobs, thread })
    }

    /// Waits until all jobs are done: the journal of a directory that was taken from this client is written after its calls have failed.
    pub(crate) fn finish(self) {
        drop(self.jobs);
        // A panic of the thread is in the log.
        let _ = self.thread.join();
    }

    pub(crate) fn keep(&self, token: u64, fs: [u8; 16], record: Box<DecoupledRecord>, groups: Vec<Group>) {
        // Without the thread, which has panicked, the task waits until the client stops.
        let _ = self.jobs.send(Job::Keep { token, fs, record, groups });
    }

    pub(crate) fn merged(&self, epoch: u64, all: bool) {
        let _ = self.jobs.send(Job::Merged { epoch, all });
    }

    /// The subtree was taken from this client: the file stays, and is locked no more.
    pub(crate) fn lost(&self, epoch: u64) {
        let _ = self.jobs.send(Job::Lost { epoch });
    }
}

fn work(dir: &Path, jobs: &Receiver<Job>, kept: &dyn Fn(u64, FsResult<Box<str>>) -> bool) {
    let mut made: BTreeMap<u64, Made> = BTreeMap::new();
    while let Ok(job) = jobs.recv() {
        match job {
            Job::Keep { token, fs, record, groups } => {
                let result = keep(dir, &mut made, fs, &record, &groups);
                if let Err(error) = &result {
                    tracing::error!(dir = %dir.display(), %error, "what was done in a decoupled subtree cannot be kept");
                }
                let file = || path_of(dir, fs, record.epoch).display().to_string().into();
                if !kept(token, result.map(|()| file()).map_err(|error| errno(&error))) {
                    return;
                }
            }
            Job::Merged { epoch, all: true } => {
                match made.remove(&epoch) {
                    Some(Made { keeper: Some(keeper), .. }) => keeper.remove(),
                    // The record says that the rest of the file is merged: it does no harm.
                    Some(Made { path, keeper: None }) => _ = std::fs::remove_file(path),
                    None => {}
                }
            }
            Job::Lost { epoch } => match made.remove(&epoch) {
                Some(Made { path, .. }) => tracing::warn!(
                    "a decoupled directory was taken from this mount: its lease was over, or root has given it up. What was not merged is \
                     in {path}. Look into it: loligo journal inspect {path}",
                    path = path.display()
                ),
                None => tracing::warn!(
                    "a decoupled directory was taken from this mount: its lease was over, or root has given it up. What was not merged is lost"
                ),
            },
            Job::Merged { epoch, all: false } => {
                let keeper = made.get_mut(&epoch).and_then(|made| made.keeper.as_mut());
                keeper.into_iter().for_each(Keeper::one_is_merged);
            }
        }
    }
}

fn keep(
    dir: &Path,
    made: &mut BTreeMap<u64, Made>,
    fs: [u8; 16],
    record: &DecoupledRecord,
    groups: &[Group],
) -> io::Result<()> {
    let path = path_of(dir, fs, record.epoch);
    let (kept, broken) = match made.remove(&record.epoch) {
        Some(Made { path, keeper: None }) => (None, Some(path)),
        Some(Made { keeper, .. }) => (keeper, None),
        None => {
            std::fs::create_dir_all(dir)?;
            (None, None)
        }
    };
    let (keeper, broken, result) = Keeper::go_on(kept, broken, &path, fs, record, groups);
    if keeper.is_some() || broken.is_some() {
        // It is this thread's to remove.
        made.insert(record.epoch, Made { path, keeper });
    }
    result
}

pub(super) fn errno(error: &io::Error) -> FsError {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => FsError::NoSpace,
        io::ErrorKind::PermissionDenied => FsError::Access,
        io::ErrorKind::AlreadyExists => FsError::Exists,
        _ => FsError::Io,
    }
}
