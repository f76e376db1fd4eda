//! Questions to other ranks whether directories are about to be made here, and the answers. A data structure; the rules are in `early_requests.rs`.

use std::collections::BTreeMap;

use loligo_namespace::Need;
use loligo_types::{Ino, Rank};

/// State of a question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Birth {
    /// It is asked, and not answered.
    Asked,
    /// The letter that makes it is here, and waits for others before it.
    Coming,
    /// Nothing that makes it is on its way: what the table says is so. Until when that counts.
    Told(u64),
}

/// All questions.
#[derive(Default)]
pub(crate) struct EarlyRequests {
    pub(super) by_ino: BTreeMap<Ino, Birth>,
}

impl EarlyRequests {
    /// True if a question about this inode is open: the table is not read for it meanwhile.
    pub(crate) fn is_asked(&self, need: &Need) -> bool {
        let Need::Inode(ino) = need else { return false };
        !self.by_ino.is_empty() && matches!(self.by_ino.get(ino), Some(Birth::Asked | Birth::Coming))
    }

    /// Drops answers that are too old to count.
    pub(crate) fn expire(&mut self, now_ms: u64) {
        if !self.by_ino.is_empty() {
            self.by_ino.retain(|_, birth| !matches!(birth, Birth::Told(until) if *until <= now_ms));
        }
    }

    pub(super) fn of(&self, rank: Rank) -> Vec<Ino> {
        let of_it =
            self.by_ino.iter().filter(|(ino, birth)| ino.birth_rank() == rank && !matches!(birth, Birth::Told(_)));
        of_it.map(|(ino, _)| *ino).collect()
    }
}
