//! A tree that is the same everywhere: each directory above the lowest level has equally many below it, and each of the lowest
//! level equally many files. In the ShardFS paper (SoCC 2015, section 4) 10 of them, 5 levels and 1,280 files: 111,111 directories
//! and 128 million files. Not how it is made: `tree.rs`.

use crate::tree::{DIRS_MAX, Tree};

/// Sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Balanced {
    pub inner: Inner,
    /// Of each directory of the lowest level.
    pub files: u64,
}

/// Directories without what is in those of the lowest level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Inner {
    /// Directories in each of those above the lowest level.
    pub fan: u64,
    /// Levels below the top.
    pub height: u64,
}

impl Balanced {
    pub fn tree(&self) -> Tree {
        self.inner.tree(&mut std::iter::repeat(self.files))
    }
}

impl Inner {
    /// Directories of the lowest level.
    pub fn leaves(&self) -> u64 {
        (0..self.height).fold(1, |dirs: u64, _| dirs.saturating_mul(self.fan))
    }

    /// Checks that that many can be held.
    pub fn check(self) -> Result<Inner, String> {
        let dirs = (0..self.height).fold(1u64, |below, _| below.saturating_mul(self.fan).saturating_add(1));
        if dirs > DIRS_MAX {
            return Err(format!("fan={},height={}: these are more than {DIRS_MAX} directories", self.fan, self.height));
        }
        Ok(self)
    }

    /// With so many files in each directory of the lowest level, in their order.
    pub fn tree(&self, files: &mut dyn Iterator<Item = u64>) -> Tree {
        let (mut parents, mut sizes) = (vec![0], Vec::new());
        // Directories on the way down to the one that was made last, each with how many it has so far.
        let mut way: Vec<(u32, u64)> = vec![(0, 0)];
        while let Some(depth) = way.len().checked_sub(1) {
            let (dir, made) = &mut way[depth];
            let is_leaf = depth as u64 == self.height;
            if *made == 0 {
                sizes.push(if is_leaf { files.next().unwrap_or(0) } else { 0 });
            }
            if is_leaf || *made == self.fan {
                way.pop();
                continue;
            }
            *made += 1;
            let above = *dir;
            way.push((parents.len() as u32, 0));
            parents.push(above);
        }
        Tree::new(parents, sizes.into_iter())
    }
}
