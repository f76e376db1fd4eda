//! Counts of requests besides those of each operation: the placement of their directories, the reasons and the time of waits, and the
//! number of names of paths. Numbers in fixed places, which only grow: a request costs a few additions, and no memory. Not here: load and
//! heat, which decay and move (`heat`); whoever shows it.

use loligo_types::{Ino, OpKind, Placement};

use crate::job::WaitReason;

/// Paths are counted together that have up to so many names, and more than the one before; the last are the longest that there are.
const NAMES: [usize; 10] = [1, 2, 3, 4, 6, 8, 12, 16, 32, 64];

/// Waits for one reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WaitCount {
    /// Waits that have ended; a request can wait several times.
    pub count: u64,
    /// Time that they took together, milliseconds.
    pub ms: u64,
}

/// Paths of about the same length.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WalkCount {
    /// They have from so many names to so many.
    pub names: (usize, usize),
    /// Number of walks asked for here and answered.
    pub all: u64,
    /// Of those, how many began with a shortcut; and after how many their clients had to go on elsewhere.
    pub shortcut: u64,
    pub parted: u64,
}

/// All that is counted so.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TallyStatus {
    /// Requests that were answered, by how the directory was placed that they were in, and by operation.
    pub placed: Vec<(Placement, &'static str, u64)>,
    /// Requests that were sent on to another rank, likewise.
    pub redirected: Vec<(Placement, u64)>,
    /// By what was waited for.
    pub waits: Vec<(&'static str, WaitCount)>,
    /// By length, ascending.
    pub walks: Vec<WalkCount>,
}

/// The counters.
pub(crate) struct Tally {
    pub(crate) placed: [[u64; OpKind::COUNT]; Placement::ALL.len()],
    pub(crate) redirected: [u64; Placement::ALL.len()],
    pub(crate) waits: [WaitCount; WaitReason::NAMES.len()],
    pub(crate) walks: [WalkCount; NAMES.len()],
}

impl Default for Tally {
    fn default() -> Tally {
        Tally {
            placed: [[0; OpKind::COUNT]; Placement::ALL.len()],
            redirected: [0; Placement::ALL.len()],
            waits: [WaitCount::default(); WaitReason::NAMES.len()],
            walks: [WalkCount::default(); NAMES.len()],
        }
    }
}

/// The place of a placement that a number can say; those have the numbers from 1 on.
#[inline]
pub(crate) fn row(dir: Ino) -> usize {
    (Placement::by_number(dir) as usize).saturating_sub(1).min(Placement::ALL.len() - 1)
}

/// The place of a path with so many names.
#[inline]
pub(crate) fn bucket(names: usize) -> usize {
    NAMES.partition_point(|most| *most < names).min(NAMES.len() - 1)
}

impl Tally {
    /// A path begins with a shortcut.
    #[inline]
    pub(crate) fn shortcut(&mut self, names: usize) {
        self.walks[bucket(names)].shortcut += 1;
    }

    /// The counts, without those that are zero.
    pub(crate) fn status(&self) -> TallyStatus {
        let rows = Placement::ALL.iter().zip(&self.placed);
        let placed = rows
            .flat_map(|(placement, ops)| OpKind::all().zip(ops).map(|(kind, count)| (*placement, kind.name(), *count)));
        let from = std::iter::once(1).chain(NAMES.map(|most| most + 1));
        TallyStatus {
            placed: placed.filter(|(.., count)| *count > 0).collect(),
            redirected: Placement::ALL.into_iter().zip(self.redirected).filter(|(_, count)| *count > 0).collect(),
            waits: WaitReason::NAMES.into_iter().zip(self.waits).filter(|(_, waited)| waited.count > 0).collect(),
            walks: from
                .zip(NAMES)
                .zip(self.walks)
                .map(|(names, walks)| WalkCount { names, ..walks })
                .filter(|walks| walks.all > 0)
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_placement_has_a_row_and_every_length_a_place() {
        let plain = Ino(300);
        let number = |placement: Placement| {
            let scattered = plain.scattered(loligo_types::Rank(3)).expect("there is one");
            if placement.scatters() { placement.mark(scattered) } else { plain }
        };
        let rows: Vec<usize> = Placement::ALL.map(|placement| row(number(placement))).into();
        assert_eq!(rows, [0, 1, 2, 3, 4]);
        let places: Vec<usize> = [1, 2, 4, 5, 6, 7, 33, 64, 65].map(bucket).into();
        assert_eq!(places, [0, 1, 3, 4, 4, 5, 9, 9, 9]);
        assert_eq!(NAMES[NAMES.len() - 1], loligo_types::limits::WALK_MAX);
    }
}
