//! Requests in a cluster: whether this rank is to execute one, and whether something is in the way of it. Lines of the subtree map that come with
//! records, and those that clients are told.

use loligo_namespace::Tree;
use loligo_types::{Ino, Op, Rank};

use crate::balance::Balance;
use crate::cluster::atlas::{Atlas, Where};
use crate::cluster::exports::Exports;
use crate::cluster::locks::Use;
use crate::cluster::peers::Peers;
use crate::cluster::state::Cluster;
use crate::core::Core;
use crate::job::{Job, WaitReason};
use crate::open::Opens;
use crate::peer::PeerMsg;
use crate::session::Slot;
use crate::step::{Step, handle_of};

/// Lines of the subtree map that a client is told in one message at most, however long the map is.
const ROUTES_TOLD: usize = 256;

/// Directories above the one that was asked for that are looked at for that.
const ABOVE_TOLD: usize = 1024;

/// Most handles that are remembered to have moved.
const MOVED_HANDLES_MAX: usize = 1 << 16;

impl Atlas {
    /// The step of a request if something that it is about is only still in memory here, because it moves or has moved: the request
    /// waits, or goes there.
    pub(crate) fn has_moved_on(&mut self, core: &mut Core, exports: &mut Exports, job: &Job) -> Option<Step> {
        if !exports.is_active() {
            return None;
        }
        let about = principal(&job.op);
        let still_here: Vec<Ino> =
            touched(core, &job.op).into_iter().filter(|ino| core.tree.peek(*ino).is_some()).collect();
        still_here.into_iter().find_map(|ino| match exports.moved(core, self, ino)? {
            // The other rank would send it back: what moved is borrowed from there when it is forgotten here.
            Step::Redirect(_) if about != Some(ino) => Some(Step::Wait(WaitReason::Moving)),
            step => Some(step),
        })
    }

    /// Forgets which inodes are gone that only the table said to be: what the table says may change.
    pub(crate) fn forget_absent(&mut self, core: &mut Core) {
        for ino in std::mem::take(&mut self.absent) {
            core.tree.forget_absent(ino);
        }
    }

    /// A record with a line of the subtree map was made. The authority tells all others.
    pub(crate) fn route_written(
        &mut self,
        core: &mut Core,
        peers: &Peers,
        balance: &mut Balance,
        route: loligo_types::Route,
    ) {
        balance.came_to(core, route.rank);
        self.foreign_inodes.clear();
        if self.routes.write(route, core.log.last) && route.rank == core.me() {
            peers.spread_routes(core, &[route]);
        }
    }

    /// A directory with lines of its own is gone.
    pub(crate) fn route_gone(&mut self, core: &mut Core, peers: &Peers, dir: Ino) {
        self.routes.forget(dir);
        let others: Vec<Rank> = peers.links.keys().copied().collect();
        for rank in others {
            core.tell_durably(rank, PeerMsg::Gone(dir));
        }
    }

    /// The lines of the subtree map that a client is told which asked for something in vain: those of what it asked for and
    /// of the directories above, as far as they are known here; all, if there are few. Without a question the first ones. None
    /// that a crash may take back: what a client has heard it believes until it hears of a later version.
    pub(crate) fn routes_about(&self, core: &Core, ino: Option<Ino>) -> Vec<loligo_types::Route> {
        self.routes.without_fresh(self.lines_about(core, ino))
    }

    fn lines_about(&self, core: &Core, ino: Option<Ino>) -> Vec<loligo_types::Route> {
        let routes = &self.routes;
        let most = core.config.some(ROUTES_TOLD);
        if routes.len() <= most {
            return routes.all();
        }
        let Some(mut at) = ino else { return routes.first(most) };
        let mut told = Vec::new();
        for _ in 0..core.config.some(ABOVE_TOLD) {
            told.extend(routes.some_of(at, most - told.len()));
            let parent = core.tree.peek(at).map(|inode| inode.parent).or_else(|| self.foreign_inodes.parent(at));
            match parent {
                Some(parent) if parent.0 != 0 && parent != at && told.len() < most => at = parent,
                _ => break,
            }
        }
        told
    }
}

impl Exports {
    /// Remembers where handles have gone.
    pub(crate) fn note_moved_handles(&mut self, core: &Core, holders: &[(Slot, u64)], to: Rank) {
        self.moved_handles.extend(holders.iter().map(|handle| (*handle, to)));
        while self.moved_handles.len() > core.config.some(MOVED_HANDLES_MAX) {
            self.moved_handles.pop_first();
        }
    }

    /// A session has ended, and so have the handles that it had here before they moved.
    pub(crate) fn forget_moved_handles(&mut self, slot: Slot) {
        if !self.moved_handles.is_empty() {
            self.moved_handles.retain(|(of, _), _| *of != slot);
        }
    }
}

impl Peers {
    /// Tells all others of lines of the subtree map.
    pub(crate) fn spread_routes(&self, core: &mut Core, routes: &[loligo_types::Route]) {
        let others: Vec<Rank> = self.links.keys().copied().collect();
        for rank in others {
            core.tell_durably(rank, PeerMsg::Routes(routes.to_vec()));
        }
    }
}

/// The inode whose authority is to execute an operation; none: any rank may.
pub(crate) fn principal(op: &Op) -> Option<Ino> {
    op.subjects()[0].ino()
}

