//! A limit for lines of the log that peers can cause: a few at a time, and how many were left out.

use std::time::{Duration, Instant};

/// So many lines are written
const LINES: u32 = 10;
/// in this time.
const SPAN: Duration = Duration::from_secs(10);

/// Of one kind of line.
#[derive(Debug, Default)]
pub(crate) struct Rarely {
    begun: Option<Instant>,
    said: u32,
    left_out: u64,
}

impl Rarely {
    /// The end of a line, if it may be written now.
    pub(crate) fn may_say(&mut self, now: Instant) -> Option<String> {
        if self.begun.is_none_or(|begun| now.saturating_duration_since(begun) >= SPAN) {
            (self.begun, self.said) = (Some(now), 0);
        }
        if self.said >= LINES {
            self.left_out += 1;
            return None;
        }
        self.said += 1;
        Some(match std::mem::take(&mut self.left_out) {
            0 => String::new(),
            n => format!(" ({n} more of these lines were left out before)"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_thousand_lines_a_few_are_written_and_the_number_of_the_others_later() {
        let (mut rarely, begun) = (Rarely::default(), Instant::now());
        let said = (0..1000).filter_map(|_| rarely.may_say(begun)).filter(String::is_empty).count();
        assert_eq!(said, 10);
        assert_eq!(rarely.may_say(begun + SPAN / 2), None);
        let later = rarely.may_say(begun + SPAN).expect("it may be said again");
        assert!(later.contains("991 more"), "{later}");
        assert_eq!(rarely.may_say(begun + SPAN), Some(String::new()));
    }
}
