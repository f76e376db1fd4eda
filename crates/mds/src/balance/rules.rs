//! Rules by which directories are balanced, as they are said, combined and remembered. Data; who looks for them is `resolution.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;

use loligo_namespace::{BALANCER, Need, PIN, balancer_of};
use loligo_types::{Event, Ino, Inode, NO_POLICY};

use crate::core::Core;
use loligo_types::hash::IntMap;

/// Records that are read for one look.
const READ_MAX: usize = 256;

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
pub(super) struct Said {
    pub(super) pinned: bool,
    pub(super) by: Option<Arc<str>>,
}

impl Said {
    pub(super) fn of(pin: bool, balancer: Option<&[u8]>) -> Said {
        Said { pinned: pin, by: balancer.and_then(balancer_of).map(Arc::from) }
    }
}

/// Rules of a directory, alone or combined with those above it. Small, as there are many of them at each tick.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Rules {
    pub(super) pinned: bool,
    pub(super) by: By,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum By {
    #[default]
    Unsaid,
    Nothing,
    Name(u32),
}

impl Rules {
    /// Of what goes nowhere.
    pub(super) const STAYS: Rules = Rules { pinned: true, by: By::Unsaid };

    /// The same, in a directory with these.
    pub(super) fn below(self, above: Rules) -> Rules {
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
pub(super) struct Distant {
    pub(super) above: Option<Ino>,
    pub(super) said: Option<Said>,
    /// When, and when somebody asked last, milliseconds.
    pub(super) read_ms: u64,
    pub(super) asked_ms: u64,
}

/// All of them.
#[derive(Default)]
pub(super) struct Distants(pub(super) BTreeMap<Ino, Distant>);

/// Results of one look, and the records that it lacks.
#[derive(Default)]
pub(super) struct Look {
    pub(super) known: IntMap<Ino, Option<Rules>>,
    pub(super) wants: Vec<Need>,
    /// Set when something stands under a named policy.
    pub(super) is_any_named: bool,
    /// Names of policies that directories say.
    pub(super) names: Vec<Arc<str>>,
}

impl Look {
    pub(super) fn rules(&mut self, pinned: bool, by: Option<&str>) -> Rules {
        let by = match by {
            None => By::Unsaid,
            Some(NO_POLICY) => By::Nothing,
            Some(name) => By::Name(place_in(&mut self.names, name)),
        };
        Rules { pinned, by }
    }

    pub(super) fn want(&mut self, need: Need) {
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

/// The place of a name, which is added if it is new.
fn place_in(names: &mut Vec<Arc<str>>, name: &str) -> u32 {
    let at = names.iter().position(|other| **other == *name).unwrap_or(names.len());
    if at == names.len() {
        names.push(name.into());
    }
    at as u32
}
