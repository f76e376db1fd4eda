//! Taking over what others did in a decoupled subtree in which they may work ("interfere: allow", Cudele §6.3). Its owner works on the
//! state of the last merge. After each merge all that is known here is forgotten and fetched anew, so that programs see what others did; caches
//! above are told to drop what they hold. From the cut of the journal until then all requests below the root wait, because a change that is
//! decided on old records would be taken for a conflict.
//!
//! Before the merge the rank is told which inodes are open here: what others have removed of them lives on. Here are the conflicts, and what an
//! open file becomes; what is asked for it is in `merge.rs`. Not here: what becomes of things that both changed (the rank's), nor the bytes that
//! others see meanwhile (the object server's copies).

use std::fmt::Write;

use loligo_types::limits::FETCH_MAX;
use loligo_types::{Attr, Conflict, Ino};

use super::OWN;
use crate::Invalidation;
use crate::core::Core;
use crate::file::Files;

/// Conflicts of a command that are remembered, for people: the value of an attribute has to hold them.
const TOLD_MAX: usize = 8;

/// Conflicts of a merge with what others did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conflicts {
    pub count: u64,
    /// The first of them.
    told: Vec<Conflict>,
}

impl Conflicts {
    /// Those of one group more.
    pub fn add(&mut self, count: u64, told: Vec<Conflict>) {
        self.count += count;
        let room = TOLD_MAX - self.told.len().min(TOLD_MAX);
        self.told.extend(told.into_iter().take(room));
    }

    /// A line for each that is remembered.
    pub fn describe(&self, command: u64, text: &mut String) {
        for Conflict { kind, ino, name, kept } in &self.told {
            // Writing to a string does not fail.
            _ = writeln!(text, "conflict {command} {} {ino} {} {}", kind.name(), hex(name), hex(kept));
        }
    }
}

fn hex(name: &[u8]) -> String {
    match name {
        [] => "-".into(),
        name => name.iter().fold(String::new(), |mut text, byte| {
            _ = write!(text, "{byte:02x}");
            text
        }),
    }
}

impl Files {
    /// The attributes of an open file may be others by now, and then so are its bytes.
    pub(super) fn own_becomes(&mut self, core: &mut Core, attr: &Attr) {
        let ino = attr.ino;
        let Some(file) = self.map.get_mut(&ino).filter(|file| file.rank == OWN) else { return };
        // Others may write behind its end from now on, until this client asks for the right to change it.
        file.clean_to = file.clean_to.min(file.attr.size);
        if file.attr == *attr {
            return;
        }
        file.attr = *attr;
        file.base = None;
        file.size = if file.is_clean() { attr.size } else { attr.size.max(file.dirty.end()).max(file.flying.end()) };
        file.clean_to = attr.size;
        file.know_empty();
        self.change_blocks(ino, |file| file.blocks.clear());
        core.invalidate(Invalidation::Data(ino), false);
    }
}

pub(crate) fn chunks(inos: Vec<Ino>) -> std::collections::VecDeque<Vec<Ino>> {
    inos.chunks(FETCH_MAX / 2).map(<[Ino]>::to_vec).collect()
}
