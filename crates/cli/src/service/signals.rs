//! Being told to stop. Not here: stopping.

use std::mem::MaybeUninit;
use std::time::Duration;

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
