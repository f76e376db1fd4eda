//! Being told to stop, and being told again. Not here: stopping.

use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

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
/// How often it is said what the end waits for.
const TELL: Duration = Duration::from_secs(3);
/// What an end without stopping means for a server.
pub const RECOVERS: &str = "as after a crash, the next start recovers from the journal";
/// And for a mount of a server that runs elsewhere.
pub const UNSYNCED: &str = "what was written and not synced may be lost";

/// A clean end under way: says what it waits for, and is cut short by another signal.
pub struct Stopping {
    stage: Arc<Mutex<String>>,
}

impl Signals {
    /// From here on SIGTERM and SIGINT end the process at once, as a crash would: nothing acknowledged is lost, and the
    /// next start recovers. `mount`: what this process has mounted, which is then taken out of sight. `then`: what that
    /// means, for the user.
    pub fn stopping(self, mount: Option<PathBuf>, then: &'static str) -> Stopping {
        notify::stopping();
        let stage = Arc::new(Mutex::new("stopping".to_string()));
        let shown = stage.clone();
        let begun = Instant::now();
        let watch = move || {
            let mut told = begun;
            loop {
                match self.wait(TELL.saturating_sub(told.elapsed())) {
                    Some("SIGHUP") => {}
                    Some(_) if begun.elapsed() < ECHO => {}
                    Some(signal) => end_at_once(signal, mount.as_deref(), then),
                    None => {
                        let stage = shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
                        note(format_args!("loligo: still {stage}; another Ctrl-C or SIGTERM ends it at once"));
                        told = Instant::now();
                    }
                }
            }
        };
        if let Err(error) = std::thread::Builder::new().name("loligo-signals".into()).spawn(watch) {
            tracing::warn!(%error, "a second signal will not be heard");
        }
        Stopping { stage }
    }
}

impl Stopping {
    /// What is being done now, as in "still ...".
    pub fn now(&self, what: impl Into<String>) {
        let what = what.into();
        notify::status(&what);
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }
}

fn end_at_once(signal: &str, mount: Option<&Path>, then: &str) -> ! {
    note(format_args!("loligo: {signal} once more: ended at once; {then}"));
    // Whoever uses the mount gets errors; without it the next `up` finds the place free.
    if let Some(at) = mount {
        let _ = super::umount::detach(at);
    }
    // SAFETY: ends the process, with none of what other threads still use torn down under them.
    unsafe { libc::_exit(1) }
}
