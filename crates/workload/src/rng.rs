//! Numbers from a seed: the same in every run. The generator is that of `loligo_types`. Not for secrets.

use loligo_types::Random;
use loligo_types::hash::finish;

/// A stream of numbers.
#[derive(Clone, Debug)]
pub struct Rng(Random);

impl Rng {
    /// From a seed and a number that tells apart what is drawn for different purposes.
    pub fn new(seed: u64, stream: u64) -> Rng {
        let mut rng = Rng(Random::new(seed ^ stream.wrapping_mul(0xD1B5_4A32_D192_ED03)));
        rng.draw();
        rng
    }

    /// Any number.
    pub fn draw(&mut self) -> u64 {
        self.0.bits()
    }

    /// One below this; 0 if that is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0.below(end)
    }

    /// One from 0 up to, but not, 1.
    pub fn unit(&mut self) -> f64 {
        self.0.unit()
    }

    /// One below this, small ones much more often: half of what is drawn is in the first eighth.
    pub fn skewed(&mut self, end: u64) -> u64 {
        let unit = self.unit();
        ((unit * unit * unit * end as f64) as u64).min(end.saturating_sub(1))
    }
}

/// The numbers below a count in another order, without a table of them: for what is large, or wanted here and there only. A
/// Feistel network over the next power of four; what lies beyond the count goes through it again.
#[derive(Clone, Debug)]
pub(crate) struct Scatter {
    count: u64,
    /// Of each half.
    bits: u32,
    keys: [u64; 4],
}

impl Scatter {
    /// `stream`: as for [`Rng::new`].
    pub fn new(seed: u64, stream: u64, count: u64) -> Scatter {
        let mut rng = Rng::new(seed, stream);
        let bits = (u64::BITS - count.saturating_sub(1).leading_zeros()).div_ceil(2).max(1);
        Scatter { count, bits, keys: std::array::from_fn(|_| rng.draw()) }
    }

    /// The number at this place, which is below the count.
    pub fn at(&self, place: u64) -> u64 {
        debug_assert!(place < self.count, "{place} is not below {}", self.count);
        let mask = u64::MAX >> (u64::BITS - self.bits);
        let mut number = place;
        loop {
            let (mut left, mut right) = (number >> self.bits, number & mask);
            for key in self.keys {
                (left, right) = (right, left ^ (finish(right ^ key) & mask));
            }
            number = left << self.bits | right;
            if number < self.count {
                return number;
            }
        }
    }
}
