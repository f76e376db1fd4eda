//! CPU time of processes, from the kernel's own accounts. Not a profiler.

/// CPU seconds used so far by a process: all its threads, user and system.
///
/// `None` if there is no such process. A process that serves a mount may be asked only while it serves.
pub fn of_process(pid: u32) -> Option<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    ticks(&text).map(seconds)
}

/// CPU seconds used so far by this process.
pub fn own() -> f64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

/// user + system ticks out of a `stat` line; the command in parentheses may hold anything.
fn ticks(stat: &str) -> Option<u64> {
    let rest = &stat[stat.rfind(')')? + 1..];
    let mut fields = rest.split_ascii_whitespace().skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

fn seconds(ticks: u64) -> f64 {
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_system_ticks_are_found_behind_an_odd_command_name() {
        let line = "7 (a b) c) S 1 7 7 0 -1 4194560 1 0 0 0 120 30 0 0 20 0 1 0 5 6 7";
        assert_eq!(ticks(line), Some(150));
        assert_eq!(ticks("nonsense"), None);
    }
}
