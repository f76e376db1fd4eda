//! The most that may be done by decoupling below a directory, and floor and ceiling together: what an administrator says of the directories of others
//! (**ours**). A rank holds whoever wants to decouple something against it. Not here: walking up from a directory, and who may say it.

use std::fmt;

use crate::cell::Cell;
use crate::floor::Floor;
use crate::policy::SyncInterval;

/// The most; what is not said is not bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ceiling {
    /// Nothing may be decoupled.
    pub forbids: bool,
    /// Most inode numbers that are granted to one decoupling.
    pub allocated_inodes: Option<u64>,
    /// Longest lease of one.
    pub lease: Option<SyncInterval>,
}

impl Ceiling {
    /// True if it binds nothing.
    pub fn is_none(&self) -> bool {
        *self == Ceiling::default()
    }
}

impl fmt::Display for Ceiling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_none() {
            return f.write_str("none");
        }
        if self.forbids {
            f.write_str("nothing is decoupled")?;
        }
        let mut and = if self.forbids { ", " } else { "" };
        if let Some(inodes) = self.allocated_inodes {
            write!(f, "{and}{inodes} inode numbers")?;
            and = ", ";
        }
        self.lease.map_or(Ok(()), |lease| write!(f, "{and}a lease of {lease}"))
    }
}

/// A request to decouple a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Cell that the decoupled directory is to have.
    pub cell: Cell,
    /// Number of inode numbers granted in all.
    pub inodes: u64,
    /// For how long its owner may not be heard, milliseconds.
    pub lease_ms: u64,
}

/// Why it may not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// Nothing may be decoupled.
    Forbidden,
    /// The cell is below the floor.
    Floor,
    /// More inode numbers, or a longer lease, than the ceiling.
    Ceiling,
}

/// A floor and a ceiling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// The least.
    pub floor: Floor,
    /// The most.
    pub ceiling: Ceiling,
}

impl Bounds {
    /// True if floor and ceiling bind nothing.
    pub fn is_none(&self) -> bool {
        self.floor.is_none() && self.ceiling.is_none()
    }

    /// Those of a policy that cannot be read, because a newer version took it: nothing may be decoupled.
    pub fn unknown() -> Bounds {
        Bounds { ceiling: Ceiling { forbids: true, ..Ceiling::default() }, ..Bounds::default() }
    }

    /// Which of them a decoupling breaks.
    pub fn broken_by(&self, wanted: &Wanted) -> Option<Broken> {
        let Ceiling { forbids, allocated_inodes, lease } = self.ceiling;
        if forbids {
            return Some(Broken::Forbidden);
        }
        if self.floor.lacks(wanted.cell).is_some() {
            return Some(Broken::Floor);
        }
        let more = allocated_inodes.is_some_and(|most| wanted.inodes > most);
        let longer = lease.is_some_and(|most| wanted.lease_ms > most.millis());
        (more || longer).then_some(Broken::Ceiling)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::SubtreePolicy;

    fn bounds(text: &str) -> Bounds {
        SubtreePolicy::parse(text).unwrap_or_else(|fault| panic!("{fault}")).bounds()
    }

    #[test]
    fn a_decoupling_is_held_against_floor_and_ceiling() {
        let hdfs = SubtreePolicy::parse("preset = 'hdfs'").expect("a policy").cell();
        let wanted = Wanted { cell: hdfs, inodes: 100, lease_ms: 60_000 };
        assert_eq!(bounds("").broken_by(&wanted), None);
        assert_eq!(bounds("[floor]\nconsistency = 'weak'\ndurability = 'global'").broken_by(&wanted), None);
        assert_eq!(bounds("[floor]\nconsistency = 'strong'").broken_by(&wanted), Some(Broken::Floor));
        assert_eq!(bounds("[ceiling]\ndecouple = false").broken_by(&wanted), Some(Broken::Forbidden));
        let limits = bounds("[ceiling]\nallocated_inodes = 100\nlease = '1min'");
        assert_eq!(limits.broken_by(&wanted), None);
        assert_eq!(limits.broken_by(&Wanted { inodes: 101, ..wanted }), Some(Broken::Ceiling));
        assert_eq!(limits.broken_by(&Wanted { lease_ms: 60_001, ..wanted }), Some(Broken::Ceiling));
        assert_eq!(limits.ceiling.to_string(), "100 inode numbers, a lease of 1min");
        assert_eq!(Bounds::unknown().broken_by(&wanted), Some(Broken::Forbidden));
    }
}
