//! The levels of consistency and durability and the nine cells they make (Cudele, thesis §2.3.2, §6.1.1, §6.2.2; table 6.1).
//! What a cell promises holds once all its mechanisms are done. Not here: compositions that are in no row of the table
//! (`pipeline` says which cell they are in).

use std::fmt;

use loligo_types::Promise;

use crate::composition::Composition;
use crate::mechanism::Mechanism::{
    self, AppendClientJournal, GlobalPersist, LocalPersist, Rpcs, Stream, VolatileApply,
};
use crate::pipeline::Pipeline;

/// Consistency level: the clients that see a change, and when. A greater level promises more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Consistency {
    /// Only the client that made it.
    Invisible,
    /// All, when it is merged.
    Weak,
    /// All, at once.
    Strong,
}

/// Durability level: the crashes that a change survives. A greater level promises more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Durability {
    /// Nothing.
    None,
    /// Crashes of a machine that comes back with its disk.
    Local,
    /// All crashes at any time.
    Global,
}

impl Consistency {
    /// All, from the least.
    pub const ALL: [Consistency; 3] = [Consistency::Invisible, Consistency::Weak, Consistency::Strong];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Consistency::Invisible => "invisible",
            Consistency::Weak => "weak",
            Consistency::Strong => "strong",
        }
    }

    /// The one of a name, in any case.
    pub fn of(name: &str) -> Option<Consistency> {
        Consistency::ALL.into_iter().find(|level| level.name().eq_ignore_ascii_case(name.trim()))
    }

    /// The level's promise, as a sentence.
    pub fn promise(self) -> &'static str {
        match self {
            Consistency::Invisible => {
                "Only the client that makes a change sees it; others see it only after `loligo merge`."
            }
            Consistency::Weak => "The client that makes a change sees it at once, all others when it has been merged.",
            Consistency::Strong => "All clients see a change as soon as the call that made it returns.",
        }
    }
}

impl Durability {
    /// All, from the least.
    pub const ALL: [Durability; 3] = [Durability::None, Durability::Local, Durability::Global];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Durability::None => "none",
            Durability::Local => "local",
            Durability::Global => "global",
        }
    }

    /// The one of a name, in any case.
    pub fn of(name: &str) -> Option<Durability> {
        Durability::ALL.into_iter().find(|level| level.name().eq_ignore_ascii_case(name.trim()))
    }

    /// The level's promise, as a sentence.
    pub fn promise(self) -> &'static str {
        match self {
            Durability::None => "A crash of the process that has a change, or of its machine, loses it.",
            Durability::Local => {
                "A change survives crashes of the machine that made it durable, if that comes back with its disk and merges it within the lease of the directory (a minute by default)."
            }
            Durability::Global => "A change survives the crash of any client, server or machine at any time.",
        }
    }
}

impl fmt::Display for Consistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One level of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cell {
    /// The clients that see a change, and when.
    pub consistency: Consistency,
    /// The crashes that a change survives.
    pub durability: Durability,
}

impl Cell {
    /// The cell of every directory without a policy.
    pub const POSIX: Cell = Cell::new(Consistency::Strong, Durability::Global);

    /// Of these levels.
    pub const fn new(consistency: Consistency, durability: Durability) -> Cell {
        Cell { consistency, durability }
    }

    /// As the owner of a decoupled subtree says it to a rank; nothing for a strong one, which is never decoupled.
    pub fn promise(self) -> Option<Promise> {
        let consistency = match self.consistency {
            Consistency::Invisible => 0,
            Consistency::Weak => 1,
            Consistency::Strong => return None,
        };
        let durability = match self.durability {
            Durability::None => 0,
            Durability::Local => 1,
            Durability::Global => 2,
        };
        Some(Promise { consistency, durability })
    }

    /// The one that an owner has said. What it cannot have said is read as the least.
    pub fn of_promise(promise: Promise) -> Cell {
        let consistency = if promise.consistency == 1 { Consistency::Weak } else { Consistency::Invisible };
        let durability = match promise.durability {
            2 => Durability::Global,
            1 => Durability::Local,
            _ => Durability::None,
        };
        Cell { consistency, durability }
    }

