//! A merge whose new inodes and names go into the table in bulk, and not into memory first ("nonvolatile apply", Cudele §6.2). It is true as
//! any merge is, with its record, before a row is written: replay knows no other way than that of `merge.rs`, and if the table cannot take the
//! rows now, that way is gone here, too.
//!
//! The table may have rows of it before the journal has the record no more than rows of a checkpoint: it is waited for. What was read from the
//! table before the rows were there is forgotten when they are.

use loligo_namespace::{MergedRows, apply};
use loligo_types::Ino;

use super::Owned;
use super::state::IntoTable;
use crate::core::Core;
use crate::decouple::Decoupled;
use crate::io::Output;
use crate::pace::Pace;

/// Units of pace for an inode that is forgotten, and for an event that is applied.
const FORGET: usize = 4;
const APPLY: usize = 40;

impl Decoupled {
    /// The journal holds more: merges that wait for it go to the table.
    pub(crate) fn emit_merge_rows(&mut self, core: &mut Core) {
        let durable = core.log.durable;
        let due = |owned: &Owned| matches!(&owned.into_table, Some(IntoTable::Waits(at, _)) if *at <= durable);
        let dirs: Vec<Ino> = self.by_dir.iter().filter(|(_, owned)| due(owned)).map(|(dir, _)| *dir).collect();
        for dir in dirs {
            self.last_rows += 1;
            let id = self.last_rows;
            let Some(owned) = self.by_dir.get_mut(&dir) else { continue };
            let Some(IntoTable::Waits(_, touched)) = owned.into_table.take() else { continue };
            let Some(rows) = core.tree.merge_rows(dir, touched.into_iter()) else { continue };
            owned.into_table = Some(IntoTable::Asked(id, rows.dirs.clone()));
            core.out.push_back(Output::MergeRows { id, rows: Box::new(rows) });
        }
    }

    /// Takes note that the rows of a merge were written: `None` if the table has not got all of them.
    pub(crate) fn merge_rows_done(&mut self, core: &mut Core, id: u64, merged: Option<Box<MergedRows>>) {
        let newest = core.loads.newest();
        let asked = |owned: &&mut Owned| matches!(&owned.into_table, Some(IntoTable::Asked(of, _)) if *of == id);
        let Some(owned) = self.by_dir.values_mut().find(asked) else { return };
        let Some(IntoTable::Asked(_, dirs)) = owned.into_table.take() else { return };
        // If they are not, memory takes it: what is there of the rows is what memory will write there.
        owned.into_table = merged.map(|merged| IntoTable::There(newest, dirs, merged));
        self.land_merge_rows(core);
        core.out.push_back(Output::Again);
    }

    /// Goes on with those whose rows are there, once no read is under way that may have seen the table before.
    pub(crate) fn land_merge_rows(&mut self, core: &mut Core) {
        let there = |owned: &Owned| match &owned.into_table {
            Some(IntoTable::There(behind, ..)) => Some(*behind),
            _ => None,
        };
        let dirs: Vec<(Ino, u64)> = self.by_dir.iter().filter_map(|(dir, owned)| Some((*dir, there(owned)?))).collect();
        for (dir, behind) in dirs {
            if core.loads.is_behind(behind) {
                continue;
            }
            let Some(owned) = self.by_dir.get_mut(&dir) else { continue };
            let Some(IntoTable::There(_, dirs, merged)) = owned.into_table.take() else { continue };
            dirs.iter().for_each(|dir| core.tree.forget_merged_names(*dir));
            let MergedRows { made, rest, .. } = *merged;
            if let Some(owned) = self.by_dir.get_mut(&dir) {
                owned.into_table = Some(IntoTable::Follows(made, rest.into()));
            }
            core.out.push_back(Output::Again);
        }
    }

    /// Brings memory up to a merge that is in the table, a part of it in a go; whether that was the last of it.
    pub(super) fn follow_table(&mut self, core: &mut Core, pace: &mut Pace, dir: Ino) -> bool {
        let lsn = core.log.last;
        let Some(owned) = self.by_dir.get_mut(&dir) else { return true };
        let Some(IntoTable::Follows(made, rest)) = &mut owned.into_table else { return true };
        while pace.is_left()
            && let Some(ino) = made.pop_first()
        {
            // Somebody may have asked for a number that was nobody's then.
            core.tree.forget(ino);
            pace.spend(FORGET);
        }
        while pace.is_left()
            && made.is_empty()
            && let Some(event) = rest.pop_front()
        {
            apply(&mut core.tree, &event, lsn);
            pace.spend(APPLY);
        }
        if !made.is_empty() || !rest.is_empty() {
            return false;
        }
        owned.into_table = None;
        core.tree.merge_rest(dir, lsn);
        true
    }
}
