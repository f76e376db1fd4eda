//! New directories that live at a rank which their number names (placements `giga`, `replicated`, `table`): which rank and number a directory gets, and how
//! it comes to be there. IndexFS, "Scaling File System Metadata Performance With Stateless Caching and Bulk Insertion" (SC'14), assigns
//! each new directory to a randomly chosen server; digest §2.3. Who has it from then on is said by `routes.rs`: the number, as long as
//! there is no line. Not here: what a directory does that has become large.
//!
//! A directory at another rank is made with one record, as a rename over two ranks is, but nothing is borrowed for it: a number that was never
//! given away has nothing, wherever it is. The record that makes the name holds the letter that makes the directory. Nobody knows the number
//! before that record is durable; who comes to its rank before the letter waits there (`early_requests.rs`).

use loligo_namespace::Lookup;
use loligo_types::hash::{mix, rank_by_path};
use loligo_types::{Event, Ino, Name, Op, Rank, RankState};

use crate::cluster::state::Cluster;
use crate::cluster::{Atlas, Peers, Placement};
use crate::core::Core;
use crate::job::Job;

impl Cluster {
    /// Where the directory that a request makes is to live, if that is not with its name. At another rank it counts as lent by that one while
    /// the request is decided: as something that is not there. `Some`: the record to be made before this can be said, by which numbers are taken from
    /// the counter.
    pub(crate) fn place_new_dir(&mut self, core: &mut Core, job: &mut Job) -> Option<Event> {
        let Op::Mkdir { dir, name, .. } = &job.op else { return None };
        let placement = core.tree.inode(*dir).map(loligo_types::Inode::places_dirs).unwrap_or_default();
        if !placement.scatters()
            || job.ino.is_some()
            || job.within.is_some()
            || core.tree.entry(*dir, name) != Lookup::Absent
        {
            job.scattered = None;
            return None;
        }
        let is_near = |rank: Rank| rank == core.me() && self.is_alone();
        let chosen = job.scattered.and_then(Ino::zeroth_rank);
        if !chosen.is_some_and(|rank| self.peers.is_up(core, &self.atlas, rank) || is_near(rank)) {
            if let Some(taken) = self.placement.scattered.take(core) {
                return Some(taken);
            }
            let by_path = placement.goes_by_path().then(|| self.atlas.rank_by_path(core, *dir, name)).flatten();
            job.scattered = self.scattered_number(core, by_path).map(|number| placement.mark(number));
        }
        let number = job.scattered?;
        if let Some(rank) = number.zeroth_rank().filter(|rank| *rank != core.me()) {
            self.borrowing.bring_absent(core, job, rank, number);
        }
        None
    }

    /// The next number, with the rank that it is for; none: this rank has no more of them, and the directory lives with its name.
    fn scattered_number(&mut self, core: &Core, wanted: Option<Rank>) -> Option<Ino> {
        let plain = self.placement.scattered.next()?;
        // Whoever asks by the path finds nothing there, and is told where to go.
        let rank = wanted
            .filter(|rank| self.peers.is_up(core, &self.atlas, *rank))
            .unwrap_or_else(|| self.peers.zeroth_for(core, &self.atlas, plain));
        plain.scattered(rank)
    }
}

impl Atlas {
    /// The rank that the path of a new directory gives. It goes by the cluster map alone, which clients know as well.
    fn rank_by_path(&self, core: &Core, dir: Ino, name: &Name) -> Option<Rank> {
        let above = dir.zeroth_rank().filter(|_| dir.is_by_path());
        rank_by_path(above, core.tree.hash(name), &self.map.placed())
    }
}

impl Peers {
    /// The rank for a new directory: any of those that take more, all with the same probability. Not a random number, so that what a
    /// rank does follows from what it was told.
    fn zeroth_for(&self, core: &Core, atlas: &Atlas, plain: Ino) -> Rank {
        let mut ranks = self.ranks_up(core, atlas);
        ranks.retain(|rank| *rank <= Ino::ZEROTH_MAX);
        match ranks.as_slice() {
            [] => core.me(),
            ranks => ranks[(mix(plain.0) % ranks.len() as u64) as usize],
        }
    }

    /// The ranks that take more and can be asked, ascending.
    pub(super) fn ranks_up(&self, core: &Core, atlas: &Atlas) -> Vec<Rank> {
        let ranks = atlas.map.ranks.iter().map(|info| info.rank);
        ranks.filter(|rank| self.is_up(core, atlas, *rank)).collect()
    }

    /// True if a rank takes more and can be asked.
    fn is_up(&self, core: &Core, atlas: &Atlas, rank: Rank) -> bool {
        let up = |info: &loligo_types::RankInfo| info.rank == rank && info.state == RankState::Up;
        let is_near = rank == core.me() || self.links.get(&rank).is_some_and(|link| link.greeted);
        is_near && atlas.map.ranks.iter().any(up)
    }
}

impl Placement {
    /// The decision of a transaction came: the directories that it makes here.
    pub(super) fn note_scattered(&mut self, core: &Core, events: &[Event]) -> Vec<Ino> {
        let new = |event: &Event| match event {
            Event::Inode(inode) if inode.ino.zeroth_rank() == Some(core.me()) => Some(inode.ino),
            _ => None,
        };
        let new: Vec<Ino> = events.iter().filter_map(new).filter(|ino| core.tree.inode(*ino).is_none()).collect();
        self.scattered.came += new.len() as u64;
        new
    }
}
