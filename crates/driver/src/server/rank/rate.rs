//! The rate of answers and the load of a rank's thread, as the balancer and the metrics see them. Not the load of directories: that is the
//! machine's.

use loligo_mds::Input;
use loligo_types::ThreadLoad;

use super::Rank;

impl Rank {
    /// Tells the rate of requests answered per second, and the load of the thread, since the last look.
    pub(super) fn tell_rate(&mut self) {
        let answered = self.metrics.ops.iter().map(|(_, op)| op.done.get()).sum();
        let cpu_ns = self.metrics.rank_cpu_ns.get();
        let (before, cpu_before, then) = std::mem::replace(&mut self.answered, (answered, cpu_ns, self.now));
        let seconds = self.now.saturating_duration_since(then).as_secs_f64();
        if seconds > 0.0 {
            self.metrics.requests_per_s.set(((answered - before) as f64 / seconds).round() as u64);
            let percent = cpu_ns.saturating_sub(cpu_before) as f64 / seconds / 1e7;
            let idle = std::mem::take(&mut self.idle).as_secs_f64();
            let busy_percent = ((1.0 - idle / seconds) * 100.0).clamp(0.0, 100.0) as f32;
            self.feed(Input::Thread(ThreadLoad { cpu_percent: percent as f32, busy_percent }));
        }
    }
}
