//! By what directories are balanced: each by the nearest policy named by it or by a directory above, and not at all if one of
//! these is pinned, or if the nearest one says so. What is above may be another rank's; then the table tells, which
//! its rank writes as soon as such a rule is made. It is read again each tick, and what was read before holds until then.

use std::collections::BTreeMap;
use std::sync::Arc;

use loligo_namespace::{BALANCER, Found, Need, PIN, XattrPair, balancer_of};
use loligo_types::{Event, Ino, Inode, NO_POLICY, limits};

use super::pieces::Scratch;
use super::{AGAIN_MS, AGAINS_MAX};
use crate::balance::Balance;
use crate::core::Core;
use crate::hash::IntMap;

/// Records that are read for one look.
const READ_MAX: usize = 256;
/// Distant directories that were not asked for in so many ticks are forgotten.
const KEEP_TICKS: u64 = 8;

/// By what something is balanced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stand {
    /// By the policy of the file system.
    Common,
    /// By the one of this name, of those that the look has met.
    Named(u32),
    /// By nothing.
    Nobody,
}

/// Rules that a directory sets itself.
#[derive(Clone, Default)]
struct Said {
    pinned: bool,
    by: Option<Arc<str>>,
}

impl Said {
    fn of(pin: bool, balancer: Option<&[u8]>) -> Said {
        Said { pinned: pin, by: balancer.and_then(balancer_of).map(Arc::from) }
    }
}

/// Rules of a directory, alone or combined with those above it. Small, as there are many of them at each tick.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Rules {
    pinned: bool,
    by: By,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum By {
    #[default]
    Unsaid,
    Nothing,
    Name(u32),
}

impl Rules {
    /// Of what goes nowhere.
    pub(super) const STAYS: Rules = Rules { pinned: true, by: By::Unsaid };

    /// The same, in a directory with these.
    fn below(self, above: Rules) -> Rules {
        let by = if self.by == By::Unsaid { above.by } else { self.by };
        Rules { pinned: self.pinned || above.pinned, by }
    }

    pub(super) fn stand(self) -> Stand {
        match self.by {
            _ if self.pinned => Stand::Nobody,
            By::Unsaid => Stand::Common,
            By::Nothing => Stand::Nobody,
            By::Name(at) => Stand::Named(at),
        }
    }
}

/// Table record of a directory that is not in memory here, or only in part.
#[derive(Default)]
struct Distant {
    above: Option<Ino>,
    said: Option<Said>,
    /// When, and when somebody asked last, milliseconds.
    read_ms: u64,
    asked_ms: u64,
}

/// All of them.
#[derive(Default)]
pub(super) struct Distants(BTreeMap<Ino, Distant>);

/// Results of one look, and the records that it lacks.
#[derive(Default)]
pub(super) struct Look {
    known: IntMap<Ino, Option<Rules>>,
    pub(super) wants: Vec<Need>,
    /// Set when something stands under a named policy.
    pub(super) is_any_named: bool,
    /// Names of policies that directories say.
    pub(super) names: Vec<Arc<str>>,
}

impl Look {
    fn rules(&mut self, pinned: bool, by: Option<&str>) -> Rules {
        let by = match by {
            None => By::Unsaid,
            Some(NO_POLICY) => By::Nothing,
            Some(name) => By::Name(place_in(&mut self.names, name)),
        };
        Rules { pinned, by }
    }

    fn want(&mut self, need: Need) {
        if self.wants.len() < READ_MAX {
            self.wants.push(need);
        }
    }

    /// The rules that a directory in memory sets itself; `None`: its xattrs must be read first.
    pub(super) fn own_rules(&mut self, core: &Core, inode: &Inode) -> Option<Rules> {
        let pin = core.tree.xattr(inode, PIN)?.is_some();
        let balancer = core.tree.xattr(inode, BALANCER)?;
        Some(self.rules(pin, balancer.as_deref().and_then(balancer_of)))
    }
}

/// True if an event changes a rule by which other ranks, too, balance the subtree: they learn it from the table.
pub(crate) fn is_rule(event: &Event) -> bool {
    let (Event::Xattr { name, .. } | Event::XattrGone { name, .. }) = event else { return false };
    **name == *BALANCER || **name == *PIN
}

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

/// The place of a name, which is added if it is new.
fn place_in(names: &mut Vec<Arc<str>>, name: &str) -> u32 {
    let at = names.iter().position(|other| **other == *name).unwrap_or(names.len());
    if at == names.len() {
        names.push(name.into());
    }
    at as u32
}
