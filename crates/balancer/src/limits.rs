//! Limits of one evaluation of a policy. The numbers only; [`crate::engine`] enforces them.

use std::time::Duration;

/// Limits of one evaluation (all hooks of one decision), or of loading.
#[derive(Clone, PartialEq, Debug)]
pub struct Limits {
    /// Steps: each call, return and round of a loop costs one, and one more for each 4 KiB that the evaluation has allocated
    /// beyond the first 64, so that work on big values is paid for too.
    pub steps: u64,
    /// Bytes that may be allocated; nothing is freed while an evaluation runs.
    pub memory_bytes: usize,
    /// Time; none where runs must be the same each time.
    pub time: Option<Duration>,
    /// Moves of one decision.
    pub moves: usize,
    /// Names of selectors that `howmuch` may list.
    pub selectors: usize,
    /// Lines that are kept of what a policy prints; the rest is counted only.
    pub log_lines: usize,
    /// Bytes that are kept of a line.
    pub log_line_bytes: usize,
    /// Entries of a table that a hook answers with, those of tables in it too.
    pub entries: usize,
    /// Bytes of a policy's text.
    pub text_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            steps: 2_000_000,
            memory_bytes: 16 << 20,
            time: Some(Duration::from_millis(100)),
            moves: 64,
            selectors: 16,
            log_lines: 64,
            log_line_bytes: 256,
            entries: 16_384,
            text_bytes: 256 << 10,
        }
    }
}

impl Limits {
    /// The same with no look at the clock: the same input gives the same answer.
    #[must_use]
    pub fn deterministic() -> Limits {
        Limits { time: None, ..Limits::default() }
    }
}
