//! Paths by replicas: the next step of one, by what this rank has and what it holds of others' directories; a replica is asked for where one is
//! missing. The replicas themselves are `replicas/held.rs`'s.

use loligo_namespace::{Need, check_search};
use loligo_types::{Cred, Ino, Inode, Name, Rank};

use crate::cluster::replicas::held::{Asked, Way};
use crate::cluster::state::Cluster;
use crate::cluster::{Atlas, Exports, Loans, Where};
use crate::core::Core;

impl Exports {
    /// The records to read of a directory that is this rank's own, as the subtree map or its number says.
    fn own_needs(&mut self, core: &mut Core, atlas: &mut Atlas, ino: Ino) -> Option<Vec<Need>> {
        let mut wants = Vec::new();
        let is_own = atlas.routes.home(ino) == Some(core.me());
        (is_own && atlas.locate_of(core, self, ino, &mut wants) == Where::Unknown).then_some(wants)
    }
}

impl Loans {
    /// A directory of this rank's own, or its part of one.
    fn own_dir<'a>(&self, core: &'a Core, exports: &Exports, ino: Ino) -> Option<&'a Inode> {
        // What another rank decides on is not here yet when it is true; what moves may be another one's by now.
        let owns = core.tree.owner(ino) == core.me() && self.locked(ino).is_none();
        let owns = owns && !exports.drops();
        core.tree.inode(ino).filter(|_| owns)
    }
}

impl Atlas {
    /// The rank that has a directory, as far as is known.
    pub(crate) fn probable_home(&self, ino: Ino, near: Rank) -> Rank {
        self.routes.home(ino).unwrap_or(near)
    }
}

impl Cluster {
    /// Which directory has a name in another rank's directory, by what this rank holds of both. `rank`: who has the name.
    pub(crate) fn step_by_replica(&mut self, core: &mut Core, at: Ino, name: &Name, cred: &Cred, rank: Rank) -> Way {
        let way = self.look_at_replicas(core, at, name, cred, rank);
        match way {
            Way::To(_) | Way::No(_) => self.replicas.held.steps += 1,
            Way::Unknown => self.replicas.held.partings += 1,
            Way::Wait(_) | Way::Load(_) => {}
        }
        way
    }

    fn look_at_replicas(&mut self, core: &mut Core, at: Ino, name: &Name, cred: &Cred, rank: Rank) -> Way {
        if let Some(needs) = self.exports.own_needs(core, &mut self.atlas, at) {
            return Way::Load(needs);
        }
        let now = core.now.mono_ms;
        let may_search = match self.loans.own_dir(core, &self.exports, at).or_else(|| self.replicas.held.get(at, now)) {
            Some(dir) => check_search(dir, cred),
            None => return self.ask_replica(core, at, rank),
        };
        if let Err(error) = may_search {
            return Way::No(error);
        }
        let hash = core.tree.hash(name);
        let known = self.replicas.held.names.get(&(at, hash)).filter(|(known, _)| known == name);
        let Some(ino) = known.map(|(_, ino)| *ino) else {
            return self.replicas.held.ask_for(core, &self.peers, Asked::Name(at, name.clone()), rank);
        };
        if let Some(needs) = self.exports.own_needs(core, &mut self.atlas, ino) {
            return Way::Load(needs);
        }
        let is_it = |dir: &Inode| dir.parent == at && dir.place.hash() == Some(hash) && dir.nlink > 0;
        // A part of a directory does not say where that is: its name may have changed without it.
        let own = self.loans.own_dir(core, &self.exports, ino).filter(|dir| dir.part_of().is_none());
        match own.or_else(|| self.replicas.held.get(ino, now)) {
            Some(dir) if is_it(dir) => Way::To(ino),
            None => self.ask_replica(core, ino, rank),
            Some(_) => {
                self.replicas.held.names.remove(&(at, hash));
                Way::Unknown
            }
        }
    }

    /// All of a directory that is this rank's, or a replica of another's, and whose.
    pub(crate) fn known_dir<'a>(&'a self, core: &'a Core, ino: Ino) -> Option<(&'a Inode, Option<Rank>)> {
        // A part of a directory does not say where that is.
        if let Some(own) = self.loans.own_dir(core, &self.exports, ino).filter(|dir| dir.part_of().is_none()) {
            return Some((own, None));
        }
        let replica = self.replicas.held.dirs.get(&ino)?;
        let counts = self.replicas.held.counts(replica.from, core.now.mono_ms);
        counts.then_some((&*replica.inode, Some(replica.from)))
    }

    fn ask_replica(&mut self, core: &mut Core, ino: Ino, near: Rank) -> Way {
        let rank = self.atlas.probable_home(ino, near);
        self.replicas.held.ask_for(core, &self.peers, Asked::Dir(ino), rank)
    }
}
