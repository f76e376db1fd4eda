//! The directories of the balanced tree, with sizes that differ as much as can be: the k-th largest directory of the lowest level
//! has a share of all files in proportion to k^-1.8, so one has half of them and most have few or none. Which of them is the
//! k-th is drawn; the sizes are not: each is its share, give or take one file. Not how it is made: `tree.rs`.

use crate::rng::Scatter;
use crate::tree::Tree;
use crate::tree_balanced::Inner;
use crate::zipf;

/// Sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Zipfian {
    pub inner: Inner,
    /// All of them.
    pub files: u64,
}

/// See [`crate::Rng::new`].
const STREAM: u64 = 0x21BF_0000;

impl Zipfian {
    pub fn tree(&self, seed: u64) -> Tree {
        let leaves = self.inner.leaves();
        let sizes = zipf::shared_out(self.files, leaves, |rank| zipf::weight(rank as f64 + 1.0));
        let scatter = Scatter::new(seed, STREAM, leaves);
        self.inner.tree(&mut (0..leaves).map(|leaf| sizes[scatter.at(leaf) as usize]))
    }
}
