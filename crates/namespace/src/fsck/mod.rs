//! Checks all records of a file system against each other and names what repairs them. Reads and writes nothing
//! itself; sums that are merely behind are no fault.

mod mend;
mod place;
mod scan;
#[cfg(test)]
mod tests;

use loligo_types::{Event, Ino};

/// One thing that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The fault, in words, with the numbers.
    pub text: String,
    /// Bytes or names were lost; else only numbers were wrong.
    pub loss: bool,
    /// The inode that it is about, if it is there: of an entry the directory that it is in.
    pub about: Option<Ino>,
}

/// Result of a check.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// All that is wrong; empty for a sound file system.
    pub findings: Vec<Finding>,
    /// Applied and journaled in order, these make it sound.
    pub repairs: Vec<Event>,
    /// Inodes seen.
    pub inodes: u64,
    /// Entries seen.
    pub entries: u64,
}

impl Report {
    fn add(&mut self, loss: bool, text: String, repairs: impl IntoIterator<Item = Event>) {
        self.findings.push(Finding { text, loss, about: None });
        self.repairs.extend(repairs);
    }

    /// The same of something that may have a path.
    fn add_of(&mut self, ino: Ino, loss: bool, text: String, repairs: impl IntoIterator<Item = Event>) {
        self.findings.push(Finding { text, loss, about: Some(ino) });
        self.repairs.extend(repairs);
    }
}

/// Checks the records that `visit` hands over, as the events that would make them. It is called three times and must
/// show the same records each time, in any order; memory is needed for the inodes, not for the entries. `key`: that under
/// which names are hashed ([`crate::hash63`]).
pub fn check<E>(key: (u64, u64), mut visit: impl FnMut(&mut dyn FnMut(&Event)) -> Result<(), E>) -> Result<Report, E> {
    let mut scan = scan::Scan::new(key);
    visit(&mut |event| scan.inodes(event))?;
    scan.sort();
    visit(&mut |event| scan.lost_found(event))?;
    visit(&mut |event| scan.parts(event))?;
    Ok(mend::mend(scan))
}

/// [`check`] of records that are in memory.
pub fn check_all(key: (u64, u64), events: &[Event]) -> Report {
    let visit = |see: &mut dyn FnMut(&Event)| -> Result<(), std::convert::Infallible> {
        events.iter().for_each(see);
        Ok(())
    };
    match check(key, visit) {
        Ok(report) => report,
        Err(never) => match never {},
    }
}
