//! The options that say which records are meant, the same for all subcommands. What they mean is in `loligo_journal::filter`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use clap::Args;
use loligo_journal::Filter;
use loligo_journal::filter::{EventKind, LsnRange};
use loligo_types::{Ino, Name, SessionId};

use crate::output::Failure;

/// Which records; all that is given must hold.
#[derive(Args, Clone, Default)]
pub struct Filters {
    /// Only the journal of this rank.
    #[arg(long, value_name = "N")]
    pub rank: Option<u32>,
    /// Only records with these numbers: A..B with both ends, A.., ..B, or one number.
    #[arg(long, value_name = "A..B")]
    pub lsn: Option<LsnRange>,
    /// Only records with an event of one of these kinds, such as inode,entry,entry_gone.
    #[arg(long, value_name = "KIND,...", value_delimiter = ',')]
    pub kind: Vec<EventKind>,
    /// Only records with an event about this inode, or about an entry in it or of it.
    #[arg(long, value_name = "INO")]
    pub ino: Option<u64>,
    /// Only records with an event about an entry of this name.
    #[arg(long, value_name = "NAME")]
    pub name: Option<OsString>,
    /// Only records that a request of this session made.
    #[arg(long, value_name = "ID")]
    pub session: Option<u64>,
}

impl Filters {
    /// The filter that these options make.
    pub fn filter(&self) -> Result<Filter, Failure> {
        let name = self.name.as_ref().map(|name| {
            Name::new(name.as_bytes()).map_err(|_| {
                Failure::usage(format!("{} is no name of an entry", name.display()))
                    .remedy("a name has 1 to 255 bytes without a slash, and is neither . nor ..")
            })
        });
        Ok(Filter {
            lsns: self.lsn.unwrap_or_default(),
            kinds: self.kind.iter().copied().collect(),
            ino: self.ino.map(Ino),
            name: name.transpose()?,
            session: self.session.map(SessionId),
        })
    }
}
