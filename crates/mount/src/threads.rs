//! State of threads of this machine, as far as the kernel shows it in /proc.

use std::time::Duration;

use rustix::io::Errno;
use rustix::process::Pid;

/// Activity of a thread.
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

/// Fate of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// It goes on when it has what it waits for.
    GoesOn,
    /// A signal has ended it, or will.
    Killed,
    /// It ends by itself.
    Ending,
    /// It is not shown.
    Unknown,
}

/// Signals that do not end a program which has made nothing of them.
const HARMLESS: u64 = bit(libc::SIGCHLD)
    | bit(libc::SIGCONT)
    | bit(libc::SIGSTOP)
    | bit(libc::SIGTSTP)
    | bit(libc::SIGTTIN)
    | bit(libc::SIGTTOU)
    | bit(libc::SIGURG)
    | bit(libc::SIGWINCH);
/// `PF_EXITING` of the kernel.
const EXITING: u64 = 4;

const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// Fate of a thread of any process.
pub(crate) fn fate(tid: u32) -> Fate {
    if tid == 0 {
        return Fate::Unknown;
    }
    let (Ok(stat), Ok(status)) =
        (std::fs::read(format!("/proc/{tid}/stat")), std::fs::read(format!("/proc/{tid}/status")))
    else {
        return Fate::Unknown;
    };
    fate_of(&stat, &status)
}

/// By `/proc/TID/stat` and `/proc/TID/status`.
fn fate_of(stat: &[u8], status: &[u8]) -> Fate {
    // The second field may have anything in it; the last bracket ends it.
    let end = stat.iter().rposition(|byte| *byte == b')').unwrap_or(0);
    let fields: Vec<u64> = String::from_utf8_lossy(&stat[end..])
        .split_ascii_whitespace()
        .map(|field| field.parse().unwrap_or(0))
        .collect();
    // The flags are field 9 of proc(5), the code with which it ends is field 52; the first one here is field 2.
    let (flags, code) = (fields.get(7).copied().unwrap_or(0), fields.get(50).copied().unwrap_or(0));
    if flags & EXITING != 0 {
        return if code & 0x7f != 0 { Fate::Killed } else { Fate::Ending };
    }
    let status = String::from_utf8_lossy(status);
    let set = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()).unwrap_or(0)
    };
    let spared = set("SigBlk") | set("SigIgn") | set("SigCgt") | HARMLESS;
    // What ends a program the kernel makes SIGKILL to each of its threads, which nobody can block.
    let kills = (set("SigPnd") | set("ShdPnd")) & (!spared | bit(libc::SIGKILL));
    if kills != 0 { Fate::Killed } else { Fate::GoesOn }
}

/// The number of this thread.
pub(crate) fn own() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()
}

/// Time for which a thread of any process has run, if it is shown.
pub(crate) fn cpu_time(tid: u32) -> Option<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{tid}/schedstat")).ok()?;
    text.split_ascii_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// Activity of a thread of any process.
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

    fn status(pending: i32, blocked: i32, caught: i32) -> Vec<u8> {
        let set = |signal: i32| if signal == 0 { 0 } else { bit(signal) };
        format!(
            "Name:\tx\nSigPnd:\t0000000000000000\nShdPnd:\t{:016x}\nSigBlk:\t{:016x}\nSigIgn:\t0000000000001000\nSigCgt:\t{:016x}\n",
            set(pending),
            set(blocked),
            set(caught)
        )
        .into_bytes()
    }

    #[test]
    fn only_signals_that_end_a_program_are_its_end() {
        let stat = b"7 (a) S) D 1 7 7 0 -1 4194304 0";
        let fate = |pending, blocked, caught| fate_of(stat, &status(pending, blocked, caught));
        assert_eq!(fate(0, 0, 0), Fate::GoesOn);
        assert_eq!(fate(libc::SIGKILL, 0, 0), Fate::Killed);
        assert_eq!(fate(libc::SIGTERM, 0, 0), Fate::Killed);
        assert_eq!(fate(libc::SIGQUIT, 0, 0), Fate::Killed);
        assert_eq!(fate(libc::SIGTERM, libc::SIGTERM, 0), Fate::GoesOn);
        assert_eq!(fate(libc::SIGTERM, 0, libc::SIGTERM), Fate::GoesOn);
        assert_eq!(fate(libc::SIGPIPE, 0, 0), Fate::GoesOn, "it is ignored");
        for harmless in [libc::SIGCHLD, libc::SIGWINCH, libc::SIGTSTP] {
            assert_eq!(fate(harmless, 0, 0), Fate::GoesOn);
        }
    }

    #[test]
    fn a_thread_that_ends_was_killed_or_not() {
        let stat = |code: u32| {
            let zeros = "0 ".repeat(42);
            format!("7 (x) D 1 7 7 0 -1 4194308 {zeros}{code}")
        };
        assert_eq!(fate_of(stat(0).as_bytes(), b""), Fate::Ending);
        assert_eq!(fate_of(stat(256).as_bytes(), b""), Fate::Ending);
        assert_eq!(fate_of(stat(9).as_bytes(), b""), Fate::Killed);
        assert_eq!(fate(own()), Fate::GoesOn);
        assert_eq!(fate(0), Fate::Unknown);
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
