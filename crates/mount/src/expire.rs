//! Telling the kernel of single names that they are to be looked up again, on a thread that can be left behind.
//!
//! For each of them the kernel takes the directory's lock. A caller may hold that who waits for the very change for which the names are asked back, so
//! whoever wants them dropped must not wait for the lock. If the thread that does is stuck, it is left to itself: it goes on and ends when
//! that caller has its answer, and until then has held up nobody but itself.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use loligo_fuse::{Device, Notify};

use crate::table::guard;
use crate::threads::{self, Doing, doing};

/// Interval at which the progress of the thread is checked.
const LOOK: Duration = Duration::from_millis(1);
/// It is stuck if it was found blocked at the same name so often in a row.
const LOOKS: u32 = 3;
/// So many may be left behind at a time.
const LEFT_MAX: usize = 8;

/// Names of one directory.
struct Job {
    parent: u64,
    names: Vec<Box<[u8]>>,
}

/// State shared by a thread and those that wait for it.
#[derive(Default)]
struct Progress {
    /// Names that it has told of.
    told: AtomicUsize,
    /// Nobody waits for it any more.
    left: AtomicBool,
}

struct Worker {
    jobs: Sender<Job>,
    done: Receiver<()>,
    tid: u32,
    progress: Arc<Progress>,
}

/// The thread, which is started when it is first needed.
#[derive(Default)]
pub(crate) struct Expirer {
    worker: Mutex<Option<Worker>>,
    /// Threads that were left behind and have not ended yet.
    left: Arc<AtomicUsize>,
}

impl Expirer {
    /// Tells the kernel that names of a directory are to be looked up again. `false`: it was not told of all of them, because somebody has the
    /// directory locked.
    pub fn expire(&self, device: &Device, parent: u64, names: Vec<Box<[u8]>>) -> bool {
        let mut slot = guard(&self.worker);
        let worker = match slot.take() {
            Some(worker) => worker,
            None if self.left.load(Ordering::Acquire) >= LEFT_MAX => return false,
            None => match Worker::start(device.clone(), self.left.clone()) {
                Ok(worker) => worker,
                Err(error) => {
                    tracing::warn!(%error, "no thread to drop names from the kernel's cache with: it drops all of them instead");
                    return false;
                }
            },
        };
        let done = worker.tell(Job { parent, names });
        if done {
            *slot = Some(worker);
        } else {
            self.left.fetch_add(1, Ordering::AcqRel);
            worker.progress.left.store(true, Ordering::Release);
        }
        done
    }
}

impl Worker {
    fn start(device: Device, left: Arc<AtomicUsize>) -> std::io::Result<Worker> {
        let (jobs, given) = mpsc::channel::<Job>();
        let (tell, done) = mpsc::channel();
        let (name, named) = mpsc::channel();
        let progress = Arc::new(Progress::default());
        let shared = progress.clone();
        std::thread::Builder::new().name("lol-expire".into()).spawn(move || {
            let _ = name.send(threads::own());
            while let Ok(Job { parent, names }) = given.recv() {
                for name in names {
                    if shared.left.load(Ordering::Acquire) {
                        break;
                    }
                    device.notify(Notify::Entry { parent, name: &name });
                    shared.told.fetch_add(1, Ordering::Release);
                }
                let _ = tell.send(());
            }
            if shared.left.load(Ordering::Acquire) {
                left.fetch_sub(1, Ordering::AcqRel);
            }
        })?;
        let tid = named.recv().map_err(|_| std::io::Error::other("it ended at once"))?;
        Ok(Worker { jobs, done, tid, progress })
    }

    /// Gives it something to do. Whether it was done.
    fn tell(&self, job: Job) -> bool {
        if self.jobs.send(job).is_err() {
            return false;
        }
        let (mut told, mut blocked) = (self.progress.told.load(Ordering::Acquire), 0);
        loop {
            match self.done.recv_timeout(LOOK) {
                Ok(()) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
                Err(RecvTimeoutError::Timeout) => {}
            }
            let now = self.progress.told.load(Ordering::Acquire);
            // A machine may be too busy to let it run; what is not shown may be stuck.
            let stuck = now == told && matches!(doing(self.tid), Doing::Blocked | Doing::Unknown | Doing::Gone);
            (told, blocked) = (now, if stuck { blocked + 1 } else { 0 });
            if blocked >= LOOKS {
                return false;
            }
        }
    }
}
