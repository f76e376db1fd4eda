//! Modes of the data journal: the way on which data of files gets to the disk (Okeanos; the names of the baselines are those of ext3).
//! Not here: choosing one for a directory (crate `subtree-policy`), and acting on it (crates `client` and `mds`).

use crate::limits::PATCH_BYTES_MAX;

/// The way of file data to the disk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
#[repr(u8)]
pub enum JournalMode {
    /// All data goes through the journal, as the bytes that were written.
    Wasteless = 1,
    /// Synced writes up to a threshold go through the journal; others go to objects.
    Selective = 2,
    /// All data goes through the journal, in whole blocks of 4 KiB.
    Data = 3,
    /// Data goes to objects, and is durable there before a size that covers it.
    Ordered = 4,
    /// Data goes to objects; a size may be durable before the data that it covers, unless a program syncs.
    Writeback = 5,
}

impl JournalMode {
    /// All, in the order of their numbers.
    pub const ALL: [JournalMode; 5] = [
        JournalMode::Wasteless,
        JournalMode::Selective,
        JournalMode::Data,
        JournalMode::Ordered,
        JournalMode::Writeback,
    ];

    /// Its name in policies.
    pub fn name(self) -> &'static str {
        match self {
            JournalMode::Wasteless => "wasteless",
            JournalMode::Selective => "selective",
            JournalMode::Data => "data",
            JournalMode::Ordered => "ordered",
            JournalMode::Writeback => "writeback",
        }
    }

    /// The one of a name.
    pub fn named(name: &str) -> Option<JournalMode> {
        JournalMode::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// The one of a number on the wire.
    pub fn numbered(number: u32) -> Option<JournalMode> {
        JournalMode::ALL.into_iter().find(|mode| *mode as u32 == number)
    }

    /// True if data may go through the journal at all.
    pub fn takes_data(self) -> bool {
        matches!(self, JournalMode::Wasteless | JournalMode::Selective | JournalMode::Data)
    }
}

/// A mode with its threshold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Journaling {
    pub mode: JournalMode,
    /// Largest synced write that goes through the journal in mode [`JournalMode::Selective`], bytes, at most
    /// [`PATCH_BYTES_MAX`]. Other modes do not use it.
    pub threshold: u32,
}

impl Journaling {
    /// A mode with the largest threshold.
    pub const fn of(mode: JournalMode) -> Journaling {
        Journaling { mode, threshold: PATCH_BYTES_MAX as u32 }
    }

    /// True if data of this many bytes goes through the journal. `synced`: somebody waits until it is durable.
    pub fn takes(self, synced: bool, bytes: u64) -> bool {
        match self.mode {
            JournalMode::Wasteless | JournalMode::Data => true,
            JournalMode::Selective => synced && bytes <= u64::from(self.threshold),
            JournalMode::Ordered | JournalMode::Writeback => false,
        }
    }
}

impl Default for Journaling {
    fn default() -> Journaling {
        Journaling::of(JournalMode::Selective)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_lead_back_to_their_mode() {
        for mode in JournalMode::ALL {
            assert_eq!(JournalMode::named(mode.name()), Some(mode));
            assert_eq!(JournalMode::numbered(mode as u32), Some(mode));
        }
        assert_eq!(
            (JournalMode::named("Data"), JournalMode::numbered(0), JournalMode::numbered(6)),
            (None, None, None)
        );
    }

    #[test]
    fn selective_takes_synced_writes_up_to_its_threshold() {
        let selective = Journaling { mode: JournalMode::Selective, threshold: 100 };
        assert!(selective.takes(true, 100) && !selective.takes(true, 101) && !selective.takes(false, 1));
        assert!(Journaling::of(JournalMode::Wasteless).takes(false, 1 << 40));
        assert!(!Journaling::of(JournalMode::Ordered).takes(true, 1));
    }
}
