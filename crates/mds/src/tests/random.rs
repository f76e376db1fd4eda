//! Numbers that depend on a seed alone.

/// A small generator of numbers, so that a run depends on its seed alone.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }

    pub fn name(&mut self) -> String {
        format!("n{}", self.below(6))
    }
}
