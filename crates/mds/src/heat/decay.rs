//! Counters that forget: what was counted is worth half as much after each half-life. Time is an argument.

/// Weight that is left of one count after so many milliseconds: 1 at once, 1/2 after a half-life. A half-life of 0 counts
/// as one of a millisecond.
pub fn fading(elapsed_ms: u64, half_life_ms: u64) -> f64 {
    if elapsed_ms == 0 {
        return 1.0;
    }
    (-(elapsed_ms as f64) / half_life_ms.max(1) as f64).exp2()
}

/// A counter with exponential decay, brought up to date when it is touched.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct DecayCounter {
    value: f64,
    at_ms: u64,
}

impl DecayCounter {
    /// Counts `n` at this time. A time before the last one counts as the last one.
    pub fn hit(&mut self, n: f64, now_ms: u64, half_life_ms: u64) {
        self.value = self.get(now_ms, half_life_ms) + n;
        self.at_ms = self.at_ms.max(now_ms);
    }

    /// The counter's value at this time.
    pub fn get(&self, now_ms: u64, half_life_ms: u64) -> f64 {
        self.value * fading(now_ms.saturating_sub(self.at_ms), half_life_ms)
    }

    /// Counted per second, on average over the last half-lives: a steady rate shows as it is after a few of them.
    pub fn per_s(&self, now_ms: u64, half_life_ms: u64) -> f64 {
        self.get(now_ms, half_life_ms) * DecayCounter::per_s_of(half_life_ms)
    }

    /// Rate per second that one count stands for, at a steady rate.
    pub fn per_s_of(half_life_ms: u64) -> f64 {
        std::f64::consts::LN_2 * 1000.0 / half_life_ms.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_worth_exactly_half_after_each_half_life() {
        let mut counter = DecayCounter::default();
        counter.hit(64.0, 1000, 5000);
        for (elapsed, worth) in [(0, 64.0), (5000, 32.0), (10_000, 16.0), (30_000, 1.0)] {
            assert_eq!(counter.get(1000 + elapsed, 5000), worth);
        }
        counter.hit(8.0, 6000, 5000);
        assert_eq!((counter.get(6000, 5000), counter.get(11_000, 5000)), (40.0, 20.0));
        // Touching it often changes nothing but the last bits.
        let mut touched = counter;
        (6001..11_000).for_each(|now| touched.hit(0.0, now, 5000));
        assert!((touched.get(11_000, 5000) - 20.0).abs() < 1e-9);
    }

    #[test]
    fn time_that_goes_back_and_no_half_life_do_no_harm() {
        let mut counter = DecayCounter::default();
        counter.hit(1.0, 5000, 1000);
        counter.hit(1.0, 4000, 1000);
        assert_eq!((counter.get(0, 1000), counter.get(6000, 1000)), (2.0, 1.0));
        assert_eq!((counter.get(5001, 0), counter.get(u64::MAX, 1000)), (1.0, 0.0));
    }

    #[test]
    fn a_steady_rate_shows_as_it_is() {
        let mut counter = DecayCounter::default();
        (0..600).for_each(|tenth| counter.hit(70.0, tenth * 100, 5000));
        assert!((counter.per_s(59_950, 5000) - 700.0).abs() < 7.0);
    }
}
