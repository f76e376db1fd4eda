//! Ranks, fragments of directories, and which rank has authority over which: the subtree map as data. No decisions.

use crate::{Ino, Kind, PolicyId};

/// A metadata server's logical number. It owns one journal and one event loop.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rank(pub u16);

impl Rank {
    /// The rank that a file system begins with; it has authority over the root unless a route says otherwise.
    pub const ZERO: Rank = Rank(0);
}

impl std::fmt::Debug for Rank {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Rank({})", self.0)
    }
}

impl std::fmt::Display for Rank {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A fragment (dirfrag) of a directory: all names whose 63-bit hash begins with `bits` bits that are `value`.
/// Fragments of one directory never overlap.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Default)]
pub struct Frag {
    /// Number of leading bits that count, 0..=[`Frag::BITS_MAX`]; 0: the whole directory.
    pub bits: u8,
    /// Their value, below 2^bits.
    pub value: u32,
}

impl Frag {
    /// All names.
    pub const WHOLE: Frag = Frag { bits: 0, value: 0 };
    /// The finest fragments.
    pub const BITS_MAX: u8 = 24;
    /// Bits of a name's hash.
    const HASH_BITS: u8 = 63;

    /// The fragment, if the numbers make sense.
    pub fn new(bits: u8, value: u32) -> Option<Frag> {
        (bits <= Frag::BITS_MAX && u64::from(value) >> bits == 0).then_some(Frag { bits, value })
    }

    /// Of the 2^bits equal fragments of a directory the one that has the names with this hash.
    pub fn of(hash: u64, bits: u8) -> Frag {
        let bits = bits.min(Frag::BITS_MAX);
        Frag { bits, value: (hash >> (Frag::HASH_BITS - bits)) as u32 }
    }

    /// First hash in it.
    pub fn first(self) -> u64 {
        u64::from(self.value) << (Frag::HASH_BITS - self.bits)
    }

    /// Last hash in it.
    pub fn last(self) -> u64 {
        self.first() + ((1 << (Frag::HASH_BITS - self.bits)) - 1)
    }

    /// True if a name with this hash is in it.
    #[inline]
    pub fn contains(self, hash: u64) -> bool {
        hash >> (Frag::HASH_BITS - self.bits) == u64::from(self.value)
    }

    /// True if all of `other` is in it.
    pub fn covers(self, other: Frag) -> bool {
        other.bits >= self.bits && other.value >> (other.bits - self.bits) == self.value
    }

    /// Its 2^bits equal parts, in the order of their hashes; none if they would be too fine.
    pub fn split(self, bits: u8) -> Vec<Frag> {
        if self.bits + bits > Frag::BITS_MAX {
            return Vec::new();
        }
        (0..1 << bits).map(|low| Frag { bits: self.bits + bits, value: self.value << bits | low }).collect()
    }

    /// The fragment of half as many leading bits' precision that it is one half of; the whole has none.
    pub fn parent(self) -> Option<Frag> {
        Some(Frag { bits: self.bits.checked_sub(1)?, value: self.value >> 1 })
    }
}

impl std::str::FromStr for Frag {
    type Err = &'static str;

    /// As it is displayed.
    fn from_str(text: &str) -> Result<Frag, &'static str> {
        let bad = "a fragment is written as VALUE/BITS, the value in hex: 1/1 is the second half, * all of it";
        if text == "*" {
            return Ok(Frag::WHOLE);
        }
        let (value, bits) = text.split_once('/').ok_or(bad)?;
        let (value, bits) = (u32::from_str_radix(value, 16).map_err(|_| bad)?, bits.parse().map_err(|_| bad)?);
        Frag::new(bits, value).ok_or(bad)
    }
}

impl std::fmt::Display for Frag {
    /// As `value/bits`; the whole directory is `*`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.bits == 0 { f.write_str("*") } else { write!(f, "{:x}/{}", self.value, self.bits) }
    }
}

/// One line of the subtree map: who has authority over a fragment of a directory and all below it, as far as no deeper
/// line says otherwise. Of two lines of the same fragment that with the higher version is true.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct Route {
    /// The directory.
    pub dir: Ino,
    /// The fragment.
    pub frag: Frag,
    /// Its authority.
    pub rank: Rank,
    /// Grows by one whenever the authority changes; only the authority makes a new one.
    pub version: u64,
}

