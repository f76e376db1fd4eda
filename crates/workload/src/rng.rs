//! Numbers from a seed: the same in every run. Not for secrets.

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// From a seed and a number that tells apart what is drawn for different purposes.
    pub fn new(seed: u64, stream: u64) -> Rng {
        let mut rng = Rng(seed ^ stream.wrapping_mul(0xD1B5_4A32_D192_ED03));
        rng.draw();
        rng
    }

    /// Any number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// One below this; 0 if that is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.draw() % end }
    }

    /// One below this, small ones much more often: half of what is drawn is in the first eighth.
    pub fn skewed(&mut self, end: u64) -> u64 {
        let unit = (self.draw() >> 11) as f64 / (1u64 << 53) as f64;
        ((unit * unit * unit * end as f64) as u64).min(end.saturating_sub(1))
    }
}
