//! Progress of long work, on stderr: a bar with the time that is left where that is a terminal, elsewhere a plain line
//! now and then, nothing with `--json` or `--quiet`.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::output::{human_bytes, human_count, note};

/// Interval of plain lines.
const PLAIN_EVERY: Duration = Duration::from_secs(10);
/// Counting small things looks at the clock once in so many steps.
const STEPS: u32 = 256;

static NONE: AtomicBool = AtomicBool::new(false);

/// From here on nothing is shown.
pub fn none() {
    NONE.store(true, Ordering::Relaxed);
}

/// Unit of progress.
#[derive(Clone, Copy)]
pub enum Unit {
    /// Things.
    Count,
    /// Bytes.
    Bytes,
}

/// One piece of work.
pub struct Bar {
    bar: ProgressBar,
    plain: Option<Plain>,
}

/// The lines where no bar can be drawn.
struct Plain {
    what: String,
    total: u64,
    unit: Unit,
    every: Duration,
    last: Instant,
    done: u64,
    steps: u32,
}

impl Bar {
    /// Begins. `total` 0: not known.
    pub fn start(what: &str, total: u64, unit: Unit) -> Bar {
        let (done, speed) = match unit {
            Unit::Count => ("{human_pos}/{human_len}", "{rate}"),
            Unit::Bytes => ("{binary_bytes}/{binary_total_bytes}", "{binary_bytes_per_sec}"),
        };
        let template = match (total, unit) {
            (0, Unit::Count) => "{msg} {spinner} {human_pos} {rate} {elapsed}".to_string(),
            (0, Unit::Bytes) => "{msg} {spinner} {binary_bytes} {binary_bytes_per_sec} {elapsed}".to_string(),
            _ => format!("{{msg}} [{{bar:30}}] {done} {speed} {{eta}} left"),
        };
        let shown = !NONE.load(Ordering::Relaxed);
        let drawn = shown && std::io::stderr().is_terminal();
        let target = if drawn { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target((total > 0).then_some(total), target);
        let style = ProgressStyle::with_template(&template).expect("the templates above are valid");
        bar.set_style(style.with_key("rate", |state: &ProgressState, out: &mut dyn std::fmt::Write| {
            // Where it cannot be written there is no bar.
            let _ = out.write_str(&rate(state.per_sec()));
        }));
        bar.set_message(what.to_string());
        // Short work shows it, too, if only for a moment.
        bar.tick();
        let plain = (shown && !drawn).then(|| Plain::new(what, total, unit, PLAIN_EVERY));
        Bar { bar, plain }
    }

    /// So much is done.
    pub fn set(&mut self, done: u64) {
        self.bar.set_position(done);
        self.plain(done, true);
    }

    /// So much more is done.
    pub fn add(&mut self, n: u64) {
        self.bar.inc(n);
        if let Some(plain) = &self.plain {
            self.plain(plain.done + n, false);
        }
    }

    /// Sets the text for the current step.
    pub fn message(&mut self, what: &str) {
        self.bar.set_message(what.to_string());
        if let Some(plain) = &mut self.plain {
            plain.what = what.to_string();
        }
    }

    /// Shows that it goes on also while nothing is counted.
    pub fn alive(&self) {
        if !self.bar.is_hidden() {
            self.bar.enable_steady_tick(Duration::from_millis(200));
        }
    }

    /// Something else is written to the terminal meanwhile.
    pub fn beside<T>(&self, write: impl FnOnce() -> T) -> T {
        self.bar.suspend(write)
    }

    /// `large`: each step may take long.
    fn plain(&mut self, done: u64, large: bool) {
        let Some(plain) = &mut self.plain else { return };
        plain.done = done;
        plain.steps = plain.steps.wrapping_add(1);
        if (large || matches!(plain.unit, Unit::Bytes) || plain.steps.is_multiple_of(STEPS))
            && let Some(line) = plain.due(Instant::now())
        {
            note(line);
        }
    }
}

impl Plain {
    fn new(what: &str, total: u64, unit: Unit, every: Duration) -> Plain {
        Plain { what: what.to_string(), total, unit, every, last: Instant::now(), done: 0, steps: 0 }
    }

    /// The line, if it is time for one.
    fn due(&mut self, now: Instant) -> Option<String> {
        if now.saturating_duration_since(self.last) < self.every {
            return None;
        }
        self.last = now;
        let human = |n: u64| match self.unit {
            Unit::Count => human_count(n),
            Unit::Bytes => human_bytes(n),
        };
        let of = if self.total > 0 { format!(" of {}", human(self.total)) } else { String::new() };
        Some(format!("{}: {}{of}", self.what, human(self.done)))
    }
}

/// Things a second, for people: of many nobody wants fractions.
fn rate(per_s: f64) -> String {
    if per_s < 10.0 { format!("{per_s:.1}/s") } else { format!("{}/s", human_count(per_s as u64)) }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_no_more_digits_than_they_mean() {
        assert_eq!([284_970.75, 12.9, 0.25].map(rate), ["284,970/s", "12/s", "0.2/s"]);
    }

    #[test]
    fn plain_lines_come_at_intervals() {
        let mut plain = Plain::new("checking", 20_000, Unit::Count, Duration::from_secs(10));
        let start = plain.last;
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        plain.done = 1234;
        assert_eq!(plain.due(at(9)), None);
        assert_eq!(plain.due(at(10)).as_deref(), Some("checking: 1,234 of 20,000"));
        assert_eq!(plain.due(at(19)), None);
        plain.total = 0;
        assert_eq!(plain.due(at(20)).as_deref(), Some("checking: 1,234"));
    }
}
