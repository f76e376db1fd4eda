//! What threads of this machine are doing, as far as the kernel shows it in /proc.

use rustix::io::Errno;
use rustix::process::Pid;

/// What a thread does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Doing {
    /// It runs, or wants to.
    Running,
    /// It waits in the kernel for something that no signal can end: a lock, a page.
    Blocked,
    /// It waits for an event, or is stopped.
    Sleeping,
    /// There is no such thread (any more).
    Gone,
    /// It is not shown.
    Unknown,
}

/// The number of this thread.
pub(crate) fn own() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()
}

/// What a thread of any process does.
pub(crate) fn doing(tid: u32) -> Doing {
    let Some(pid) = tid.try_into().ok().and_then(Pid::from_raw) else { return Doing::Unknown };
    match std::fs::read(format!("/proc/{tid}/stat")) {
        Ok(stat) => parse(&stat),
        // It may only be hidden.
        Err(_) if rustix::process::test_kill_process(pid) == Err(Errno::SRCH) => Doing::Gone,
        Err(_) => Doing::Unknown,
    }
}

/// The letter behind the name in brackets, which may have brackets of its own.
fn parse(stat: &[u8]) -> Doing {
    let end = stat.iter().rposition(|byte| *byte == b')');
    match end.and_then(|end| stat.get(end + 2)) {
        Some(b'R') => Doing::Running,
        Some(b'D') => Doing::Blocked,
        Some(b'S' | b'I' | b'T' | b't') => Doing::Sleeping,
        Some(b'Z' | b'X') => Doing::Gone,
        _ => Doing::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn the_state_stands_behind_the_last_bracket() {
        assert_eq!(parse(b"1 (sh) S 0 1"), Doing::Sleeping);
        assert_eq!(parse(b"1 (a) R (b)) D 0 1"), Doing::Blocked);
        assert_eq!(parse(b"1 (sh) R 0"), Doing::Running);
        assert_eq!(parse(b"1 (sh) Z 0"), Doing::Gone);
        assert_eq!(parse(b"1 (sh)"), Doing::Unknown);
        assert_eq!(parse(b""), Doing::Unknown);
    }

    #[test]
    fn threads_run_sleep_and_end() {
        assert_eq!(doing(own()), Doing::Running);
        let (tell, told) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            tell.send(own()).expect("it is heard");
            let _ = ended.recv();
        });
        let tid = told.recv().expect("told");
        while doing(tid) != Doing::Sleeping {
            std::thread::yield_now();
        }
        drop(end);
        thread.join().expect("no panic");
        while doing(tid) != Doing::Gone {
            std::thread::yield_now();
        }
        assert_eq!(doing(0), Doing::Unknown);
    }
}
