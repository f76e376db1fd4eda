//! Pace of long work, which is done in goes between requests: each takes a part of the time of the requests that were done since the
//! last go, so that it neither keeps requests waiting where there are few, nor takes for ever where there are many. Counted, not
//! measured: a machine knows no clock. The work itself (the looks at memory of a migration) is `cluster`'s.

use crate::config::Config;

/// Units in a go at least: some 10 us.
const LEAST: usize = 400;
/// A go has so many for each request since the one before: about the time that a stat takes, a quarter of a create's. What a long work
/// takes in all does not become more by that; but until it is done a full rank stays full.
const PER_REQUEST: usize = 80;
/// Units in a go at most: some 150 us.
const MOST: usize = 6000;

/// Budget of long works, in units of the thread's time: a look at an inode next to others of its directory, some 25 ns.
#[derive(Default)]
pub(crate) struct Pace {
    /// Requests since the last go.
    requests: usize,
    /// Units spent in all.
    spent: u64,
    left: usize,
}

impl Pace {
    /// A request came.
    #[inline]
    pub(crate) fn request(&mut self) {
        self.requests += 1;
    }

    /// A go begins.
    pub(crate) fn begin(&mut self, config: &Config) {
        let units = (std::mem::take(&mut self.requests) * PER_REQUEST).clamp(LEAST, MOST);
        self.left = config.some(units);
    }

    /// Some of it is used up.
    #[inline]
    pub(crate) fn spend(&mut self, units: usize) {
        self.spent += units as u64;
        self.left = self.left.saturating_sub(units);
    }

    /// True if there is more to use up.
    #[inline]
    pub(crate) fn is_left(&self) -> bool {
        self.left > 0
    }

    /// Number of units that are left.
    #[inline]
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// Units spent in all.
    pub(crate) fn spent(&self) -> u64 {
        self.spent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_go_is_as_long_as_a_part_of_the_requests_before_it_but_within_bounds() {
        let config = Config::default();
        let mut pace = Pace::default();
        let mut go = |requests: usize| {
            (0..requests).for_each(|_| pace.request());
            pace.begin(&config);
            let all = pace.left();
            pace.spend(all - 1);
            assert!(pace.is_left());
            pace.spend(100);
            assert!(!pace.is_left());
            all
        };
        assert_eq!([go(0), go(1), go(50), go(0), go(10_000)], [LEAST, LEAST, 50 * PER_REQUEST, LEAST, MOST]);
        assert_eq!(pace.spent(), (3 * LEAST + 50 * PER_REQUEST + MOST + 5 * 99) as u64);
        pace.begin(&Config { shrink: 512, ..config });
        assert_eq!(pace.left(), 1, "never nothing");
    }
}
