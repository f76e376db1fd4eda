//! Descriptors kept for the store: an open that fails because the process or the system has none left (EMFILE, ENFILE) takes a spare one, and
//! then waits for a moment. Not a limit on what others open: a server bounds its connections (docs/reliability.md).

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

/// Descriptors that are kept. Threads of the store that are in an open at one time are fewer.
const SPARES: usize = 16;
/// Time for which an open waits for a descriptor when the spares are in use, too.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(5);

/// Of the whole process, as descriptors are.
static KEPT: Mutex<Vec<OwnedFd>> = Mutex::new(Vec::new());
/// Number of spares, to look at without the lock.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Something that keeps descriptors open which it could do without.
pub(crate) trait Keeps: Send + Sync {
    /// Closes what is not in use.
    fn close_some(&self);
}

/// All of these in the process.
static KEEPERS: Mutex<Vec<Weak<dyn Keeps>>> = Mutex::new(Vec::new());

/// From now on this is asked when there is no descriptor, not even a spare one. It must not be in an open then that waits for it.
pub(crate) fn ask(keeper: &Arc<impl Keeps + 'static>) {
    let mut all = KEEPERS.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|one| one.strong_count() > 0);
    let keeper: Arc<dyn Keeps> = keeper.clone();
    all.push(Arc::downgrade(&keeper));
}

fn ask_all() {
    let all: Vec<_> = KEEPERS.lock().unwrap_or_else(PoisonError::into_inner).iter().filter_map(Weak::upgrade).collect();
    all.iter().for_each(|keeper| keeper.close_some());
    fill();
}

/// True if a call failed because there is no descriptor for its result.
pub(crate) fn is_short(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::MFILE | Errno::NFILE))
}

/// Opens something. Without a free descriptor it takes a spare one; without that those are closed that are not in use, and it tries again for
/// [`PATIENCE`]. The error after that is the call's.
pub(crate) fn opened<T>(open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    opened_within(PATIENCE, open, is_short)
}

/// The same with another patience, and with errors of another type.
pub(crate) fn opened_within<T, E>(
    patience: Duration,
    mut open: impl FnMut() -> Result<T, E>,
    is_short: impl Fn(&E) -> bool,
) -> Result<T, E> {
    match open() {
        Err(error) if is_short(&error) => {}
        done => {
            if COUNT.load(Ordering::Relaxed) < spares() {
                fill();
            }
            return done;
        }
    }
    let until = Instant::now() + patience;
    loop {
        if take().is_none() {
            ask_all();
            drop(take());
        }
        match open() {
            Err(error) if is_short(&error) && Instant::now() < until => thread::sleep(PAUSE),
            done => return done,
        }
    }
}

/// A spare one, which is free as soon as it is dropped.
fn take() -> Option<OwnedFd> {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let one = kept.pop();
    COUNT.store(kept.len(), Ordering::Relaxed);
    one
}

/// Sets aside what is missing, as far as there is any. Each is a file of its own: one that was duplicated frees nothing of the system's table.
/// How many are kept: a command that may have few files open needs them itself.
fn spares() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
    SPARES.min(usize::try_from(limit / 16).unwrap_or(SPARES))
}

fn fill() {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    while kept.len() < spares() {
        let Ok(one) = eventfd(0, EventfdFlags::CLOEXEC) else { break };
        kept.push(one);
    }
    COUNT.store(kept.len(), Ordering::Relaxed);
}
