//! Changes of data held in inodes build on records before them: those that a journal would lack. Not here: what is done about it.

use loligo_journal::{Filter, InlineLog, PatchError};
use loligo_types::Lsn;

use super::source::Journal;

/// The first record that builds on what is not there, if the journal is read from a record on; `blank`: without what a filter takes.
/// Records that cannot be understood are passed over.
pub fn first_without_base(journal: &Journal, from: Lsn, blank: Option<&Filter>) -> Option<(Lsn, PatchError)> {
    let mut inline = InlineLog::default();
    let mut records = journal.records();
    while let Some(read) = records.next() {
        if read.lsn < from {
            continue;
        }
        let is_blank = blank.is_some_and(|filter| read.is_taken(filter));
        let mut events = match read.entry() {
            Ok(entry) if !is_blank => entry.events,
            _ => Vec::new(),
        };
        if let Err(error) = inline.make_whole(read.lsn, &mut events) {
            return Some((read.lsn, error));
        }
    }
    None
}
