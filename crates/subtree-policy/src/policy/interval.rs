//! The interval between two partial merges, as text with a unit. Not here: keeping time.

use std::fmt;
use std::time::Duration;

/// Units, the largest first, in milliseconds.
const UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("min", 60_000), ("s", 1000), ("ms", 1)];
/// Shortest: less is no batch any more.
const MIN_MS: u64 = 10;
/// Longest.
const MAX_MS: u64 = 24 * 3_600_000;

/// From 10 ms to a day, in whole milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SyncInterval(u64);

impl SyncInterval {
    /// Description of valid intervals, for errors.
    pub(crate) const EXPECTED: &'static str =
        "a time from \"10ms\" to \"24h\" with one of the units ms, s, min (or m), h";

    /// Reads `10s`, `500ms`, `5 min`; none if it makes no sense or is out of bounds.
    pub fn of(text: &str) -> Option<SyncInterval> {
        let text = text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        // As Go and systemd write it, too.
        let unit = if unit.trim() == "m" { "min" } else { unit.trim() };
        let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit)?;
        let ms = number.parse::<u64>().ok()?.checked_mul(*factor)?;
        (MIN_MS..=MAX_MS).contains(&ms).then_some(SyncInterval(ms))
    }

    /// So many seconds.
    pub(crate) const fn seconds(seconds: u64) -> SyncInterval {
        SyncInterval(seconds * 1000)
    }

    /// In milliseconds.
    pub fn millis(self) -> u64 {
        self.0
    }

    /// As a duration.
    pub fn duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

impl fmt::Display for SyncInterval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = UNITS.into_iter().find(|(_, factor)| self.0.is_multiple_of(*factor));
        let (unit, factor) = whole.unwrap_or(("ms", 1));
        write!(f, "{}{unit}", self.0 / factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_have_a_unit_and_print_with_the_largest_that_is_whole() {
        let shown = |text| SyncInterval::of(text).map(|interval| interval.to_string());
        assert_eq!(shown("10s").as_deref(), Some("10s"));
        assert_eq!(shown("500 ms").as_deref(), Some("500ms"));
        assert_eq!(shown("1500ms").as_deref(), Some("1500ms"));
        assert_eq!(shown("60000ms").as_deref(), Some("1min"));
        assert_eq!(shown("5m").as_deref(), Some("5min"));
        assert_eq!(shown("24h").as_deref(), Some("24h"));
        for bad in ["10", "s", "-1s", "1.5s", "9ms", "25h", "99999999999999999999h", "10 weeks", ""] {
            assert_eq!(shown(bad), None, "{bad}");
        }
        assert_eq!(SyncInterval::of("2s").expect("an interval").duration(), Duration::from_secs(2));
    }
}
