//! Kinds of operations and control requests: numbers for tables, and the names by which metrics, logs and `loligo top` call them. Each
//! list of names stands with its enum (`mod.rs` and `control.rs`); an enum with a variant that no list has does not compile. Numbers are
//! of this build: they are neither persisted nor sent.

use crate::{Control, Op};

/// Names of the variants of a request enum, as `NAMES`, and the place of a request's name among them, as `place`. Variants that are no
/// kind of their own follow after `else`, with the place that they take instead.
macro_rules! kinds {
    ($requests:ident { $($variant:ident: $name:literal,)+ } else { $($other:pat => $place:expr,)* }) => {
        impl $requests {
            pub(crate) const NAMES: &[&str] = &[$($name),+];

            #[inline]
            pub(crate) fn place(&self) -> usize {
                enum Place { $($variant),+ }
                match self {
                    $($requests::$variant { .. } => Place::$variant as usize,)+
                    $($other => $place,)*
                }
            }
        }
    };
}

pub(crate) use kinds;

/// Kind of an operation or control request. An operation at the end of a way is of its own kind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct OpKind(u8);

impl OpKind {
    /// Number of kinds.
    pub const COUNT: usize = Op::NAMES.len() + Control::NAMES.len();

    /// All kinds, in the order of their numbers.
    pub fn all() -> impl Iterator<Item = OpKind> {
        (0..OpKind::COUNT).map(|number| OpKind(number as u8))
    }

    #[inline]
    pub(crate) fn new(number: usize) -> OpKind {
        OpKind(number as u8)
    }

    /// Its number, below [`OpKind::COUNT`].
    #[inline]
    pub fn number(self) -> usize {
        usize::from(self.0)
    }

    /// Short name, the same in metrics, logs and `loligo top`.
    pub fn name(self) -> &'static str {
        let number = self.number();
        Op::NAMES.get(number).unwrap_or_else(|| &Control::NAMES[number - Op::NAMES.len()])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{Ino, Replicas};

    #[test]
    fn each_kind_has_a_number_and_a_name_of_its_own() {
        let names: BTreeSet<&str> = OpKind::all().map(OpKind::name).collect();
        assert_eq!(names.len(), OpKind::COUNT);
        assert!(OpKind::all().enumerate().all(|(at, kind)| kind.number() == at));
        assert_eq!((Op::StatFs.name(), Op::Control(Control::Sync).name()), ("statfs", "sync"));
    }

    #[test]
    fn what_is_done_at_the_end_of_a_way_is_of_its_own_kind() {
        let what = Op::Readlink { ino: Ino(0) };
        let kind = what.kind();
        let via = Op::Via { dir: Ino::ROOT, names: [].into(), by: Replicas::Unused, what: Box::new(what) };
        assert_eq!((via.kind(), via.name()), (kind, "readlink"));
    }
}
