//! The least that policies of directories below must promise. The thesis leaves policies below policies open (future work);
//! the rule is ours: a directory that is above may say a floor, and a policy below that is less is refused when it is set. Not
//! here: walking up from a directory.

use std::fmt;

use crate::cell::{Cell, Consistency, Durability};
use crate::policy::SubtreePolicy;

/// The least levels; what is not said is not bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Floor {
    /// Least consistency.
    pub consistency: Option<Consistency>,
    /// Least durability.
    pub durability: Option<Durability>,
}

impl Floor {
    /// True if it binds nothing.
    pub fn is_none(&self) -> bool {
        *self == Floor::default()
    }

    /// In what a cell is below it, if it is.
    pub fn lacks(&self, cell: Cell) -> Option<BelowFloor> {
        let consistency = self.consistency.filter(|floor| cell.consistency < *floor);
        let durability = self.durability.filter(|floor| cell.durability < *floor);
        if consistency.is_none() && durability.is_none() {
            return None;
        }
        Some(BelowFloor {
            consistency: consistency.map(|floor| (cell.consistency, floor)),
            durability: durability.map(|floor| (cell.durability, floor)),
        })
    }
}

impl fmt::Display for Floor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.consistency, self.durability) {
            (None, None) => f.write_str("none"),
            (Some(consistency), None) => write!(f, "consistency {consistency}"),
            (None, Some(durability)) => write!(f, "durability {durability}"),
            (Some(consistency), Some(durability)) => write!(f, "consistency {consistency}, durability {durability}"),
        }
    }
}

/// The levels below the floor: the cell's level, and the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BelowFloor {
    /// Of consistency.
    pub consistency: Option<(Consistency, Consistency)>,
    /// Of durability.
    pub durability: Option<(Durability, Durability)>,
}

impl fmt::Display for BelowFloor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((is, floor)) = self.consistency {
            write!(f, "consistency {is} is below {floor}")?;
        }
        if let Some((is, floor)) = self.durability {
            let and = if self.consistency.is_some() { ", and " } else { "" };
            write!(f, "{and}durability {is} is below {floor}")?;
        }
        f.write_str(", the least that a directory above asks of those below")
    }
}

impl std::error::Error for BelowFloor {}

/// Checks that a policy is not below the floor of the policy above it.
///
/// # Errors
///
/// The levels that are below the floor.
pub fn check_floor(parent: &SubtreePolicy, child: &SubtreePolicy) -> Result<(), BelowFloor> {
    parent.floor().lacks(child.cell()).map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(text: &str) -> SubtreePolicy {
        SubtreePolicy::parse(text).unwrap_or_else(|fault| panic!("{fault}"))
    }

    #[test]
    fn a_policy_below_a_floor_is_refused_with_the_levels() {
        let parent = policy("[floor]\nconsistency = 'weak'\ndurability = 'global'");
        assert_eq!(check_floor(&parent, &policy("preset = 'hdfs'")), Ok(()));
        assert_eq!(check_floor(&parent, &policy("")), Ok(()));
        let below = check_floor(&parent, &policy("preset = 'ramdisk'")).expect_err("it is below");
        let words = "consistency invisible is below weak, and durability none is below global, the least that a directory \
                     above asks of those below";
        assert_eq!(below.to_string(), words);
        let below = check_floor(&parent, &policy("preset = 'batchfs'")).expect_err("it is below").to_string();
        assert!(below.starts_with("durability local is below global, the least"), "{below}");
    }

    #[test]
    fn without_a_floor_everything_may_stand_below() {
        assert_eq!(check_floor(&policy(""), &policy("preset = 'ramdisk'")), Ok(()));
        let parent = policy("[floor]\ndurability = 'local'");
        assert_eq!(check_floor(&parent, &policy("preset = 'deltafs'")), Ok(()), "consistency is not bound");
    }
}
