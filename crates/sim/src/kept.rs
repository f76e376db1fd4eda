//! Journals of decoupled directories that owners have kept in the store: a journal must be there for the client that takes the directory
//! over, as long as it was neither merged nor given up. The contents of the directories are checked in [`crate::subtrees`]; the owners'
//! programs are in [`crate::workload`].

use std::collections::BTreeMap;
use std::sync::Arc;

use loligo_journal::table::Row;
use loligo_types::Ino;

use crate::subtrees::State;

/// Journal that was made after so many merges.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Keeping {
    pub merges: u64,
    pub parts: Vec<Arc<[u8]>>,
    pub used: Ino,
    /// State of the directory when that is merged.
    pub state: State,
}

/// Of one decoupling.
#[derive(Debug, Default)]
struct Journals {
    epoch: u64,
    /// Those that may count, by numbers that ascend.
    all: BTreeMap<u64, Keeping>,
    /// This one was acknowledged: none of before counts.
    sure: Option<u64>,
}

/// Of all directories.
#[derive(Debug, Default)]
pub struct Kept {
    dirs: BTreeMap<Ino, Journals>,
    next: u64,
}

impl Kept {
    /// Checks that a directory could be decoupled anew: nobody may have given it away with a journal that was kept there.
    pub fn decoupled(&mut self, dir: Ino, epoch: u64) -> Result<(), String> {
        let journals = self.dirs.entry(dir).or_default();
        if journals.epoch == epoch {
            return Ok(());
        }
        let before = std::mem::replace(journals, Journals { epoch, ..Journals::default() });
        match before.sure {
            Some(_) => Err(format!("it was given away while a journal was in the store: {before:?}")),
            None => Ok(()),
        }
    }

    /// This is about to be kept; its number.
    pub fn keeps(&mut self, dir: Ino, keeping: Keeping) -> u64 {
        self.next += 1;
        self.dirs.entry(dir).or_default().all.insert(self.next, keeping);
        self.next
    }

    /// It is kept.
    pub fn kept(&mut self, dir: Ino, number: u64) {
        let journals = self.dirs.entry(dir).or_default();
        journals.sure = journals.sure.max(Some(number));
    }

    /// So many merges are done: what was kept before the last of them is no matter.
    pub fn merged(&mut self, dir: Ino, merges: u64) {
        let journals = self.dirs.entry(dir).or_default();
        journals.all.retain(|_, keeping| keeping.merges >= merges);
        journals.sure = journals.sure.filter(|number| journals.all.contains_key(number));
    }

    /// It is about to be given back.
    pub fn ends(&mut self, dir: Ino) {
        self.dirs.entry(dir).or_default().sure = None;
    }

    /// The kept journal that was found in the store, if it may be the one that counts.
    pub fn found(&self, dir: Ino, merges: u64, parts: &[Arc<[u8]>]) -> Option<&Keeping> {
        let journals = self.dirs.get(&dir)?;
        let least = journals.sure.unwrap_or(0);
        let fits = |keeping: &&Keeping| keeping.merges == merges && keeping.parts == parts;
        journals.all.range(least..).map(|(_, keeping)| keeping).find(fits)
    }

    /// At the end what was kept waits.
    pub fn lost(&self, rows: &[Row]) -> Vec<Ino> {
        let waits = |dir: Ino| {
            rows.iter().any(
                |row| matches!(row, Row::Decoupled { record, .. } if record.dir == dir && record.journal.is_some()),
            )
        };
        let sure = self.dirs.iter().filter(|(_, journals)| journals.sure.is_some());
        sure.map(|(dir, _)| *dir).filter(|dir| !waits(*dir)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIR: Ino = Ino(5);

    fn keeping(merges: u64, part: u8) -> Keeping {
        Keeping { merges, parts: vec![vec![part].into()], used: Ino(9), state: State::new() }
    }

    #[test]
    fn what_was_kept_counts_until_something_newer_is_kept_or_merged_or_it_is_given_back() {
        let mut kept = Kept::default();
        kept.decoupled(DIR, 7).expect("nothing was kept");
        let first = kept.keeps(DIR, keeping(0, 1));
        kept.keeps(DIR, keeping(0, 2));
        let found = |kept: &Kept, part: u8| kept.found(DIR, 0, &[vec![part].into()]).is_some();
        assert!(found(&kept, 1) && found(&kept, 2) && !found(&kept, 3));
        kept.kept(DIR, first);
        assert!(found(&kept, 1) && found(&kept, 2), "nobody knows of the second");
        assert_eq!(kept.lost(&[]), [DIR]);
        let third = kept.keeps(DIR, keeping(0, 3));
        kept.kept(DIR, third);
        assert!(!found(&kept, 1) && found(&kept, 3));
        assert!(kept.decoupled(DIR, 8).is_err());
        let fourth = kept.keeps(DIR, keeping(0, 4));
        kept.kept(DIR, fourth);
        kept.merged(DIR, 1);
        assert!(!found(&kept, 4) && kept.lost(&[]).is_empty());
        let fifth = kept.keeps(DIR, keeping(1, 5));
        kept.kept(DIR, fifth);
        kept.ends(DIR);
        kept.decoupled(DIR, 9).expect("it was given back");
    }
}