/// Target of a directory entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Target {
    /// The inode.
    pub ino: Ino,
    /// Its type.
    pub kind: Kind,
    /// The inode does not live with this entry.
    pub remote: bool,
}

/// Where an inode lives: with the one name of it that is its primary one, or by itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Place(pub u64);

impl Place {
    const FLOATING: u64 = 1 << 63;

    /// In the fragment of its parent directory that has the name with this hash, and so under its authority.
    pub fn embedded(hash: u64) -> Place {
        Place(hash)
    }

    /// With no name: under this rank's authority, wherever its names are.
    pub fn floating(rank: Rank) -> Place {
        Place(Place::FLOATING | u64::from(rank.0))
    }

    /// The rank under whose authority a floating inode is.
    pub fn rank(self) -> Option<Rank> {
        (self.0 & Place::FLOATING != 0).then_some(Rank(self.0 as u16))
    }

    /// The hash of the primary name of an embedded inode.
    pub fn hash(self) -> Option<u64> {
        (self.0 & Place::FLOATING == 0).then_some(self.0)
    }
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.rank() {
            Some(rank) => write!(f, "Place(floating at {rank})"),
            None => write!(f, "Place({:#x})", self.0),
        }
    }
}

/// State of a rank in the cluster map. The number is on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
#[repr(u8)]
pub enum RankState {
    /// It serves, and may be given more.
    #[default]
    Up = 1,
    /// It serves what it has and gives it away; it gets nothing new.
    Draining = 2,
    /// It has given everything away. Clients end their sessions with it and ask it nothing new; then it is removed.
    Leaving = 3,
}

/// One rank in the cluster map.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct RankInfo {
    /// Which.
    pub rank: Rank,
    /// Where clients reach it, as the driver writes addresses.
    pub address: String,
    /// Its state.
    pub state: RankState,
}

/// The ranks of a cluster: the cluster map without its routes.
#[derive(Clone, PartialEq, Eq, Debug, Hash, Default)]
pub struct ClusterMap {
    /// Grows by one with each change.
    pub epoch: u64,
    /// The ranks, ascending.
    pub ranks: Vec<RankInfo>,
    /// The policy by which ranks balance, all the same one. Clients are not told.
    pub policy: PolicyId,
}

impl ClusterMap {
    /// The ranks that new directories may have as their zeroth, ascending: those that take more.
    #[must_use]
    pub fn placed(&self) -> Vec<Rank> {
        let takes = self.ranks.iter().filter(|info| info.state == RankState::Up && info.rank <= Ino::ZEROTH_MAX);
        takes.map(|info| info.rank).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_part_the_hashes() {
        let parts = Frag::WHOLE.split(3);
        assert_eq!(parts.len(), 8);
        assert_eq!((parts[0].first(), parts[7].last()), (0, (1 << 63) - 1));
        for pair in parts.windows(2) {
            assert_eq!(pair[0].last() + 1, pair[1].first());
        }
        let fine = parts[5].split(2)[1];
        assert!(parts[5].covers(fine) && !parts[4].covers(fine) && Frag::WHOLE.covers(fine) && !fine.covers(parts[5]));
        assert!(fine.contains(fine.first()) && fine.contains(fine.last()) && !fine.contains(fine.last() + 1));
        assert_eq!(fine.parent().and_then(Frag::parent), Some(parts[5]));
        assert_eq!((Frag::of(fine.first(), 5), Frag::of(fine.last(), 3)), (fine, parts[5]));
        assert_eq!(Frag::of((1 << 63) - 1, 0), Frag::WHOLE);
        assert_eq!((fine.to_string().parse(), "*".parse()), (Ok(fine), Ok(Frag::WHOLE)));
        assert!("8/3".parse::<Frag>().is_err() && "1".parse::<Frag>().is_err());
        assert_eq!(Frag::new(3, 8), None);
        assert!(Frag { bits: Frag::BITS_MAX, value: 0 }.split(1).is_empty());
    }

    #[test]
    fn a_place_is_one_or_the_other() {
        assert_eq!(Place::floating(Rank(7)).rank(), Some(Rank(7)));
        assert_eq!(Place::floating(Rank(7)).hash(), None);
        assert_eq!((Place::embedded(9).hash(), Place::embedded(9).rank()), (Some(9), None));
    }
}
