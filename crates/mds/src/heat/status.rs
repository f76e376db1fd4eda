//! Heat and load as they are shown.

use loligo_namespace::Tree;
use loligo_types::{Frag, Ino, LoadVec, Rank};

use super::Load;
use super::decay::DecayCounter;
use crate::admin::SpotRates;
use crate::cluster::Atlas;
use crate::core::Core;
use crate::heat::Heat;

/// Hottest directories shown.
const SHOWN: usize = 10;
/// Names of the longest path shown.
const PATH_NAMES_MAX: usize = 256;

/// Last known load of another rank.
#[derive(Clone, PartialEq, Debug)]
pub struct KnownLoad {
    /// The rank.
    pub rank: Rank,
    /// The load and its age, milliseconds; none: it was never heard of.
    pub load: Option<(Load, u64)>,
}

/// A hot fragment of a directory.
#[derive(Clone, PartialEq, Debug)]
pub struct HotDir {
    /// The directory.
    pub dir: Ino,
    /// The fragment.
    pub frag: Frag,
    /// Its path from the root, if all names of it are in memory.
    pub path: Option<String>,
    /// Its counters, decayed.
    pub load: LoadVec,
}

impl Heat {
    /// The last known loads of the others.
    pub(crate) fn known_loads(&self, core: &Core, atlas: &Atlas) -> Vec<KnownLoad> {
        let others = atlas.ranks().into_iter().filter(|rank| *rank != core.config.rank);
        others.map(|rank| KnownLoad { rank, load: self.load_of(core, rank) }).collect()
    }

    /// The hottest, hottest first.
    pub(crate) fn hottest(&self, core: &Core) -> Vec<HotDir> {
        let hottest = self.table.hottest(SHOWN, core.now.mono_ms);
        let hot = |((dir, frag), load)| HotDir { dir, frag, path: path_of(&core.tree, dir), load };
        hottest.into_iter().map(hot).collect()
    }

    /// The rates of the hottest fragments, hottest first; at most so many.
    pub(crate) fn spot_rates(&self, core: &Core, most: usize) -> Vec<SpotRates> {
        let (now, per_s) = (core.now.mono_ms, DecayCounter::per_s_of(core.config.heat_half_life_ms));
        let rates = |((dir, frag), load): ((Ino, Frag), LoadVec)| {
            let inode = core.tree.part(dir).or_else(|| core.tree.peek(dir));
            SpotRates {
                dir,
                frag,
                parent: inode.map(|inode| inode.parent),
                entries: inode.map_or(0, |inode| inode.size),
                load: load.times(per_s),
                dirs: self.table.dirs((dir, frag), now).times(per_s),
            }
        };
        self.table.hottest(most, now).into_iter().map(rates).collect()
    }
}

/// The path of a directory, if it can be told without reading.
pub(crate) fn path_of(tree: &Tree, dir: Ino) -> Option<String> {
    let (mut at, mut names) = (dir, Vec::new());
    while at != Ino::ROOT {
        let inode = tree.peek(at)?;
        names.push(String::from_utf8_lossy(tree.primary_name(inode)?.as_bytes()).into_owned());
        at = inode.parent;
        if names.len() > PATH_NAMES_MAX {
            return None;
        }
    }
    names.reverse();
    Some(format!("/{}", names.join("/")))
}
