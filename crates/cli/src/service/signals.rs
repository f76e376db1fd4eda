//! Being told to stop, and being told again. Not here: stopping.

use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use loligo_store::Lease;

use super::notify;
use crate::output::note;

/// The signals that ask for a clean end: TERM, INT (Ctrl-C) and HUP (the terminal is closed).
const STOP: [libc::c_int; 3] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP];

/// These signals, held back from all threads that are started after it, to be waited for instead.
pub struct Signals {
    set: libc::sigset_t,
}

impl Signals {
    /// Holds them back. To be called before any thread is started.
    pub fn hold() -> Signals {
        let mut set = MaybeUninit::uninit();
        // SAFETY: `sigemptyset` fills the set, which the other calls only read or extend; the last changes the mask of
        // this thread, which later threads inherit.
        let set = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            let mut set = set.assume_init();
            for signal in STOP {
                libc::sigaddset(&mut set, signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
            set
        };
        Signals { set }
    }

    /// Waits for one, for at most `limit`.
    pub fn wait(&self, limit: Duration) -> Option<&'static str> {
        let limit = libc::timespec {
            tv_sec: limit.as_secs() as libc::time_t,
            tv_nsec: libc::c_long::from(limit.subsec_nanos()),
        };
        // SAFETY: both are valid; nothing is written, for want of a place.
        match unsafe { libc::sigtimedwait(&self.set, std::ptr::null_mut(), &limit) } {
            libc::SIGTERM => Some("SIGTERM"),
            libc::SIGINT => Some("SIGINT"),
            libc::SIGHUP => Some("SIGHUP"),
            _ => None,
        }
    }
}

/// Programs that run others (timeout, sudo, shells) may pass the same signal on twice; that is no impatience.
const ECHO: Duration = Duration::from_millis(300);
/// Interval at which the lease is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// Interval of messages on the progress of the end.
const TELL: Duration = Duration::from_secs(3);
/// Consequence of an end without stopping, for a server.
pub const RECOVERS: &str = "as after a crash, the next start recovers from the journal";
/// And for a mount of a server that runs elsewhere.
pub const UNSYNCED: &str = "what was written and not synced may be lost";

/// Time limit of a server that is to end for a store that does not answer. By then other servers have taken over what it owns.
const SILENT: Duration = Duration::from_secs(15);

/// A clean end under way: says what it waits for, and is cut short by another signal, or if the store is not to be reached.
pub struct Stopping {
    under_way: Arc<Mutex<UnderWay>>,
}

struct UnderWay {
    /// As in "still ...".
    stage: String,
    /// Lease on the parts of a shared store that this server owns.
    lease: Option<Arc<dyn Lease>>,
}

impl Signals {
    /// From here on SIGTERM and SIGINT end the process at once, as a crash would: nothing acknowledged is lost, and the
    /// next start recovers. `mount`: what this process has mounted, which is then taken out of sight. `then`: what that
    /// means, for the user.
    pub fn stopping(self, mount: Option<PathBuf>, then: &'static str) -> Stopping {
        notify::stopping();
        let under_way = Arc::new(Mutex::new(UnderWay { stage: "stopping".to_string(), lease: None }));
        let seen = under_way.clone();
        let begun = Instant::now();
        let watch = move || {
            let mut told = begun;
            let mut silent = None;
            loop {
                match self.wait(LOOK.min(TELL.saturating_sub(told.elapsed()))) {
                    Some("SIGHUP") => {}
                    Some(_) if begun.elapsed() < ECHO => {}
                    Some(signal) => end_at_once(&format!("{signal} once more"), mount.as_deref(), then),
                    None => {}
                }
                let UnderWay { stage, lease } = &*seen.lock().unwrap_or_else(PoisonError::into_inner);
                if told.elapsed() >= TELL {
                    note(format_args!("loligo: still {stage}; another Ctrl-C or SIGTERM ends it at once"));
                    told = Instant::now();
                }
                let is_silent = lease.as_ref().is_some_and(|lease| !lease.holds());
                silent = is_silent.then(|| silent.unwrap_or_else(Instant::now));
                if silent.is_some_and(|since| since.elapsed() >= SILENT) {
                    end_at_once("the store does not answer", mount.as_deref(), then);
                }
            }
        };
        if let Err(error) = std::thread::Builder::new().name("loligo-signals".into()).spawn(watch) {
            tracing::warn!(%error, "a second signal will not be heard");
        }
        Stopping { under_way }
    }
}

impl Stopping {
    /// Sets the current stage, as in "still ...".
    pub fn now(&self, what: impl Into<String>) {
        let what = what.into();
        notify::status(&what);
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner).stage = what;
    }

    /// Sets the lease on a store that others share. If that store is not to be reached, the changes in memory cannot be brought there,
    /// and to wait for them is in vain.
    pub fn needs(&self, lease: Option<Arc<dyn Lease>>) {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner).lease = lease;
    }
}

fn end_at_once(why: &str, mount: Option<&Path>, then: &str) -> ! {
    note(format_args!("loligo: {why}: ended at once; {then}"));
    // Whoever uses the mount gets errors; without it the next `up` finds the place free.
    if let Some(at) = mount {
        let _ = super::umount::detach(at);
    }
    // SAFETY: ends the process, with none of what other threads still use torn down under them.
    unsafe { libc::_exit(1) }
}
