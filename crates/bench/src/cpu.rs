//! CPU time of processes and threads, from the kernel's own clocks. Not a profiler.

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

/// CPU seconds used so far by each thread of a process whose name begins with this, by name, ascending.
///
/// Reads files of the process below /proc: not to be asked of one that may hang, as one that serves a mount can.
pub fn of_threads(pid: u32, prefix: &str) -> Vec<(String, f64)> {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let one = |path: std::path::PathBuf| {
        let name = std::fs::read_to_string(path.join("comm")).ok()?.trim().to_owned();
        let ran = std::fs::read_to_string(path.join("schedstat")).ok()?;
        let ns: f64 = ran.split(' ').next()?.parse().ok()?;
        name.starts_with(prefix).then_some((name, ns / 1e9))
    };
    let mut all: Vec<(String, f64)> = tasks.flatten().filter_map(|task| one(task.path())).collect();
    all.sort_by(|(a, _), (b, _)| (a.len(), a).cmp(&(b.len(), b)));
    all
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

    #[test]
    fn threads_are_found_by_their_names_in_the_order_of_their_numbers() {
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let wait = std::sync::Arc::new(std::sync::Mutex::new(wait));
        let ready = std::sync::Arc::new(std::sync::Barrier::new(4));
        let threads = ["counted-10", "counted-2", "other"].map(|name| {
            let (wait, ready) = (wait.clone(), ready.clone());
            let body = move || {
                ready.wait();
                let _ = wait.lock().map(|wait| wait.recv());
            };
            std::thread::Builder::new().name(name.into()).spawn(body).expect("a thread can be started")
        });
        ready.wait();
        let found = of_threads(std::process::id(), "counted-");
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["counted-2", "counted-10"]);
        assert!(found.iter().all(|(_, s)| *s < 60.0), "{found:?}");
        drop(go);
        threads.into_iter().for_each(|thread| thread.join().expect("it ends by itself"));
        assert_eq!(of_threads(u32::MAX, ""), []);
    }
}
