//! Bars for long work: on stderr, when it is a terminal, with the time that is left. Nothing elsewhere.

use indicatif::{ProgressBar, ProgressStyle};

/// What is counted.
#[derive(Clone, Copy)]
pub enum Unit {
    /// Things.
    Count,
    /// Bytes.
    Bytes,
}

/// One piece of work.
pub struct Bar(ProgressBar);

impl Bar {
    /// Begins. `total` 0: not known.
    pub fn start(what: &str, total: u64, unit: Unit) -> Bar {
        let (done, rate) = match unit {
            Unit::Count => ("{human_pos}/{human_len}", "{per_sec}"),
            Unit::Bytes => ("{binary_bytes}/{binary_total_bytes}", "{binary_bytes_per_sec}"),
        };
        let template = match (total, unit) {
            (0, Unit::Count) => "{msg} {spinner} {human_pos} {per_sec} {elapsed}".to_string(),
            (0, Unit::Bytes) => "{msg} {spinner} {binary_bytes} {binary_bytes_per_sec} {elapsed}".to_string(),
            _ => format!("{{msg}} [{{bar:30}}] {done} {rate} {{eta}} left"),
        };
        let bar = if total == 0 { ProgressBar::new_spinner() } else { ProgressBar::new(total) };
        bar.set_style(ProgressStyle::with_template(&template).expect("the templates above are valid"));
        bar.set_message(what.to_string());
        Bar(bar)
    }

    /// So much is done.
    pub fn set(&self, done: u64) {
        self.0.set_position(done);
    }

    /// So much more is done.
    pub fn add(&self, n: u64) {
        self.0.inc(n);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
