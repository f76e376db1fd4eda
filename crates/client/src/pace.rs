//! Clock rate of a rank relative to this client's. Times that were promised (lookup leases, the life of a session) are counted by both
//! clocks independently, with an allowance of at least a tenth. A larger deviation is noticed here, from the rank's clock in its answers
//! to pings. Clocks may differ by any offset.

/// Beside the tenth, milliseconds: for times that were read a while before they were sent.
const SLACK_MS: u64 = 100;
/// So long two answers lie apart at most: a clock that begins to run otherwise is noticed however long it ran alike before.
const WINDOW_MS: u64 = 60_000;
/// So long nothing counts that is promised for a time, after the rank's clock was found to run too fast.
const DISTRUST_MS: u64 = 2 * WINDOW_MS;

/// One answer.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// When it was asked for, and when it came, by this client's clock.
    asked_ms: u64,
    came_ms: u64,
    /// In between, by the rank's.
    at_ms: u64,
}

/// State of the rank's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Runs {
    /// More than a tenth faster: what it has promised it may take for ended too early.
    Faster,
    /// More than a tenth slower: what it has promised holds, but changes wait longer for it than they have to.
    Slower,
}

/// Measurements over one connection.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    from: Option<Sample>,
    /// The last finding; a whole window without any ends it.
    runs: Option<Runs>,
    distrusted_until: u64,
}

impl Pace {
    /// An answer came. `Some`: since an earlier one the clocks have run apart, which was not known before.
    pub fn compare(&mut self, asked_ms: u64, came_ms: u64, at_ms: u64) -> Option<Runs> {
        let sample = Sample { asked_ms, came_ms, at_ms };
        let Some(from) = self.from.filter(|from| from.at_ms <= at_ms) else {
            self.from = Some(sample);
            return None;
        };
        let theirs = at_ms - from.at_ms;
        // Nobody knows when on the way it was said.
        let (least, most) = (asked_ms.saturating_sub(from.came_ms), came_ms.saturating_sub(from.asked_ms));
        let longer = |ms: u64| ms + ms / 10 + SLACK_MS;
        let runs = if theirs > longer(most) {
            self.distrusted_until = came_ms + DISTRUST_MS;
            Some(Runs::Faster)
        } else if least > longer(theirs) {
            Some(Runs::Slower)
        } else {
            None
        };
        if runs.is_none() && came_ms - from.came_ms < WINDOW_MS {
            return None;
        }
        self.from = Some(sample);
        let before = std::mem::replace(&mut self.runs, runs);
        runs.filter(|_| before != runs)
    }

    /// True if promises for a time count.
    pub fn trusts(&self, now_ms: u64) -> bool {
        now_ms >= self.distrusted_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pings every second; the rank's clock runs so many hundredths as fast. When the first difference is found.
    fn found(percent: u64, trip_ms: u64) -> Option<(u64, Runs)> {
        let mut pace = Pace::default();
        (0..100).find_map(|n| {
            let asked = 7_000_000 + n * 1000;
            let at = 5 + (n * 1000 + trip_ms / 2) * percent / 100;
            pace.compare(asked, asked + trip_ms, at).map(|runs| (n, runs))
        })
    }

    #[test]
    fn within_a_tenth_nothing_is_found_however_long_answers_take() {
        for trip in [0, 1, 40, 900] {
            for percent in [91, 95, 100, 105, 110] {
                assert_eq!(found(percent, trip), None, "{percent} hundredths, {trip} ms");
            }
        }
    }

    #[test]
    fn beyond_it_is_found_within_seconds() {
        assert_eq!(found(150, 1), Some((1, Runs::Faster)));
        assert_eq!(found(115, 1), Some((3, Runs::Faster)));
        assert_eq!(found(50, 1), Some((1, Runs::Slower)));
        assert_eq!(found(85, 1), Some((2, Runs::Slower)));
        assert_eq!(found(150, 900), Some((3, Runs::Faster)), "long ways hide it for longer");
    }

    #[test]
    fn a_clock_that_begins_to_run_faster_later_is_found_and_not_trusted_for_a_while() {
        let mut pace = Pace::default();
        let mut at = 0;
        for n in 0..600 {
            at += 1000;
            assert_eq!(pace.compare(n * 1000, n * 1000, at), None);
        }
        let found = (600..).find(|n| {
            at += 1300;
            pace.compare(n * 1000, n * 1000, at).is_some()
        });
        let found = found.expect("it is found");
        assert!(found < 660, "{found}");
        assert!(!pace.trusts(found * 1000) && !pace.trusts(found * 1000 + DISTRUST_MS - 1));
        assert!(pace.trusts(found * 1000 + DISTRUST_MS));
    }

    #[test]
    fn what_goes_on_is_told_once_and_what_comes_again_once_more() {
        let (mut pace, mut now, mut at) = (Pace::default(), 0, 1);
        let mut told = |seconds: u64, step: u64| {
            let mut all = Vec::new();
            for _ in 0..seconds {
                (now, at) = (now + 1000, at + step);
                all.extend(pace.compare(now, now, at));
                assert!(step <= 1100 || all.is_empty() || !pace.trusts(now), "as long as it goes on");
            }
            all
        };
        assert_eq!(told(1000, 500), [Runs::Slower]);
        assert_eq!(told(1000, 1500), [Runs::Faster]);
        assert_eq!(told(130, 1000), []);
        assert_eq!(told(10, 1500), [Runs::Faster]);
    }

    #[test]
    fn a_clock_that_begins_anew_is_another_one() {
        let mut pace = Pace::default();
        assert_eq!(pace.compare(0, 1, 900_000), None);
        assert_eq!(pace.compare(10_000, 10_001, 50), None);
        assert_eq!(pace.compare(20_000, 20_001, 10_050), None);
        assert_eq!(pace.compare(30_000, 30_001, 30_050), Some(Runs::Faster));
    }
}
