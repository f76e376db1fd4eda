//! Numbers with a meaning. 0 is reserved and names nothing in every one of them.

use crate::Rank;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub u64);

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}", self.0)
            }
        }

        impl From<u64> for $name {
            fn from(n: u64) -> Self {
                Self(n)
            }
        }
    };
}

id! {
    /// An inode number. Never used again once given out.
    Ino
}
id! {
    /// A place in a rank's journal: the number of a record, counted from 1.
    Lsn
}
id! {
    /// A client's connection state at a rank; outlives single connections.
    SessionId
}
id! {
    /// The number of a request within its session, counted from 1.
    Seq
}

impl Ino {
    /// The root directory.
    pub const ROOT: Ino = Ino(1);
    /// The first number given to a new inode; those below are reserved.
    pub const FIRST: Ino = Ino(0x100);
    /// Bits of a number that count within the range of one rank.
    const RANGE_BITS: u32 = 48;
    /// Set in the number of a directory that names its zeroth rank.
    const SCATTERED: u64 = 1 << 47;
    /// Where that rank stands in it, 10 bits; below them is the count.
    const ZEROTH_SHIFT: u32 = 37;
    /// Set below it in the number of a directory whose zeroth rank its path has given.
    const BY_PATH: u64 = 1 << 36;
    /// Set besides in that of one which paths lead through whoever may search it.
    const TABLE: u64 = 1 << 35;
    /// Set besides where what is made in one has no permissions that it does not give itself.
    const INHERITS: u64 = 1 << 34;
    /// End of the count in the number of a scattered directory: the count lies below this.
    const COUNT_END: u64 = 1 << 34;
    /// The last rank that can be somebody's zeroth.
    pub const ZEROTH_MAX: Rank = Rank(1023);

    /// The first number that a rank gives to a new inode: each rank has a range of 2^48 of its own.
    #[must_use]
    pub fn first_of(rank: Rank) -> Ino {
        Ino((u64::from(rank.0) << Ino::RANGE_BITS) | Ino::FIRST.0)
    }

    /// The rank in whose range the number lies, and which so made the inode.
    #[must_use]
    pub fn birth_rank(self) -> Rank {
        Rank((self.0 >> Ino::RANGE_BITS) as u16)
    }

    /// The number, of those that a rank gives to directories which live where their number says, that is made from this plain one:
    /// it names `zeroth`. None: its count, or that rank, is too large.
    #[must_use]
    pub fn scattered(self, zeroth: Rank) -> Option<Ino> {
        let count = self.0 & ((1 << Ino::RANGE_BITS) - 1);
        let fits = count < Ino::COUNT_END && zeroth <= Ino::ZEROTH_MAX;
        fits.then_some(Ino(self.0 | Ino::SCATTERED | u64::from(zeroth.0) << Ino::ZEROTH_SHIFT))
    }

    /// The rank that has authority over a scattered directory with this number as long as no line of the subtree map says otherwise
    /// (GIGA+'s zeroth server). None: it is no such number, and what has it lives where its names or its record say.
    #[inline]
    #[must_use]
    pub fn zeroth_rank(self) -> Option<Rank> {
        let named = (self.0 >> Ino::ZEROTH_SHIFT) as u16 & Ino::ZEROTH_MAX.0;
        (self.0 & Ino::SCATTERED != 0).then_some(Rank(named))
    }

    /// The number of a scattered directory that says besides that its path has given its zeroth rank ([`crate::hash::rank_by_path`]).
    #[must_use]
    pub fn by_path(self) -> Ino {
        if self.0 & Ino::SCATTERED != 0 { Ino(self.0 | Ino::BY_PATH) } else { self }
    }

    /// True if its path has given its zeroth rank.
    #[inline]
    #[must_use]
    pub fn is_by_path(self) -> bool {
        self.0 & (Ino::SCATTERED | Ino::BY_PATH) == Ino::SCATTERED | Ino::BY_PATH
    }

    /// The number of one whose path has given its rank, and which paths lead through whoever may search it (placement `table`). `inherits`: what is
    /// made in it has no permissions for others that it does not give them itself.
    #[must_use]
    pub fn table(self, inherits: bool) -> Ino {
        let named = self.by_path();
        let flags = if inherits { Ino::TABLE | Ino::INHERITS } else { Ino::TABLE };
        if named.is_by_path() { Ino(named.0 | flags) } else { named }
    }

    /// True if paths lead through it whoever may search it.
    #[inline]
    #[must_use]
    pub fn is_table(self) -> bool {
        self.is_by_path() && self.0 & Ino::TABLE != 0
    }

    /// True if anything made in such a directory inherits what it denies.
    #[must_use]
    pub fn inherits(self) -> bool {
        self.is_table() && self.0 & Ino::INHERITS != 0
    }

    /// The number without what it says of a zeroth rank: that by which its rank counts.
    #[inline]
    #[must_use]
    pub fn plain(self) -> Ino {
        let count = Ino::COUNT_END - 1;
        let range = !((1 << Ino::RANGE_BITS) - 1);
        if self.0 & Ino::SCATTERED != 0 { Ino(self.0 & (range | count)) } else { self }
    }
}

impl SessionId {
    /// The session that a rank began with this record of its journal.
    #[must_use]
    pub fn new(rank: Rank, lsn: Lsn) -> SessionId {
        SessionId((u64::from(rank.0) << Ino::RANGE_BITS) | lsn.0)
    }

    /// The rank that it is at.
    #[must_use]
    pub fn rank(self) -> Rank {
        Rank((self.0 >> Ino::RANGE_BITS) as u16)
    }
}

impl Lsn {
    /// The next record's number.
    #[must_use]
    pub fn next(self) -> Lsn {
        Lsn(self.0 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_names_where_its_directory_lives_and_counts_as_before() {
        let plain = Ino(Ino::first_of(Rank(7)).0 + 5);
        let number = plain.scattered(Rank(1023)).expect("it fits");
        assert_eq!((number.birth_rank(), number.zeroth_rank(), number.plain()), (Rank(7), Some(Rank(1023)), plain));
        assert_eq!((plain.zeroth_rank(), plain.plain()), (None, plain));
        assert_eq!(plain.scattered(Rank::ZERO).and_then(Ino::zeroth_rank), Some(Rank::ZERO));
        assert_eq!((plain.scattered(Rank(1024)), Ino(1 << 36).scattered(Rank(1))), (None, None));
        assert_eq!(Ino(1 << 34).scattered(Rank(1)), None);
        let named = number.by_path();
        assert_eq!((named.zeroth_rank(), named.plain(), named.birth_rank()), (Some(Rank(1023)), plain, Rank(7)));
        assert_eq!((named.is_by_path(), number.is_by_path(), plain.by_path()), (true, false, plain));
        let (table, inherits) = (number.table(false), named.table(true));
        assert_eq!((table.is_table(), table.inherits(), table.is_by_path()), (true, false, true));
        assert_eq!((inherits.is_table(), inherits.inherits(), inherits.plain()), (true, true, plain));
        assert_eq!((named.is_table(), plain.table(true), table.zeroth_rank()), (false, plain, Some(Rank(1023))));
        assert_eq!(number.scattered(Rank(2)), None, "it is one already");
    }
}