    /// True if each level is at least the other cell's: a directory with this cell may be treated as one with the other.
    pub fn keeps(self, other: Cell) -> bool {
        self.consistency >= other.consistency && self.durability >= other.durability
    }

    /// All nine: by durability from the least, then by consistency, as table 6.1 is drawn.
    pub fn all() -> impl Iterator<Item = Cell> {
        let of = |durability| Consistency::ALL.into_iter().map(move |consistency| Cell::new(consistency, durability));
        Durability::ALL.into_iter().flat_map(of)
    }

    /// The composition that stands in it (table 6.1).
    pub fn composition(self) -> Pipeline {
        Pipeline::of(Composition::of(&self.mechanisms(), 0)).expect("every cell makes sense, as a test shows")
    }

    fn mechanisms(self) -> Vec<Mechanism> {
        let rpcs = self.consistency == Consistency::Strong;
        let mut parts = vec![if rpcs { Rpcs } else { AppendClientJournal }];
        parts.extend(durability_mechanism(self.durability, rpcs));
        // Last: what is durable before can be applied again after a crash in the middle.
        parts.extend((self.consistency == Consistency::Weak).then_some(VolatileApply));
        parts
    }
}

/// The mechanism that gives a level of durability; `rpcs`: operations are RPCs.
pub(crate) fn durability_mechanism(durability: Durability, rpcs: bool) -> Option<Mechanism> {
    match durability {
        Durability::None => None,
        Durability::Local => Some(LocalPersist),
        Durability::Global if rpcs => Some(Stream),
        Durability::Global => Some(GlobalPersist),
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.consistency, self.durability)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_ordered_and_read_by_name() {
        assert!(Consistency::ALL.is_sorted() && Durability::ALL.is_sorted());
        for level in Consistency::ALL {
            assert_eq!(Consistency::of(&level.name().to_uppercase()), Some(level));
        }
        for level in Durability::ALL {
            assert_eq!(Durability::of(level.name()), Some(level));
        }
        assert_eq!((Consistency::of("none"), Durability::of("weak")), (None, None));
    }

    #[test]
    fn what_an_owner_says_is_read_back_and_nothing_strong_is_said() {
        for cell in Cell::all() {
            match cell.promise() {
                Some(promise) => {
                    assert_eq!((Cell::of_promise(promise), Promise::from_code(promise.code())), (cell, Some(promise)))
                }
                None => assert_eq!(cell.consistency, Consistency::Strong),
            }
            assert!(cell.keeps(cell) && Cell::POSIX.keeps(cell));
            assert!(cell.keeps(Cell::of_promise(Promise::NONE)));
        }
        let (hdfs, deltafs) =
            (Cell::new(Consistency::Weak, Durability::Global), Cell::new(Consistency::Invisible, Durability::Local));
        assert!(hdfs.keeps(deltafs) && !deltafs.keeps(hdfs));
        assert_eq!(Promise::from_code(6), None);
    }

    #[test]
    fn the_nine_cells_are_composed_as_table_6_1_says() {
        let table = [
            ("invisible/none", "append_client_journal"),
            ("weak/none", "append_client_journal + volatile_apply"),
            ("strong/none", "rpcs"),
            ("invisible/local", "append_client_journal + local_persist"),
            ("weak/local", "append_client_journal + local_persist + volatile_apply"),
            ("strong/local", "rpcs + local_persist"),
            ("invisible/global", "append_client_journal + global_persist"),
            ("weak/global", "append_client_journal + global_persist + volatile_apply"),
            ("strong/global", "rpcs + stream"),
        ];
        let cells: Vec<_> = Cell::all().map(|cell| (cell.to_string(), cell.composition())).collect();
        for ((name, text), (cell, pipeline)) in table.iter().zip(&cells) {
            assert_eq!((cell.as_str(), pipeline.to_string().as_str()), (*name, *text));
            assert_eq!((pipeline.cell().to_string().as_str(), pipeline.warnings()), (*name, &[][..]));
        }
        assert_eq!(cells.len(), table.len());
    }
}
