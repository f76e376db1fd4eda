//! One in so many, in no pattern: which requests are counted. Deterministic, and exact on average: gaps between samples
//! are drawn evenly from 1 to 2N-1, so that their mean is N, and each sample stands for N requests. A fixed stride would
//! always hit the same requests of a client that goes in circles.

/// Chooses samples.
#[derive(Debug)]
pub struct Sampler {
    every: u32,
    left: u32,
    state: u64,
}

impl Sampler {
    /// Of `every` requests one is chosen, on average (0 and 1: all).
    pub fn new(every: u32) -> Sampler {
        let mut sampler = Sampler { every: every.max(1), left: 0, state: 0x9e37_79b9_7f4a_7c15 };
        sampler.left = sampler.gap() - 1;
        sampler
    }

    /// True if the next request is chosen.
    #[inline]
    pub fn choose(&mut self) -> bool {
        if self.left > 0 {
            self.left -= 1;
            return false;
        }
        self.left = self.gap() - 1;
        true
    }

    /// Number of requests that a sample stands for.
    pub fn weight(&self) -> f64 {
        f64::from(self.every)
    }

    /// From 1 to 2N-1.
    fn gap(&mut self) -> u32 {
        if self.every == 1 {
            return 1;
        }
        // Xorshift: enough to have no period that a workload could share. Not `loligo_types::Random`, because simulations of seeds depend on the gaps.
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        1 + (self.state >> 33) as u32 % (2 * self.every - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_of_a_cycle_is_chosen_as_often() {
        const ROUNDS: u64 = 100_000;
        for every in [1, 2, 8, 13] {
            let mut sampler = Sampler::new(every);
            let mut counts = [0.0; 8];
            for _ in 0..ROUNDS {
                counts.iter_mut().for_each(|count| *count += if sampler.choose() { sampler.weight() } else { 0.0 });
            }
            for count in counts {
                assert!((count / ROUNDS as f64 - 1.0).abs() < 0.03, "1 in {every}: {counts:?}");
            }
        }
    }
}
