//! The form in which the journal of a decoupled subtree is persisted, on a disk (`keep.rs`) and in the store (`store.rs`): a
//! journal file, so `loligo journal inspect` reads it. Its first record says whose it is, and so does one at the end of each group of records
//! that is merged at once. Not here: where the bytes go, reading them (`kept.rs`),
//! and how what they hold is merged.

use std::fmt;
use std::io;
use std::path::PathBuf;

use loligo_journal::FileError;
pub(super) use loligo_subtree::{Growing, Sink};
use loligo_types::Ino;

/// Where a persisted journal lies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// In a file of this machine.
    File(PathBuf),
    /// In the store.
    Store {
        /// The root of the subtree.
        dir: Ino,
        /// The object that holds it.
        ino: Ino,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File(path) => path.display().fmt(f),
            Place::Store { dir, ino } => write!(f, "the journal in the store of directory {dir} (object {ino})"),
        }
    }
}

/// Why a persisted journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    /// It cannot be read.
    #[error("{place}: {error}")]
    File {
        /// Where it lies.
        place: Place,
        /// Why.
        error: FileError<io::Error>,
    },
    /// It is a rank's, or another subtree's, or does not begin as one does.
    #[error(
        "{0} is not the journal of a decoupled subtree, or of another one: a rank's is put back with loligo journal import"
    )]
    NotOfSubtree(Place),
    /// The process that keeps it is at work.
    #[error("{0} is in use: the mount or program that keeps it is at work")]
    InUse(Place),
    /// A record makes no sense.
    #[error(
        "{place}: record {lsn} cannot be read: {cause}; what is before it can be looked at with loligo journal inspect"
    )]
    Record {
        /// Where it lies.
        place: Place,
        /// Which.
        lsn: u64,
        /// Why.
        cause: String,
    },
    /// Bytes that were durable are none of a record: nothing of it is used.
    #[error("{place} is damaged: {bytes} of its bytes, which were durable, are not of whole records")]
    Cut {
        /// Where it lies.
        place: Place,
        /// Its length in bytes.
        bytes: u64,
    },
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use loligo_journal::encode_record;
    use loligo_subtree::Group;
    use loligo_types::limits::DATA_OP_MAX;
    use loligo_types::{DecoupledRecord, Event};

    use super::super::kept::Kept;
    use super::*;

    #[derive(Default)]
    struct Bytes(Vec<u8>);

    impl Sink for Bytes {
        type Error = io::Error;

        fn take(&mut self, bytes: Vec<u8>) -> io::Result<()> {
            self.0.extend(bytes);
            Ok(())
        }
    }

    fn group(parts: &[u8], used: u64) -> Group {
        let body = |number: &u8| -> Arc<[u8]> {
            let mut body = Vec::new();
            encode_record(&mut body, None, &[Event::OrphanGone(Ino(u64::from(*number)))]);
            body.into()
        };
        Group { parts: parts.iter().map(body).collect(), used: Ino(used), ..Group::default() }
    }

    fn read(bytes: &[u8]) -> Kept {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("journal");
        std::fs::write(&path, bytes).expect("written");
        Kept::read(&path).expect("a good file")
    }

    fn parts(kept: &Kept) -> Vec<usize> {
        kept.groups().iter().map(|group| group.parts.len()).collect()
    }

    #[test]
    fn what_is_added_after_a_merge_is_of_the_group_after_it_though_the_end_of_the_merged_one_was_not_put_down() {
        let mut record = DecoupledRecord { merges: 5, used: Ino(100), ..DecoupledRecord::default() };
        let (mut growing, begin) = Growing::begin([7; 16], &record).expect("it is short");
        let mut bytes = Bytes(begin);
        growing.add_new(&record, &[group(&[1, 2], 102)], &mut bytes).expect("it is short");
        assert_eq!((read(&bytes.0).record().merges, parts(&read(&bytes.0))), (5, vec![2]));
        // It had grown by one part before it was merged.
        growing.one_is_merged();
        (record.merges, record.used) = (6, Ino(103));
        growing.add_new(&record, &[], &mut bytes).expect("nothing is new");
        growing.add_new(&record, &[group(&[4], 104)], &mut bytes).expect("it is short");
        assert_eq!(parts(&read(&bytes.0)), [2, 1], "the first of them is passed over");
        growing.add_new(&record, &[group(&[4, 5], 105), group(&[6], 106)], &mut bytes).expect("it is short");
        assert_eq!(parts(&read(&bytes.0)), [2, 2, 1]);
        assert_eq!(growing.bytes(), bytes.0.len() as u64);
        growing.one_is_merged();
        record.merges = 7;
        growing.add_new(&record, &[group(&[6, 7], 107)], &mut bytes).expect("it is short");
        assert_eq!(parts(&read(&bytes.0)), [2, 2, 2]);
    }

    #[test]
    fn a_long_journal_is_given_in_pieces_that_make_the_same() {
        struct Counted(Vec<usize>, Vec<u8>);
        impl Sink for Counted {
            type Error = io::Error;

            fn take(&mut self, bytes: Vec<u8>) -> io::Result<()> {
                self.0.push(bytes.len());
                self.1.extend(bytes);
                Ok(())
            }
        }
        let record = DecoupledRecord { used: Ino(100), ..DecoupledRecord::default() };
        let (mut growing, begin) = Growing::begin([7; 16], &record).expect("it is short");
        let body: Arc<[u8]> = {
            let mut body = Vec::new();
            let data: Arc<[u8]> = vec![3; 100_000].into();
            encode_record(&mut body, None, &[Event::Inline { ino: Ino(5), data }]);
            body.into()
        };
        let long = Group { parts: vec![body; 100], ..Group::default() };
        let mut sink = Counted(Vec::new(), begin);
        growing.add_new(&record, &[long], &mut sink).expect("records are short");
        assert!(sink.0.len() == 3 && sink.0[..2] == [DATA_OP_MAX, DATA_OP_MAX], "{:?}", sink.0);
        assert_eq!((parts(&read(&sink.1)), growing.bytes()), (vec![100], sink.1.len() as u64));
    }
}
