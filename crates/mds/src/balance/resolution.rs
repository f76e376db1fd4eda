//! By what directories are balanced: each by the nearest policy named by it or by a directory above, and not at all if one of
//! these is pinned, or if the nearest one says so. What is above may be another rank's; then the table tells, which
//! its rank writes as soon as such a rule is made. It is read again each tick, and what was read before holds until then.

use loligo_namespace::{BALANCER, Found, Need, PIN, XattrPair};
use loligo_types::{Ino, Inode, limits};

use crate::balance::pieces::Scratch;
use crate::balance::rules::{Look, Rules, Said, Stand};
use crate::balance::state::Balance;
use crate::balance::{AGAIN_MS, AGAINS_MAX};
use crate::core::Core;

/// Distant directories that were not asked for in so many ticks are forgotten.
const KEEP_TICKS: u64 = 8;

impl Balance {
    /// By what a directory is balanced; `None`: something must be read first.
    pub(super) fn stand(&mut self, core: &Core, dir: Ino, look: &mut Look) -> Option<Stand> {
        let rules = self.rules(core, dir, look)?;
        let stand = rules.stand();
        look.is_any_named |= matches!(stand, Stand::Named(_));
        Some(stand)
    }

    fn rules(&mut self, core: &Core, dir: Ino, look: &mut Look) -> Option<Rules> {
        let (mut way, mut at) = (Vec::new(), dir);
        let mut rules = loop {
            if let Some(known) = look.known.get(&at) {
                break *known;
            }
            if way.len() > limits::DEPTH_MAX {
                break None;
            }
            let Some((own, above)) = self.rules_at(core, at, look) else {
                look.known.insert(at, None);
                break None;
            };
            way.push((at, own));
            match above {
                Some(above) => at = above,
                None => break Some(Rules::default()),
            }
        };
        for (at, own) in way.into_iter().rev() {
            rules = rules.map(|above| own.below(above));
            look.known.insert(at, rules);
        }
        rules
    }

    /// The rules that a directory sets itself, and its parent.
    fn rules_at(&mut self, core: &Core, dir: Ino, look: &mut Look) -> Option<(Rules, Option<Ino>)> {
        let inode = match core.tree.find(dir) {
            Found::Here(inode) if inode.part_of().is_none() => inode,
            Found::Gone => return Some((Rules::STAYS, None)),
            _ => return self.rules_of_distant(core, dir, look),
        };
        let Some(own) = look.own_rules(core, inode) else {
            look.want(Need::Xattrs(dir));
            return None;
        };
        let above = Some(inode.parent).filter(|parent| parent.0 != 0 && dir != Ino::ROOT);
        Some((own, above))
    }

    /// By what all that is hot is balanced. What is laid out above others is asked for all of them.
    pub(super) fn find_stands(&mut self, core: &Core, scratch: &mut Scratch, look: &mut Look) {
        let nodes = scratch.nodes_mut();
        for at in 0..nodes.len() {
            let (before, rest) = nodes.split_at_mut(at);
            let node = &mut rest[0];
            node.rules = match (node.above, node.rules.take()) {
                (None, _) => self.rules(core, node.dir, look),
                (Some(up), Some(own)) => before[up as usize].rules.map(|above| own.below(above)),
                (Some(_), None) => {
                    look.want(Need::Xattrs(node.dir));
                    None
                }
            };
            look.is_any_named |= node.rules.is_some_and(|rules| matches!(rules.stand(), Stand::Named(_)));
        }
    }

    fn rules_of_distant(&mut self, core: &Core, dir: Ino, look: &mut Look) -> Option<(Rules, Option<Ino>)> {
        // Sooner than the next tick, or every other one would go by what is two ticks old; but not again while one is put off.
        let fresh_ms = (core.config.balance_ms / 2).max(AGAIN_MS * u64::from(AGAINS_MAX + 1));
        let now = core.now.mono_ms;
        let distant = self.distants.0.entry(dir).or_default();
        distant.asked_ms = now;
        if distant.said.is_none() || now >= distant.read_ms + fresh_ms {
            look.want(Need::Inode(dir));
            look.want(Need::Xattrs(dir));
        }
        let said = distant.said.clone()?;
        let rules = look.rules(said.pinned, said.by.as_deref());
        match distant.above {
            Some(above) => Some((rules, Some(above))),
            None if dir == Ino::ROOT => Some((rules, None)),
            // Its rank has not written it yet.
            None => None,
        }
    }

    /// Forgets what nobody asks for any more.
    pub(super) fn forget_distants(&mut self, core: &Core) {
        let (now, keep_ms) = (core.now.mono_ms, core.config.balance_ms.max(AGAIN_MS).saturating_mul(KEEP_TICKS));
        self.distants.0.retain(|_, distant| now <= distant.asked_ms + keep_ms);
    }

    /// True if an inode is read only for its rules.
    pub(crate) fn is_distant(&self, ino: Ino) -> bool {
        self.distants.0.contains_key(&ino)
    }

    /// The table has told of an inode that is not this rank's.
    pub(crate) fn note_distant(&mut self, ino: Ino, inode: Option<&Inode>) {
        let Some(distant) = self.distants.0.get_mut(&ino) else { return };
        distant.above = inode.map(|inode| inode.parent).filter(|parent| parent.0 != 0 && *parent != ino);
    }

    /// The same of its xattrs.
    pub(crate) fn note_distant_rules(&mut self, core: &Core, ino: Ino, xattrs: &[XattrPair]) {
        let now = core.now.mono_ms;
        let Some(distant) = self.distants.0.get_mut(&ino) else { return };
        let value = |name: &[u8]| xattrs.iter().find(|(other, _)| **other == *name).map(|(_, value)| &**value);
        distant.said = Some(Said::of(value(PIN).is_some(), value(BALANCER)));
        distant.read_ms = now;
    }
}
