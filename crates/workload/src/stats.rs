//! A tree is made, and then its files are looked at: what the trees of the ShardFS paper (SoCC 2015, section 4) are for. Not the
//! trees.

use std::sync::Arc;

use crate::choice::{Choice, Chooser};
use crate::tree::{Crew, Then, Tree};
use crate::tree_balanced::Balanced;
use crate::tree_synthetic::Synthetic;
use crate::tree_zipf::Zipfian;
use crate::{Call, Item, Lane, Rng, Workload};

/// Sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stats {
    pub crew: Crew,
    pub shape: Shape,
    /// Looks at files, of all clients together.
    pub stats: u64,
    /// Listings of directories, of all clients together: equally many of each, in their order.
    pub lists: u64,
    /// Of the file to look at.
    pub choice: Choice,
}

/// Shape of the tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    Balanced(Balanced),
    Zipf(Zipfian),
    Synthetic(Synthetic),
}

/// See [`Rng::new`]; one more for each share.
const STREAM: u64 = 0x57A7_0000_0000;

impl Shape {
    pub fn tree(&self, seed: u64) -> Tree {
        match self {
            Shape::Balanced(balanced) => balanced.tree(),
            Shape::Zipf(zipf) => zipf.tree(seed),
            Shape::Synthetic(synthetic) => synthetic.tree(seed),
        }
    }
}

impl Stats {
    pub fn workload(&self, seed: u64) -> Workload {
        let tree = Arc::new(self.shape.tree(seed));
        let chooser = Chooser::new(self.choice, seed, tree.files());
        let look = |share: u64| -> Lane {
            let (tree, chooser, mut rng) = (Arc::clone(&tree), chooser.clone(), Rng::new(seed, STREAM + share));
            let looks = self.crew.part(self.stats, share);
            Box::new(looks.map(move |_| Item::Call(Call::Stat(tree.file_path(chooser.choose(&mut rng), 0)))))
        };
        let list = |share: u64| -> Lane {
            let (tree, lists) = (Arc::clone(&tree), self.lists);
            let listed = move |list: u64| {
                let dir = (u128::from(list) * u128::from(tree.dirs()) / u128::from(lists)) as u64;
                Item::Call(Call::Readdir(tree.dir_path(dir)))
            };
            Box::new(self.crew.part(self.lists, share).map(listed))
        };
        let phases: [Then<'_>; 2] = [("stat", &look), ("readdir", &list)];
        let counts = [self.stats, self.lists];
        let phases: Vec<Then<'_>> =
            phases.into_iter().zip(counts).filter(|(_, n)| *n > 0).map(|(then, _)| then).collect();
        self.crew.workload(&tree, 1, &phases)
    }
}