/// The use that a request makes of an inode.
fn use_of(tree: &Tree, op: &Op, ino: Ino) -> Use {
    let changes = op.is_change();
    match only_names(tree, op, ino) {
        Some(hashes) => Use::Names { hashes, changes },
        None if changes => Use::Whole,
        None => Use::Look,
    }
}

/// The hashes of the names that are all that a request looks at or changes of an inode, beside what is counted of it and
/// that it does not move; none if it wants more.
fn only_names(tree: &Tree, op: &Op, ino: Ino) -> Option<Vec<u64>> {
    let names = op.subjects().map(|subject| subject.name());
    names[0]?;
    let named = names.into_iter().flatten().filter(|(dir, _)| *dir == ino);
    let hashes: Vec<u64> = named.map(|(_, name)| tree.hash(name)).collect();
    if hashes.is_empty() {
        let touch = loligo_namespace::touches(tree, op);
        let all = [&touch.attr, &touch.names, &touch.reads];
        if principal(op) == Some(ino) || all.into_iter().any(|inos| inos.contains(&ino)) {
            return None;
        }
    }
    Some(hashes)
}

/// The inodes that a request looks at or changes, guests left out; but for directories of which this rank has a part: the
/// names in it are its own.
pub(super) fn touched(core: &Core, op: &Op) -> Vec<Ino> {
    let touch = loligo_namespace::touches(&core.tree, op);
    let mut all: Vec<Ino> = principal(op).into_iter().collect();
    all.extend(touch.attr.iter().chain(touch.names.iter()).chain(touch.reads.iter()));
    if op.props().recounts {
        let counters = touch.attr.iter().filter_map(|ino| Some(core.tree.inode(*ino)?.parent));
        all.extend(counters.filter(|ino| ino.0 != 0));
    }
    if let Op::Rename { dir, new_dir, .. } = op
        && dir != new_dir
    {
        // Directories must not move while it is decided that none comes below itself.
        for mut at in [*dir, *new_dir] {
            for _ in 0..loligo_types::limits::DEPTH_MAX {
                let Some(inode) = core.tree.inode(at) else { break };
                all.push(at);
                if at == Ino::ROOT || inode.parent.0 == 0 {
                    break;
                }
                at = inode.parent;
            }
        }
    }
    all.sort();
    all.dedup();
    let own = |ino: Ino| core.tree.owner(ino) == core.me() || core.tree.part(ino).is_some();
    all.retain(|ino| ino.0 != 0 && own(*ino));
    all
}

impl Cluster {
    /// First check of a request in a cluster, for authority: `None` if this rank is to execute it.
    pub(crate) fn authority(&mut self, core: &mut Core, opens: &Opens, job: &mut Job) -> Option<Step> {
        if !self.peers.ready {
            return Some(Step::Wait(WaitReason::Peers));
        }
        if let Some(verdict) = self.atlas.names_authority(core, &self.exports, &job.op) {
            return verdict;
        }
        let ino = principal(&job.op)?;
        if let Some(step) = self.exports.moved(core, &mut self.atlas, ino) {
            return Some(step);
        }
        let open = |(number, of)| opens.handle(job.slot, number).is_some_and(|handle| handle.ino == of);
        if handle_of(&job.op).is_some_and(open) {
            // What is open here is this rank's. Nothing is read for it, so that what a client asks for in order (locks given
            // back without waiting, then taken again) is done in order.
            return None;
        }
        let mut wants = Vec::new();
        match self.locate(core, ino, &mut wants) {
            Where::Here => None,
            Where::Elsewhere(rank) => Some(Step::Redirect(rank)),
            Where::Unknown => Some(self.wait_for(core, job, wants)),
        }
    }

    /// The step of a request that has all its records but is blocked: by locks of transactions, or by a migration about
    /// to begin.
    pub(crate) fn blocked(&mut self, core: &mut Core, job: &mut Job) -> Option<Step> {
        if self.loans.is_idle() && !self.exports.is_active() {
            return None;
        }
        if let Op::Rename { dir, name, new_dir, new_name, .. } = &job.op
            && (dir != new_dir || self.exports.is_of(*dir))
            && self.exports.disturbs_survey(core, &mut self.atlas, (*dir, name), (*new_dir, new_name))
        {
            // What is below a directory must not change while that is found out.
            return Some(Step::Wait(WaitReason::Moving));
        }
        if let Some(step) = self.atlas.second_name_moves(core, &self.exports, &job.op) {
            return Some(step);
        }
        for ino in touched(core, &job.op) {
            if let Some(step) = self.exports.moved(core, &mut self.atlas, ino) {
                return Some(step);
            }
            if self.loans.locked(ino).is_some() {
                let what = use_of(&core.tree, &job.op, ino);
                if let Some(holder) = self.loans.in_the_way(ino, &what) {
                    return Some(self.borrowing.give_way(core, job, holder));
                }
            }
        }
        None
    }

    /// The journal is durable further than before. Ranks to which hello is said only now.
    pub(crate) fn cluster_durable(&mut self, core: &mut Core) -> Vec<Rank> {
        self.atlas.routes.durable(core.log.durable);
        let mut greeted = Vec::new();
        while core.mail.front().is_some_and(|(lsn, ..)| *lsn <= core.log.durable) {
            if let Some((_, to, msg)) = core.mail.pop_front() {
                if matches!(msg, PeerMsg::Hello { .. }) {
                    greeted.push(to);
                }
                core.tell(to, msg);
            }
        }
        self.peers.send_letters(core);
        self.borrowing.end_turns_decided(core);
        greeted
    }
}
