//! CPU time of processes, from the kernel's own clocks. Not a profiler.

use std::mem::MaybeUninit;

/// CPU seconds used so far by a process: all its threads, user and system, to the nanosecond.
///
/// `None` if there is no such process. Reads nothing of the process that could be blocked, such as its /proc files.
pub fn of_process(pid: u32) -> Option<f64> {
    let pid = libc::pid_t::try_from(pid).ok().filter(|pid| *pid > 0)?;
    let mut clock = MaybeUninit::uninit();
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: both calls only fill what is passed, and it is read only if they say that they did.
    let time = unsafe {
        if libc::clock_getcpuclockid(pid, clock.as_mut_ptr()) != 0 {
            return None;
        }
        if libc::clock_gettime(clock.assume_init(), time.as_mut_ptr()) != 0 {
            return None;
        }
        time.assume_init()
    };
    Some(time.tv_sec as f64 + time.tv_nsec as f64 / 1e9)
}

/// CPU seconds used so far by this process.
pub fn own() -> f64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_seen_from_outside_as_it_sees_itself() {
        let before = own();
        let seen = of_process(std::process::id()).expect("this process runs");
        assert!(before <= seen && seen <= own(), "{before} {seen}");
        assert_eq!(of_process(0), None);
        assert_eq!(of_process(u32::MAX), None);
    }
}
