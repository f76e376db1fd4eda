//! Inode numbers for what is made in relaxed directories. Not here: the record that reserves them (`stages`).

use loligo_types::{Ino, Lsn};

/// Numbers that are reserved with one record; more are when half of them are used.
pub(crate) const NUMBERS: u64 = 8192;

/// Inode numbers that are reserved: those below `end` from `next` on.
#[derive(Default)]
pub(super) struct Numbers {
    pub(super) next: u64,
    end: u64,
    /// More, with the record that says so.
    pub(super) more: Option<(u64, u64, Lsn)>,
}

impl Numbers {
    /// The next one. Only those count whose record is durable.
    pub(super) fn peek(&mut self, durable: Lsn) -> Option<Ino> {
        if self.next == self.end
            && let Some((first, end, _)) = self.more.take_if(|(_, _, lsn)| *lsn <= durable)
        {
            (self.next, self.end) = (first, end);
        }
        (self.next < self.end).then_some(Ino(self.next))
    }

    pub(super) fn are_few(&self) -> bool {
        self.more.is_none() && self.end - self.next <= NUMBERS / 2
    }
}
