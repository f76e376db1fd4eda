//! Turns of requests at directories whose fragments are several ranks', at the home of each: of the requests that change or remove such a
//! directory as a whole one after another borrows its parts, and those that only look at them do not ask meanwhile. Otherwise all of them
//! would be denied by all those ranks, and called again. Turns do not keep them apart: that is done by the locks at the ranks that lend
//! (`locks`), and without turns nothing would be decided wrongly.

use std::collections::BTreeMap;

use loligo_namespace::Need;
use loligo_types::{Ino, Op};

use crate::cluster::Borrowing;
use crate::cluster::borrowing::{Foreign, Turn};
use crate::cluster::replicas::lent::Lent;
use crate::core::Core;
use crate::job::{Job, WaitReason};
use crate::peer::TxId;

/// Directories of which all parts are wanted, and whether only to be shown.
fn wanted(foreign: &Foreign) -> BTreeMap<Ino, bool> {
    let wants = foreign.values().flatten();
    let parts = wants.filter_map(|want| if let Need::Parts(dir) = want.need { Some((dir, want.shown)) } else { None });
    parts.collect()
}

impl Borrowing {
    /// True if a request may borrow these now; else it waits until a turn ends, and has nothing meanwhile, no turn either: so none wait for
    /// each other. A request that has a turn keeps it whatever else it waits for.
    ///
    /// A request that only looks waits for what is being borrowed or was decided, not for what else those wait for that have a turn:
    /// clients, for example.
    pub(super) fn is_its_turn(&self, job: &Job, foreign: &Foreign) -> bool {
        let turns = &self.turns.by_dir;
        let is_free = |(dir, shown): (Ino, bool)| {
            turns.get(&dir).is_none_or(|turn| {
                Some(turn.tx) == job.tx || (shown && turn.decided.is_none() && !self.borrows(turn.tx))
            })
        };
        turns.is_empty() || wanted(foreign).into_iter().all(is_free)
    }

    /// A transaction borrows these.
    pub(super) fn take_turn(&mut self, tx: TxId, foreign: &Foreign) {
        for (dir, shown) in wanted(foreign) {
            if !shown {
                self.turns.by_dir.entry(dir).or_insert(Turn { tx, decided: None });
            }
        }
    }

    /// The transaction that has a turn is decided with the next record.
    pub(super) fn decide_turn(&mut self, core: &Core, tx: TxId) {
        let lsn = core.log.last.next();
        self.turns.by_dir.values_mut().filter(|turn| turn.tx == tx).for_each(|turn| turn.decided = Some(lsn));
    }

    /// It has given back what it had, and waits for something else.
    pub(super) fn pause_turn(&self, core: &mut Core, tx: TxId) {
        if self.turns.by_dir.values().any(|turn| turn.tx == tx) {
            core.parked.wake(&WaitReason::Locked);
        }
    }

    /// It has ended without a decision, or waits for the turn of another one.
    pub(super) fn end_turn(&mut self, core: &mut Core, tx: TxId) {
        self.end_turns(core, |turn| turn.tx == tx && turn.decided.is_none());
    }

    /// The journal is durable further than before, and letters were sent.
    pub(super) fn end_turns_decided(&mut self, core: &mut Core) {
        let durable = core.log.durable;
        self.end_turns(core, |turn| turn.decided.is_some_and(|lsn| lsn <= durable));
    }

    fn end_turns(&mut self, core: &mut Core, over: impl Fn(&Turn) -> bool) {
        let turns = &mut self.turns.by_dir;
        let before = turns.len();
        turns.retain(|_, turn| !over(turn));
        if turns.len() < before {
            core.parked.wake(&WaitReason::Locked);
        }
    }

    /// Directories with which it is somebody's turn, ascending.
    pub(super) fn turns(&self) -> impl Iterator<Item = Ino> + '_ {
        self.turns.by_dir.keys().copied()
    }
}

impl Lent {
    /// Asks back replicas of directories that a request is about to change as a whole, while parts of them are borrowed, and not after
    /// that.
    pub(super) fn ask_for_replicas(&mut self, core: &mut Core, job: &mut Job, foreign: &Foreign) {
        let Op::SetAttr { ino, set, .. } = &job.op else { return };
        let changes_way = set.mode.is_some() || set.uid.is_some() || set.gid.is_some();
        if changes_way && wanted(foreign).contains_key(ino) && self.take_replicas_back(core, &[*ino]) {
            let marks = vec![*ino];
            core.parked.mark(job, marks);
        }
    }
}
