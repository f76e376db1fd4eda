//! Numbers and names that depend on a seed alone.

/// So that a run depends on its seed alone.
pub struct Random(loligo_types::Random);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(loligo_types::Random::new(seed))
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.0.below(n)
    }

    pub fn name(&mut self) -> String {
        format!("n{}", self.below(6))
    }
}
