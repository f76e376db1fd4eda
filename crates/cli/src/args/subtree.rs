//! The command line of `loligo subtree`. Not here: what it does.

use clap::Subcommand;

use super::{Directory, Order, Target};

/// `loligo subtree`.
#[derive(Subcommand)]
pub enum Subtree {
    /// Print which rank has authority over which directories, and so over all below them that are not listed themselves.
    List {
        #[command(flatten)]
        target: Target,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Keep a directory and all below it at a rank: sets its xattr loligo.policy.pin.
    Pin {
        #[command(flatten)]
        dir: Directory,
        /// The rank's number.
        rank: u16,
        #[command(flatten)]
        order: Order,
    },
    /// Let a directory go where load wants it: removes the xattr.
    Unpin {
        #[command(flatten)]
        dir: Directory,
        #[command(flatten)]
        order: Order,
    },
    /// Bring all fragments of a directory together at the rank that has the directory itself.
    Gather {
        #[command(flatten)]
        dir: Directory,
        #[command(flatten)]
        order: Order,
    },
    /// Move the authority over a directory and all below it to another rank, now.
    Migrate {
        #[command(flatten)]
        dir: Directory,
        /// The rank's number.
        rank: u16,
        /// Only the names in this fragment, as `loligo subtree list` shows it: VALUE/BITS, all names whose hash begins
        /// with so many bits of this (hexadecimal) value; 1/1 is the second half.
        #[arg(long, value_name = "VALUE/BITS")]
        frag: Option<loligo_types::Frag>,
        /// Return when it was begun; `loligo subtree list` shows when it is done.
        #[arg(long)]
        no_wait: bool,
        /// As JSON.
        #[arg(long)]
        json: bool,
        /// Only show what would change.
        #[arg(long)]
        dry_run: bool,
    },
    /// Cut a directory into more fragments, and keep it so: sets its xattr loligo.policy.expected_entries.
    Split {
        #[command(flatten)]
        dir: Directory,
        /// Into 2^BITS fragments; without it, into 8 of each that there is.
        #[arg(value_parser = clap::value_parser!(u8).range(0..=i64::from(loligo_types::Frag::BITS_MAX)))]
        bits: Option<u8>,
        #[command(flatten)]
        order: Order,
    },
    /// Cut a directory into as few fragments as its entries allow: removes the xattr.
    Unsplit {
        #[command(flatten)]
        dir: Directory,
        #[command(flatten)]
        order: Order,
    },
    /// Say where directories live that are made in a directory, and in those: sets its xattr loligo.policy.placement.
    Place {
        #[command(flatten)]
        dir: Directory,
        /// subtree: with their names; giga: each at a rank of its own; replicated: the same, and its path gives which one, for programs that ask by paths;
        /// table: the same, and they come through whoever may search a directory; table-inherit: that, and new files are open to nobody whom their
        /// directory keeps out.
        #[arg(value_parser = clap::builder::PossibleValuesParser::new(loligo_types::Placement::ALL.map(loligo_types::Placement::name)))]
        placement: String,
        /// Also move the directories that are there: to ranks of their own, or all to the one of this directory. Each is a migration of its own.
        #[arg(long)]
        r#move: bool,
        #[command(flatten)]
        order: Order,
    },
    /// Say no more where they live: removes the xattr.
    Unplace {
        #[command(flatten)]
        dir: Directory,
        #[command(flatten)]
        order: Order,
    },
    /// Let programs that ask by paths know for a time without asking where a directory is, and those that are made in it: sets its xattr
    /// loligo.policy.lookup_lease, and, alone, that of directories above it which have none.
    Lease {
        #[command(flatten)]
        dir: Directory,
        /// Length of the lease: 1ms to 1000ms; depth: the longer the nearer the root; rate: the longer the less often it changes. With
        /// "alone" behind it, not for directories that are made in it. Who renames, removes or restricts such a directory waits so long at
        /// most.
        time: String,
        #[command(flatten)]
        order: Order,
    },
    /// Let them ask again: removes the xattr.
    Unlease {
        #[command(flatten)]
        dir: Directory,
        #[command(flatten)]
        order: Order,
    },
}
