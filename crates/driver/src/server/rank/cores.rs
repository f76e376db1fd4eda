//! Competition for the cores. A thread that looks for work is at a disadvantage where others want the cores: the kernel counts the time
//! against it and lets others in first when work has come, while one that sleeps is let in as soon as something wakes it. The kernel tells
//! how long this thread was ready to run and did not. Not here: looking (`wait.rs`).

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Others want the cores if this thread waited for one for more than this part of the time that it looked.
const WAITS: u32 = 10;
/// First and longest time for which it does not look then.
const REST: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

#[derive(Default)]
pub(super) struct Core {
    /// The kernel's statistics of this thread; none: it has none.
    told: Option<File>,
    begun: bool,
    /// When it was told last, and how long the thread had waited by then.
    last: Option<(Instant, Duration)>,
    rests_until: Option<Instant>,
    rest: Duration,
}

impl Core {
    /// True if it is better not to look now.
    pub(super) fn rests(&self, now: Instant) -> bool {
        self.rests_until.is_some_and(|until| now < until)
    }

    /// To be called by the thread, now and then.
    pub(super) fn tick(&mut self, now: Instant) {
        if !std::mem::replace(&mut self.begun, true) {
            self.told = File::open("/proc/thread-self/schedstat").ok();
        }
        if let Some(waited) = self.told.as_ref().and_then(waited) {
            self.judge(now, waited);
        }
    }

    /// By now it has waited so long in all.
    fn judge(&mut self, now: Instant, waited: Duration) {
        let Some((then, before)) = self.last.replace((now, waited)) else { return };
        // While it sleeps it is let in soon, so that says nothing of how it will be when it looks.
        if self.rests(then) {
            return;
        }
        if waited.saturating_sub(before) > now.saturating_duration_since(then) / WAITS {
            self.rest = (self.rest * 2).clamp(REST.0, REST.1);
            self.rests_until = Some(now + self.rest);
        } else {
            self.rest = Duration::ZERO;
        }
    }
}

/// The second number: nanoseconds for which the thread was ready and did not run.
fn waited(told: &File) -> Option<Duration> {
    let mut text = [0; 64];
    let len = told.read_at(&mut text, 0).ok()?;
    let second = std::str::from_utf8(&text[..len]).ok()?.split_ascii_whitespace().nth(1)?;
    second.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(20);

    #[test]
    fn where_others_want_the_cores_it_rests_longer_each_time_and_where_they_do_not_it_never_does() {
        let mut core = Core::default();
        let (mut now, mut waited, mut rests) = (Instant::now(), Duration::ZERO, Vec::new());
        core.judge(now, waited);
        for _ in 0..500 {
            let looks = !core.rests(now);
            (now, waited) = (now + TICK, waited + if looks { TICK / 2 } else { Duration::ZERO });
            core.judge(now, waited);
            rests.push(!looks);
        }
        let first: Vec<bool> = rests[..7].to_vec();
        assert_eq!(first, [false, true, true, true, true, true, false], "a tick, and 100 ms of rest");
        assert!(rests.iter().filter(|rests| !**rests).count() < 20, "{rests:?}");
        for _ in 0..200 {
            now += TICK;
            core.judge(now, waited);
        }
        assert!(!core.rests(now) && core.rest.is_zero(), "it is alone again");
    }

    #[test]
    fn the_kernel_tells_how_long_a_thread_waited() {
        let Ok(told) = File::open("/proc/thread-self/schedstat") else { return };
        assert!(waited(&told).is_some());
    }
}
