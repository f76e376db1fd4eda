//! The one source of chance of a simulation, the same on every machine. The generator is that of `loligo_types`.

use loligo_types::Random;

/// A stream of numbers that follows from its seed.
#[derive(Clone, Debug)]
pub struct Rng(Random);

impl Rng {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Rng {
        Rng(Random::new(seed ^ 0x6c6f_6c69_676f_5f73))
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0.bits()
    }

    /// A number in `0..bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    /// A number in `from..=to`.
    pub fn range(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to.saturating_sub(from) + 1)
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        *self.0.pick(of)
    }

    /// A delay, microseconds: mostly near the short end, now and then up to `long`.
    pub fn delay(&mut self, short: u64, long: u64) -> u64 {
        if self.one_in(12) { self.range(short, long) } else { self.range(short / 4, short) }
    }

    /// A stream of its own.
    pub fn fork(&mut self) -> Rng {
        Rng(Random::new(self.bits()))
    }
}
