//! Zipf's law with the exponent 1.8, which the traces and trees of the ShardFS paper (SoCC 2015, section 4) are made with: the
//! k-th of many has a share in proportion to k^-1.8. Not what is shared out.
//!
//! Other machines have other `pow` and `exp`, which may differ in the last bit. Here stand only `+ - * /` and `sqrt`, which IEEE 754
//! rounds the same way everywhere: this is why the exponent is no parameter.

use crate::Rng;

/// k^-1.8.
pub(crate) fn weight(k: f64) -> f64 {
    let fifth = root(k, 5);
    1.0 / (k * fifth * fifth * fifth * fifth)
}

/// The root of this degree of a number that is at least 1, by Newton's method.
pub(crate) fn root(x: f64, degree: u8) -> f64 {
    debug_assert!(x >= 1.0, "{x} is below 1");
    const ONE: u64 = 1.0f64.to_bits();
    // An exponent divided by the degree is within a few percent; each step doubles the digits that are right.
    let mut root = f64::from_bits((x.to_bits() - ONE) / u64::from(degree) + ONE);
    for _ in 0..6 {
        let power = (1..degree).fold(1.0, |power, _| power * root);
        root -= (root - x / power) / f64::from(degree);
    }
    root
}

/// Shares so many things out between `count` takers by weight: what each gets differs by less than one from its part, and all of
/// them together get all.
pub(crate) fn shared_out(things: u64, count: u64, weight: impl Fn(u64) -> f64) -> Vec<u64> {
    let all = (0..count).fold(0.0, |sum, taker| sum + weight(taker));
    let (mut sum, mut given) = (0.0, 0);
    let part = |taker| {
        sum += weight(taker);
        // The last sum is `all` itself, bit by bit.
        let until = (sum / all * things as f64) as u64;
        let part = until - given;
        given = until;
        part
    };
    (0..count).map(part).collect()
}

/// Draws a rank from 1 to `count`. By rejection-inversion (Hörmann and Derflinger, 1996), as a table of 128 million files is large.
#[derive(Clone, Debug)]
pub(crate) struct Zipf {
    count: u64,
    /// Areas to the right of the last rank, and of the first one.
    least: f64,
    most: f64,
    /// A rank that is nearer than this to what was drawn is taken without a look.
    near: f64,
}

/// The area below x^-1.8 to the right of x.
fn area(x: f64) -> f64 {
    let fifth = root(x, 5);
    1.25 / (fifth * fifth * fifth * fifth)
}

/// The x of an area: its inverse.
fn area_begins(area: f64) -> f64 {
    let v = 0.8 * area;
    1.0 / (v * v.sqrt().sqrt())
}

impl Zipf {
    pub fn new(count: u64) -> Zipf {
        Zipf {
            count,
            least: area(count as f64 + 0.5),
            most: area(1.5) + 1.0,
            near: 2.0 - area_begins(area(2.5) + weight(2.0)),
        }
    }

    pub fn draw(&self, rng: &mut Rng) -> u64 {
        loop {
            let drawn = self.least + rng.unit() * (self.most - self.least);
            let x = area_begins(drawn);
            let rank = ((x + 0.5) as u64).clamp(1, self.count);
            let k = rank as f64;
            if k - x <= self.near || drawn <= area(k + 0.5) + weight(k) {
                return rank;
            }
        }
    }
}
