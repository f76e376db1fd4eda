//! A tree as those of large installations are, after the numbers that are published of them. The ShardFS paper (SoCC 2015, section
//! 4) has such a tree from Mimesis, a model of an HDFS image at Yahoo! with 757,000 directories and 49 million files, scaled to 1.9
//! million and 128 million. The model itself and the image are not public. What this one keeps to is what the paper's section 2
//! says of 70 file systems: about 90 % of directories have fewer than 128 entries, 90 % are at a depth of at most 16, however large
//! the tree, and a few huge directories grow with it. These forms are our choice:
//!
//! - Files: a directory has at least x of them with the probability (1 + x/b)^-1.5 (Lomax), b being half the mean. With the 67
//!   files a directory of both sizes above 9.5 % of directories have 128 or more, and the largest of n directories has about
//!   b (2n)^(2/3). The exponent is the one that comes out at about a tenth: with a thinner tail (2) 12 % have 128, with a thicker
//!   one (1.3) 7 %, and a handful of directories has most of all files. Sizes are the quantiles of it, dealt out in a drawn order,
//!   so they are the same with each seed.
//! - Depth: Poisson with a mean of 11. Published is only the bound; with this mean 94 % are at a depth of at most 16, so it is kept,
//!   and ways down are about as long as the bound lets them be. The directory above is drawn from all those of the level above.
//!
//! With other means (few files in many directories) the share of those with 128 entries is another. Not here: how it is made
//! (`tree.rs`); ages, sizes and owners of files, which Mimesis has, too.

use crate::Rng;
use crate::rng::Scatter;
use crate::tree::Tree;
use crate::zipf;

/// Sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Synthetic {
    /// All of them, with the top.
    pub dirs: u64,
    /// All of them.
    pub files: u64,
}

/// See [`Rng::new`].
const STREAM_DIRS: u64 = 0x5171_0000;
const STREAM_FILES: u64 = 0x5171_0001;
/// e^-11, for a mean depth of 11.
const NO_EVENT: f64 = 1.670_170_079_024_566e-5;

impl Synthetic {
    pub fn tree(&self, seed: u64) -> Tree {
        let parents = depth_first(&grown(self.dirs, Rng::new(seed, STREAM_DIRS)));
        let sizes = zipf::shared_out(self.files, self.dirs, |rank| lomax(self.dirs as f64 / (rank as f64 + 0.5)));
        let scatter = Scatter::new(seed, STREAM_FILES, self.dirs);
        Tree::new(parents, (0..self.dirs).map(|dir| sizes[scatter.at(dir) as usize]))
    }
}

/// Value that one in so many exceeds, in units of b.
fn lomax(one_in: f64) -> f64 {
    let third = zipf::root(one_in, 3);
    third * third - 1.0
}

/// The directory above each, in the order in which they come to be.
fn grown(dirs: u64, mut rng: Rng) -> Vec<u32> {
    let mut levels: Vec<Vec<u32>> = vec![vec![0]];
    let mut parents = vec![0];
    for dir in 1..dirs as u32 {
        let depth = depth(&mut rng).clamp(1, levels.len());
        let above = &levels[depth - 1];
        parents.push(above[rng.below(above.len() as u64) as usize]);
        if depth == levels.len() {
            levels.push(Vec::new());
        }
        levels[depth].push(dir);
    }
    parents
}

/// Knuth's way to draw from Poisson's law: it only multiplies, so it draws the same everywhere.
fn depth(rng: &mut Rng) -> usize {
    let (mut product, mut events) = (rng.unit(), 0);
    while product > NO_EVENT {
        product *= rng.unit();
        events += 1;
    }
    events
}

/// The same with the numbers of a depth-first walk.
fn depth_first(parents: &[u32]) -> Vec<u32> {
    // Directories in one, as a list: the first of it, and after each the next. 0 ends it, as nothing is above the top.
    let (mut first, mut next) = (vec![0u32; parents.len()], vec![0u32; parents.len()]);
    for (dir, above) in parents.iter().enumerate().skip(1).rev() {
        next[dir] = std::mem::replace(&mut first[*above as usize], dir as u32);
    }
    let mut numbered = vec![0];
    let mut way = vec![(first[0], 0)];
    while let Some((dir, above)) = way.pop() {
        if dir == 0 {
            continue;
        }
        let number = numbered.len() as u32;
        numbered.push(above);
        way.push((next[dir as usize], above));
        way.push((first[dir as usize], number));
    }
    numbered
}
