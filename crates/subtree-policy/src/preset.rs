//! Cells that have the name of a system which promises that (Cudele, thesis chapter 6 and figure 6.6). Not here: what else those
//! systems do.

use std::fmt;

use crate::cell::{Cell, Consistency, Durability};
use crate::nearest;

/// A cell by the name of a system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// The default.
    Posix,
    /// As a local file system of one machine: durable a moment later.
    Relaxed,
    /// As BatchFS.
    BatchFs,
    /// As DeltaFS.
    DeltaFs,
    /// As HDFS.
    Hdfs,
    /// As a RAM disk of the client.
    RamDisk,
}

impl Preset {
    /// All.
    pub const ALL: [Preset; 6] =
        [Preset::Posix, Preset::Relaxed, Preset::BatchFs, Preset::DeltaFs, Preset::Hdfs, Preset::RamDisk];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Preset::Posix => "posix",
            Preset::Relaxed => "relaxed",
            Preset::BatchFs => "batchfs",
            Preset::DeltaFs => "deltafs",
            Preset::Hdfs => "hdfs",
            Preset::RamDisk => "ramdisk",
        }
    }

    /// The one of a name, in any case.
    pub fn of(name: &str) -> Option<Preset> {
        Preset::ALL.into_iter().find(|preset| preset.name().eq_ignore_ascii_case(name.trim()))
    }

    /// The name nearest to a wrong one, if any is near.
    pub fn nearest(name: &str) -> Option<&'static str> {
        nearest::of(&name.trim().to_lowercase(), Preset::ALL.map(Preset::name))
    }

    /// The preset's cell. The thesis calls two cells RAM disk; this is that of figure 6.6.
    pub fn cell(self) -> Cell {
        match self {
            Preset::Posix => Cell::POSIX,
            Preset::Relaxed => Cell::new(Consistency::Strong, Durability::None),
            Preset::BatchFs => Cell::new(Consistency::Weak, Durability::Local),
            Preset::DeltaFs => Cell::new(Consistency::Invisible, Durability::Local),
            Preset::Hdfs => Cell::new(Consistency::Weak, Durability::Global),
            Preset::RamDisk => Cell::new(Consistency::Invisible, Durability::None),
        }
    }

    /// The preset's purpose, as one line.
    pub fn purpose(self) -> &'static str {
        match self {
            Preset::Posix => "what programs expect of a file system: seen by all at once, never lost",
            Preset::Relaxed => {
                "files that all see at once, and that may lose the last seconds if the server crashes, as on a local disk; fsync keeps them"
            }
            Preset::BatchFs => {
                "a job that writes many files which others need when it is done; a lost machine costs the job"
            }
            Preset::DeltaFs => "output that only the job itself reads, and can compute again if its machine is lost",
            Preset::Hdfs => "results that others read when they are complete, and that must not be lost then",
            Preset::RamDisk => "scratch files that nobody else reads and nobody misses after a crash",
        }
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_found_by_name_and_each_is_another_cell() {
        for preset in Preset::ALL {
            assert_eq!(Preset::of(&preset.name().to_uppercase()), Some(preset));
            let same = Preset::ALL.iter().filter(|other| other.cell() == preset.cell());
            assert_eq!(same.count(), 1, "{preset}");
        }
        assert_eq!((Preset::of("ext4"), Preset::nearest("bachfs")), (None, Some("batchfs")));
    }

    #[test]
    fn presets_promise_what_the_thesis_says_of_their_systems() {
        let cells = Preset::ALL.map(|preset| preset.cell().to_string());
        assert_eq!(
            cells,
            ["strong/global", "strong/none", "weak/local", "invisible/local", "weak/global", "invisible/none"]
        );
    }
}
