//! Questions of other ranks for names and replicas, and the answers. Who has a replica is remembered in `replicas/lent.rs`.

use loligo_namespace::{Found, Lookup, Need};
use loligo_types::{Ino, Inode, Kind, Name, Rank};

use crate::cluster::Where;
use crate::cluster::replicas::lent::Late;
use crate::cluster::state::Cluster;
use crate::core::Core;
use crate::decouple::Decoupled;
use crate::grace::Grace;
use crate::peer::PeerMsg;

impl Cluster {
    /// A rank asks which directory has a name.
    pub(crate) fn tell_name(&mut self, core: &mut Core, grace: &Option<Grace>, from: Rank, dir: Ino, name: Name) {
        match self.dir_named(core, grace, dir, &name) {
            Ok(ino) => core.tell_durably(from, PeerMsg::NameIs { dir, name, ino }),
            Err(needs) => {
                if !self.replicas.lent.answer_later(core, &mut self.atlas, from, Late::Name(dir, name.clone()), needs) {
                    core.tell_durably(from, PeerMsg::NameIs { dir, name, ino: None });
                }
            }
        }
    }

    /// Something was read: those who asked are answered, or wait for more. `ok`: it could be read.
    pub(crate) fn replicas_loaded(&mut self, core: &mut Core, grace: &Option<Grace>, decoupled: &Decoupled, ok: bool) {
        for (from, what) in std::mem::take(&mut self.replicas.lent.late) {
            match what {
                Late::Name(dir, name) if ok => self.tell_name(core, grace, from, dir, name),
                Late::Name(dir, name) => core.tell_durably(from, PeerMsg::NameIs { dir, name, ino: None }),
                Late::Dir(ino, sent_ms) if ok => self.lend_replica(core, grace, decoupled, from, ino, sent_ms),
                Late::Dir(ino, _) => core.tell_durably(from, PeerMsg::NoReplica { ino }),
            }
        }
    }

    /// `Err`: that must be read first; nothing: it cannot be said now.
    fn dir_named(
        &mut self,
        core: &mut Core,
        grace: &Option<Grace>,
        dir: Ino,
        name: &Name,
    ) -> Result<Option<Ino>, Vec<Need>> {
        if !self.peers.ready || grace.is_some() || !self.atlas.tree_has_names(core, dir, name) {
            return Err(Vec::new());
        }
        let mut wants = Vec::new();
        match self.atlas.locate_of(core, &mut self.exports, dir, &mut wants) {
            Where::Here => {}
            Where::Elsewhere(_) => return Err(Vec::new()),
            Where::Unknown => return Err(wants),
        }
        match core.tree.entry(dir, name) {
            Lookup::Present(target) => Ok((target.kind == Kind::Dir).then_some(target.ino)),
            Lookup::Absent => Ok(None),
            Lookup::Unknown => Err(vec![Need::Entry { dir, name: name.clone() }]),
        }
    }

    /// A rank asks for a replica.
    pub(crate) fn lend_replica(
        &mut self,
        core: &mut Core,
        grace: &Option<Grace>,
        decoupled: &Decoupled,
        from: Rank,
        ino: Ino,
        sent_ms: u64,
    ) {
        let inode = match self.replica_of(core, grace, decoupled, ino) {
            Ok(inode) => inode,
            Err(needs) => {
                if !self.replicas.lent.answer_later(core, &mut self.atlas, from, Late::Dir(ino, sent_ms), needs) {
                    core.tell_durably(from, PeerMsg::NoReplica { ino });
                }
                return;
            }
        };
        let replica = PeerMsg::Replica { sent_ms, inode: Box::new(inode) };
        self.replicas.lent.by_ino.entry(ino).or_default().insert(from, false);
        self.replicas.lent.note_holder(core, from);
        core.tell_durably(from, replica);
    }

    /// A directory of this rank that nobody is about to change. `Err`: that must be read first; nothing: it cannot be had now.
    fn replica_of(
        &mut self,
        core: &mut Core,
        grace: &Option<Grace>,
        decoupled: &Decoupled,
        ino: Ino,
    ) -> Result<Inode, Vec<Need>> {
        if !self.is_lendable(core, grace, decoupled, ino)? {
            return Err(Vec::new());
        }
        core.tree.inode(ino).cloned().ok_or_else(Vec::new)
    }

    /// True if an inode is a directory of this rank that nobody is about to change. `Err`: that must be read first.
    pub(crate) fn is_lendable(
        &mut self,
        core: &mut Core,
        grace: &Option<Grace>,
        decoupled: &Decoupled,
        ino: Ino,
    ) -> Result<bool, Vec<Need>> {
        if !self.peers.ready || grace.is_some() || core.stopping {
            return Ok(false);
        }
        let mut wants = Vec::new();
        match self.locate(core, ino, &mut wants) {
            Where::Here => {}
            Where::Elsewhere(_) => return Ok(false),
            Where::Unknown => return Err(wants),
        }
        if core.parked.is_marked(ino)
            || self.exports.is_leaving(core, &mut self.atlas, ino)
            || self.loans.locked(ino).is_some()
        {
            return Ok(false);
        }
        if core.now.mono_ms < decoupled.asks_until_ms {
            return Ok(false);
        }
        if self.replicas.lent.is_asked_back(ino)
            || core.tree.has_decoupled() && !decoupled.is_free_above(core, self, ino)
        {
            return Ok(false);
        }
        let Found::Here(inode) = core.tree.find(ino) else { return Ok(false) };
        Ok(inode.kind == Kind::Dir && inode.nlink > 0 && inode.part_of().is_none())
    }
}
