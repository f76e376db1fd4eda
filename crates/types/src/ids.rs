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
